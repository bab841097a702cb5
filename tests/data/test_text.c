/* text: bytes as symbols, the two parts, batches that depend on seed and number only, bad input. */
#include "../support.h"

#include "data/text.h"
#include "tensor/alloc.h"

enum { SEQ = 5, BATCH = 7 };

static th__text_options options_of(const void *bytes, size_t count) {
  return (th__text_options){
      .bytes = bytes, .count = count, .name = "book", .seq = SEQ, .batch = BATCH, .seed = 1};
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
  cr_assert_eq(n, 7u); /* itself, symbols, two tensors of two blocks; the seventh is beyond */
  size_t before = th__alloc_count();
  for (uint64_t i = 0; i < 10; i++) th__text_batch(text, i % 2, i);
  cr_assert_eq(th__alloc_count(), before);
  th__text_free(text);
}
