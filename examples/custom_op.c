/* custom_op.c: an operation of your own, with a hand-written backward, checked against finite
 * differences. Here softplus: y = log(1 + exp(x)), a smooth max(x, 0); dL/dx = dL/dy / (1 + exp(-x)). */
#include <math.h>
#include <stdio.h>

#include "tapehead.h"

/* Adds dL/dx to the gradient of the input. The input may be a strided view, and its gradient has the
 * same strides: reading and writing as double in row-major order takes care of both. */
static th_status softplus_backward(th_node *node) {
  th_tensor *dx = th_node_grad(node, 0);
  size_t bytes = (size_t)th_tensor_count(dx) * sizeof(double);
  double *x = th_node_workspace(node, bytes), *dy = th_node_workspace(node, bytes);
  double *sum = th_node_workspace(node, bytes);
  if (x == NULL || dy == NULL || sum == NULL) return TH_ERR_MEMORY;
  th_tensor_read(th_node_input(node, 0), x);
  th_tensor_read(th_node_upstream(node), dy);
  th_tensor_read(dx, sum);
  for (ptrdiff_t i = 0; i < th_tensor_count(dx); i++) sum[i] += dy[i] / (1 + exp(-x[i]));
  th_tensor_write(dx, sum);
  return TH_OK;
}

static const th_op softplus_op = {.name = "softplus", .backward = softplus_backward};

static th_tensor *softplus(th_tape *tape, th_tensor *x) {
  if (tape == NULL || x == NULL) return NULL;
  if (th_tensor_dtype(x) != TH_F32 && th_tensor_dtype(x) != TH_F64)
    return th_fail(tape, TH_ERR_DTYPE, "softplus", "x is %s; f32 or f64 is expected",
                   th_dtype_name(th_tensor_dtype(x)));
  th_tensor *y = th_output(tape, th_tensor_dtype(x), th_tensor_ndim(x), th_tensor_shape(x));
  double *values = th_tape_alloc(tape, (size_t)th_tensor_count(x) * sizeof *values);
  if (y == NULL || values == NULL) return NULL;
  th_tensor_read(x, values);
  for (ptrdiff_t i = 0; i < th_tensor_count(x); i++)
    values[i] = fmax(values[i], 0) + log1p(exp(-fabs(values[i])));
  th_tensor_write(y, values);
  return th_record(tape, &softplus_op, y, &x, 1, NULL, 0);
}

/* What is checked: one layer with the new operation between two built-in ones. */
static th_tensor *layer(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_softmax(tape, softplus(tape, th_linear(tape, in[0], in[1], NULL)));
}

static const th_check layer_check = {
    .forward = layer,
    .input_count = 2,
    .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {5, 3}}, {"weight", TH_FILL_NORMAL, 0, 2, {4, 3}}}};

int main(void) {
  th_gradcheck_result result;
  th_error error;
  if (th_gradcheck_case(&layer_check, &(th_gradcheck_options){.seed = 1, .f32 = true}, &result,
                        &error) != TH_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 2;
  }
  for (int i = 0; i < result.row_count; i++) {
    const th_gradcheck_row *row = &result.rows[i];
    printf("%-6s %s %-10s %-6s largest relative error %.1e over %td entries\n", row->input,
           th_dtype_name(row->dtype), th_check_mode_name(row->mode), th_verdict_name(row->verdict),
           row->max_rel_error, row->compared);
  }
  return th_verdict_ok(result.verdict) ? 0 : 1;
}
