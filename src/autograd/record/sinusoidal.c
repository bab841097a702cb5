/* sinusoidal: sines and cosines of positions, a constant that models add to embeddings.
 * Shapes    y (T, C), C even
 * Forward   y_t,2i = sin((offset + t) 10000^(-2i/C));  y_t,2i+1 = cos of the same   (ops/angles.c)
 * Backward  none: it depends on nothing that has a gradient
 * Checks    y(t + k) is y(t) with each pair turned by an angle that depends on k only.
 * tests/ops/test_sinusoidal.c */
#include "autograd/tape.h"

typedef struct job {
  ptrdiff_t offset, length, width;
  const th_tensor *y;
} job;

static void fill(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const job *j = context;
  TH__CALL(j->y->dtype, angles, j->offset, j->length, begin, end, j->width, 10000.0, j->width, 2,
           th__at(j->y, 0), th__at(j->y, 1));
}

#define LAST_POSITION ((ptrdiff_t)1 << 40) /* beyond, angles are no longer accurate */

th_tensor *th_sinusoidal(th_tape *tape, th_dtype dtype, ptrdiff_t offset, ptrdiff_t length,
                         ptrdiff_t width) {
  TH__REQUIRE(tape, dtype == TH_F32 || dtype == TH_F64, TH_ERR_DTYPE, "sinusoidal",
              "the type is %s; f32 or f64 is expected", th_dtype_name(dtype));
  TH__REQUIRE(tape, length >= 0 && width >= 0 && width % 2 == 0, TH_ERR_SHAPE, "sinusoidal",
              "[%td, %td] was asked for; [T, C] is expected, C even: a sine and a cosine each",
              length, width);
  TH__REQUIRE(tape, offset >= 0 && length <= LAST_POSITION && offset <= LAST_POSITION - length,
              TH_ERR_VALUE, "sinusoidal",
              "the offset is %td with %td rows; positions from 0 up to 2^40 are expected", offset,
              length);
  th_tensor *y = th_output(tape, dtype, TH_SHAPE(length, width));
  if (y == NULL || y->count == 0) return y;
  th__parallel(width / 2, th__grain(10 * length), fill,
               &(job){.offset = offset, .length = length, .width = width, .y = y});
  return y;
}
