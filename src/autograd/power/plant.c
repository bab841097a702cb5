/* plant.c: puts a fault into the recorded operations of a check's function. */
#include <string.h>

#include "autograd/power/faults.h"

/* What a node sees as its op; first, so that node->op leads back here. */
typedef struct planted_op {
  th_op op;
  const th_op *real;
  const th__fault *fault;
} planted_op;

double *th__values(th_node *node, const th_tensor *x) {
  double *values = th_node_workspace(node, (size_t)x->count * sizeof *values);
  if (values != NULL) th_tensor_read(x, values);
  return values;
}

/* What the gradients held, and what the right backward adds to them. */
typedef struct share {
  double *before, *delta;
} share;

static bool spoils(const th__fault *fault, const th_node *node, int i) {
  return th_node_grad(node, i) != NULL && (fault->input < 0 || fault->input == i);
}

static th_status run_right(th_node *node, const planted_op *mine, share *shares) {
  for (int i = 0; i < node->input_count; i++) {
    if (!spoils(mine->fault, node, i)) continue;
    th_tensor *grad = th_node_grad(node, i);
    shares[i].before = th__values(node, grad);
    shares[i].delta = th_node_workspace(node, (size_t)grad->count * sizeof(double));
    if (shares[i].before == NULL || shares[i].delta == NULL) return TH_ERR_MEMORY;
    memset(shares[i].delta, 0, (size_t)grad->count * sizeof(double));
    th_tensor_write(grad, shares[i].delta);
  }
  return mine->real->backward(node);
}

static th_status planted_backward(th_node *node) {
  const planted_op *mine = (const planted_op *)node->op;
  share shares[TH_MAX_INPUTS] = {{0}};
  node->op = mine->real;
  th_status status = run_right(node, mine, shares);
  for (int i = 0; i < node->input_count && status == TH_OK; i++) {
    if (!spoils(mine->fault, node, i)) continue;
    th_tensor *grad = th_node_grad(node, i);
    th_tensor_read(grad, shares[i].delta);
    th__spoiled s = {node, i, grad->count, shares[i].delta, false, mine->fault->param};
    status = mine->fault->spoil(&s);
    for (ptrdiff_t k = 0; k < s.count; k++)
      s.delta[k] = s.overwrite ? s.delta[k] : shares[i].before[k] + s.delta[k];
    th_tensor_write(grad, s.delta);
  }
  return status;
}

static th_tensor *planted_function(th_tape *tape, th_tensor *const *inputs, const void *context) {
  const th__planted *planted = context;
  const th__fault *fault = planted->fault;
  th_tensor *y = planted->base->forward(tape, inputs, planted->base->context);
  for (th_node *node = tape->last; node != NULL && y != NULL; node = node->previous) {
    if (strcmp(node->op->name, fault->op) != 0) continue;
    planted_op *mine = th_tape_alloc(tape, sizeof *mine);
    if (mine == NULL) return NULL;
    *mine = (planted_op){{node->op->name, planted_backward, NULL}, node->op, fault};
    node->op = &mine->op;
  }
  return y;
}

void th__plant_in(const th__fault *fault, const th_check *base, th__planted *planted,
                  th_check *check) {
  *planted = (th__planted){fault, base};
  *check = *base;
  check->forward = planted_function;
  check->context = planted;
}

void th__plant(const th__fault *fault, th__planted *planted, th_check *check) {
  th__plant_in(fault, th__fault_case(fault->where), planted, check);
}
