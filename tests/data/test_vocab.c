/* vocab: which symbols, text to ids and back, JSON, comparing tables. C20. */
#include "../optim/steps.h"

#include "data/vocab.h"
#include "tensor/alloc.h"

static th__source source_of(const char *bytes) {
  return (th__source){"book", bytes, strlen(bytes)};
}

static th__vocab *vocab_of(th__vocab_kind kind, const char *bytes) {
  th_error error = {0};
  const th__source source = source_of(bytes);
  th__vocab *vocab = th__vocab_new(kind, &source, 1, &error);
  cr_assert_not_null(vocab, "%s", error.message);
  return vocab;
}

static th__vocab *characters(const char *bytes) { return vocab_of(TH__VOCAB_CHARACTERS, bytes); }

/* ids as expected, and back to the same text. */
static void round_trip(const th__vocab *vocab, const char *text, ptrdiff_t count,
                       const int32_t *want) {
  th_error error = {0};
  const th__source source = source_of(text);
  ptrdiff_t got;
  int32_t *ids = th__vocab_encode(vocab, &source, &got, &error);
  cr_assert_not_null(ids, "%s", error.message);
  cr_assert_eq(got, count, "%td ids", got);
  char back[200] = "", *end = back;
  for (ptrdiff_t i = 0; i < count; i++) {
    cr_assert_eq(ids[i], want[i], "id %td is %d", i, ids[i]);
    if (i > 0) end = stpcpy(end, th__vocab_separator(vocab));
    end += th__vocab_decode(vocab, ids[i], end);
  }
  cr_assert(end - back == (ptrdiff_t)strlen(text) && memcmp(back, text, strlen(text)) == 0, "%s",
            back);
  th__free(ids);
}

Test(vocab, characters) {
  /* U+000A U+0020 a b U+00E9 U+4E2D U+1F600 */
  th__vocab *vocab = characters("ab \u4e2d\u00e9\n\U0001F600\U0001F600");
  cr_assert_eq(th__vocab_size(vocab), 7);
  cr_assert_eq(th__vocab_kind_of(vocab), TH__VOCAB_CHARACTERS);
  static const uint32_t codes[] = {'\n', ' ', 'a', 'b', 0xE9, 0x4E2D, 0x1F600};
  for (int i = 0; i < 7; i++) {
    cr_assert_eq(th__vocab_symbol(vocab, i), codes[i]);
    cr_assert_eq(th__vocab_find(vocab, codes[i]), i);
  }
  static const uint32_t absent[] = {0, 'c', 0xE8, 0x4E2C, 0x1F601, 0x10FFFF, UINT32_MAX};
  for (int i = 0; i < 7; i++) cr_assert_eq(th__vocab_find(vocab, absent[i]), -1);
  round_trip(vocab, "\U0001F600b\u00e9\u4e2d\n", 5, (const int32_t[]){6, 3, 4, 5, 0});
  round_trip(vocab, "", 0, NULL);
  th__vocab_free(vocab);
}

Test(vocab, bytes) {
  th__vocab *vocab = vocab_of(TH__VOCAB_BYTES, "\xff\xc3zaza");
  cr_assert_eq(th__vocab_size(vocab), 4);
  round_trip(vocab,
             "\xc3"
             "a\xff",
             3, (const int32_t[]){2, 0, 3});
  th__vocab_free(vocab);
}

Test(vocab, several_sources) {
  const th__source sources[] = {source_of("ba"), source_of("\u00e9"
                                                           "c")};
  th__vocab *vocab = th__vocab_new(TH__VOCAB_CHARACTERS, sources, 2, NULL);
  cr_assert_eq(th__vocab_size(vocab), 4);
  cr_assert_eq(th__vocab_find(vocab, 0xE9), 3);
  th__vocab_free(vocab);
}

Test(vocab, numbers) {
  th__vocab *vocab = th__vocab_numbers(17, NULL);
  round_trip(vocab, "0 16 3", 3, (const int32_t[]){0, 16, 3});
  const th__source loose = source_of("\n 4\t 05 \r\n");
  ptrdiff_t count;
  int32_t *ids = th__vocab_encode(vocab, &loose, &count, NULL);
  cr_assert(count == 2 && ids[0] == 4 && ids[1] == 5);
  th__free(ids);
  static const char *const bad[][2] = {
      {"1 17", "book:1: byte offset 2: '17' is none of the numbers 0 to 16"},
      {"1\nx", "book:2: byte offset 2: 'x' is none"},
      {"-1", "'-1'"},
      {"1.5", "'1.5'"},
      {"99999999999999999999999", "'99999999999999999999'"}};
  for (int i = 0; i < 5; i++) {
    const th__source source = source_of(bad[i][0]);
    EXPECT_REFUSED(th__vocab_encode(vocab, &source, &count, &error), TH_ERR_VALUE, bad[i][1]);
  }
  th__vocab_free(vocab);
  EXPECT_REFUSED(th__vocab_numbers(0, &error), TH_ERR_VALUE, "0 numbers");
  EXPECT_REFUSED(th__vocab_numbers(PTRDIFF_MAX, &error), TH_ERR_VALUE, "is possible");
}

/* C20: the character, where it stands, and how many there are. */
Test(vocab, unknown_symbols_are_named) {
  th__vocab *three = characters("abc"), *bytes = vocab_of(TH__VOCAB_BYTES, "abc");
  static const char *const cases[][2] = {
      {"ad",
       "book:1: byte offset 1: character 'd' (U+0064) is not in the vocabulary of 3 characters"},
      {"abc\nd", "book:1: byte offset 3: character U+000A is not"},
      {"a\u4e2d", "character '\u4e2d' (U+4E2D) is not"},
      {"\u00a0", "character U+00A0 is not"},
      {"\u202e", "character U+202E is not"},
      {"\U0001F600", "character '\U0001F600' (U+1F600) is not"},
      {"ab\xff", "byte offset 2: byte 0xff begins no valid UTF-8"},
      {"ab\xe4\xb8", "byte offset 2: byte 0xe4 begins no valid UTF-8"}};
  for (int i = 0; i < 8; i++) {
    const th__source source = source_of(cases[i][0]);
    ptrdiff_t count;
    EXPECT_REFUSED(th__vocab_encode(three, &source, &count, &error), TH_ERR_VALUE, cases[i][1]);
  }
  ptrdiff_t count;
  th__source source = source_of("ad");
  EXPECT_REFUSED(th__vocab_encode(bytes, &source, &count, &error), TH_ERR_VALUE,
                 "byte 'd' (0x64) is not in the vocabulary of 3 bytes");
  source = source_of("a\xe9");
  EXPECT_REFUSED(th__vocab_encode(bytes, &source, &count, &error), TH_ERR_VALUE, "byte 0xe9 is not");
  th__vocab_free(three);
  th__vocab_free(bytes);
}

Test(vocab, rejects_texts) {
  th__source sources[] = {source_of("fine"), source_of("a\nb\xc3(")};
  EXPECT_REFUSED(th__vocab_new(TH__VOCAB_CHARACTERS, sources, 2, &error), TH_ERR_VALUE,
                 "book:2: byte offset 3: byte 0xc3 begins no valid UTF-8 character");
  sources[1] = source_of("");
  EXPECT_REFUSED(th__vocab_new(TH__VOCAB_BYTES, sources, 2, &error), TH_ERR_VALUE,
                 "book: the text is empty");
  EXPECT_REFUSED(th__vocab_new(TH__VOCAB_BYTES, sources, 0, &error), TH_ERR_VALUE,
                 "at least one text");
  EXPECT_REFUSED(th__vocab_new(TH__VOCAB_NUMBERS, sources, 1, &error), TH_ERR_VALUE,
                 "bytes or characters");
}

Test(vocab, ids_out_of_range) {
  th__vocab *vocab = characters("abc");
  char bytes[TH__VOCAB_SYMBOL];
  cr_assert_eq(th__vocab_decode(vocab, -1, bytes), 0);
  cr_assert_eq(th__vocab_decode(vocab, 3, bytes), 0);
  cr_assert_eq(th__vocab_decode(vocab, 2, bytes), 1);
  th__vocab_free(vocab);
}

/* ---- JSON ---- */

static void through_json(th__vocab *vocab) {
  json_t *json = th__vocab_to_json(vocab);
  char *text = json_dumps(json, 0);
  json_decref(json);
  json = json_loads(text, 0, NULL);
  th_error error = {0};
  th__vocab *back = th__vocab_from_json(json, &error);
  cr_assert_not_null(back, "%s: %s", text, error.message);
  cr_assert_eq(th__vocab_same("a", vocab, "b", back, &error), TH_OK, "%s", error.message);
  for (ptrdiff_t i = 0; i < th__vocab_size(vocab); i++)
    cr_assert_eq(th__vocab_find(back, th__vocab_symbol(vocab, i)), i);
  json_decref(json);
  free(text);
  th__vocab_free(vocab);
  th__vocab_free(back);
}

Test(vocab, json) {
  through_json(characters("ab \u4e2d\u00e9\n\U0001F600"));
  through_json(vocab_of(TH__VOCAB_BYTES, "\xff\x01"));
  through_json(th__vocab_numbers(33, NULL));
  th__vocab *vocab = characters("ba");
  json_t *json = th__vocab_to_json(vocab);
  char *text = json_dumps(json, JSON_SORT_KEYS);
  cr_assert_str_eq(text, "{\"kind\": \"characters\", \"symbols\": [97, 98]}");
  free(text);
  json_decref(json);
  th__vocab_free(vocab);
}

Test(vocab, rejects_other_json) {
  static const char *const bad[] = {"[]",
                                    "{}",
                                    "{\"kind\": 1, \"symbols\": [97]}",
                                    "{\"kind\": \"words\", \"symbols\": [97]}",
                                    "{\"kind\": \"bytes\"}",
                                    "{\"kind\": \"bytes\", \"symbols\": \"ab\"}",
                                    "{\"kind\": \"bytes\", \"symbols\": []}",
                                    "{\"kind\": \"bytes\", \"symbols\": [256]}",
                                    "{\"kind\": \"bytes\", \"symbols\": [-1]}",
                                    "{\"kind\": \"bytes\", \"symbols\": [97.0]}",
                                    "{\"kind\": \"bytes\", \"symbols\": [98, 97]}",
                                    "{\"kind\": \"bytes\", \"symbols\": [97, 97]}",
                                    "{\"kind\": \"bytes\", \"symbols\": [97], \"size\": 1}",
                                    "{\"kind\": \"characters\", \"symbols\": [55296]}",
                                    "{\"kind\": \"characters\", \"symbols\": [1114112]}",
                                    "{\"kind\": \"characters\", \"symbols\": [4294967393]}",
                                    "{\"kind\": \"characters\", \"symbols\": [null]}",
                                    "{\"kind\": \"characters\", \"size\": 3}",
                                    "{\"kind\": \"numbers\", \"size\": 0}",
                                    "{\"kind\": \"numbers\", \"size\": 1.5}",
                                    "{\"kind\": \"numbers\", \"size\": 4294967297}",
                                    "{\"kind\": \"numbers\", \"symbols\": [1]}"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    json_t *json = json_loads(bad[i], 0, NULL);
    cr_assert_not_null(json, "case %zu", i);
    EXPECT_REFUSED(th__vocab_from_json(json, &error), TH_ERR_IO, "vocabulary");
    json_decref(json);
  }
  EXPECT_REFUSED(th__vocab_from_json(NULL, &error), TH_ERR_IO, "no JSON object");
}

/* ---- comparing ---- */

/* C20: tables of one length that differ are not the same. */
Test(vocab, the_table_is_compared) {
  th__vocab *a = characters("abc"), *b = characters("abd"), *longer = characters("abcd"),
            *bytes = vocab_of(TH__VOCAB_BYTES, "abc"), *same = characters("cba");
  cr_assert_eq(th__vocab_same("a", a, "same", same, NULL), TH_OK);
  EXPECT_REFUSED(th__vocab_same("run.safetensors", a, "the text", b, &error) == TH_OK, TH_ERR_VALUE,
                 "the vocabulary of run.safetensors has 3 characters, that of the text 3; the first "
                 "difference: id 2 is 'c' (U+0063) in the former and 'd' (U+0064) in the latter");
  EXPECT_REFUSED(th__vocab_same("a", a, "longer", longer, &error) == TH_OK, TH_ERR_VALUE,
                 "id 3 is nothing in the former and 'd'");
  EXPECT_REFUSED(th__vocab_same("longer", longer, "a", a, &error) == TH_OK, TH_ERR_VALUE,
                 "id 3 is 'd' (U+0064) in the former and nothing in the latter");
  EXPECT_REFUSED(th__vocab_same("a", a, "bytes", bytes, &error) == TH_OK, TH_ERR_VALUE,
                 "of a is characters, that of bytes is bytes");
  th__vocab *x = th__vocab_numbers(3, NULL), *y = th__vocab_numbers(4, NULL);
  cr_assert_eq(th__vocab_same("x", x, "x", x, NULL), TH_OK);
  EXPECT_REFUSED(th__vocab_same("x", x, "y", y, &error) == TH_OK, TH_ERR_VALUE,
                 "has 3 numbers, that of y 4");
  th__vocab *all[] = {a, b, longer, bytes, same, x, y};
  for (int i = 0; i < 7; i++) th__vocab_free(all[i]);
}

Test(vocab, every_allocation_may_fail) {
  const th__source source = source_of("abc");
  for (size_t n = 1; n <= 2; n++) { /* where symbols are marked, the table */
    th_error error = {0};
    th__alloc_fail_at(n);
    cr_assert_null(th__vocab_new(TH__VOCAB_BYTES, &source, 1, &error));
    th__alloc_fail_at(0);
    cr_assert_eq(error.status, TH_ERR_MEMORY);
  }
  th__vocab *vocab = characters("abc");
  json_t *json = th__vocab_to_json(vocab);
  for (size_t n = 1; n <= 2; n++) { /* the codes, the table */
    th_error error = {0};
    th__alloc_fail_at(n);
    cr_assert_null(th__vocab_from_json(json, &error));
    th__alloc_fail_at(0);
    cr_assert_eq(error.status, TH_ERR_MEMORY);
  }
  th_error error = {0};
  ptrdiff_t count;
  th__alloc_fail_at(1);
  cr_assert_null(th__vocab_copy(vocab, &error));
  cr_assert_null(th__vocab_encode(vocab, &source, &count, &error));
  th__alloc_fail_at(0);
  json_decref(json);
  th__vocab_free(vocab);
}
