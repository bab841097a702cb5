/* task: what each kind puts into a sequence, for many lengths; streams; determinism (C19); options. */
#include <stdio.h>

#include "../support.h"

#include "tensor/alloc.h"

enum { ROWS = 32 };

typedef struct sequence {
  ptrdiff_t seq, symbols;
  const int32_t *tokens, *targets;
} sequence;

/* Runs `check` on the sequences of a few batches for every seq from `least` to 70, and some vocabs. */
static void for_many(th_task_kind kind, ptrdiff_t least, ptrdiff_t specials,
                     void (*check)(sequence s)) {
  for (ptrdiff_t seq = least; seq <= 70; seq++)
    for (int more = 0; more < 2; more++) {
      th_task_options o = {.kind = kind, .seq = seq, .batch = ROWS, .vocab = 90 * more, .seed = 5};
      th_error error = {0};
      th_task *task = th_task_new(&o, &error);
      cr_assert_not_null(task, "seq %td: %s", seq, error.message);
      for (uint64_t number = 0; number < 3; number++) {
        th_batch batch = th_task_batch(task, number == 2, number);
        const int32_t *tokens = th_tensor_data(batch.tokens);
        const int32_t *targets = th_tensor_data(batch.targets);
        for (ptrdiff_t i = 0; i < ROWS * seq; i++) {
          cr_assert(tokens[i] >= 0 && tokens[i] < th_task_vocab(task));
          cr_assert(targets[i] >= TH_IGNORE && targets[i] < th_task_vocab(task));
        }
        for (ptrdiff_t row = 0; row < ROWS; row++)
          check((sequence){seq, th_task_vocab(task) - specials, tokens + row * seq,
                           targets + row * seq});
      }
      th_task_free(task);
    }
}

static ptrdiff_t answers(sequence s) {
  ptrdiff_t count = 0;
  for (ptrdiff_t i = 0; i < s.seq; i++) count += s.targets[i] != TH_IGNORE;
  return count;
}

/* ---- copy, reverse, sort ---- */

/* The separator is where it should be, and the target at n + i is letter `wanted(i)`, shown next. */
static void check_word(sequence s, int32_t (*wanted)(sequence s, ptrdiff_t i)) {
  ptrdiff_t n = s.seq / 2;
  cr_assert_eq(answers(s), n);
  cr_assert_eq(s.tokens[n], s.symbols);
  for (ptrdiff_t i = 0; i < n; i++) {
    cr_assert_lt(s.tokens[i], s.symbols);
    cr_assert_eq(s.targets[n + i], wanted(s, i));
    if (n + 1 + i < s.seq) cr_assert_eq(s.tokens[n + 1 + i], wanted(s, i));
  }
}

static int32_t same(sequence s, ptrdiff_t i) { return s.tokens[i]; }
static int32_t backwards(sequence s, ptrdiff_t i) { return s.tokens[s.seq / 2 - 1 - i]; }
/* The letter with i letters before it in order: fewer are smaller, at least i+1 are not larger. */
static int32_t sorted(sequence s, ptrdiff_t i) {
  for (ptrdiff_t j = 0; j < s.seq / 2; j++) {
    ptrdiff_t smaller = 0, not_larger = 0;
    for (ptrdiff_t k = 0; k < s.seq / 2; k++) {
      smaller += s.tokens[k] < s.tokens[j];
      not_larger += s.tokens[k] <= s.tokens[j];
    }
    if (smaller <= i && i < not_larger) return s.tokens[j];
  }
  return TH_IGNORE;
}

static void check_copy(sequence s) { check_word(s, same); }
static void check_reverse(sequence s) { check_word(s, backwards); }
static void check_sort(sequence s) { check_word(s, sorted); }
Test(task, copy) { for_many(TH_TASK_COPY, 2, 1, check_copy); }
Test(task, reverse) { for_many(TH_TASK_REVERSE, 2, 1, check_reverse); }
Test(task, sort) { for_many(TH_TASK_SORT, 2, 1, check_sort); }

/* ---- recall, induction ---- */

static void check_recall(sequence s) {
  ptrdiff_t asked = answers(s), p = (s.seq - asked) / 2, keys = s.symbols - s.symbols / 2;
  cr_assert(asked >= 1 && 4 * asked >= s.seq - 3 && 4 * asked <= s.seq + 4, "%td of %td", asked,
            s.seq);
  for (ptrdiff_t i = 0; i < 2 * p; i++) {
    cr_assert_eq(s.targets[i], TH_IGNORE);
    cr_assert((s.tokens[i] < keys) == (i % 2 == 0));
    for (ptrdiff_t j = i % 2; j < i && i % 2 == 0; j += 2)
      cr_assert_neq(s.tokens[i], s.tokens[j], "key %d twice", s.tokens[i]);
  }
  for (ptrdiff_t i = 2 * p; i < s.seq; i++) {
    ptrdiff_t at = 0;
    while (at < 2 * p && s.tokens[at] != s.tokens[i]) at += 2;
    cr_assert_lt(at, 2 * p, "question %d is no key of the sequence", s.tokens[i]);
    cr_assert_eq(s.targets[i], s.tokens[at + 1]);
    for (ptrdiff_t j = 2 * p; j < i; j++) cr_assert_neq(s.tokens[i], s.tokens[j], "asked twice");
  }
}

static void check_induction(sequence s) {
  ptrdiff_t start = s.seq - answers(s);
  cr_assert_eq(answers(s), s.seq / 4);
  for (ptrdiff_t i = 0; i < start; i++) {
    cr_assert_eq(s.targets[i], TH_IGNORE);
    for (ptrdiff_t j = 0; j < i; j++) cr_assert_neq(s.tokens[i], s.tokens[j]);
  }
  for (ptrdiff_t i = start; i < s.seq; i++) {
    ptrdiff_t before = 0;
    while (before < start && s.tokens[before] != s.tokens[i]) before++;
    cr_assert_lt(before + 1, start);
    cr_assert_eq(s.targets[i], s.tokens[before + 1]);
    if (i + 1 < s.seq) cr_assert_eq(s.tokens[i + 1], s.targets[i]);
  }
}

Test(task, recall) { for_many(TH_TASK_RECALL, 5, 0, check_recall); }
Test(task, induction) { for_many(TH_TASK_INDUCTION, 4, 0, check_induction); }

/* ---- all kinds ---- */

static th_task *make_task(int kind, uint64_t seed) {
  th_error error = {0};
  th_task *task = th_task_new(
      &(th_task_options){.kind = (th_task_kind)kind, .seq = 12, .batch = ROWS, .seed = seed},
      &error);
  cr_assert_not_null(task, "%s", error.message);
  return task;
}

static bool same_values(const th_tensor *a, const int32_t *b) {
  return memcmp(th_tensor_data(a), b, ROWS * 12 * sizeof *b) == 0;
}

/* C19: th_task_next gives batch 0, 1, 2 whatever is asked for in between; a task made again (a resumed
 * run) gives the same; other seeds and numbers give others. */
Test(task, batches_depend_on_seed_and_number_only) {
  int32_t first[3][ROWS * 12];
  for (int kind = 0; kind < TH_TASK_COUNT; kind++) {
    th_task *task = make_task(kind, 1);
    for (int i = 0; i < 3; i++) {
      memcpy(first[i], th_tensor_data(th_task_next(task).tokens), sizeof first[i]);
      for (int j = 0; j < i; j++) th_task_batch(task, true, (uint64_t)j);
    }
    cr_assert_neq(memcmp(first[0], first[1], sizeof first[0]), 0);
    th_task_free(task);
    task = make_task(kind, 1);
    cr_assert(same_values(th_task_batch(task, false, 2).tokens, first[2]));
    cr_assert(same_values(th_task_next(task).tokens, first[0]));
    cr_assert_not(same_values(th_task_batch(task, true, 0).tokens, first[0]));
    th_task_free(task);
    task = make_task(kind, 2);
    cr_assert_not(same_values(th_task_next(task).tokens, first[0]));
    th_task_free(task);
  }
}

static int compare_rows(const void *a, const void *b) { return memcmp(a, b, 8 * sizeof(int32_t)); }

/* Held-out sequences never occur in training, of this seed or another, even where the task has so
 * few (4^4 = 256) that training sees all of its own many times. */
Test(task, held_out_sequences_are_never_trained_on) {
  enum { BATCHES = 100 };
  static int32_t seen[BATCHES * ROWS][8];
  th_task_options o = {.kind = TH_TASK_COPY, .seq = 8, .batch = ROWS, .vocab = 4, .seed = 1};
  th_task *train = th_task_new(&o, NULL);
  o.seed = 99;
  th_task *test = th_task_new(&o, NULL);
  for (uint64_t i = 0; i < BATCHES; i++)
    memcpy(seen[i * ROWS], th_tensor_data(th_task_next(train).tokens), ROWS * sizeof seen[0]);
  qsort(seen, BATCHES * ROWS, sizeof seen[0], compare_rows);
  int different = 1;
  for (int i = 1; i < BATCHES * ROWS; i++) different += compare_rows(seen[i - 1], seen[i]) != 0;
  cr_assert(different > 160 && different < 224, "%d of 256 are for training", different);
  for (uint64_t i = 0; i < 10; i++) {
    const int32_t(*rows)[8] = th_tensor_data(th_task_batch(test, true, i).tokens);
    for (int row = 0; row < ROWS; row++)
      cr_assert_null(bsearch(rows[row], seen, BATCHES * ROWS, sizeof seen[0], compare_rows));
  }
  th_task_free(train);
  th_task_free(test);
}

/* Every symbol comes equally often, in both streams. */
Test(task, symbols_are_uniform) {
  for (int heldout = 0; heldout < 2; heldout++) {
    ptrdiff_t count[16] = {0}, total = 0;
    th_task *task = make_task(TH_TASK_COPY, 3);
    for (uint64_t number = 0; number < 200; number++) {
      const int32_t *tokens = th_tensor_data(th_task_batch(task, heldout, number).tokens);
      for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < 6; i++) count[tokens[12 * row + i]]++, total++;
    }
    double square = 0, mean = (double)total / 16;
    for (int i = 0; i < 16; i++) square += pow((double)count[i] - mean, 2) / mean;
    cr_assert_lt(square, 44.3, "chi-square %g", square); /* 15 degrees of freedom: p = 1e-4 */
    th_task_free(task);
  }
}

/* The sequences that docs/tasks.md shows: data of a seed does not change from one version to another. */
Test(task, documented_sequences) {
  static const int32_t shown[TH_TASK_COUNT][2][12] = {
      [TH_TASK_COPY] = {{3, 13, 2, 11, 2, 6, 16, 3, 13, 2, 11, 2},
                        {-1, -1, -1, -1, -1, -1, 3, 13, 2, 11, 2, 6}},
      [TH_TASK_REVERSE] = {{3, 13, 2, 11, 2, 6, 16, 6, 2, 11, 2, 13},
                           {-1, -1, -1, -1, -1, -1, 6, 2, 11, 2, 13, 3}},
      [TH_TASK_SORT] = {{9, 5, 0, 14, 6, 3, 16, 0, 3, 5, 6, 9},
                        {-1, -1, -1, -1, -1, -1, 0, 3, 5, 6, 9, 14}},
      [TH_TASK_RECALL] = {{4, 15, 3, 11, 2, 9, 7, 11, 7, 3, 4, 2},
                          {-1, -1, -1, -1, -1, -1, -1, -1, 11, 11, 15, 9}},
      [TH_TASK_INDUCTION] = {{18, 11, 3, 29, 15, 10, 0, 31, 7, 11, 3, 29},
                             {-1, -1, -1, -1, -1, -1, -1, -1, -1, 3, 29, 15}},
  };
  for (int kind = 0; kind < TH_TASK_COUNT; kind++) {
    th_task *task = make_task(kind, 1);
    th_batch batch = th_task_next(task);
    cr_assert_eq(memcmp(th_tensor_data(batch.tokens), shown[kind][0], sizeof shown[kind][0]), 0);
    cr_assert_eq(memcmp(th_tensor_data(batch.targets), shown[kind][1], sizeof shown[kind][1]), 0);
    th_task_free(task);
  }
}

/* So few sequences that a class may be empty: still a batch, and soon. */
Test(task, tiny_spaces) {
  th_task_options o = {.kind = TH_TASK_COPY, .seq = 2, .batch = ROWS, .vocab = 2};
  th_task *task = th_task_new(&o, NULL);
  for (uint64_t i = 0; i < 4; i++) {
    const int32_t *tokens = th_tensor_data(th_task_batch(task, i % 2, i).tokens);
    for (int row = 0; row < ROWS; row++) cr_assert(tokens[2 * row] < 2 && tokens[2 * row + 1] == 2);
  }
  th_task_free(task);
}

Test(task, batches_allocate_nothing) {
  for (int kind = 0; kind < TH_TASK_COUNT; kind++) {
    th_task *task = make_task(kind, 1);
    size_t before = th__alloc_count();
    for (int i = 0; i < 10; i++) th_task_next(task), th_task_batch(task, true, 0);
    cr_assert_eq(th__alloc_count(), before);
    th_task_free(task);
  }
}

static void refused(th_task_options o, const char *text) {
  th_error error = {0};
  cr_assert_null(th_task_new(&o, &error));
  cr_assert_eq(error.status, TH_ERR_VALUE, "%s", error.message);
  cr_assert_not_null(strstr(error.message, text), "\"%s\" does not contain \"%s\"", error.message,
                     text);
}

Test(task, rejects) {
  static const char *const names[] = {"copy", "reverse", "sort", "recall", "induction"};
  const ptrdiff_t least[] = {2, 2, 2, 5, 4};
  for (int kind = 0; kind < TH_TASK_COUNT; kind++) {
    char text[64];
    snprintf(text, sizeof text, "%s: seq is %td; at least %td", names[kind], least[kind] - 1,
             least[kind]);
    th_task_options o = {.kind = (th_task_kind)kind, .seq = least[kind] - 1, .batch = 1};
    refused(o, text);
    o.seq = -3;
    refused(o, "seq is -3");
    o.seq = PTRDIFF_MAX;
    refused(o, "exceed");
    o.seq = 8;
    o.batch = 0;
    refused(o, "batch is 0");
    o.batch = PTRDIFF_MAX;
    refused(o, "exceed");
    o.batch = 1;
    o.vocab = 1;
    refused(o, "vocab is 1");
    o.vocab = -7;
    refused(o, "vocab is -7");
    o.vocab = PTRDIFF_MAX;
    refused(o, "exceed");
  }
  refused((th_task_options){.kind = TH_TASK_RECALL, .seq = 64, .batch = 1, .vocab = 46},
          "at least 47 symbols");
  refused((th_task_options){.kind = TH_TASK_INDUCTION, .seq = 64, .batch = 1, .vocab = 47},
          "at least 48 symbols");
  refused((th_task_options){.kind = TH_TASK_COUNT, .seq = 8, .batch = 1}, "no such kind");
  th_error error = {0};
  cr_assert_null(th_task_new(NULL, &error));
  cr_assert_eq(error.status, TH_ERR_VALUE);
  th_task_free(NULL);
}

Test(task, every_allocation_may_fail) {
  th_task *task = NULL;
  size_t n = 0;
  while (task == NULL) {
    th_error error = {0};
    th__alloc_fail_at(++n);
    task = th_task_new(&(th_task_options){.kind = TH_TASK_RECALL, .seq = 8, .batch = 2}, &error);
    th__alloc_fail_at(0);
    if (task == NULL) cr_assert_eq(error.status, TH_ERR_MEMORY, "%s", error.message);
  }
  cr_assert_eq(n, 8u); /* itself, two tensors of two blocks, deck and picks; the eighth is beyond */
  th_task_free(task);
}
