/* Data of safetensors files: what Python wrote (golden/files/make.py), element types, files that are cut. */
#include <math.h>

#include "io/safetensors_files.h"
#include "tensor/alloc.h"

#define GOLDEN(name) TEST_FOLDER "/golden/files/" name ".safetensors"

static th__safetensors *opened(const char *path) {
  th_error error = {0};
  th__safetensors *file = th__safetensors_open(path, &error);
  cr_assert_not_null(file, "%s", error.message);
  return file;
}

/* Equal bit for bit as doubles, NaN to NaN. */
static void expect(th__safetensors *file, const char *name, th_dtype dtype, int ndim,
                   const ptrdiff_t *shape, const double *values) {
  th_error error = {0};
  const th__entry *entry = th__safetensors_find(file, name);
  cr_assert_not_null(entry, "%s is missing", name);
  th_tensor *tensor = th__safetensors_load(file, entry, &error);
  cr_assert_not_null(tensor, "%s: %s", name, error.message);
  cr_assert_eq(th_tensor_dtype(tensor), dtype, "%s is %s", name,
               th_dtype_name(th_tensor_dtype(tensor)));
  cr_assert_eq(th_tensor_ndim(tensor), ndim, "%s", name);
  for (int i = 0; i < ndim; i++) cr_assert_eq(th_tensor_dim(tensor, i), shape[i], "%s", name);
  double got[32];
  th_tensor_read(tensor, got);
  for (ptrdiff_t i = 0; i < th_tensor_count(tensor); i++)
    cr_assert((isnan(got[i]) && isnan(values[i])) ||
                  (got[i] == values[i] && !signbit(got[i]) == !signbit(values[i])),
              "%s[%td] is %.17g, not %.17g", name, i, got[i], values[i]);
  th_tensor_free(tensor);
}

#define EXPECT(name, dtype, shape, ...)                                                            \
  expect(file, name, dtype, shape, (const double[]){__VA_ARGS__})

Test(stored, golden_types) {
  th__safetensors *file = opened(GOLDEN("types"));
  cr_assert_eq(th__safetensors_count(file), 13);
  const json_t *metadata = th__safetensors_metadata(file);
  cr_assert_str_eq(json_string_value(json_object_get(metadata, "\xc3\xbc"
                                                               "ber")),
                   "\xc3\x9f \"quoted\"");
  EXPECT("f64", TH_F64, TH_SHAPE(2, 3), 1.0 / 3, -2.5, 1e-300, 1e300, 0.0, -0.0);
  EXPECT("f32", TH_F32, TH_SHAPE(2, 2), (double)(1.0f / 3), -2.5, (double)3e38f, 0x1p-149);
  EXPECT("f16", TH_F32, TH_SHAPE(12), 0.0, -0.0, 0x1p-24, -1023 * 0x1p-24, 0x1p-14, 1.0, -2.0,
         1365 * 0x1p-12, 65504.0, INFINITY, -INFINITY, NAN);
  EXPECT("bf16", TH_F32, TH_SHAPE(11), 0.0, -0.0, 0x1p-133, 0x1p-126, 1.0, -2.0, 171 * 0x1p-9,
         255 * 0x1p120, INFINITY, -INFINITY, NAN);
  EXPECT("i64", TH_I32, TH_SHAPE(3), INT32_MIN, 0, INT32_MAX);
  EXPECT("i32", TH_I32, TH_SHAPE(2), INT32_MIN, 7);
  EXPECT("i16", TH_I32, TH_SHAPE(2, 1), -32768, 32767);
  EXPECT("i8", TH_I32, TH_SHAPE(2), -128, 127);
  EXPECT("u8", TH_I32, TH_SHAPE(2), 0, 255);
  EXPECT("bool", TH_BOOL, TH_SHAPE(3), 1, 0, 1);
  EXPECT("scalar", TH_F32, TH_SCALAR, 0.5);
  EXPECT("empty", TH_F32, TH_SHAPE(0, 3), 0);
  th_error error = {0};
  cr_assert_null(th__safetensors_load(file, th__safetensors_find(file, "i64.large"), &error));
  cr_assert_not_null(
      strstr(error.message, "tensor \"i64.large\": element 0 is 2.14748e+09, which i32"), "%s",
      error.message);
  th__safetensors_close(file);
}

Test(stored, golden_files_without_tensors) {
  th__safetensors *file = opened(GOLDEN("nothing"));
  cr_assert_eq(th__safetensors_count(file), 0);
  cr_assert_eq(json_object_size(th__safetensors_metadata(file)), 0);
  th__safetensors_close(file);
  file = opened(GOLDEN("metadata"));
  cr_assert_eq(th__safetensors_count(file), 0);
  cr_assert_str_eq(json_string_value(json_object_get(th__safetensors_metadata(file), "only")),
                   "this");
  th__safetensors_close(file);
}

/* All 65536 numbers of the 16-bit types against the definition, computed another way. */
Test(stored, every_number_of_16_bits) {
  enum { COUNT = 65536 };
  static unsigned char bytes[200 + 4 * COUNT];
  char header[200];
  snprintf(header, sizeof header,
           "{\"f16\":{\"dtype\":\"F16\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
           "\"bf16\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
           COUNT, 2 * COUNT, COUNT, 2 * COUNT, 4 * COUNT);
  size_t size = lay_out(bytes, header, strlen(header), 4 * COUNT);
  for (size_t i = 0; i < 2 * COUNT; i++) {
    bytes[size - 4 * COUNT + 2 * i] = (unsigned char)i;
    bytes[size - 4 * COUNT + 2 * i + 1] = (unsigned char)(i >> 8);
  }
  th__safetensors *file = th__safetensors_parse("x", bytes, size, NULL);
  cr_assert_not_null(file);
  static const struct {
    const char *name;
    int exponent_bits, fraction_bits;
  } types[] = {{"f16", 5, 10}, {"bf16", 8, 7}};
  for (int t = 0; t < 2; t++) {
    th_tensor *tensor = th__safetensors_load(file, th__safetensors_find(file, types[t].name), NULL);
    cr_assert_not_null(tensor);
    const float *got = th_tensor_data(tensor);
    int f = types[t].fraction_bits, all_ones = (1 << types[t].exponent_bits) - 1;
    for (int i = 0; i < COUNT; i++) {
      int e = i >> f & all_ones, fraction = i & ((1 << f) - 1);
      double want = (e == 0 ? 0 : 1) + fraction * pow(2, -f);
      want *= pow(2, (e == 0 ? 1 : e) - all_ones / 2);
      if (e == all_ones) want = fraction == 0 ? (double)INFINITY : (double)NAN;
      if (i & 0x8000) want = -want;
      cr_assert((isnan(want) && isnan(got[i])) || (double)got[i] == want, "%s %04x: %g, not %g",
                types[t].name, (unsigned)i, (double)got[i], want);
      cr_assert(isnan(want) || !signbit(want) == !signbit(got[i]), "%s %04x", types[t].name,
                (unsigned)i);
    }
    th_tensor_free(tensor);
  }
  th__safetensors_close(file);
}

/* A byte of a mask is 0 or 1, whoever wrote it. */
Test(stored, booleans_are_checked) {
  th__safetensors *file =
      accepted("{\"a\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3);
  th_error error = {0};
  cr_assert_null(th__safetensors_load(file, th__safetensors_at(file, 0), &error));
  cr_assert_not_null(strstr(error.message, "tensor \"a\": element 2 is 2, which bool cannot hold"),
                     "%s", error.message);
  th__safetensors_close(file);
}

Test(stored, reading_needs_the_same_shape_and_kind) {
  th__safetensors *file =
      accepted("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24);
  const struct {
    th_dtype dtype;
    ptrdiff_t rows, columns;
    const char *sentence;
  } wrong[] = {{TH_F32, 3, 2, "file: a [2, 3] F32; here: [3, 2] f32"},
               {TH_I32, 2, 3, "file: a [2, 3] F32; here: [2, 3] i32"},
               {TH_BOOL, 2, 3, "here: [2, 3] bool"}};
  for (int i = 0; i < 3; i++) {
    th_error error = {0};
    th_tensor *tensor =
        th_tensor_new(wrong[i].dtype, TH_SHAPE(wrong[i].rows, wrong[i].columns), NULL);
    cr_assert_eq(th__safetensors_read(file, th__safetensors_at(file, 0), tensor, &error), TH_ERR_IO);
    cr_assert_not_null(strstr(error.message, wrong[i].sentence), "%s", error.message);
    th_tensor_free(tensor);
  }
  th__safetensors_close(file);
}

/* ---- files that are cut ---- */

/* At every length but its own a file is refused, before anything is read from it. */
Test(stored, cut_at_every_length) {
  unsigned char bytes[2000];
  FILE *golden = fopen(GOLDEN("types"), "rb");
  cr_assert_not_null(golden);
  size_t count = fread(bytes, 1, sizeof bytes, golden);
  fclose(golden);
  const char *path = "test_stored.cut";
  for (size_t length = 0; length < count; length++) {
    keep(path, bytes, length);
    th_error error = {0};
    cr_assert_null(th__safetensors_open(path, &error), "cut at %zu", length);
    cr_assert_eq(error.status, TH_ERR_IO, "%zu: %s", length, error.message);
  }
  keep(path, bytes, count);
  th__safetensors_close(opened(path));
  unlink(path);
}

/* A file that becomes shorter behind our back: an error, no crash, and nothing is changed. */
Test(stored, shortened_while_open) {
  const char *path = "test_stored.short";
  static unsigned char bytes[1024];
  const char *header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                       "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[4,20]}}";
  size_t count = lay_out(bytes, header, strlen(header), 20);
  keep(path, bytes, count);
  th__safetensors *file = opened(path);
  cr_assert_eq(truncate(path, (off_t)count - 1), 0);
  th_tensor *a = th_tensor_from(TH_F32, TH_SHAPE(1), (const float[]){7}, NULL);
  th_tensor *b = th_tensor_from(TH_F32, TH_SHAPE(4), (const float[]){1, 2, 3, 4}, NULL);
  const th__entry *entries[] = {th__safetensors_at(file, 0), th__safetensors_at(file, 1)};
  th_tensor *tensors[] = {a, b};
  th_error error = {0};
  cr_assert_eq(th__safetensors_read_all(file, entries, tensors, 2, &error), TH_ERR_IO);
  cr_assert_not_null(strstr(error.message, "it has become shorter"), "%s", error.message);
  cr_assert_eq(((float *)th_tensor_data(a))[0], 7.0f);
  cr_assert_eq(((float *)th_tensor_data(b))[3], 4.0f);
  cr_assert_eq(th__safetensors_read_all(file, entries, tensors, 1, NULL), TH_OK);
  cr_assert_neq(((float *)th_tensor_data(a))[0], 7.0f);
  th_tensor_free(a);
  th_tensor_free(b);
  th__safetensors_close(file);
  unlink(path);
}
