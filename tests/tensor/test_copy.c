/* Copying and adding between tensors of any strides: against an element by element walk. */
#include "support.h"

/* A view of `shape` into fresh memory: axes in the order `order` from the outermost in memory, each
 * `gap` times as long as needed. */
typedef struct layout {
  int order[4];
  ptrdiff_t gap[4];
} layout;

static th_tensor *laid_out(th_tape *tape, th_dtype dtype, const ptrdiff_t *shape, layout l) {
  ptrdiff_t strides[4], stride = 1;
  for (int i = 3; i >= 0; i--) {
    int axis = l.order[i];
    strides[axis] = stride * l.gap[axis];
    stride *= shape[axis] * l.gap[axis];
  }
  th_tensor *memory = th_input(tape, dtype, TH_SHAPE(stride), NULL);
  for (ptrdiff_t i = 0; i < stride; i++)
    th__set(memory, i, dtype == TH_BOOL ? i % 3 == 0 : (double)i);
  return th__view(tape, memory, 4, shape, strides, 0);
}

static const layout layouts[] = {{{0, 1, 2, 3}, {1, 1, 1, 1}}, {{0, 2, 1, 3}, {1, 1, 1, 1}},
                                 {{0, 1, 3, 2}, {1, 1, 1, 1}}, {{3, 2, 1, 0}, {1, 1, 1, 1}},
                                 {{0, 1, 2, 3}, {1, 2, 1, 1}}, {{0, 1, 2, 3}, {1, 1, 1, 3}},
                                 {{1, 0, 2, 3}, {2, 1, 3, 1}}};
#define LAYOUTS ((int)(sizeof layouts / sizeof *layouts))
static const ptrdiff_t shapes[][4] = {{2, 3, 4, 5}, {1, 3, 1, 7}, {2, 1, 5, 1},
                                      {1, 1, 1, 1}, {2, 0, 3, 4}, {3, 17, 65, 31}};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

static void compare(th_dtype dtype, int shape, int to, int from, bool add) {
  th_tape *tape = th_tape_new();
  th_tensor *dst = laid_out(tape, dtype, shapes[shape], layouts[to]);
  th_tensor *src = laid_out(tape, dtype, shapes[shape], layouts[from]);
  ptrdiff_t length = dst->base->count;
  double *want = malloc(((size_t)length + 1) * sizeof *want);
  th_tensor_read(dst->base, want);
  ptrdiff_t at_dst[4] = {0}, at_src[4] = {0}, d = 0, s = 0;
  for (ptrdiff_t i = 0; i < dst->count; i++) {
    want[d] = (add ? want[d] : 0) + th__get(src, s);
    d = th__next_offset(dst, at_dst, d);
    s = th__next_offset(src, at_src, s);
  }
  if (add)
    th__tensor_add(dst, src);
  else
    th__tensor_copy(dst, src);
  expect_values("memory", dst->base, want, 0); /* also what lies between the view's elements */
  free(want);
  th_tape_free(tape);
}

static void all_layouts(th_dtype dtype, bool add) {
  for (int shape = 0; shape < SHAPES; shape++)
    for (int to = 0; to < LAYOUTS; to++)
      for (int from = 0; from < LAYOUTS; from++) compare(dtype, shape, to, from, add);
}

TEST_BOTH(copy, adds) { all_layouts(dtype, true); }
Test(copy, copies_f32) { all_layouts(TH_F32, false); }
Test(copy, copies_f64) { all_layouts(TH_F64, false); }
Test(copy, copies_i32) { all_layouts(TH_I32, false); }
Test(copy, copies_bool) { all_layouts(TH_BOOL, false); }

Test(copy, scalars) {
  th_tape *tape = th_tape_new();
  th_tensor *a = make(tape, TH_F64, TH_SCALAR, (double[]){2}),
            *b = make(tape, TH_F64, TH_SCALAR, (double[]){3});
  th__tensor_add(a, b);
  expect_values("a", a, (double[]){5}, 0);
  th__tensor_copy(a, b);
  expect_values("a", a, (double[]){3}, 0);
  th_tape_free(tape);
}
