/* text: bytes and characters, several files, the two parts, batches that depend on seed and number only,
 * windows, bad input. */
#include "../optim/steps.h"

#include "data/text.h"
#include "tensor/alloc.h"

enum { SEQ = 5, BATCH = 7 };

static th__source file;

static th__text_options options_of(const void *bytes, size_t count) {
  file = (th__source){"book", bytes, count};
  return (th__text_options){.files = &file, .file_count = 1, .seq = SEQ, .batch = BATCH, .seed = 1};
}

static th__text *make_text(th__text_options options) {
  th_error error = {0};
  th__text *text = th__text_new(&options, &error);
  cr_assert_not_null(text, "%s", error.message);
  return text;
}

/* Every place of a text of 256 bytes says where it is: byte i is i. The vocabulary is then all bytes,
 * and a symbol is its own place. */
static void fill_places(uint8_t bytes[256]) {
  for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
}

Test(text, symbols_are_the_bytes_that_occur_in_order) {
  static const char bytes[] = "zebra\0zebra\0zebra\0zebra\xff zebra zebra zebra zebra zebra zebra";
  th__text_options o = options_of(bytes, sizeof bytes - 1);
  o.seq = 1;
  th__text *text = make_text(o);
  /* \0 space a b e r z \xff */
  cr_assert_eq(th__text_vocab(text), 8);
  bool followed_by[8][8] = {{0}};
  for (uint64_t number = 0; number < 100; number++) {
    th_batch batch = th__text_batch(text, false, number);
    const int32_t *token = th_tensor_data(batch.tokens), *target = th_tensor_data(batch.targets);
    for (int row = 0; row < BATCH; row++) followed_by[token[row]][target[row]] = true;
  }
  enum { NUL, SPACE, A, B, E, R, Z, FF };
  static const int after[8][3] = {
      [NUL] = {Z, -1}, [SPACE] = {Z, -1}, [A] = {NUL, SPACE, FF}, [B] = {R, -1},
      [E] = {B, -1},   [R] = {A, -1},     [Z] = {E, -1},          [FF] = {SPACE, -1}};
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) {
      bool wanted = false;
      for (int k = 0; k < 3 && after[i][k] >= 0; k++) wanted = wanted || after[i][k] == j;
      cr_assert_eq(followed_by[i][j], wanted, "symbol %d after %d", j, i);
    }
  th__text_free(text);
}

/* Passages lie within their part, up to both of its ends, and targets are the next bytes. */
Test(text, passages_cover_their_part_and_no_other) {
  uint8_t bytes[256];
  fill_places(bytes);
  th__text *text = make_text(options_of(bytes, 256));
  cr_assert_eq(th__text_vocab(text), 256);
  for (int heldout = 0; heldout < 2; heldout++) {
    bool starts[256] = {false};
    for (uint64_t number = 0; number < 500; number++) {
      th_batch batch = th__text_batch(text, heldout, number);
      cr_assert(th_tensor_dim(batch.tokens, 0) == BATCH && th_tensor_dim(batch.tokens, 1) == SEQ);
      const int32_t *token = th_tensor_data(batch.tokens), *target = th_tensor_data(batch.targets);
      for (int row = 0; row < BATCH; row++, token += SEQ, target += SEQ) {
        starts[token[0]] = true;
        for (int i = 0; i < SEQ; i++) {
          cr_assert_eq(token[i], token[0] + i);
          cr_assert_eq(target[i], token[0] + i + 1);
        }
      }
    }
    /* 231 bytes to train on: 0 .. 230; 25 held out. The last target is a part's last byte. */
    int first = heldout ? 231 : 0, last = (heldout ? 255 : 230) - SEQ;
    for (int i = 0; i < 256; i++)
      cr_assert_eq(starts[i], i >= first && i <= last, "part %d starts at %d", heldout, i);
  }
  th__text_free(text);
}

/* C19: a batch depends on seed, part and number, not on what was asked for before. */
Test(text, batches_depend_on_seed_and_number_only) {
  uint8_t bytes[256];
  int32_t seen[3][BATCH * SEQ];
  fill_places(bytes);
  th__text *text = make_text(options_of(bytes, 256));
  for (uint64_t i = 0; i < 3; i++) {
    memcpy(seen[i], th_tensor_data(th__text_batch(text, false, i).tokens), sizeof seen[i]);
    th__text_batch(text, true, i);
  }
  th__text_free(text);
  text = make_text(options_of(bytes, 256));
  for (uint64_t i = 3; i-- > 0;)
    cr_assert_eq(
        memcmp(th_tensor_data(th__text_batch(text, false, i).tokens), seen[i], sizeof seen[i]), 0);
  cr_assert_neq(memcmp(seen[0], seen[1], sizeof seen[0]), 0);
  th__text_free(text);
  th__text_options o = options_of(bytes, 256);
  o.seed = 2;
  text = make_text(o);
  cr_assert_neq(
      memcmp(th_tensor_data(th__text_batch(text, false, 0).tokens), seen[0], sizeof seen[0]), 0);
  th__text_free(text);
}

Test(text, keeps_no_reference) {
  char bytes[] = "to be or not to be, that is the question: to be or not to be, to be or not";
  th__text *text = make_text(options_of(bytes, sizeof bytes - 1));
  int32_t before[BATCH * SEQ];
  memcpy(before, th_tensor_data(th__text_batch(text, true, 0).tokens), sizeof before);
  memset(bytes, 'x', sizeof bytes);
  cr_assert_eq(memcmp(th_tensor_data(th__text_batch(text, true, 0).tokens), before, sizeof before),
               0);
  th__text_free(text);
}

/* The shortest text has one place for a held-out passage. */
Test(text, shortest) {
  uint8_t bytes[256];
  fill_places(bytes);
  th__text *text = make_text(options_of(bytes, 10 * (SEQ + 1)));
  const int32_t *token = th_tensor_data(th__text_batch(text, true, 0).tokens);
  for (int row = 0; row < BATCH; row++) cr_assert_eq(token[row * SEQ], 54);
  th__text_free(text);
}

static void refused(th__text_options options, const char *sentence) {
  th_error error = {0};
  cr_assert_null(th__text_new(&options, &error));
  cr_assert_eq(error.status, TH_ERR_VALUE, "%s", error.message);
  cr_assert_not_null(strstr(error.message, sentence), "\"%s\" does not contain \"%s\"",
                     error.message, sentence);
}

Test(text, rejects) {
  uint8_t bytes[256];
  fill_places(bytes);
  refused(options_of(bytes, 0), "book: the text is empty");
  refused(options_of(bytes, 59), "book: 59 bytes are 54 to train on and 5 held out");
  refused(options_of(bytes, 59), "a text of at least 60 bytes");
  refused(options_of(bytes, 1), "0 held out");
  th__text_options o = options_of(bytes, 256);
  o.seq = 0;
  refused(o, "seq 0");
  o.seq = PTRDIFF_MAX;
  refused(o, "is possible");
  o.seq = SEQ;
  o.batch = -1;
  refused(o, "batch -1");
  o.batch = PTRDIFF_MAX;
  refused(o, "is possible");
  th__text_free(NULL);
}

Test(text, every_allocation_may_fail) {
  uint8_t bytes[256];
  fill_places(bytes);
  th__text_options o = options_of(bytes, 256);
  th__text *text = NULL;
  size_t n = 0;
  while (text == NULL) {
    th_error error = {0};
    th__alloc_fail_at(++n);
    text = th__text_new(&o, &error);
    th__alloc_fail_at(0);
    if (text == NULL) cr_assert_eq(error.status, TH_ERR_MEMORY, "%s", error.message);
  }
  cr_assert_eq(
      n, 9u); /* itself, vocabulary twice, ids, two tensors of two blocks; the ninth is beyond */
  size_t before = th__alloc_count();
  for (uint64_t i = 0; i < 10; i++) th__text_batch(text, i % 2, i);
  cr_assert_eq(th__alloc_count(), before);
  th__text_free(text);
}

/* ---- characters ---- */

static th__source source_of(const char *name, const char *bytes) {
  return (th__source){name, bytes, strlen(bytes)};
}

/* The parts are of symbols, whatever their length in bytes, and no character is cut. */
Test(text, characters) {
  char bytes[4 * 100 + 1] = "", *end = bytes;
  for (uint32_t i = 0; i < 100; i++) end += th__utf8_put(i < 50 ? 0x4E00 + i : 0x1F600 + i, end);
  th__text_options o = options_of(bytes, (size_t)(end - bytes));
  o.kind = TH__VOCAB_CHARACTERS;
  th__text *text = make_text(o);
  cr_assert_eq(th__text_vocab(text), 100);
  cr_assert_eq(th__text_length(text, false), 90);
  cr_assert_eq(th__text_length(text, true), 10);
  th_batch batch = th__text_batch(text, true, 0);
  const int32_t *token = th_tensor_data(batch.tokens);
  for (int i = 0; i < BATCH * SEQ; i++) cr_assert(token[i] >= 90 && token[i] < 100);
  th__text_free(text);
  bytes[7] = '(';
  EXPECT_REFUSED(th__text_new(&o, &error), TH_ERR_VALUE, "book:1: byte offset 6: byte 0xe4");
}

/* More than 256 symbols, more than 65536: ids of 2 and of 4 bytes. */
Test(text, wide_ids) {
  static char bytes[4 * 70000];
  static const ptrdiff_t sizes[] = {256, 257, 65536, 65537, 70000};
  for (int k = 0; k < 5; k++) {
    char *end = bytes;
    for (uint32_t i = 0; i < (uint32_t)sizes[k]; i++) end += th__utf8_put(0x10000 + i, end);
    th__text_options o = options_of(bytes, (size_t)(end - bytes));
    o.kind = TH__VOCAB_CHARACTERS;
    th__text *text = make_text(o);
    cr_assert_eq(th__text_vocab(text), sizes[k]);
    ptrdiff_t last = th__text_windows(text, true, 0) - 1;
    th_batch batch = th__text_window_batch(text, true, 0, last / BATCH);
    const int32_t *target = th_tensor_data(batch.targets);
    cr_assert_eq(target[(last % BATCH + 1) * SEQ - 1], sizes[k] - 1);
    th__text_free(text);
  }
  cr_assert_eq(th__text_bytes(100, 256), 100);
  cr_assert_eq(th__text_bytes(100, 257), 200);
  cr_assert_eq(th__text_bytes(100, 65537), 400);
}

/* ---- several files ---- */

/* What the windows of a part hold, first symbol included. Returns its length. */
static ptrdiff_t read_part(th__text *text, bool heldout, char *out) {
  ptrdiff_t count = 0, windows = th__text_windows(text, heldout, 0);
  for (ptrdiff_t number = 0; number * BATCH < windows; number++) {
    th_batch batch = th__text_window_batch(text, heldout, 0, number);
    const int32_t *token = th_tensor_data(batch.tokens), *target = th_tensor_data(batch.targets);
    if (number == 0) count += th__vocab_decode(th__text_symbols(text), token[0], out);
    for (int i = 0; i < BATCH * SEQ; i++)
      if (target[i] != TH_IGNORE)
        count += th__vocab_decode(th__text_symbols(text), target[i], out + count);
  }
  out[count] = '\0';
  return count;
}

Test(text, files_are_joined) {
  const th__source files[] = {source_of("a", "to be or not "), source_of("b", "to be, that is"),
                              source_of("c", " the question: whether 'tis nobler")};
  th__text_options o = {
      .files = files, .file_count = 3, .seq = SEQ, .batch = BATCH, .seed = 1, .heldout = 0.25};
  th__text *text = make_text(o);
  char part[100];
  cr_assert_eq(read_part(text, false, part), 61 - 15);
  cr_assert_str_eq(part, "to be or not to be, that is the question: whet");
  cr_assert_eq(read_part(text, true, part), 15);
  cr_assert_str_eq(part, "her 'tis nobler");
  th__text_free(text);
}

Test(text, validation_files) {
  const th__source files[] = {source_of("a", "abcdefgh"), source_of("b", "abcd")},
                   validation[] = {source_of("v", "hgfe"), source_of("w", "dcba")};
  th__text_options o = {.files = files,
                        .file_count = 2,
                        .validation = validation,
                        .validation_count = 2,
                        .seq = SEQ,
                        .batch = BATCH};
  th__text *text = make_text(o);
  char part[100];
  read_part(text, false, part);
  cr_assert_str_eq(part, "abcdefghabcd");
  read_part(text, true, part);
  cr_assert_str_eq(part, "hgfedcba");
  th__text_free(text);
}

/* C20: a character that training never saw. */
Test(text, unknown_in_the_validation_part) {
  const th__source files[] = {source_of("a", "abc abc abc")},
                   validation[] = {source_of("v", "abc abc"), source_of("w", "abc\nabd")};
  th__text_options o = {.files = files,
                        .file_count = 1,
                        .validation = validation,
                        .validation_count = 2,
                        .kind = TH__VOCAB_CHARACTERS,
                        .seq = SEQ,
                        .batch = BATCH};
  EXPECT_REFUSED(th__text_new(&o, &error), TH_ERR_VALUE,
                 "w:1: byte offset 3: character U+000A is not in the vocabulary of 4 characters");
  o.validation_count = 1;
  th__text *text = make_text(o);
  /* C20: a resume brings its vocabulary, and the text must fit it. */
  const th__source more[] = {source_of("a", "abc abc\nabd abc")};
  o.vocab = th__text_symbols(text);
  o.files = more;
  EXPECT_REFUSED(th__text_new(&o, &error), TH_ERR_VALUE, "a:1: byte offset 7: character U+000A");
  const th__source fewer[] = {source_of("a", "ab ab ab ab")};
  o.files = fewer;
  th__text *again = make_text(o);
  cr_assert_eq(th__text_vocab(again), 4);
  th__text_free(text);
  th__text_free(again);
}

/* ---- windows ---- */

/* Every symbol of a part but the first is a target once, in order, whatever is left over at the end. */
Test(text, windows_cover_the_part_once) {
  uint8_t bytes[256];
  fill_places(bytes);
  for (size_t count = 10 * (SEQ + 1); count <= 256; count++) {
    th__text *text = make_text(options_of(bytes, count));
    for (int heldout = 0; heldout < 2; heldout++) {
      ptrdiff_t first = heldout ? th__text_length(text, false) : 0, next = first + 1;
      ptrdiff_t windows = th__text_windows(text, heldout, 0);
      for (ptrdiff_t number = 0; number * BATCH < windows; number++) {
        th_batch batch = th__text_window_batch(text, heldout, 0, number);
        const int32_t *token = th_tensor_data(batch.tokens), *target = th_tensor_data(batch.targets);
        for (int i = 0; i < BATCH * SEQ; i++) {
          if (target[i] == TH_IGNORE) continue;
          cr_assert(target[i] == next++ && token[i] == target[i] - 1);
          cr_assert(number * BATCH + i / SEQ < windows);
        }
      }
      cr_assert_eq(next, first + th__text_length(text, heldout), "%zu bytes", count);
    }
    th__text_free(text);
  }
}

/* A choice of windows: as many as asked for, each one of the whole set, evenly spaced, always the same. */
Test(text, some_windows) {
  uint8_t bytes[256];
  fill_places(bytes);
  th__text *text = make_text(options_of(bytes, 256));
  ptrdiff_t all = th__text_windows(text, false, 0); /* 230 targets: 46 windows */
  cr_assert_eq(all, 46);
  cr_assert_eq(th__text_windows(text, false, 1000), 46);
  for (ptrdiff_t most = 1; most <= 46; most++) {
    cr_assert_eq(th__text_windows(text, false, most), most);
    ptrdiff_t last = -1, rows = 0;
    for (ptrdiff_t number = 0; number * BATCH < most; number++) {
      const int32_t *target =
          th_tensor_data(th__text_window_batch(text, false, most, number).targets);
      for (int row = 0; row < BATCH; row++) {
        if (target[row * SEQ] == TH_IGNORE) continue;
        ptrdiff_t window = (target[row * SEQ] - 1) / SEQ;
        cr_assert_eq((target[row * SEQ] - 1) % SEQ, 0);
        if (last < 0) cr_assert_eq(window, 0);
        if (last >= 0) cr_assert(window - last >= all / most && window - last <= all / most + 1);
        last = window;
        rows++;
      }
    }
    cr_assert_eq(rows, most);
    cr_assert_geq(last, all - all / most - 1);
  }
  th__text_free(text);
}

Test(text, rejects_files) {
  const th__source files[] = {source_of("a", "abcdefgh"), source_of("empty", "")},
                   tiny[] = {source_of("t", "abc")};
  th__text_options o = {.files = files, .file_count = 2, .seq = SEQ, .batch = BATCH};
  EXPECT_REFUSED(th__text_new(&o, &error), TH_ERR_VALUE, "empty: the text is empty");
  o.file_count = 0;
  EXPECT_REFUSED(th__text_new(&o, &error), TH_ERR_VALUE, "no file");
  o.file_count = 1;
  o.validation = files + 1;
  o.validation_count = 1;
  EXPECT_REFUSED(th__text_new(&o, &error), TH_ERR_VALUE, "empty: the text is empty");
  o.validation = tiny;
  EXPECT_REFUSED(th__text_new(&o, &error), TH_ERR_VALUE,
                 "t: 3 bytes are too few to validate on, which needs more than seq = 5");
  o.files = tiny;
  EXPECT_REFUSED(th__text_new(&o, &error), TH_ERR_VALUE, "t: 3 bytes are too few to train on");
  o.validation_count = 0;
  for (int i = 0; i < 4; i++) {
    o.heldout = (const double[]){-0.1, 1, NAN, 2}[i];
    EXPECT_REFUSED(th__text_new(&o, &error), TH_ERR_VALUE, "0 < part < 1 is expected");
  }
}
