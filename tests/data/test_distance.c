/* distance: what stands where in a sequence, that all of it is drawn, and that it repeats. */
#include "data/distance.h"

#include <criterion/criterion.h>
#include <string.h>

static const th__distance task = {.pairs = 3, .keys = 5, .values = 4, .fillers = 2, .distance = 6};
enum { LENGTH = 3 + 6 + 1, COUNT = 400, QUESTIONS = 20, FILLERS = 25, ANSWERS = 27, VOCAB = 31 };

static const th_random stream = {.seed = 3, .purpose = 7, .step = 2};

/* The answer is the value that stands with the key that is asked for; returns which pair that is. */
static int expect_well_formed(const int32_t *tokens, int32_t answer) {
  bool seen[5] = {false};
  int asked = -1, key = tokens[LENGTH - 1] - QUESTIONS;
  cr_assert(key >= 0 && key < 5, "the last token is %d", tokens[LENGTH - 1]);
  for (int i = 0; i < 3; i++) {
    cr_assert(tokens[i] >= 0 && tokens[i] < QUESTIONS, "pair %d is token %d", i, tokens[i]);
    cr_assert(!seen[tokens[i] / 4], "key %d stands there twice", tokens[i] / 4);
    seen[tokens[i] / 4] = true;
    if (tokens[i] / 4 == key) asked = i;
  }
  cr_assert_geq(asked, 0, "key %d is asked for and does not stand there", key);
  cr_assert_eq(answer, ANSWERS + tokens[asked] % 4);
  for (int i = 3; i < LENGTH - 1; i++)
    cr_assert(tokens[i] >= FILLERS && tokens[i] < ANSWERS, "filler %d is token %d", i, tokens[i]);
  return asked;
}

Test(distance, sequences) {
  static int32_t tokens[COUNT * LENGTH], answers[COUNT];
  cr_assert_eq(th__distance_length(&task), LENGTH);
  cr_assert_eq(th__distance_vocab(&task), VOCAB);
  th__distance_fill(&task, stream, false, COUNT, tokens, answers);
  int asked[3] = {0}, used[VOCAB] = {0};
  for (int i = 0; i < COUNT; i++) {
    asked[expect_well_formed(tokens + i * LENGTH, answers[i])]++;
    for (int j = 0; j < LENGTH; j++) used[tokens[i * LENGTH + j]]++;
    used[answers[i]]++;
  }
  for (int i = 0; i < 3; i++) cr_assert(asked[i] > COUNT / 4, "pair %d: %d times", i, asked[i]);
  for (int i = 0; i < VOCAB; i++) cr_assert_gt(used[i], 10, "token %d: %d times", i, used[i]);
}

Test(distance, asks_first) {
  int32_t tokens[20 * LENGTH], answers[20], others[20 * LENGTH], other_answers[20];
  th__distance_fill(&task, stream, true, 20, tokens, answers);
  th__distance_fill(&task, stream, false, 20, others, other_answers);
  for (int i = 0; i < 20; i++) {
    cr_assert_eq(expect_well_formed(tokens + i * LENGTH, answers[i]), 0);
    size_t bytes = (LENGTH - 1) * sizeof *tokens;
    cr_assert_eq(memcmp(tokens + i * LENGTH, others + i * LENGTH, bytes), 0);
  }
}

/* A sequence depends on its stream and its place; every step and seed gives others. */
Test(distance, repeats) {
  int32_t tokens[8 * LENGTH], again[8 * LENGTH], answers[8];
  th__distance_fill(&task, stream, false, 8, tokens, answers);
  th__distance_fill(&task, stream, false, 5, again, answers);
  cr_assert_eq(memcmp(tokens, again, sizeof *tokens * 5 * LENGTH), 0);
  cr_assert_neq(memcmp(tokens, tokens + LENGTH, sizeof *tokens * LENGTH), 0);
  th_random next = stream;
  next.step++;
  th__distance_fill(&task, next, false, 8, again, answers);
  cr_assert_neq(memcmp(tokens, again, sizeof *tokens * LENGTH), 0);
}

Test(distance, no_distance_and_one_pair) {
  const th__distance least = {.pairs = 1, .keys = 1, .values = 2, .fillers = 0, .distance = 0};
  int32_t tokens[10 * 2], answers[10];
  th__distance_fill(&least, stream, false, 10, tokens, answers);
  for (int i = 0; i < 10; i++) {
    cr_assert_eq(tokens[2 * i + 1], 2);
    cr_assert_eq(answers[i], 3 + tokens[2 * i]);
  }
}
