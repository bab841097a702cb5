/* maker.h: making parameters one after another; after the first failure nothing more is done, so that
 * one check at the end suffices. */
#ifndef TH_NN_MAKER_H
#define TH_NN_MAKER_H

#include "tapehead.h"

typedef struct th__maker {
  th_params *params;
  th_dtype dtype;
  uint64_t seed;
  th_error *error;
  bool failed;
} th__maker;

/* A matrix [out, in] and its bias [out], or the gain and bias [n] of a norm. */
typedef struct th__affine {
  th_tensor *weight, *bias;
} th__affine;

/* Zeros. The name is block followed by name. NULL once something has failed. */
th_tensor *th__make_zeros(th__maker *maker, const char *block, const char *name, int ndim,
                          const ptrdiff_t *shape);
/* A matrix of N(0, sd^2), and one of the uniform distribution on [-limit, limit). Each parameter has a
 * random stream of its own, by its place in the list. */
th_tensor *th__make_normal(th__maker *maker, const char *block, const char *name, ptrdiff_t rows,
                           ptrdiff_t columns, double sd);
th_tensor *th__make_uniform(th__maker *maker, const char *block, const char *name, ptrdiff_t rows,
                            ptrdiff_t columns, double limit);
/* NAME.weight of ones and, if wanted, NAME.bias of zeros. */
th__affine th__make_norm(th__maker *maker, const char *block, const char *name, ptrdiff_t n,
                         bool bias);

#endif
