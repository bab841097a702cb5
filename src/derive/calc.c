#include "derive/calc.h"

#include <stdarg.h>
#include <stdio.h>

void *th__calc_fail(th__calc *c, const char *format, ...) {
  if (th__calc_failed(c)) return NULL;
  c->fault.place = c->place;
  va_list args;
  va_start(args, format);
  vsnprintf(c->fault.message, sizeof c->fault.message, format, args);
  va_end(args);
  return NULL;
}

void *th__calc_alloc(th__calc *c, size_t bytes) {
  void *memory = th__arena_alloc(c->arena, bytes);
  if (memory == NULL) th__calc_fail(c, "out of memory (%zu bytes asked for)", bytes);
  return memory;
}

bool th__calc_spend(th__calc *c, double operations) {
  c->work += operations;
  if (c->work <= c->limits.work) return true;
  th__calc_fail(c, "too much to compute: more than %.3g operations; smaller sizes prove as much",
                c->limits.work);
  return false;
}
