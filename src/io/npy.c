#include "io/npy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

/* ---- the header: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), } ---- */

typedef struct element {
  const char *descr;
  char kind; /* f, i, u, b */
  size_t size;
} element;

static const element elements[] = {{"<f4", 'f', 4}, {"<f8", 'f', 8}, {"|b1", 'b', 1},
                                   {"|i1", 'i', 1}, {"<i2", 'i', 2}, {"<i4", 'i', 4},
                                   {"<i8", 'i', 8}, {"|u1", 'u', 1}, {"<u2", 'u', 2},
                                   {"<u4", 'u', 4}, {"<u8", 'u', 8}};

typedef struct header {
  const element *element;
  bool by_columns;
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  bool has_descr, has_order, has_shape;
} header;

typedef struct reader {
  const char *name;
  const char *at, *end;
  th_error *error;
} reader;

static bool fail(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(reader *r, const char *format, ...) {
  char text[192];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  th__error(r->error, TH_ERR_IO, "%.60s: %s", r->name, text);
  return false;
}

static void skip_spaces(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n')) r->at++;
}

static bool takes(reader *r, char sign) {
  skip_spaces(r);
  if (r->at == r->end || *r->at != sign) return false;
  r->at++;
  return true;
}

static bool takes_word(reader *r, const char *word) {
  skip_spaces(r);
  size_t length = strlen(word);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

/* 'text' or "text" into a buffer. */
static bool read_text(reader *r, char *text, size_t room) {
  skip_spaces(r);
  char quote = r->at < r->end ? *r->at : '\0';
  if (quote != '\'' && quote != '"') return false;
  const char *begin = ++r->at;
  while (r->at < r->end && *r->at != quote) r->at++;
  size_t length = (size_t)(r->at - begin);
  if (r->at == r->end || length >= room) return false;
  memcpy(text, begin, length);
  text[length] = '\0';
  r->at++;
  return true;
}

static bool read_descr(reader *r, header *h) {
  char descr[16];
  if (!read_text(r, descr, sizeof descr))
    return fail(r, "descr is no plain element type; save an array of numbers");
  for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
    if (strcmp(descr, elements[i].descr) == 0) {
      h->element = &elements[i];
      return true;
    }
  return fail(r, "element type '%s' cannot be read; save x.astype('<f8') or '<i4'", descr);
}

static bool read_dimension(reader *r, ptrdiff_t *value) {
  skip_spaces(r);
  const char *begin = r->at;
  *value = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    if (*value > (PTRDIFF_MAX - 9) / 10) return fail(r, "shape holds a number that is too large");
    *value = *value * 10 + (*r->at - '0');
  }
  return r->at > begin || fail(r, "shape is not a tuple of whole numbers");
}

static bool read_shape(reader *r, header *h) {
  if (!takes(r, '(')) return fail(r, "shape is not a tuple");
  while (!takes(r, ')')) {
    if (h->ndim == TH_MAX_DIMS) return fail(r, "shape has more than %d axes", TH_MAX_DIMS);
    if (!read_dimension(r, &h->shape[h->ndim])) return false;
    h->ndim++;
    if (takes(r, ')')) return h->ndim > 1 || fail(r, "shape is a number in brackets, not a tuple");
    if (!takes(r, ',')) return fail(r, "shape is not a tuple of whole numbers");
  }
  return true;
}

static bool read_entry(reader *r, header *h) {
  char key[32];
  if (!read_text(r, key, sizeof key) || !takes(r, ':'))
    return fail(r, "the header is no dictionary");
  bool *seen = strcmp(key, "descr") == 0           ? &h->has_descr
               : strcmp(key, "fortran_order") == 0 ? &h->has_order
               : strcmp(key, "shape") == 0         ? &h->has_shape
                                                   : NULL;
  if (seen == NULL) return fail(r, "the header has an unknown entry '%s'", key);
  if (*seen) return fail(r, "the header has '%s' twice", key);
  *seen = true;
  if (seen == &h->has_descr) return read_descr(r, h);
  if (seen == &h->has_shape) return read_shape(r, h);
  if (takes_word(r, "True")) return h->by_columns = true;
  return takes_word(r, "False") || fail(r, "fortran_order is neither True nor False");
}

static bool read_header(reader *r, header *h) {
  *h = (header){0};
  if (!takes(r, '{')) return fail(r, "the header is no dictionary");
  while (!takes(r, '}')) {
    if (!read_entry(r, h)) return false;
    if (takes(r, '}')) break;
    if (!takes(r, ',')) return fail(r, "the header is no dictionary");
  }
  skip_spaces(r);
  if (r->at != r->end) return fail(r, "something follows the header's dictionary");
  if (!h->has_descr || !h->has_order || !h->has_shape)
    return fail(r, "the header lacks %s",
                !h->has_descr   ? "descr"
                : !h->has_order ? "fortran_order"
                                : "shape");
  return true;
}

/* ---- the elements ---- */

static uint64_t read_bits(const unsigned char *at, size_t size) {
  uint64_t bits = 0;
  for (size_t i = 0; i < size; i++) bits |= (uint64_t)at[i] << (8 * i);
  return bits;
}

/* One element as double. False where a whole number does not fit 32 bits. */
static bool read_element(const element *e, const unsigned char *at, double *value) {
  uint64_t bits = read_bits(at, e->size);
  if (e->kind == 'f' && e->size == 4) {
    uint32_t half = (uint32_t)bits;
    float x;
    memcpy(&x, &half, sizeof x);
    *value = (double)x;
    return true;
  }
  if (e->kind == 'f') {
    memcpy(value, &bits, sizeof bits);
    return true;
  }
  if (e->kind == 'b') {
    *value = bits != 0;
    return true;
  }
  if (e->kind == 'i' && e->size < 8 && bits >> (8 * e->size - 1) & 1)
    bits |= ~(uint64_t)0 << (8 * e->size);
  bool negative = e->kind == 'i' && bits >> 63 & 1;
  uint64_t size = negative ? ~bits + 1 : bits;
  *value = negative ? -(double)size : (double)size;
  return negative ? size <= (uint64_t)INT32_MAX + 1 : size <= INT32_MAX;
}

static th_dtype dtype_of(const element *e) {
  if (e->kind == 'b') return TH_BOOL;
  if (e->kind != 'f') return TH_I32;
  return e->size == 4 ? TH_F32 : TH_F64;
}

/* Position in the file of the entry with this index, in row order or in column order. */
static size_t place_of(const header *h, const ptrdiff_t *index) {
  size_t place = 0;
  for (int i = 0; i < h->ndim; i++) {
    int axis = h->by_columns ? h->ndim - 1 - i : i;
    place = place * (size_t)h->shape[axis] + (size_t)index[axis];
  }
  return place;
}

static bool fill(reader *r, const header *h, const unsigned char *data, th_tensor *tensor) {
  ptrdiff_t index[TH_MAX_DIMS] = {0}, offset = 0;
  for (ptrdiff_t i = 0; i < tensor->count; i++) {
    double value;
    if (!read_element(h->element, data + place_of(h, index) * h->element->size, &value))
      return fail(r, "entry %td, %.0f, does not fit a 32-bit whole number", i, value);
    th__set(tensor, offset, value);
    offset = th__next_offset(tensor, index, offset);
  }
  return true;
}

/* The number of elements, when they fill the rest of the file exactly. */
static bool check_size(reader *r, const header *h, size_t bytes) {
  size_t count = 1;
  bool empty = false;
  for (int i = 0; i < h->ndim; i++) empty = empty || h->shape[i] == 0;
  for (int i = 0; i < h->ndim && !empty; i++) {
    if (count > SIZE_MAX / h->element->size / (size_t)h->shape[i])
      return fail(r, "shape has more entries than can be counted");
    count *= (size_t)h->shape[i];
  }
  size_t expected = empty ? 0 : count * h->element->size;
  if (bytes == expected) return true;
  return fail(r, "shape and type need %zu bytes of data, the file has %zu", expected, bytes);
}

th_tensor *th__npy_parse(const char *name, const void *bytes, size_t count, th_error *error) {
  const unsigned char *data = bytes;
  reader r = {.name = name, .error = error};
  if (count < 10 || memcmp(data, "\x93NUMPY", 6) != 0) {
    fail(&r, "this is no .npy file");
    return NULL;
  }
  size_t start = data[6] == 1 ? 10 : 12;
  if (data[6] < 1 || data[6] > 3) {
    fail(&r, "version %d.%d of the format is not known", data[6], data[7]);
    return NULL;
  }
  size_t length = count < start ? SIZE_MAX : (size_t)read_bits(data + 8, start - 8);
  if (count < start || length > count - start) {
    fail(&r, "the file ends inside its header");
    return NULL;
  }
  r.at = (const char *)data + start;
  r.end = r.at + length;
  header h;
  if (!read_header(&r, &h) || !check_size(&r, &h, count - start - length)) return NULL;
  th_tensor *tensor = th_tensor_new(dtype_of(h.element), h.ndim, h.shape, error);
  if (tensor == NULL || fill(&r, &h, data + start + length, tensor)) return tensor;
  th_tensor_free(tensor);
  return NULL;
}

/* ---- the file ---- */

static unsigned char *read_all(const char *path, FILE *file, size_t *count, th_error *error) {
  size_t room = (size_t)1 << 16, used = 0;
  unsigned char *bytes = th__alloc(room);
  while (bytes != NULL) {
    used += fread(bytes + used, 1, room - used, file);
    if (used < room) break;
    if (room > TH__NPY_LIMIT) {
      th__error(error, TH_ERR_IO, "%s: larger than %zu bytes", path, TH__NPY_LIMIT);
      th__free(bytes);
      return NULL;
    }
    unsigned char *larger = th__alloc(2 * room);
    if (larger != NULL) memcpy(larger, bytes, used);
    th__free(bytes);
    bytes = larger;
    room *= 2;
  }
  *count = used;
  if (bytes == NULL) th__error_memory(error, path, room);
  if (bytes != NULL && ferror(file)) {
    th__error(error, TH_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    th__free(bytes);
    return NULL;
  }
  return bytes;
}

th_tensor *th__npy_read(const char *path, th_error *error) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL) {
    th__error(error, TH_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    return NULL;
  }
  size_t count = 0;
  unsigned char *bytes = read_all(path, file, &count, error);
  fclose(file);
  if (bytes == NULL) return NULL;
  th_tensor *tensor = th__npy_parse(path, bytes, count, error);
  th__free(bytes);
  return tensor;
}
