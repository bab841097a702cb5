/* Headers of safetensors files: whatever does not add up is refused, with the tensor and the field (C23);
 * what is merely unusual is read. */
#include "io/safetensors.h"

#include "io/safetensors_files.h"
#include "tensor/alloc.h"

#define ONE(dtype, shape, offsets)                                                                 \
  "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

Test(safetensors, offsets_that_disagree) {
  refused(ONE("\"F32\"", "[1000,1000]", "[0,4]"), 4,
          "tensor \"a\": data_offsets [0, 4] hold 4 bytes, but shape [1000, 1000] F32 is 4000000");
  refused(ONE("\"F32\"", "[2]", "[8,0]"), 8,
          "tensor \"a\": data_offsets [8, 0] end before they begin");
  refused(ONE("\"F32\"", "[2]", "[0,12]"), 8,
          "tensor \"a\": data_offsets [0, 12] are out of the file, which has 8 bytes");
  refused(ONE("\"F32\"", "[2]", "[-8,0]"), 8, "tensor \"a\": data_offsets[0] is -8; a whole number");
  refused(ONE("\"F32\"", "[2]", "[0,8.5]"), 8, "tensor \"a\": data_offsets[1] is 8.5; a whole");
  refused(ONE("\"F32\"", "[2]", "[0,8.0]"), 8, "tensor \"a\": data_offsets[1] is 8.0; a whole");
  refused(ONE("\"F32\"", "[2]", "[0,1e300]"), 8,
          "tensor \"a\": data_offsets[1] is 1.0000000000000001e+300; a");
  refused(ONE("\"F32\"", "[2]", "[0,\"8\"]"), 8, "data_offsets[1] is a string");
  refused(ONE("\"F32\"", "[2]", "[0]"), 8, "tensor \"a\": data_offsets is of another length");
  refused(ONE("\"F32\"", "[2]", "[0,4,8]"), 8, "tensor \"a\": data_offsets is of another length");
  refused(ONE("\"F32\"", "[2]", "{}"), 8, "tensor \"a\": data_offsets is an object");
  refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "tensor \"a\": data_offsets is missing");
}

/* Beyond 2^63 the JSON library gives up; the field is named all the same. */
Test(safetensors, numbers_beyond_any_integer) {
  refused(ONE("\"F32\"", "[2]", "[0,18446744073709551615]"), 8,
          "tensor \"a\": data_offsets[1] is 1.8446744073709552e+19; a whole number");
  refused(ONE("\"F32\"", "[99999999999999999999999]", "[0,0]"), 0, "tensor \"a\": shape[0] is 9.9");
  refused(ONE("\"F32\"", "[-99999999999999999999999]", "[0,0]"), 0,
          "tensor \"a\": shape[0] is -9.9");
  refused(ONE("\"F32\"", "[1e999]", "[0,0]"), 0, "no valid JSON: real number overflow");
}

Test(safetensors, shapes_that_wrap) {
  refused(ONE("\"F32\"", "[4611686018427387904,4]", "[0,0]"), 0,
          "tensor \"a\": shape: the product of the sizes overflows at shape[1] = 4");
  refused(ONE("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0,
          "overflows at shape[1] = 4294967296");
  refused(ONE("\"U8\"", "[4294967296,4294967296,0]", "[0,0]"), 0, "overflows at shape[1]");
  refused(ONE("\"F64\"", "[2305843009213693952]", "[0,0]"), 0,
          "tensor \"a\": shape: 2305843009213693952 elements of F64 overflow");
  refused(ONE("\"F32\"", "[-1]", "[0,4]"), 4, "tensor \"a\": shape[0] is -1");
  refused(ONE("\"F32\"", "[2,0.5]", "[0,4]"), 4, "tensor \"a\": shape[1] is 0.5");
  refused(ONE("\"F32\"", "[true]", "[0,4]"), 4, "tensor \"a\": shape[0] is true");
  refused(ONE("\"F32\"", "[[1]]", "[0,4]"), 4, "tensor \"a\": shape[0] is an array");
  refused(ONE("\"F32\"", "1", "[0,4]"), 4, "tensor \"a\": shape is 1; an array");
  refused(ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "tensor \"a\": shape has 9 dimensions");
}

Test(safetensors, unknown_types) {
  refused(ONE("\"F33\"", "[1]", "[0,4]"), 4, "tensor \"a\": dtype \"F33\" is unknown");
  refused(ONE("\"f32\"", "[1]", "[0,4]"), 4, "tensor \"a\": dtype \"f32\" is unknown");
  refused(ONE("\"\"", "[1]", "[0,4]"), 4, "tensor \"a\": dtype \"\" is unknown");
  refused(ONE("32", "[1]", "[0,4]"), 4, "tensor \"a\": dtype is 32; a string");
  refused("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor \"a\": dtype is missing");
  refused("{\"a\":[]}", 0, "tensor \"a\" is an array; an object is expected");
}

#define AT(name, begin, end)                                                                       \
  "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" begin "," end "]}"

Test(safetensors, places) {
  refused("{" AT("a", "0", "4") "," AT("b", "2", "6") "}", 6,
          "tensor \"b\": data_offsets begin at 2, inside of \"a\", which ends at 4");
  refused("{" AT("a", "0", "4") "," AT("b", "0", "4") "}", 4,
          "tensor \"b\": data_offsets begin at 0");
  refused("{" AT("b", "5", "9") "," AT("a", "0", "4") "}", 9,
          "tensor \"b\": data_offsets begin at 5 and leave a gap behind 4");
  refused("{" AT("a", "1", "5") "}", 5, "leave a gap behind 0");
  refused("{" AT("a", "0", "4") "}", 7,
          "the tensors end at 4, but there are 7 bytes of data: 3 trail");
  refused("{}", 1, "1 trailing bytes");
  refused("{" AT("a", "0", "4") "," AT("a", "4", "8") "}", 8, "duplicate object key near '\"a\"'");
  refused("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
          "duplicate object key");
  refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate object key");
}

Test(safetensors, headers_that_are_none) {
  refused("", 0, "must begin with {");
  refused("[]", 0, "must begin with {");
  refused(" {}", 0, "must begin with {");
  refused("{", 0, "no valid JSON");
  refused("{}x", 0, "no valid JSON");
  refused("{\"a\":{}", 0, "no valid JSON");
  refused("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: \"a\" is 1; a string is expected");
  refused("{\"__metadata__\":{\"a\":null}}", 0, "__metadata__: \"a\" is null");
  refused("{\"__metadata__\":\"a\"}", 0, "__metadata__ is a string; an object");
  refused("{\"a\\u0000b\":1}", 0, "no valid JSON");
  refused("{\"a\xff\":1}", 0, "no valid JSON");
  refused("{\"\xed\xa0\x80\":1}", 0, "no valid JSON"); /* a surrogate */
}

Test(safetensors, zero_bytes_and_deep_nesting) {
  static unsigned char file[20000];
  refused_bytes(file, lay_out(file, "{\0}", 3, 0), "no valid JSON");
  refused_bytes(file, lay_out(file, "{}\0", 3, 0), "no valid JSON");
  enum { DEEP = 9000 };
  static char header[2 * DEEP + 16];
  snprintf(header, sizeof header, "{\"a\":");
  memset(header + 5, '[', DEEP);
  memset(header + 5 + DEEP, ']', DEEP);
  header[5 + 2 * DEEP] = '}';
  refused_bytes(file, lay_out(file, header, 6 + 2 * DEEP, 0),
                "no valid JSON: maximum parsing depth");
}

Test(safetensors, lengths_that_lie) {
  unsigned char file[64];
  size_t count = lay_out(file, "{}", 2, 0);
  refused_bytes(file, 0, "it has 0 bytes; a safetensors file begins with 8");
  refused_bytes(file, 7, "it has 7 bytes");
  file[0] = 3;
  refused_bytes(file, count, "the header's length is 3, but 2 bytes follow");
  memset(file, 0xff, 8);
  refused_bytes(file, count, "the header's length is 18446744073709551615");
  memset(file, 0, 8);
  refused_bytes(file, count, "must begin with {");
}

/* A header may be as long as the reference allows, and no longer, whatever follows. */
Test(safetensors, longest_header) {
  size_t limit = (size_t)TH__HEADER_LIMIT;
  unsigned char *file = malloc(limit + 16);
  cr_assert_not_null(file);
  memset(file, ' ', limit + 16);
  file[8] = '{';
  file[9] = '}';
  for (int more = 0; more < 2; more++) {
    uint64_t length = limit + (uint64_t)more;
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)(length >> 8 * i);
    th_error error = {0};
    th__safetensors *read = th__safetensors_parse("x", file, (size_t)length + 8, &error);
    cr_assert_eq(read != NULL, more == 0, "%s", error.message);
    if (more == 1) cr_assert_not_null(strstr(error.message, "100000000 are the limit"));
    th__safetensors_close(read);
  }
  free(file);
}

/* Control characters of a name do not reach the terminal, and long names are cut between characters. */
Test(safetensors, names_in_messages) {
  refused("{\"a\\u001b[2J\":1}", 0, "tensor \"a?[2J\" is 1");
  char header[512], name[301] = "";
  for (int i = 0; i < 100; i++) memcpy(name + 3 * i, "\xe2\x82\xac", 3);
  snprintf(header, sizeof header, "{\"x%s\":1}", name);
  refused(header, 0, "\xe2\x82\xac...\" is 1");
}

/* ---- legal ---- */

Test(safetensors, unusual_but_legal) {
  th__safetensors_close(accepted("{}", 0));
  th__safetensors_close(accepted("{}      \n\t", 0));
  th__safetensors *file =
      accepted("{\"z\":{\"data_offsets\":[4,8],\"shape\":[],\"dtype\":\"F32\",\"more\":[1]},"
               "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[4,4]},"
               "\"a\":{\"shape\":[2,1,2],\"dtype\":\"U8\",\"data_offsets\":[0,4]},"
               "\"end\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[8,8]},"
               "\"__metadata__\":{\"k\":\"v\",\"\":\"\"}}   ",
               8);
  cr_assert_eq(th__safetensors_count(file), 4);
  cr_assert_eq(th__safetensors_bytes(file), 8);
  const char *order[] = {"a", "empty", "z", "end"};
  for (int i = 0; i < 4; i++) cr_assert_str_eq(th__safetensors_at(file, i)->name, order[i]);
  cr_assert_null(th__safetensors_at(file, 4));
  cr_assert_null(th__safetensors_at(file, -1));
  cr_assert_null(th__safetensors_find(file, "b"));
  char text[TH__ENTRY_TEXT];
  cr_assert_str_eq(th__entry_text(text, th__safetensors_find(file, "a")), "[2, 1, 2] U8");
  cr_assert_eq(th__safetensors_find(file, "z")->ndim, 0);
  cr_assert_eq(th__safetensors_find(file, "z")->count, 1);
  cr_assert_eq(th__safetensors_find(file, "empty")->count, 0);
  cr_assert_str_eq(json_string_value(json_object_get(th__safetensors_metadata(file), "k")), "v");
  th__safetensors_close(file);
}

Test(safetensors, eight_dimensions_and_types_known_by_size) {
  static const char *const types[] = {"U16", "U32", "U64", "C64", "F8_E4M3", "F8_E5M2", "F8_E8M0"};
  static const size_t sizes[] = {2, 4, 8, 8, 1, 1, 1};
  for (int i = 0; i < 7; i++) {
    char header[200];
    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"%s\",\"shape\":[1,2,1,1,1,1,1,1],\"data_offsets\":[0,%zu]}}",
             types[i], 2 * sizes[i]);
    th__safetensors *file = accepted(header, 2 * sizes[i]);
    th_error error = {0};
    cr_assert_null(th__safetensors_load(file, th__safetensors_at(file, 0), &error));
    cr_assert_not_null(strstr(error.message, "is not read"), "%s", error.message);
    th__safetensors_close(file);
  }
}

Test(safetensors, what_is_no_file) {
  th_error error = {0};
  cr_assert_null(th__safetensors_open("/nowhere/x", &error));
  cr_assert_str_eq(error.message, "/nowhere/x: cannot open: No such file or directory");
  cr_assert_null(th__safetensors_open("/dev/zero", &error));
  cr_assert_str_eq(error.message, "/dev/zero: cannot open: it is no regular file");
  cr_assert_null(th__safetensors_open("/", &error));
  cr_assert_eq(error.status, TH_ERR_IO);
}

Test(safetensors, memory_ends) {
  static unsigned char bytes[1024];
  const char *header = ONE("\"U8\"", "[4]", "[0,4]");
  size_t count = lay_out(bytes, header, strlen(header), 4);
  int failures = 0;
  for (size_t n = 1; n < 100; n++) {
    th_error error = {0};
    th__alloc_fail_at(n);
    th__safetensors *file = th__safetensors_parse("x", bytes, count, &error);
    th__alloc_fail_at(0);
    if (file != NULL) {
      th__safetensors_close(file);
      break;
    }
    cr_assert_eq(error.status, TH_ERR_MEMORY, "%zu: %s", n, error.message);
    failures++;
  }
  cr_assert_eq(failures, 4);
}
