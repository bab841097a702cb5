/* number.c: what a factor is made of. */
#include <stdio.h>
#include <string.h>

#include "autograd/diagnose/case.h"

enum { MAX_BASES = 40 };

/* A name with its value in each run: a size, a scalar of the program, or a bare length ("8"). */
typedef struct base {
  char name[48];
  double value[TH__DIAGNOSIS_RUNS];
} base;

typedef struct multiplier {
  double value;
  const char *above, *below; /* of the fraction bar; "" for 1 */
} multiplier;

static const multiplier multipliers[] = {{1, "", ""},
                                         {2, "2", ""},
                                         {0.5, "", "2"},
                                         {3, "3", ""},
                                         {1.0 / 3, "", "3"},
                                         {4, "4", ""},
                                         {0.25, "", "4"},
                                         {1.41421356237309504880, "sqrt(2)", ""},
                                         {0.70710678118654752440, "", "sqrt(2)"},
                                         {0.79788456080286535588, "sqrt(2/pi)", ""},
                                         {1.25331413731550025121, "sqrt(pi/2)", ""},
                                         {1.12837916709551257390, "2/sqrt(pi)", ""},
                                         {0.39894228040143267794, "", "sqrt(2*pi)"},
                                         {3.14159265358979323846, "pi", ""},
                                         {0.31830988618379067154, "", "pi"},
                                         {1.5, "3", "2"},
                                         {2.0 / 3, "2", "3"},
                                         {6, "6", ""},
                                         {8, "8", ""},
                                         {0.125, "", "8"},
                                         {10, "10", ""},
                                         {0.1, "", "10"}};
enum { MULTIPLIERS = sizeof multipliers / sizeof *multipliers, SIMPLE_MULTIPLIERS = 7 };

typedef struct naming {
  const th__case *c;
  const double *value;
  base bases[MAX_BASES];
  int base_count;
  int matches; /* readings written so far */
  char *text;
  size_t room;
} naming;

/* A number that never differs from 1, from 0 or from an earlier base explains nothing. */
static void add_base(naming *n, const char *name, const double *value) {
  if (n->base_count == MAX_BASES || strlen(name) >= sizeof n->bases->name) return;
  size_t bytes = (size_t)n->c->runs * sizeof *value;
  for (int i = 0; i < n->base_count; i++)
    if (memcmp(n->bases[i].value, value, bytes) == 0) return;
  bool useful = false;
  for (int run = 0; run < n->c->runs; run++) {
    if (!(fabs(value[run]) > 0) || isinf(value[run])) return;
    if (fabs(value[run]) != 1) useful = true;
  }
  if (!useful) return;
  base *b = &n->bases[n->base_count++];
  snprintf(b->name, sizeof b->name, "%s", name);
  memcpy(b->value, value, bytes);
}

/* Lengths of want's axes: the name is the number itself, or, if it differs from run to run, a phrase. */
static void add_lengths(naming *n) {
  const th__case *c = n->c;
  const th__grid *first = &c->evidence[0].want;
  for (int axis = 0; axis < first->ndim; axis++) {
    double value[TH__DIAGNOSIS_RUNS];
    bool varies = false;
    for (int run = 0; run < c->runs; run++) {
      if (c->evidence[run].want.ndim != first->ndim) return;
      value[run] = (double)c->evidence[run].want.shape[axis];
      varies = varies || value[run] != value[0];
    }
    char name[32];
    if (varies)
      snprintf(name, sizeof name, "(length of axis %d)", axis);
    else
      snprintf(name, sizeof name, "%td", first->shape[axis]);
    add_base(n, name, value);
  }
}

static void collect_bases(naming *n) {
  const th__case *c = n->c;
  const th__evidence *first = &c->evidence[0];
  double value[TH__DIAGNOSIS_RUNS];
  for (int i = 0; i < first->constant_count; i++) {
    for (int run = 0; run < c->runs; run++) value[run] = c->evidence[run].constants[i].value;
    add_base(n, first->constants[i].name, value);
  }
  for (int i = 0; i < first->clue_count; i++) {
    bool scalar = first->clues[i].kind != TH__CLUE_PART;
    for (int run = 0; run < c->runs && scalar; run++) {
      const th__grid *grid = &c->evidence[run].clues[i].grid;
      scalar = th__grid_count(grid) == 1;
      if (scalar) value[run] = grid->data[0];
    }
    if (scalar) add_base(n, first->clues[i].name, value);
  }
  add_lengths(n);
}

/* ---- one reading: +- multiplier * a^p * b^q ---- */

typedef struct reading {
  const multiplier *times;
  const base *a, *b; /* NULL: none */
  double p, q;
} reading;

static double reading_value(const reading *r, int run) {
  double value = r->times->value;
  if (r->a != NULL) value *= pow(fabs(r->a->value[run]), r->p);
  if (r->b != NULL) value *= pow(fabs(r->b->value[run]), r->q);
  return value;
}

/* The sign too must be the same in every run, apart from that of named scalars. */
static bool reading_fits(const naming *n, const reading *r, int *sign) {
  double tolerance = 10 * n->c->slack;
  *sign = 0;
  for (int run = 0; run < n->c->runs; run++) {
    double value = n->value[run];
    if (isnan(value)) continue;
    int s = value < 0 ? -1 : 1;
    if (r->a != NULL && r->a->value[run] < 0) s = -s;
    if (r->b != NULL && r->b->value[run] < 0) s = -s;
    if (*sign != 0 && s != *sign) return false;
    *sign = s;
    double guess = reading_value(r, run);
    if (!(fabs(guess - fabs(value)) <= tolerance * fabs(value))) return false;
  }
  return *sign != 0;
}

static void append(char *text, size_t room, const char *more) {
  size_t used = strlen(text);
  snprintf(text + used, room - used, "%s", more);
}

/* Appends name^p to a product. */
static void append_power(char *product, size_t room, const char *name, double p) {
  if (product[0] != '\0') append(product, room, "*");
  char power[80];
  if (p == 1)
    snprintf(power, sizeof power, "%s", name);
  else if (p == 0.5)
    snprintf(power, sizeof power, "sqrt(%s)", name);
  else
    snprintf(power, sizeof power, "%s**%g", name, p);
  append(product, room, power);
}

static void write_reading(naming *n, const reading *r, int sign) {
  char above[160] = "", below[160] = "";
  append(above, sizeof above, r->times->above);
  append(below, sizeof below, r->times->below);
  if (r->a != NULL) append_power(r->p > 0 ? above : below, sizeof above, r->a->name, fabs(r->p));
  if (r->b != NULL) append_power(r->q > 0 ? above : below, sizeof above, r->b->name, fabs(r->q));
  if (n->matches++ > 0) append(n->text, n->room, " or ");
  if (sign < 0) append(n->text, n->room, "-");
  append(n->text, n->room, above[0] != '\0' ? above : "1");
  if (below[0] == '\0') return;
  bool several = strchr(below, '*') != NULL && strncmp(below, "sqrt(2*pi)", 11) != 0;
  append(n->text, n->room, several ? "/(" : "/");
  append(n->text, n->room, below);
  if (several) append(n->text, n->room, ")");
}

static void consider(naming *n, const multiplier *times, const base *a, double p, const base *b,
                     double q) {
  reading r = {times, a, b, p, q};
  int sign;
  if (n->matches < 2 && reading_fits(n, &r, &sign)) write_reading(n, &r, sign);
}

/* From simple to far-fetched; a level is tried only if those before explain nothing. */
static const double near_powers[] = {1, -1, 0.5, -0.5};
static const double far_powers[] = {2, -2, 1.5, -1.5};

static void consider_singles(naming *n, const double *powers, const multiplier *times) {
  for (int p = 0; p < 4; p++)
    for (int i = 0; i < n->base_count; i++) consider(n, times, &n->bases[i], powers[p], NULL, 0);
}

static void consider_pairs(naming *n, const multiplier *times) {
  for (int i = 0; i < n->base_count; i++)
    for (int j = i + 1; j < n->base_count; j++)
      for (int p = 0; p < 4; p++)
        for (int q = 0; q < 4; q++)
          consider(n, times, &n->bases[i], near_powers[p], &n->bases[j], near_powers[q]);
}

static void search(naming *n) {
  consider(n, &multipliers[0], NULL, 0, NULL, 0); /* 1 and -1 */
  if (n->matches > 0) return;
  consider_singles(n, near_powers, &multipliers[0]);
  for (int m = 1; m < MULTIPLIERS; m++) consider(n, &multipliers[m], NULL, 0, NULL, 0);
  if (n->matches > 0) return;
  consider_singles(n, far_powers, &multipliers[0]);
  for (int m = 1; m < MULTIPLIERS; m++) consider_singles(n, near_powers, &multipliers[m]);
  if (n->matches > 0) return;
  for (int m = 0; m < SIMPLE_MULTIPLIERS && n->matches == 0; m++)
    consider_pairs(n, &multipliers[m]);
}

bool th__case_name_number(const th__case *c, const double *value, char *text, size_t room) {
  naming n = {.c = c, .value = value, .text = text, .room = room};
  text[0] = '\0';
  collect_bases(&n);
  search(&n);
  return n.matches > 0;
}

bool th__case_constant(const th__case *c, const double *value) {
  double first = TH__NO_NUMBER;
  for (int run = 0; run < c->runs; run++) {
    if (isnan(value[run])) continue;
    if (isnan(first)) first = value[run];
    if (!(fabs(value[run] - first) <= 10 * c->slack * fabs(first))) return false;
  }
  return !isnan(first);
}
