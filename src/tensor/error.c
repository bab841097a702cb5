#include "tensor/error.h"

#include <stdio.h>

const char *th_status_text(th_status status) {
  switch (status) {
#define X(code, text)                                                                              \
  case code: return text;
    TH_STATUS_LIST(X)
#undef X
  }
  return "unknown status";
}

th_status th__error_v(th_error *error, th_status status, const char *format, va_list args) {
  if (error != NULL) {
    error->status = status;
    vsnprintf(error->message, sizeof error->message, format, args);
  }
  return status;
}

th_status th__error(th_error *error, th_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  th__error_v(error, status, format, args);
  va_end(args);
  return status;
}

th_status th__error_memory(th_error *error, const char *who, size_t bytes) {
  return th__error(error, TH_ERR_MEMORY,
                   "%s: out of memory (%zu bytes asked for); use smaller sizes or a smaller batch",
                   who, bytes);
}
