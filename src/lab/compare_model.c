/* compare_model.c: the compared models: one layer each, a token table and an output matrix of its own. */
#include "lab/compare.h"
#include "tensor/purpose.h"
#include "tensor/tensor.h"

const char *const th__compared_names[TH__COMPARED] = {"rnn", "lstm", "transformer"};

th__distance th__compare_task(ptrdiff_t distance) {
  return (th__distance){.pairs = 2, .keys = 4, .values = 4, .fillers = 4, .distance = distance};
}

/* ---- parameters ---- */

/* One head, GELU, layer norms, biases; no positions, which recall does not need. */
static th_gpt transformer_of(const th__distance *task, ptrdiff_t width, th_dtype dtype) {
  return (th_gpt){.layers = 1,
                  .heads = 1,
                  .width = width,
                  .context = th__distance_length(task),
                  .vocab = th__distance_vocab(task),
                  .positions = TH_POSITION_NONE,
                  .untied = true,
                  .init = TH_INIT_WIDTH,
                  .dtype = dtype};
}

static double parameters(th__compared model, const th__distance *task, double width) {
  double tables = 2 * (double)th__distance_vocab(task) * width;
  switch (model) {
  case TH__RNN: return tables + 2 * width * width + width;
  case TH__LSTM: return tables + 8 * width * width + 4 * width;
  default: return tables + 12 * width * width + 9 * width + 6 * width;
  }
}

ptrdiff_t th__compare_width(th__compared model, const th__distance *task, ptrdiff_t width) {
  if (model == TH__TRANSFORMER) return width;
  double wanted = parameters(TH__TRANSFORMER, task, (double)width);
  ptrdiff_t fitting = 1;
  while (parameters(model, task, (double)fitting + 1) <= wanted) fitting++;
  double below = wanted - parameters(model, task, (double)fitting);
  double above = parameters(model, task, (double)fitting + 1) - wanted;
  return above < below ? fitting + 1 : fitting;
}

/* A recurrent model's tables start from N(0, 1), as PyTorch's embeddings do: from N(0, 0.02^2), the
 * library's default, it takes many hundreds of steps to make anything of its inputs. The transformer's
 * start from N(0, 1 / width). Each learns sooner so than the other way. */
static void widen_tables(th_model *model, uint64_t seed) {
  static const char *const names[] = {"wte.weight", "lm_head.weight"};
  for (uint32_t i = 0; model != NULL && i < 2; i++)
    th_init_normal(th_params_find(th_model_params(model), names[i]), 0, 1,
                   (th_random){seed, TH__PURPOSE_COMPARE_TABLES + i, 0});
}

th_model *th__compare_model(th__compared model, const th__distance *task, ptrdiff_t width,
                            th_dtype dtype, uint64_t seed, th_error *error) {
  if (model == TH__TRANSFORMER) {
    const th_gpt config = transformer_of(task, width, dtype);
    return th_gpt_new(&config, seed, error);
  }
  const th_recurrent config = {.layers = 1,
                               .width = width,
                               .vocab = th__distance_vocab(task),
                               .lstm = model == TH__LSTM,
                               .untied = true,
                               .dtype = dtype};
  th_model *made = th_recurrent_new(&config, seed, error);
  widen_tables(made, seed);
  return made;
}

/* ---- a pass ---- */

static bool is_right(const th_tensor *logits, ptrdiff_t row, int32_t answer) {
  ptrdiff_t vocab = logits->shape[1], best = 0;
  for (ptrdiff_t j = 1; j < vocab; j++)
    if (th__get(logits, row * vocab + j) > th__get(logits, row * vocab + best)) best = j;
  return best == answer;
}

th_tensor *th__compare_loss(th_tape *tape, th_model *model, const th__distance *task,
                            ptrdiff_t count, const int32_t *tokens, const int32_t *answers,
                            double *right) {
  ptrdiff_t length = th__distance_length(task), vocab = th__distance_vocab(task);
  th_tensor *ids = th_input(tape, TH_I32, TH_SHAPE(count, length), tokens);
  th_tensor *targets = th_input(tape, TH_I32, TH_SHAPE(count), answers);
  th_tensor *logits = th_model_forward(tape, model, ids, NULL);
  logits = th_slice(tape, logits, 1, length - 1, length);
  logits = th_contiguous(tape, th_reshape(tape, logits, TH_SHAPE(count, vocab)));
  th_tensor *loss = th_cross_entropy(tape, logits, targets);
  for (ptrdiff_t i = 0; right != NULL && loss != NULL && i < count; i++)
    *right += is_right(logits, i, answers[i]);
  return loss;
}
