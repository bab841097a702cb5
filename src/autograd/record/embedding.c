/* Recording embedding: ids are checked and copied first; saves the ids. */
#include "autograd/tape.h"

typedef struct rows_of {
  ptrdiff_t rows, n, step; /* step: elements between rows of the table */
  const int32_t *ids;
  const th_tensor *table, *y, *dy;
  th_tensor *dtable;
} rows_of;

static void forward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  TH__CALL(r->table->dtype, embedding_fwd, end - begin, r->n, r->ids + begin, r->table->data,
           r->step, th__at(r->y, begin * r->n));
}

static void backward_columns(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  TH__CALL(r->dy->dtype, embedding_bwd, r->rows, end - begin, r->ids, th__at(r->dy, begin), r->n,
           th__at(r->dtable, begin), r->step);
}

#define LINE 16 /* columns: pieces do not share a cache line of a row */

static th_status backward(th_node *node) {
  rows_of r = {.ids = *(const int32_t **)th_node_saved(node),
               .table = th_node_input(node, 0),
               .dy = th_node_upstream(node),
               .dtable = th_node_grad(node, 0)};
  r.n = r.table->shape[1];
  r.step = r.table->strides[0];
  if (r.dy->count == 0) return TH_OK;
  r.rows = r.dy->count / r.n;
  ptrdiff_t grain = (th__grain(r.rows) + LINE - 1) / LINE * LINE;
  th__parallel(r.n, grain, backward_columns, &r);
  return TH_OK;
}

/* ---- checks ---- */

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_embedding(tape, in[0], in[1]);
}

static th_tensor *run_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_embedding(tape, th_transpose(tape, in[0], 0, 1), in[1]);
}

/* clang-format off */
static const th_check checks[] = {
    {"", run, .input_count = 2, .inputs = {
        {"table", TH_FILL_NORMAL, 0, 2, {5, 3}}, {"ids", TH_FILL_IDS, 5, 2, {2, 4}}}},
    {"transposed", run_transposed, .input_count = 2, .inputs = {
        {"table", TH_FILL_NORMAL, 0, 2, {3, 5}}, {"ids", TH_FILL_IDS, 5, 1, {6}}}},
    {"large", run, .large = true, .input_count = 2, .inputs = {
        {"table", TH_FILL_NORMAL, 0, 2, {100, 96}}, {"ids", TH_FILL_IDS, 100, 2, {4, 64}}}},
    {0}};
/* clang-format on */

const th_op th__op_embedding = {"embedding", backward, checks};

/* ---- recording ---- */

static bool valid_ids(th_tape *tape, ptrdiff_t limit, const th_tensor *kept) {
  const int32_t *ids = kept->data;
  for (ptrdiff_t i = 0; i < kept->count; i++)
    if (ids[i] < 0 || ids[i] >= limit) {
      th_fail(tape, TH_ERR_INDEX, "embedding",
              "id %d at index %td; the table has %td rows, so 0 to %td are possible", (int)ids[i],
              i, limit, limit - 1);
      return false;
    }
  return true;
}

th_tensor *th_embedding(th_tape *tape, th_tensor *table, const th_tensor *ids) {
  th_tensor *second = (th_tensor *)(uintptr_t)ids;
  if (!TH__READY(tape, "embedding", table, second) || !th__same_dtype(tape, "embedding", 1, &table))
    return NULL;
  TH__REQUIRE(tape, table->ndim == 2, TH_ERR_SHAPE, "embedding",
              "the table is %s; [V, C] is expected", TH__TEXT(table));
  TH__REQUIRE(tape, ids->dtype == TH_I32, TH_ERR_DTYPE, "embedding",
              "the ids are %s; i32 is expected", th_dtype_name(ids->dtype));
  TH__REQUIRE(tape, ids->ndim < TH_MAX_DIMS, TH_ERR_SHAPE, "embedding",
              "the ids %s have %d axes; the result would have one more than %d", TH__TEXT(ids),
              ids->ndim, TH_MAX_DIMS);
  const th_tensor *kept = th__keep(tape, ids);
  if (kept == NULL || !valid_ids(tape, table->shape[0], kept)) return NULL;
  table = th__dense_rows(tape, table);
  if (table == NULL) return NULL;

  rows_of r = {.rows = kept->count, .n = table->shape[1], .step = table->strides[0]};
  ptrdiff_t shape[TH_MAX_DIMS];
  for (int i = 0; i < ids->ndim; i++) shape[i] = ids->shape[i];
  shape[ids->ndim] = r.n;
  th_tensor *y = th_output(tape, table->dtype, ids->ndim + 1, shape);
  if (y == NULL) return NULL;
  r.ids = kept->data;
  r.table = table;
  r.y = y;
  th__parallel(r.rows, th__grain(r.n), forward_rows, &r);
  return th_record(tape, &th__op_embedding, y, &table, 1, &r.ids, sizeof r.ids);
}
