/* config.c: a transformer's configuration: what zeros stand for, and what is refused. */
#include <math.h>

#include "nn/transformer.h"
#include "tensor/error.h"

/* Sizes up to here leave sums and products of two within 64 bits, and token numbers within 32. */
#define SIZE_LIMIT ((ptrdiff_t)1 << 30)
#define LAYER_LIMIT                                                                                \
  5000 /* up to five dropout streams each, of the 32767 that there are: blocks.c */

/* ---- what zeros stand for ---- */

/* 8/3 of the width, so that three matrices count as much as two of 4 times the width; a multiple of 8. */
static ptrdiff_t swiglu_hidden(ptrdiff_t width) { return ((8 * width + 2) / 3 + 7) / 8 * 8; }

/* Where a size is out of range, anything legal: check() then says so. */
static void fill_in(th_gpt *c) {
  bool legal = c->width >= 1 && c->width <= SIZE_LIMIT;
  if (c->kv_heads == 0) c->kv_heads = c->heads;
  if (c->head_width == 0)
    c->head_width = legal && c->heads >= 1 && c->heads <= c->width ? c->width / c->heads : 1;
  if (c->hidden == 0) {
    c->hidden = legal ? 4 * c->width : 1;
    if (legal && c->feed_forward == TH_FEED_FORWARD_SWIGLU) c->hidden = swiglu_hidden(c->width);
  }
  if (c->norm_eps == 0) c->norm_eps = 1e-5;
  if (c->rope_base == 0) c->rope_base = 10000;
}

/* ---- what is refused ---- */

static th_status check_sizes(const th_gpt *c, const char *who, th_error *error) {
  const struct {
    const char *name;
    ptrdiff_t value, limit;
  } sizes[] = {
      {"layers", c->layers, LAYER_LIMIT},        {"heads", c->heads, SIZE_LIMIT},
      {"width", c->width, SIZE_LIMIT},           {"context", c->context, SIZE_LIMIT},
      {"vocab", c->vocab, SIZE_LIMIT},           {"kv_heads", c->kv_heads, SIZE_LIMIT},
      {"head_width", c->head_width, SIZE_LIMIT}, {"hidden", c->hidden, 4 * SIZE_LIMIT},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].value < 1 || sizes[i].value > sizes[i].limit)
      return th__error(error, TH_ERR_VALUE, "%s: %s is %td; 1 to %td is expected", who,
                       sizes[i].name, sizes[i].value, sizes[i].limit);
  return TH_OK;
}

static th_status check_divisions(const th_gpt *c, const char *who, th_error *error) {
  if (c->width % c->heads != 0)
    return th__error(error, TH_ERR_SHAPE,
                     "%s: the width %td does not divide into %td heads; choose a number of heads "
                     "that divides it",
                     who, c->width, c->heads);
  if (c->heads % c->kv_heads != 0)
    return th__error(error, TH_ERR_SHAPE,
                     "%s: %td heads do not share %td kv_heads evenly; choose a divisor of %td, or 0 "
                     "for one each",
                     who, c->heads, c->kv_heads, c->heads);
  if (c->positions == TH_POSITION_ROPE && c->head_width % 2 != 0)
    return th__error(error, TH_ERR_SHAPE,
                     "%s: rotary positions turn pairs of numbers, but the head width is %td; choose "
                     "an even head_width",
                     who, c->head_width);
  if (c->positions == TH_POSITION_SINUSOIDAL && c->width % 2 != 0)
    return th__error(error, TH_ERR_SHAPE,
                     "%s: sinusoidal positions are pairs of sine and cosine, but the width is %td; "
                     "choose an even one",
                     who, c->width);
  return TH_OK;
}

static th_status check_kinds(const th_gpt *c, const char *who, th_error *error) {
  const struct {
    const char *name;
    unsigned value, limit;
  } kinds[] = {
      {"norm", (unsigned)c->norm, TH_NORM_RMS},
      {"positions", (unsigned)c->positions, TH_POSITION_NONE},
      {"feed_forward", (unsigned)c->feed_forward, TH_FEED_FORWARD_NONE},
      {"scale", (unsigned)c->scale, TH_SCALE_FACTOR},
      {"init", (unsigned)c->init, TH_INIT_XAVIER},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (kinds[i].value > kinds[i].limit)
      return th__error(error, TH_ERR_VALUE, "%s: %d is no kind of %s; 0 to %u are", who,
                       (int)kinds[i].value, kinds[i].name, kinds[i].limit);
  if (c->dtype != TH_F32 && c->dtype != TH_F64)
    return th__error(error, TH_ERR_DTYPE, "%s: dtype is %s; f32 or f64 is expected", who,
                     th_dtype_name(c->dtype));
  return TH_OK;
}

static th_status check_numbers(const th_gpt *c, const char *who, th_error *error) {
  if (!(c->dropout >= 0 && c->dropout < 1))
    return th__error(error, TH_ERR_VALUE, "%s: dropout is %g; 0 <= dropout < 1 is expected", who,
                     c->dropout);
  if (c->scale == TH_SCALE_FACTOR && !isfinite(c->factor))
    return th__error(error, TH_ERR_VALUE, "%s: factor is %g; a finite number is expected", who,
                     c->factor);
  if (!(c->norm_eps > 0 && isfinite(c->norm_eps)))
    return th__error(error, TH_ERR_VALUE, "%s: norm_eps is %g; a number above 0 is expected", who,
                     c->norm_eps);
  if (!(c->rope_base > 0 && isfinite(c->rope_base)))
    return th__error(error, TH_ERR_VALUE, "%s: rope_base is %g; a number above 0 is expected", who,
                     c->rope_base);
  return TH_OK;
}

th_status th__gpt_complete(th_gpt *c, const char *who, th_error *error) {
  fill_in(c);
  th_status status = check_sizes(c, who, error);
  if (status == TH_OK) status = check_kinds(c, who, error);
  if (status == TH_OK) status = check_divisions(c, who, error);
  if (status == TH_OK) status = check_numbers(c, who, error);
  return status;
}
