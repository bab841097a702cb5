/* source: UTF-8, places in messages, contents that have changed. */
#include "../optim/steps.h"

#include "data/source.h"

static int32_t code_of(const char *bytes, size_t count, size_t *length) {
  *length = 0;
  return th__utf8_next(bytes, count, length);
}

/* Every code point there and back; every cut of it, and every surrogate, refused. */
Test(source, utf8_round_trip) {
  for (uint32_t code = 0; code < 0x110000; code++) {
    char bytes[4];
    int put = th__utf8_put(code, bytes);
    size_t length;
    int32_t got = code_of(bytes, (size_t)put, &length);
    if (code >= 0xD800 && code < 0xE000) {
      cr_assert(got == -1 && length == 0, "surrogate U+%04X", code);
      continue;
    }
    cr_assert(got == (int32_t)code && length == (size_t)put, "U+%04X comes back as U+%04X", code,
              got);
    for (size_t cut = 0; cut < (size_t)put; cut++)
      cr_assert(code_of(bytes, cut, &length) == -1 && length == 0, "U+%04X cut to %zu", code, cut);
  }
}

/* The table of RFC 3629, section 4, at its corners. */
Test(source, utf8_refused) {
  static const char *const bad[] = {"\x80",
                                    "\xBF",
                                    "\xC0\x80",
                                    "\xC1\xBF",
                                    "\xE0\x80\x80",
                                    "\xE0\x9F\xBF",
                                    "\xED\xA0\x80",
                                    "\xED\xBF\xBF",
                                    "\xF0\x80\x80\x80",
                                    "\xF0\x8F\xBF\xBF",
                                    "\xF4\x90\x80\x80",
                                    "\xF5\x80\x80\x80",
                                    "\xF8\x88\x80\x80\x80",
                                    "\xFE",
                                    "\xFF",
                                    "\xC2\x41",
                                    "\xE2\x82\x41",
                                    "\xF0\x9F\x98\x41",
                                    "\xE2\x41\xAC",
                                    "\xC2\xC2"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    size_t length;
    cr_assert(code_of(bad[i], strlen(bad[i]), &length) == -1 && length == 0, "case %zu", i);
  }
}

static th__source source_of(const char *name, const char *bytes) {
  return (th__source){name, bytes, strlen(bytes)};
}

Test(source, places) {
  th_error error = {0};
  th__source s = source_of("book.txt", "ab\n\ncd\n");
  cr_assert_eq(th__source_error(&error, &s, 5, "found %d", 7), TH_ERR_VALUE);
  cr_assert_str_eq(error.message, "book.txt:3: byte offset 5: found 7");
  th__source_error(&error, &s, 0, "x");
  cr_assert_str_eq(error.message, "book.txt:1: byte offset 0: x");
  th__source_error(&error, &s, 2, "x"); /* a line's end belongs to it */
  cr_assert_str_eq(error.message, "book.txt:1: byte offset 2: x");
  /* A long name leaves room for what happened. */
  char name[400] = "";
  for (int i = 0; i < 100; i++) strcat(name, "/\u00e9");
  s.name = name;
  th__source_error(&error, &s, 3,
                   "character 'x' (U+0078) is not in the vocabulary of 12345 characters");
  cr_assert_eq(strncmp(error.message, ".../\u00e9", 6), 0, "%s", error.message);
  cr_assert_not_null(strstr(error.message, "of 12345 characters"));
  th__source_error(NULL, &s, 3, "x");
}

/* FNV-1a of "" and of "foobar", from the authors' list of test vectors. */
Test(source, hash) {
  th__source s = source_of("", "");
  cr_assert_eq(th__source_hash(&s), UINT64_C(0xcbf29ce484222325));
  s = source_of("", "foobar");
  cr_assert_eq(th__source_hash(&s), UINT64_C(0x85944171f73967e8));
}

Test(source, changes_are_noticed_by_file) {
  th__source now[] = {source_of("a.txt", "some text"), source_of("b.txt", "more text")};
  json_t *stored = th__sources_to_json(now, 2);
  cr_assert_not_null(stored);
  cr_assert_eq(th__sources_check(stored, now, 2, NULL), TH_OK);
  now[0].name = "elsewhere/a.txt"; /* moved, the same */
  cr_assert_eq(th__sources_check(stored, now, 2, NULL), TH_OK);
  EXPECT_REFUSED(th__sources_check(stored, now, 1, &error) == TH_OK, TH_ERR_VALUE,
                 "began with 2 text files and is given 1");
  now[1] = source_of("b.txt", "more texT");
  EXPECT_REFUSED(th__sources_check(stored, now, 2, &error) == TH_OK, TH_ERR_VALUE,
                 "b.txt has changed since the run began: it had 9 bytes");
  now[1] = source_of("b.txt", "more text!");
  EXPECT_REFUSED(th__sources_check(stored, now, 2, &error) == TH_OK, TH_ERR_VALUE, "and has 10");
  now[1] = now[0];
  now[0] = source_of("b.txt", "more text"); /* exchanged */
  EXPECT_REFUSED(th__sources_check(stored, now, 2, &error) == TH_OK, TH_ERR_VALUE,
                 "b.txt has changed");
  json_decref(stored);
}

Test(source, rejects_other_json) {
  th__source s = source_of("a", "b");
  static const char *const bad[] = {
      "{}",
      "[1]",
      "[{}]",
      "[{\"file\": \"a\", \"bytes\": 1}]",
      "[{\"file\": \"a\", \"bytes\": \"1\", \"hash\": \"x\"}]",
      "[{\"file\": \"a\", \"bytes\": 1, \"hash\": \"x\", \"more\": 1}]"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    json_t *json = json_loads(bad[i], 0, NULL);
    cr_assert_not_null(json);
    EXPECT_REFUSED(th__sources_check(json, &s, 1, &error) == TH_OK, TH_ERR_IO, "stored list");
    json_decref(json);
  }
  EXPECT_REFUSED(th__sources_check(NULL, &s, 1, &error) == TH_OK, TH_ERR_IO, "no JSON array");
}

/* A name that is not UTF-8 cannot be stored, but the run can. */
Test(source, any_name) {
  th__source s = source_of("\xff", "b");
  json_t *stored = th__sources_to_json(&s, 1);
  cr_assert_not_null(stored);
  cr_assert_eq(th__sources_check(stored, &s, 1, NULL), TH_OK);
  json_decref(stored);
}
