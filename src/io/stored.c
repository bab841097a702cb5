/* stored.c: the data of a safetensors file, and what becomes of element types that are not ours. */
#include "io/stored.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

bool th__safetensors_fetch(const th__safetensors *file, uint64_t from, void *bytes, size_t count,
                           th_error *error) {
  if (file->file < 0) {
    if (from > file->size || count > file->size - from) {
      th__safetensors_fail(file, error, "it ends too early");
      return false;
    }
    if (count > 0) memcpy(bytes, file->memory + from, count);
    return true;
  }
  char *at = bytes;
  while (count > 0) {
    ssize_t got = pread(file->file, at, count, (off_t)from);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      th__safetensors_fail(file, error, "cannot read: %s",
                           got < 0 ? strerror(errno) : "it has become shorter");
      return false;
    }
    at += got;
    from += (uint64_t)got;
    count -= (size_t)got;
  }
  return true;
}

/* ---- one element type as another, by way of double, which holds all that we convert ---- */

static double from_f16(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent == 0    ? fraction * 0x1p-24
                : exponent == 31 ? (fraction == 0 ? (double)INFINITY : (double)NAN)
                                 : ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

static double from_bf16(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return (double)value;
}

/* Decodes `count` elements. False: a type that is known by size only. */
static bool decode(th__stored stored, const void *raw, ptrdiff_t count, double *values) {
#define CASE(name, type, expression)                                                               \
  case TH__STORED_##name:                                                                          \
    for (ptrdiff_t i = 0; i < count; i++) {                                                        \
      type x = ((const type *)raw)[i];                                                             \
      values[i] = expression;                                                                      \
    }                                                                                              \
    return true;
  switch (stored) {
    CASE(F64, double, x)
    CASE(F32, float, (double)x)
    CASE(F16, uint16_t, from_f16(x))
    CASE(BF16, uint16_t, from_bf16(x))
    CASE(I64, int64_t, (double)x)
    CASE(I32, int32_t, x)
    CASE(I16, int16_t, x)
    CASE(I8, int8_t, x)
    CASE(U8, uint8_t, x)
    CASE(BOOL, uint8_t, x)
  default: return false;
  }
#undef CASE
}

/* The place of the first value that the type cannot hold, or -1. */
static ptrdiff_t encode(th_dtype dtype, const double *values, ptrdiff_t count, void *out) {
  for (ptrdiff_t i = 0; i < count; i++) {
    double x = values[i];
    switch (dtype) {
    case TH_F64: ((double *)out)[i] = x; break;
    case TH_F32:
      if (isfinite(x) && isinf((float)x)) return i;
      ((float *)out)[i] = (float)x;
      break;
    case TH_I32:
      if (!(x >= INT32_MIN && x <= INT32_MAX)) return i;
      ((int32_t *)out)[i] = (int32_t)x;
      break;
    case TH_BOOL:
      if (!(x == 0 || x == 1)) return i;
      ((unsigned char *)out)[i] = (unsigned char)x;
      break;
    }
  }
  return -1;
}

/* What a type may be read as: floats as floats, whole numbers as TH_I32, BOOL as TH_BOOL. */
static bool fits(th__stored stored, th_dtype dtype) {
  switch (stored) {
  case TH__STORED_F64:
  case TH__STORED_F32:
  case TH__STORED_F16:
  case TH__STORED_BF16: return dtype == TH_F32 || dtype == TH_F64;
  case TH__STORED_I64:
  case TH__STORED_I32:
  case TH__STORED_I16:
  case TH__STORED_I8:
  case TH__STORED_U8: return dtype == TH_I32;
  case TH__STORED_BOOL: return dtype == TH_BOOL;
  default: return false;
  }
}

/* ---- reading ---- */

static th_status convert(th__safetensors *file, const th__entry *entry, th_tensor *tensor,
                         th_error *error) {
  enum { PIECE = 1024 };
  double raw[PIECE], values[PIECE];
  size_t size = th__stored_size(entry->stored);
  for (ptrdiff_t from = 0; from < entry->count; from += PIECE) {
    ptrdiff_t count = entry->count - from < PIECE ? entry->count - from : PIECE;
    uint64_t place = file->start + entry->begin + (uint64_t)from * size;
    if (!th__safetensors_fetch(file, place, raw, (size_t)count * size, error)) return TH_ERR_IO;
    decode(entry->stored, raw, count, values);
    ptrdiff_t bad = encode(tensor->dtype, values, count, th__at(tensor, from));
    char name[TH__PRINTABLE];
    if (bad >= 0)
      return th__safetensors_fail(
          file, error, "tensor \"%s\": element %td is %g, which %s cannot hold",
          th__printable(name, entry->name), from + bad, values[bad], th_dtype_name(tensor->dtype));
  }
  return TH_OK;
}

th_status th__safetensors_read(th__safetensors *file, const th__entry *entry, th_tensor *tensor,
                               th_error *error) {
  char name[TH__PRINTABLE], text[TH__ENTRY_TEXT], shape[TH__SHAPE_TEXT];
  th__printable(name, entry->name);
  if (!th__shape_equal(entry->ndim, entry->shape, tensor->ndim, tensor->shape) ||
      !fits(entry->stored, tensor->dtype) || !th_tensor_is_contiguous(tensor))
    return th__safetensors_fail(
        file, error, "file: %s %s; here: %s %s", name, th__entry_text(text, entry),
        th__shape_text(shape, tensor->ndim, tensor->shape), th_dtype_name(tensor->dtype));
  if (entry->stored != th__stored_of(tensor->dtype) || tensor->dtype == TH_BOOL)
    return convert(file, entry, tensor, error);
  bool good = th__safetensors_fetch(file, file->start + entry->begin, tensor->data,
                                    (size_t)(entry->end - entry->begin), error);
  return good ? TH_OK : TH_ERR_IO;
}

th_tensor *th__safetensors_load(th__safetensors *file, const th__entry *entry, th_error *error) {
  static const th_dtype dtypes[] = {TH_F32, TH_F64, TH_I32, TH_BOOL};
  for (int i = 0; i < 4; i++) {
    th_dtype dtype = entry->stored == TH__STORED_F64 ? TH_F64 : dtypes[i];
    if (!fits(entry->stored, dtype)) continue;
    th_tensor *tensor = th_tensor_new(dtype, entry->ndim, entry->shape, error);
    if (tensor == NULL || th__safetensors_read(file, entry, tensor, error) == TH_OK) return tensor;
    th_tensor_free(tensor);
    return NULL;
  }
  char name[TH__PRINTABLE];
  th__safetensors_fail(file, error, "tensor \"%s\": dtype %s is not read",
                       th__printable(name, entry->name), th__stored_name(entry->stored));
  return NULL;
}

/* All into tensors of their own first: what is there stays whole until nothing can fail any more. */
th_status th__safetensors_read_all(th__safetensors *file, const th__entry *const *entries,
                                   th_tensor *const *tensors, ptrdiff_t count, th_error *error) {
  size_t bytes = (size_t)(count > 0 ? count : 1) * sizeof(th_tensor *);
  th_tensor **fresh = th__alloc_zero(bytes);
  if (fresh == NULL) return th__error_memory(error, file->path, bytes);
  th_status status = TH_OK;
  for (ptrdiff_t i = 0; i < count && status == TH_OK; i++) {
    const th_tensor *old = tensors[i];
    fresh[i] = th_tensor_new(old->dtype, old->ndim, old->shape, error);
    status =
        fresh[i] == NULL ? TH_ERR_MEMORY : th__safetensors_read(file, entries[i], fresh[i], error);
  }
  for (ptrdiff_t i = 0; i < count; i++) {
    if (status == TH_OK && tensors[i]->count > 0)
      memcpy(tensors[i]->data, fresh[i]->data,
             (size_t)tensors[i]->count * th_dtype_size(tensors[i]->dtype));
    th_tensor_free(fresh[i]);
  }
  th__free(fresh);
  return status;
}
