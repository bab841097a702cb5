/* th_params_save and th_params_load: what comes back is what was there, all of it or nothing. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "tensor/alloc.h"

#define GOLDEN(name) TEST_FOLDER "/golden/files/" name ".safetensors"
#define PATH "test_params_file.safetensors"

static th_params *two(th_dtype dtype, double start) {
  th_params *params = th_params_new(NULL);
  th_tensor *weight = th_params_add(params, "weight", dtype, TH_SHAPE(2, 3), NULL);
  th_tensor *bias = th_params_add(params, "bias", dtype, TH_SHAPE(2), NULL);
  th_tensor_write(weight, (const double[]){start, 1, 2, 3, 4, 1.0 / 3});
  th_tensor_write(bias, (const double[]){-0.0, start});
  return params;
}

static void expect_values(const th_params *params, const double weight[6], const double bias[2]) {
  double got[6];
  th_tensor_read(th_params_at(params, 0), got);
  for (int i = 0; i < 6; i++) cr_assert_eq(got[i], weight[i], "weight[%d] is %g", i, got[i]);
  th_tensor_read(th_params_at(params, 1), got);
  for (int i = 0; i < 2; i++) cr_assert_eq(got[i], bias[i], "bias[%d] is %g", i, got[i]);
}

static void same_bytes(const th_params *a, const th_params *b) {
  for (ptrdiff_t i = 0; i < th_params_count(a); i++) {
    const th_tensor *x = th_params_at(a, i), *y = th_params_at(b, i);
    size_t bytes = (size_t)th_tensor_count(x) * th_dtype_size(th_tensor_dtype(x));
    cr_assert_eq(memcmp(th_tensor_data(x), th_tensor_data(y), bytes), 0, "%s", th_tensor_name(x));
  }
}

/* Bit for bit, not-a-numbers with their payload included. */
Test(params_file, round_trip) {
  for (int i = 0; i < 2; i++) {
    th_dtype dtype = i == 0 ? TH_F32 : TH_F64;
    th_params *out = two(dtype, i == 0 ? 0x1p-149 : 1e-310), *in = two(dtype, 5);
    memset(th_tensor_data(th_params_at(out, 1)), 0xff, 4);
    th_error error = {0};
    cr_assert_eq(th_params_save(out, PATH, &error), TH_OK, "%s", error.message);
    cr_assert_eq(th_params_load(in, PATH, &error), TH_OK, "%s", error.message);
    same_bytes(out, in);
    th_params_free(out);
    th_params_free(in);
  }
  unlink(PATH);
}

/* Every tensor's data is aligned to its elements, also behind ones of another size. */
Test(params_file, layout) {
  th_params *params = th_params_new(NULL);
  th_params_add(params, "odd", TH_F32, TH_SHAPE(3), NULL);
  th_params_add(params, "none", TH_F32, TH_SHAPE(0, 4), NULL);
  th_params_add(params, "wide", TH_F64, TH_SHAPE(5), NULL);
  th_params_add(params, "scalar", TH_F64, TH_SCALAR, NULL);
  cr_assert_eq(th_params_save(params, PATH, NULL), TH_OK);
  FILE *file = fopen(PATH, "rb");
  unsigned char length[8];
  cr_assert_eq(fread(length, 1, 8, file), 8);
  fclose(file);
  cr_assert_eq(length[0] % 8, 0);
  th__safetensors *read = th__safetensors_open(PATH, NULL);
  cr_assert_not_null(read);
  cr_assert_eq(th__safetensors_count(read), 4);
  for (int i = 0; i < 4; i++) {
    const th__entry *entry = th__safetensors_at(read, i);
    cr_assert_eq(entry->begin % th__stored_size(entry->stored), 0, "%s", entry->name);
  }
  cr_assert_eq(th_params_load(params, PATH, NULL), TH_OK);
  th__safetensors_close(read);
  th_params_free(params);
  unlink(PATH);
}

static const double quarters[] = {0, 0.25, 0.5, 0.75, 1, 1.25}, halves[] = {0.5, -1};

Test(params_file, golden_other_types_are_converted) {
  for (int i = 0; i < 4; i++) {
    th_params *params = two(i % 2 == 0 ? TH_F32 : TH_F64, 9);
    th_error error = {0};
    const char *path =
        i < 2 ? GOLDEN("half") : GOLDEN("double"); /* that one has optim.m.weight, too */
    cr_assert_eq(th_params_load(params, path, &error), TH_OK, "%s", error.message);
    expect_values(params, quarters, halves);
    th_params_free(params);
  }
}

/* The file is refused with both sides named, and no parameter changes, not even those before. */
static void refused(th_params *list, const char *sentence) {
  th_error error = {0};
  th_params *before = two(TH_F32, 5);
  cr_assert_eq(th_params_load(list, PATH, &error), TH_ERR_IO, "%s", sentence);
  cr_assert_not_null(strstr(error.message, sentence), "\"%s\" lacks \"%s\"", error.message,
                     sentence);
  same_bytes(before, list);
  th_params_free(before);
  th_params_free(list);
}

Test(params_file, what_does_not_fit) {
  th_params *other = th_params_new(NULL);
  th_tensor *weight = th_params_add(other, "weight", TH_F32, TH_SHAPE(2, 3), NULL);
  cr_assert_eq(th_params_save(other, PATH, NULL), TH_OK);
  refused(two(TH_F32, 5), PATH ": file: no bias; model: [2] F32");
  th_params_add(other, "bias", TH_F32, TH_SHAPE(1, 2), NULL);
  cr_assert_eq(th_params_save(other, PATH, NULL), TH_OK);
  refused(two(TH_F32, 5), PATH ": file: bias [1, 2] F32; model: [2] F32");
  th_params_free(other);

  other = two(TH_F64, 1);
  th_params_add(other, "more", TH_F64, TH_SHAPE(1), NULL);
  cr_assert_eq(th_params_save(other, PATH, NULL), TH_OK);
  refused(two(TH_F32, 5), PATH ": file: more [1] F64; model: no such parameter");
  th_params_free(other);

  other = two(TH_F64, 1);
  weight = th_params_find(other, "bias");
  th_tensor_write(weight, (const double[]){1, 1e39});
  cr_assert_eq(th_params_save(other, PATH, NULL), TH_OK);
  refused(two(TH_F32, 5), PATH ": tensor \"bias\": element 1 is 1e+39, which f32 cannot hold");
  th_tensor_write(weight, (const double[]){INFINITY, -INFINITY});
  cr_assert_eq(th_params_save(other, PATH, NULL), TH_OK);
  th_params *infinite = two(TH_F32, 5);
  cr_assert_eq(th_params_load(infinite, PATH, NULL), TH_OK);
  th_params_free(infinite);
  th_params_free(other);
  unlink(PATH);
}

Test(params_file, whole_numbers_are_no_weights) {
  th_tensor *ids = th_tensor_from(TH_I32, TH_SHAPE(2), (const int32_t[]){1, 2}, NULL);
  th_params *params = th_params_new(NULL);
  th_params_add(params, "ids", TH_F32, TH_SHAPE(2), NULL);
  cr_assert_eq(th__safetensors_write(PATH, &(th__item){"ids", ids}, 1, NULL, NULL), TH_OK);
  th_error error = {0};
  cr_assert_eq(th_params_load(params, PATH, &error), TH_ERR_IO);
  cr_assert_str_eq(error.message, PATH ": file: ids [2] I32; model: [2] F32");
  th_params_free(params);
  th_tensor_free(ids);
  unlink(PATH);
}

Test(params_file, names_that_a_file_cannot_hold) {
  th_error error = {0};
  const char *const names[] = {"__metadata__", "a\xff"};
  const char *const why[] = {"is taken by the format", "is no valid UTF-8"};
  for (int i = 0; i < 2; i++) {
    th_params *params = th_params_new(NULL);
    th_params_add(params, names[i], TH_F32, TH_SHAPE(1), NULL);
    cr_assert_eq(th_params_save(params, PATH, &error), TH_ERR_VALUE);
    cr_assert_not_null(strstr(error.message, why[i]), "%s", error.message);
    cr_assert_neq(access(PATH, F_OK), 0);
    th_params_free(params);
  }
  th_tensor *x = th_tensor_new(TH_F32, TH_SHAPE(1), NULL);
  const th__item twice[] = {{"a", x}, {"a", x}};
  cr_assert_eq(th__safetensors_write(PATH, twice, 2, NULL, &error), TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "stands for two tensors"), "%s", error.message);
  json_t *metadata = json_pack("{s:i}", "a", 1);
  cr_assert_eq(th__safetensors_write(PATH, twice, 1, metadata, &error), TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "metadata \"a\" is no string"), "%s", error.message);
  json_decref(metadata);
  th_tensor_free(x);
}

Test(params_file, null_is_an_error) {
  th_params *params = th_params_new(NULL);
  cr_assert_eq(th_params_save(NULL, PATH, NULL), TH_ERR_VALUE);
  cr_assert_eq(th_params_save(params, NULL, NULL), TH_ERR_VALUE);
  cr_assert_eq(th_params_load(NULL, PATH, NULL), TH_ERR_VALUE);
  cr_assert_eq(th_params_load(params, NULL, NULL), TH_ERR_VALUE);
  cr_assert_eq(th_params_load(params, "/nowhere/x", NULL), TH_ERR_IO);
  th_params_free(params);
}

/* Whatever request fails: an error, nothing changed, nothing left behind. */
Test(params_file, memory_ends) {
  th_params *out = two(TH_F32, 1);
  cr_assert_eq(th_params_save(out, PATH, NULL), TH_OK);
  int failures = 0;
  for (size_t n = 1; n < 100; n++) {
    th_params *in = two(TH_F32, 5), *before = two(TH_F32, 5);
    th_error error = {0};
    th__alloc_fail_at(n);
    th_status saved = th_params_save(out, "test_params_file.new", &error);
    th__alloc_fail_at(n);
    th_status loaded = th_params_load(in, PATH, &error);
    th__alloc_fail_at(0);
    cr_assert(saved == TH_OK ||
              (saved == TH_ERR_MEMORY && access("test_params_file.new", F_OK) != 0));
    cr_assert(loaded == TH_OK || loaded == TH_ERR_MEMORY, "%s", error.message);
    same_bytes(loaded == TH_OK ? out : before, in);
    unlink("test_params_file.new");
    th_params_free(in);
    th_params_free(before);
    if (saved == TH_OK && loaded == TH_OK) break;
    failures++;
  }
  cr_assert(failures >= 5 && failures < 50, "%d", failures);
  th_params_free(out);
  unlink(PATH);
}
