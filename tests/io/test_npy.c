/* Arrays from NumPy's files: what NumPy writes is read, and whatever does not add up is refused with the
 * name of the field. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/npy.h"

/* A file of version `version` with this header text (padded as NumPy does) and these data. */
static size_t make_file(unsigned char *file, int version, const char *header, const void *data,
                        size_t count) {
  size_t start = version == 1 ? 10 : 12, length = strlen(header) + 1;
  while ((start + length) % 64 != 0) length++;
  memcpy(file, "\x93NUMPY", 6);
  file[6] = (unsigned char)version;
  file[7] = 0;
  for (size_t i = 0; i < start - 8; i++) file[8 + i] = (unsigned char)(length >> (8 * i));
  memset(file + start, ' ', length);
  memcpy(file + start, header, strlen(header));
  file[start + length - 1] = '\n';
  if (count > 0) memcpy(file + start + length, data, count);
  return start + length + count;
}

static th_tensor *parse(int version, const char *header, const void *data, size_t count,
                        th_error *error) {
  static unsigned char file[8192];
  *error = (th_error){0};
  return th__npy_parse("x.npy", file, make_file(file, version, header, data, count), error);
}

static void expect_array(int version, const char *header, const void *data, size_t count,
                         th_dtype dtype, int ndim, const ptrdiff_t *shape, const double *values) {
  th_error error;
  th_tensor *x = parse(version, header, data, count, &error);
  cr_assert_not_null(x, "%s: %s", header, error.message);
  cr_assert_eq(th_tensor_dtype(x), dtype, "%s", header);
  cr_assert_eq(th_tensor_ndim(x), ndim, "%s", header);
  for (int i = 0; i < ndim; i++) cr_assert_eq(th_tensor_dim(x, i), shape[i], "%s", header);
  double got[64];
  th_tensor_read(x, got);
  for (ptrdiff_t i = 0; i < th_tensor_count(x); i++)
    cr_assert_eq(got[i], values[i], "%s: entry %td is %g, not %g", header, i, got[i], values[i]);
  th_tensor_free(x);
}

Test(npy, reads_every_type) {
  const double values[] = {0, 1, 2, 3, 4, 5};
  const ptrdiff_t shape[] = {2, 3};
  const double f8[] = {0, 1, 2, 3, 4, 5};
  const float f4[] = {0, 1, 2, 3, 4, 5};
  const int64_t i8[] = {0, 1, 2, 3, 4, 5};
  const int32_t i4[] = {0, 1, 2, 3, 4, 5};
  const int16_t i2[] = {0, 1, 2, 3, 4, 5};
  const int8_t i1[] = {0, 1, 2, 3, 4, 5};
#define CASE(descr, array, dtype)                                                                  \
  expect_array(1, "{'descr': '" descr "', 'fortran_order': False, 'shape': (2, 3), }", array,      \
               sizeof array, dtype, 2, shape, values)
  CASE("<f8", f8, TH_F64);
  CASE("<f4", f4, TH_F32);
  CASE("<i8", i8, TH_I32);
  CASE("<u8", i8, TH_I32);
  CASE("<i4", i4, TH_I32);
  CASE("<u4", i4, TH_I32);
  CASE("<i2", i2, TH_I32);
  CASE("<u2", i2, TH_I32);
  CASE("|i1", i1, TH_I32);
  CASE("|u1", i1, TH_I32);
#undef CASE
  const unsigned char flags[] = {0, 1, 1};
  expect_array(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", flags, 3, TH_BOOL, 1,
               (ptrdiff_t[]){3}, (double[]){0, 1, 1});
}

Test(npy, negative_whole_numbers) {
  const int64_t i8[] = {-1, -2147483648LL, 2147483647};
  const int16_t i2[] = {-1, -32768, 5};
  const double want8[] = {-1, -2147483648.0, 2147483647}, want2[] = {-1, -32768, 5};
  const ptrdiff_t shape[] = {3};
  expect_array(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }", i8, sizeof i8,
               TH_I32, 1, shape, want8);
  expect_array(1, "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }", i2, sizeof i2,
               TH_I32, 1, shape, want2);
}

Test(npy, shapes_versions_orders) {
  const double data[] = {0, 1, 2, 3, 4, 5};
  /* a scalar, an empty array, keys in any order, double quotes, versions 2 and 3 */
  expect_array(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", data, 8, TH_F64, 0,
               NULL, data);
  expect_array(2, "{'shape': (0, 5), 'fortran_order': False, 'descr': '<f8'}", data, 0, TH_F64, 2,
               (ptrdiff_t[]){0, 5}, data);
  expect_array(3, "{\"descr\":\"<f8\",\"shape\":(6,),\"fortran_order\":False}", data, 48, TH_F64, 1,
               (ptrdiff_t[]){6}, data);
  /* column order: x[i][j] stands at i + 2 j */
  expect_array(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }", data, 48, TH_F64, 2,
               (ptrdiff_t[]){2, 3}, (double[]){0, 2, 4, 1, 3, 5});
}

typedef struct malformed {
  const char *header;
  size_t bytes; /* of data */
  const char *message;
} malformed;

static const malformed malformeds[] = {
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 40,
     "need 48 bytes of data, the file has 40"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 49,
     "need 48 bytes of data, the file has 49"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 0,
     "more entries than can be counted"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 0,
     "more entries than can be counted"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999, 1), }", 8,
     "too large"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }", 8,
     "need 8000000000000 bytes"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3), }", 0,
     "shape is not a tuple of whole numbers"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (1.5, 3), }", 0,
     "shape is not a tuple of whole numbers"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (1e300,), }", 0,
     "shape is not a tuple of whole numbers"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (3), }", 24, "a number in brackets"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': [3], }", 24, "shape is not a tuple"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 8,
     "more than 8 axes"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,", 24, "shape is not a tuple"},
    {"{'descr': '>f8', 'fortran_order': False, 'shape': (3,), }", 24, "element type '>f8'"},
    {"{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }", 6, "element type '<f2'"},
    {"{'descr': '<c16', 'fortran_order': False, 'shape': (3,), }", 48, "element type '<c16'"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", 24, "element type '|O'"},
    {"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }", 24,
     "no plain element type"},
    {"{'descr': '<f8', 'fortran_order': Maybe, 'shape': (3,), }", 24, "neither True nor False"},
    {"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", 24,
     "'descr' twice"},
    {"{'descr': '<f8', 'shape': (3,), }", 24, "lacks fortran_order"},
    {"{'fortran_order': False, 'shape': (3,), }", 24, "lacks descr"},
    {"{'descr': '<f8', 'fortran_order': False, }", 24, "lacks shape"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'extra': 1}", 24,
     "unknown entry 'extra'"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), } x", 24, "something follows"},
    {"{}", 24, "lacks descr"},
    {"(1, 2)", 24, "no dictionary"},
    {"", 24, "no dictionary"},
};

Test(npy, malformed_headers_name_the_field) {
  static const double data[16];
  for (size_t i = 0; i < sizeof malformeds / sizeof *malformeds; i++) {
    const malformed *m = &malformeds[i];
    th_error error;
    cr_assert_null(parse(1, m->header, data, m->bytes, &error), "%s was read", m->header);
    cr_assert_not_null(strstr(error.message, m->message), "%s: \"%s\"", m->header, error.message);
    cr_assert_not_null(strstr(error.message, "x.npy"), "%s", error.message);
  }
}

Test(npy, whole_numbers_beyond_32_bits) {
  const int64_t large[] = {1, 2147483648LL, 3};
  th_error error;
  cr_assert_null(parse(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }", large,
                       sizeof large, &error));
  cr_assert_not_null(strstr(error.message, "entry 1, 2147483648"), "%s", error.message);
}

/* Every cut of a good file is refused, and no single byte replaced leads out of the memory. */
Test(npy, cuts_and_flips) {
  static unsigned char file[512], copy[512];
  const double data[] = {1, 2, 3};
  size_t size = make_file(file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }",
                          data, sizeof data);
  th_error error;
  for (size_t cut = 0; cut < size; cut++)
    cr_assert_null(th__npy_parse("x.npy", file, cut, &error), "cut at %zu", cut);
  for (size_t at = 0; at < size; at++)
    for (int value = 0; value < 256; value += 3) {
      memcpy(copy, file, size);
      copy[at] = (unsigned char)value;
      th_tensor_free(th__npy_parse("x.npy", copy, size, &error));
    }
}

Test(npy, files) {
  th_error error = {0};
  cr_assert_null(th__npy_read("/no/such/file.npy", &error));
  cr_assert_not_null(strstr(error.message, "/no/such/file.npy"));
  cr_assert_null(th__npy_read("/", &error));
  char path[] = "/tmp/tapehead-npy-XXXXXX";
  int handle = mkstemp(path);
  cr_assert_geq(handle, 0);
  static unsigned char file[512];
  const double data[] = {1, 2, 3};
  size_t size = make_file(file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }",
                          data, sizeof data);
  cr_assert_eq(write(handle, file, size), (ssize_t)size);
  close(handle);
  th_tensor *x = th__npy_read(path, &error);
  cr_assert_not_null(x, "%s", error.message);
  cr_assert_eq(th_tensor_count(x), 3);
  th_tensor_free(x);
  remove(path);
}
