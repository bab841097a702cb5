#include "autograd/gemm.h"

#include <limits.h>
#include <math.h>

#include "autograd/tape.h"

/* Sizes of pieces. Measured with OpenBLAS 0.3.21 on one AVX2 core: 0.5 Mflop takes 7 us, several times
 * what handing out a piece costs. A tile of C packs its rows of A and its columns of B for itself, so
 * thin tiles lose: of the rate of 256 x 256, tiles of 128 x 128 reach 0.95 over an inner length of 768
 * and 0.85 over 16384 (where the packing comes from memory), tiles of 50 x 50 there 0.7. */
#define LEAST_FLOPS 5e5  /* do not cut into pieces smaller than this */
#define MOST_FLOPS 2.5e8 /* cut larger ones, for machines with many cores */
#define PIECES 8         /* wanted in between: enough to balance a few threads */
#define LARGEST_TILE                                                                               \
  256 /* rows and columns below which tiles are made only where pieces are too few: */
#define MIDDLE_TILE 128 /* down to here for 4 of them, */
#define LEAST_TILE 32   /* down to here for 2; */
#define DEEP 2048       /* of products with so long an inner length 2 large ones are enough */
#define ROW_STEP 4      /* tiles end on multiples of these: what BLAS computes at a time */
#define COLUMN_STEP 16
#define COLUMN_SUM_FLOPS 16 /* a column sum costs about as much per element as this many */

/* How one product is cut: into groups of whole products if they are small, else into tiles of C. */
typedef struct cut {
  ptrdiff_t batch, group, groups;   /* products, products per piece, pieces along the batch */
  ptrdiff_t tile_m, tile_n, across; /* across: tiles side by side */
  ptrdiff_t tiles, pieces;
  double piece_flops;
} cut;

/* The products in the order in which they are handed out: large pieces first, small ones fill up. */
typedef struct work {
  const th__product *products[TH__MAX_PRODUCTS];
  cut cuts[TH__MAX_PRODUCTS];
} work;

static ptrdiff_t ceil_div(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }

static ptrdiff_t clamp(ptrdiff_t value, ptrdiff_t low, ptrdiff_t high) {
  return value > high ? (high > low ? high : low) : value < low ? low : value;
}

/* Length of `parts` nearly equal tiles along `length`. */
static ptrdiff_t tile_length(ptrdiff_t length, ptrdiff_t parts, ptrdiff_t step) {
  if (parts <= 1) return length;
  return ceil_div(ceil_div(length, parts), step) * step;
}

/* About `wanted` tiles of at least `least` rows and columns, as nearly square as that allows. */
static void tiles_of(const th__product *p, ptrdiff_t wanted, ptrdiff_t least, cut *c) {
  ptrdiff_t most_down = clamp(p->m / least, 1, wanted);
  ptrdiff_t most_across = clamp(p->n / least, 1, wanted);
  double square = (double)wanted * (double)p->m / (double)p->n;
  ptrdiff_t down = clamp((ptrdiff_t)(sqrt(square) + 0.5), 1, most_down);
  ptrdiff_t across = clamp(ceil_div(wanted, down), 1, most_across);
  down = clamp(ceil_div(wanted, across), 1, most_down);
  c->tile_m = tile_length(p->m, down, ROW_STEP);
  c->tile_n = tile_length(p->n, across, COLUMN_STEP);
  c->across = ceil_div(p->n, c->tile_n);
  c->tiles = c->across * ceil_div(p->m, c->tile_m);
}

/* Large tiles if they give enough pieces, smaller ones if not. */
static void cut_into_tiles(const th__product *p, ptrdiff_t wanted, cut *c) {
  static const struct {
    ptrdiff_t side, enough;
  } tiles[] = {{256, 4}, {192, 4}, {128, 4}, {64, 2}, {32, 2}};
  ptrdiff_t side_by_side = p->sum ? 1 : c->batch;
  for (int i = 0; i < 5; i++) {
    ptrdiff_t enough = p->k >= DEEP ? 2 : tiles[i].enough;
    if (enough > wanted) enough = wanted;
    tiles_of(p, wanted, tiles[i].side, c);
    if (c->tiles * side_by_side >= enough) return;
  }
}

static cut cut_product(const th__product *p) {
  cut c = {.batch = 1, .group = 1, .tile_m = p->m, .tile_n = p->n, .across = 1, .tiles = 1};
  for (int i = 0; i < p->axes; i++) c.batch *= p->length[i];
  if (c.batch == 0 || p->m == 0 || p->n == 0) return c;
  double per_element = p->a == NULL ? COLUMN_SUM_FLOPS : 2;
  double each = per_element * (double)p->m * (double)p->n * (double)p->k;
  double all = each * (double)c.batch;
  double piece = all / PIECES;
  if (piece < LEAST_FLOPS) piece = LEAST_FLOPS;
  if (piece > MOST_FLOPS) piece = MOST_FLOPS;
  double tile = p->sum ? all : each; /* what the whole of C costs */
  ptrdiff_t wanted = (ptrdiff_t)(tile / piece + 0.5);
  if (wanted > 1) cut_into_tiles(p, wanted, &c);
  if (p->sum)
    c.group = c.batch;
  else if (wanted <= 1)
    c.group = each > 0 ? clamp((ptrdiff_t)(piece / each), 1, c.batch) : c.batch;
  c.groups = ceil_div(c.batch, c.group);
  c.pieces = c.groups * c.tiles;
  c.piece_flops = all / (double)c.pieces;
  return c;
}

/* ---- running a piece ---- */

typedef struct place {
  ptrdiff_t a, b, c; /* offsets of one product of the batch, in elements */
} place;

static place place_of(const th__product *p, ptrdiff_t index) {
  place at = {0, 0, 0};
  for (int i = p->axes - 1; i >= 0; i--) {
    ptrdiff_t along = index % p->length[i];
    index /= p->length[i];
    at.a += along * p->move_a[i];
    at.b += along * p->move_b[i];
    at.c += along * p->move_c[i];
  }
  return at;
}

static const char *step(const void *base, th_dtype dtype, ptrdiff_t elements) {
  return (const char *)base + elements * (ptrdiff_t)th_dtype_size(dtype);
}

static void run_tile(const th__product *p, place at, bool first, ptrdiff_t i, ptrdiff_t m,
                     ptrdiff_t j, ptrdiff_t n) {
  const void *b = step(p->b, p->dtype, at.b + (p->tb ? j * p->ldb : j));
  void *c = (char *)p->c + (at.c + i * p->ldc + j) * (ptrdiff_t)th_dtype_size(p->dtype);
  if (p->a == NULL) {
    TH__CALL(p->dtype, linear_dbias, p->k, n, b, p->ldb, c);
    return;
  }
  const void *a = step(p->a, p->dtype, at.a + (p->ta ? i : i * p->lda));
  if (p->bias != NULL)
    TH__CALL(p->dtype, linear_bias, m, n, (const void *)step(p->bias, p->dtype, j), p->ldc, c);
  bool add = p->accumulate || p->bias != NULL || (p->sum && !first);
  TH__CALL(p->dtype, gemm, p->ta, p->tb, m, n, p->k, 1.0, a, p->lda, b, p->ldb, add ? 1.0 : 0.0, c,
           p->ldc);
}

static void run_piece(const th__product *p, const cut *c, ptrdiff_t piece) {
  ptrdiff_t begin = piece / c->tiles * c->group, tile = piece % c->tiles;
  ptrdiff_t end = begin + c->group < c->batch ? begin + c->group : c->batch;
  ptrdiff_t i = tile / c->across * c->tile_m, j = tile % c->across * c->tile_n;
  ptrdiff_t m = p->m - i < c->tile_m ? p->m - i : c->tile_m;
  ptrdiff_t n = p->n - j < c->tile_n ? p->n - j : c->tile_n;
  for (ptrdiff_t index = begin; index < end; index++)
    run_tile(p, place_of(p, index), index == 0, i, m, j, n);
}

static void run_pieces(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const work *w = context;
  for (ptrdiff_t piece = begin; piece < end; piece++) {
    ptrdiff_t at = piece;
    int which = 0;
    while (at >= w->cuts[which].pieces) at -= w->cuts[which++].pieces;
    run_piece(w->products[which], &w->cuts[which], at);
  }
}

void th__products(const th__product *products, int count) {
  work w;
  ptrdiff_t pieces = 0;
  double flops = 0;
  for (int i = 0; i < count; i++) {
    cut c = cut_product(&products[i]);
    int at = i;
    for (; at > 0 && w.cuts[at - 1].piece_flops < c.piece_flops; at--) {
      w.cuts[at] = w.cuts[at - 1];
      w.products[at] = w.products[at - 1];
    }
    w.cuts[at] = c;
    w.products[at] = &products[i];
    pieces += c.pieces;
    flops += c.piece_flops * (double)c.pieces;
  }
  th__parallel(pieces, flops < 2 * LEAST_FLOPS ? pieces : 1, run_pieces, &w);
}

/* ---- operands ---- */

bool th__share_grad(const th_tensor *x, const th_tensor *y) {
  if (x == NULL || y == NULL) return false;
  return (x->base != NULL ? x->base : x) == (y->base != NULL ? y->base : y);
}

bool th__blas_sizes(th_tape *tape, const char *op, int count, const ptrdiff_t *sizes) {
  for (int i = 0; i < count; i++)
    if (sizes[i] > INT_MAX) {
      th_fail(tape, TH_ERR_SHAPE, op,
              "a matrix with a side or row length of %td; BLAS counts to %d: split it", sizes[i],
              INT_MAX);
      return false;
    }
  return true;
}

/* BLAS wants rows at least as far apart as they are long, even where there is only one. */
static ptrdiff_t row_length(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t stride) {
  return rows > 1 ? stride : columns > 1 ? columns : 1;
}

bool th__matrix_of(const th_tensor *x, th__matrix *matrix) {
  ptrdiff_t rows = th__dim(x, -2), columns = th__dim(x, -1);
  ptrdiff_t down = th__stride(x, -2), right = th__stride(x, -1);
  if (x->count == 0) {
    *matrix = (th__matrix){false, columns > 1 ? columns : 1};
    return true;
  }
  if ((right == 1 || columns == 1) && (rows == 1 || down >= columns)) {
    *matrix = (th__matrix){false, row_length(rows, columns, down)};
    return true;
  }
  if ((down == 1 || rows == 1) && (columns == 1 || right >= rows)) {
    *matrix = (th__matrix){true, row_length(columns, rows, right)};
    return true;
  }
  return false;
}

bool th__rows_of(const th_tensor *x, ptrdiff_t *rows, ptrdiff_t *ld) {
  ptrdiff_t columns = th__dim(x, -1), stride = columns, spaced = 0;
  *rows = 1;
  for (int i = 0; i < x->ndim - 1; i++) *rows *= x->shape[i];
  *ld = columns > 1 ? columns : 1;
  if (x->count == 0) return true;
  if (columns > 1 && th__stride(x, -1) != 1) return false;
  for (int i = x->ndim - 2; i >= 0; i--) {
    if (x->shape[i] == 1) continue;
    if (spaced == 0)
      stride = x->strides[i];
    else if (x->strides[i] != stride * spaced)
      return false;
    spaced = (spaced == 0 ? 1 : spaced) * x->shape[i];
  }
  *ld = row_length(*rows, columns, stride);
  return *ld >= columns;
}
