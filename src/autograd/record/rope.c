/* Recording rope: reads rows of any spacing, so that the heads of a projection are turned without a
 * copy; keeps a table of cosines and sines, which later calls on the tape share. */
#include <math.h>

#include "autograd/tape.h"

/* Positions first .. first + rows - 1, in the tape's arena. */
typedef struct th__turns {
  struct th__turns *next;
  th_dtype dtype;
  ptrdiff_t first, rows, half;
  double base;
  void *data; /* [rows, 2 half]: of each row the cosines, then the sines */
} turns;

#define REMEMBERED 4 /* tables looked through: queries and keys, encoder and decoder */

static void fill(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const turns *t = context;
  void *sines = (char *)t->data + t->half * (ptrdiff_t)th_dtype_size(t->dtype);
  TH__CALL(t->dtype, angles, t->first, t->rows, begin, end, 2 * t->half, t->base, 2 * t->half, 1,
           sines, t->data);
}

/* The table's row for position `wanted.first`: found, or made. NULL when memory ends. */
static const void *turns_of(th_tape *tape, turns wanted) {
  ptrdiff_t row = 2 * wanted.half * (ptrdiff_t)th_dtype_size(wanted.dtype);
  const turns *t = tape->turns;
  for (int i = 0; i < REMEMBERED && t != NULL; i++, t = t->next)
    if (t->dtype == wanted.dtype && t->half == wanted.half && t->base == wanted.base &&
        t->first <= wanted.first && wanted.first + wanted.rows <= t->first + t->rows)
      return (char *)t->data + (wanted.first - t->first) * row;
  turns *made = th_tape_alloc(tape, sizeof *made);
  wanted.data = th_tape_alloc(tape, (size_t)(wanted.rows * row));
  if (made == NULL || wanted.data == NULL) return NULL;
  th__parallel(wanted.half, th__grain(10 * wanted.rows), fill, &wanted);
  wanted.next = tape->turns;
  *made = wanted;
  tape->turns = made;
  return made->data;
}

/* ---- turning ---- */

typedef struct kept {
  const void *turns;
  bool interleaved;
} kept;

typedef struct rows_of {
  kept saved;
  ptrdiff_t length, half;
  const th_tensor *strided; /* x or dx */
  const th_tensor *dense;   /* y or dy */
  bool backward;
} rows_of;

static void turn_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  th_dtype dtype = r->dense->dtype;
  ptrdiff_t ld = th__stride(r->strided, -2), size = (ptrdiff_t)th_dtype_size(dtype);
  while (begin < end) {
    ptrdiff_t t = begin % r->length, rows = r->length - t;
    if (rows > end - begin) rows = end - begin;
    void *strided = th__at(r->strided, th__offset(r->strided, begin * 2 * r->half));
    void *dense = th__at(r->dense, begin * 2 * r->half);
    const void *turn = (const char *)r->saved.turns + t * 2 * r->half * size;
    if (r->backward)
      TH__CALL(dtype, rope_bwd, rows, r->half, r->saved.interleaved, turn, dense, strided, ld);
    else
      TH__CALL(dtype, rope_fwd, rows, r->half, r->saved.interleaved, turn, strided, ld, dense);
    begin += rows;
  }
}

static void turn_all(rows_of r) {
  if (r.dense->count == 0) return;
  r.length = th__dim(r.dense, -2);
  r.half = th__dim(r.dense, -1) / 2;
  th__parallel(r.dense->count / (2 * r.half), th__grain(4 * r.half), turn_rows, &r);
}

static th_status backward(th_node *node) {
  turn_all((rows_of){.saved = *(kept *)th_node_saved(node),
                     .strided = th_node_grad(node, 0),
                     .dense = th_node_upstream(node),
                     .backward = true});
  return TH_OK;
}

/* ---- checks ---- */

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_rope(tape, in[0], context);
}

/* Queries as they lie in a projection to queries, keys and values. */
static th_tensor *run_heads(th_tape *tape, th_tensor *const *in, const void *context) {
  th_tensor *q = th_slice(tape, in[0], -1, 0, th_tensor_dim(in[0], -1) / 3);
  return th_rope(tape, th_split_heads(tape, q, 2), context);
}

static const th_rope_options usual = {0}, later = {.base = 100, .offset = 70},
                             interleaved = {.offset = 3, .interleaved = true};

/* clang-format off */
#define IN(name, ...) {name, TH_FILL_NORMAL, 0, __VA_ARGS__}
static const th_check checks[] = {
    {"", run, &usual, .input_count = 1, .inputs = {IN("x", 4, {2, 2, 3, 4})}},
    {"offset", run, &later, .input_count = 1, .inputs = {IN("x", 2, {3, 6})}},
    {"interleaved", run, &interleaved, .input_count = 1, .inputs = {IN("x", 3, {2, 3, 6})}},
    {"heads", run_heads, &later, .input_count = 1, .inputs = {IN("qkv", 3, {2, 3, 24})}},
    {"large", run_heads, &usual, .large = true, .input_count = 1, .inputs = {IN("qkv", 3, {3, 40, 96})}},
    {0}};
/* clang-format on */

const th_op th__op_rope = {"rope", backward, checks};

/* ---- recording ---- */

#define LAST_POSITION ((ptrdiff_t)1 << 40) /* beyond, angles are no longer accurate */

th_tensor *th_rope(th_tape *tape, th_tensor *x, const th_rope_options *options) {
  th_rope_options o = options != NULL ? *options : (th_rope_options){0};
  if (!TH__READY(tape, "rope", x) || !th__same_dtype(tape, "rope", 1, &x)) return NULL;
  if (o.base == 0) o.base = 10000;
  TH__REQUIRE(tape, x->ndim >= 2 && th__dim(x, -1) % 2 == 0, TH_ERR_SHAPE, "rope",
              "x is %s; [..., T, D] is expected, D even: its entries are turned in pairs",
              TH__TEXT(x));
  TH__REQUIRE(tape, o.base > 0 && isfinite(o.base), TH_ERR_VALUE, "rope",
              "the base is %g; a finite number above 0 is expected, usually 10000", o.base);
  ptrdiff_t length = th__dim(x, -2);
  TH__REQUIRE(tape, o.offset >= 0 && o.offset <= LAST_POSITION - length, TH_ERR_VALUE, "rope",
              "the offset is %td with %td rows; positions from 0 up to 2^40 are expected", o.offset,
              length);
  th_tensor *rows = th__dense_rows(tape, x);
  if (rows == NULL) return NULL;
  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  kept saved = {NULL, o.interleaved};
  if (y->count > 0) {
    saved.turns = turns_of(tape, (turns){.dtype = x->dtype,
                                         .first = o.offset,
                                         .rows = length,
                                         .half = th__dim(x, -1) / 2,
                                         .base = o.base});
    if (saved.turns == NULL) return NULL;
    turn_all((rows_of){.saved = saved, .strided = rows, .dense = y});
  }
  return th_record(tape, &th__op_rope, y, &rows, 1, &saved, sizeof saved);
}
