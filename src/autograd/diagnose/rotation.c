/* rotation.c: pairs of coordinates turned the wrong way, as in rotary position embeddings. */
#include "autograd/diagnose/case.h"

/* Two layouts of the pairs along the last axis: neighbours (2i, 2i+1), or halves (i, i + n/2). */
typedef struct pairing {
  ptrdiff_t n, step, apart;
} pairing;

static pairing pairing_of(const th__grid *x, bool halves) {
  ptrdiff_t n = x->ndim > 0 ? x->shape[x->ndim - 1] : 0;
  return halves ? (pairing){n, 1, n / 2} : (pairing){n, 2, 1};
}

/* Index of the first coordinate of pair k, counted through all rows. */
static ptrdiff_t first_of(pairing p, ptrdiff_t k) {
  return k / (p.n / 2) * p.n + k % (p.n / 2) * p.step;
}

/* A turn by an angle t is a product with exp(it). If the right result is g exp(-it) and the wrong one
 * g exp(it), their product is g * g, whatever the angles. */
static bool turned_from(const th__case *c, int run, const th__grid *g, bool halves) {
  const th__evidence *e = &c->evidence[run];
  if (!th__grid_same_shape(g, &e->want)) return false;
  pairing p = pairing_of(g, halves);
  double scale = th__grid_largest(g);
  for (ptrdiff_t k = 0; k < c->count[run] / 2; k++) {
    ptrdiff_t i = first_of(p, k), j = i + p.apart;
    const double *a = e->got.data, *b = e->want.data, *z = g->data;
    double real = a[i] * b[i] - a[j] * b[j] - (z[i] * z[i] - z[j] * z[j]);
    double imaginary = a[i] * b[j] + a[j] * b[i] - 2 * z[i] * z[j];
    double limit = 10 * c->slack * scale * scale;
    if (!(fabs(real) <= limit && fabs(imaginary) <= limit)) return false;
  }
  return true;
}

/* Without g: every pair of got is want's pair turned by an angle that is the same in two runs. */
static bool turned_alike(const th__case *c, bool halves) {
  const th__evidence *e = c->evidence;
  if (c->runs < 2 || !th__grid_same_shape(&e[0].want, &e[1].want)) return false;
  pairing p = pairing_of(&e[0].want, halves);
  for (ptrdiff_t k = 0; k < c->count[0] / 2; k++) {
    ptrdiff_t i = first_of(p, k), j = i + p.apart;
    double turn[2][2], limit = 0;
    for (int run = 0; run < 2; run++) {
      const double *a = e[run].got.data, *b = e[run].want.data;
      double size = b[i] * b[i] + b[j] * b[j];
      if (!(fabs(a[i] * a[i] + a[j] * a[j] - size) <= 10 * c->slack * size)) return false;
      turn[run][0] = size > 0 ? (a[i] * b[i] + a[j] * b[j]) / size : TH__NO_NUMBER;
      turn[run][1] = size > 0 ? (a[j] * b[i] - a[i] * b[j]) / size : TH__NO_NUMBER;
      limit = 100 * c->slack;
    }
    if (!(fabs(turn[0][0] - turn[1][0]) <= limit && fabs(turn[0][1] - turn[1][1]) <= limit))
      return false;
  }
  return true;
}

bool th__try_rotation(th__case *c) {
  const th__evidence *first = &c->evidence[0];
  for (int run = 0; run < c->runs; run++) {
    const th__grid *want = &c->evidence[run].want;
    if (want->ndim == 0 || want->shape[want->ndim - 1] % 2 != 0 || c->count[run] < 2) return false;
  }
  for (int halves = 0; halves < 2; halves++) {
    const char *which = halves ? "(i, i + n/2)" : "(2i, 2i + 1)";
    for (int clue = 0; clue < first->clue_count; clue++) {
      bool fits = first->clues[clue].kind == TH__CLUE_GRADIENT;
      for (int run = 0; run < c->runs && fits; run++)
        fits = turned_from(c, run, &c->evidence[run].clues[clue].grid, halves != 0);
      if (fits)
        return th__case_found(c, TH__BUG_ROTATED, TH__NO_NUMBER,
                              "%s is rotated the wrong way: its pairs %s are turned by +angle "
                              "instead of -angle",
                              first->clues[clue].name, which);
    }
    if (turned_alike(c, halves != 0))
      return th__case_found(c, TH__BUG_ROTATED, TH__NO_NUMBER,
                            "is rotated: its pairs %s have the right length and a wrong angle",
                            which);
  }
  return false;
}
