/* safetensors_files.h: files made by hand for the tests of reading. */
#ifndef TESTS_IO_SAFETENSORS_FILES_H
#define TESTS_IO_SAFETENSORS_FILES_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/safetensors.h"

/* A file of a header (any bytes) and `count` bytes of data, 0, 1, 2, ... Returns its size. */
static inline size_t lay_out(unsigned char *file, const char *header, size_t length, size_t count) {
  for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)length >> 8 * i);
  memcpy(file + 8, header, length);
  for (size_t i = 0; i < count; i++) file[8 + length + i] = (unsigned char)i;
  return 8 + length + count;
}

static inline void keep(const char *path, const void *bytes, size_t count) {
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file);
  cr_assert_eq(fwrite(bytes, 1, count, file), count);
  cr_assert_eq(fclose(file), 0);
}

/* Refused from memory and from a file alike, with a sentence that contains the text. */
static inline void refused_bytes(const void *bytes, size_t count, const char *sentence) {
  th_error error = {0};
  const char *path = "test_safetensors.bad";
  cr_assert_null(th__safetensors_parse("x", bytes, count, &error), "%s", sentence);
  cr_assert_eq(error.status, TH_ERR_IO, "%s", error.message);
  cr_assert_not_null(strstr(error.message, sentence), "\"%s\" lacks \"%s\"", error.message,
                     sentence);
  cr_assert_null(th__safetensors_parse("x", bytes, count, NULL));
  keep(path, bytes, count);
  error = (th_error){0};
  cr_assert_null(th__safetensors_open(path, &error), "%s", sentence);
  cr_assert_not_null(strstr(error.message, sentence), "\"%s\" lacks \"%s\"", error.message,
                     sentence);
  unlink(path);
}

static inline void refused(const char *header, size_t count, const char *sentence) {
  static unsigned char file[1 << 16];
  refused_bytes(file, lay_out(file, header, strlen(header), count), sentence);
}

static inline th__safetensors *accepted(const char *header, size_t count) {
  static unsigned char file[1 << 16];
  th_error error = {0};
  th__safetensors *read =
      th__safetensors_parse("x", file, lay_out(file, header, strlen(header), count), &error);
  cr_assert_not_null(read, "%s: %s", header, error.message);
  return read;
}

#endif
