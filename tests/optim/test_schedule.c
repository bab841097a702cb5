/* schedule: learning rates over many lengths; what is refused. */
#include "../support.h"
#include "steps.h"

static const th_schedule_kind falling[] = {TH_SCHEDULE_LINEAR, TH_SCHEDULE_COSINE};

/* Peaks and floors whose differences round. */
static const double pairs[][2] = {{1e-3, 1e-4}, {3e-4, 0}, {1, 1.0 / 3}, {6e-4, 6e-5}, {0.1, 0.1}};
enum { PAIRS = sizeof pairs / sizeof pairs[0] };

static void check_run(th_schedule s) {
  th_error error = {0};
  cr_assert_eq(th_schedule_check(&s, &error), TH_OK, "%s", error.message);
  long top = s.warmup > 0 ? s.warmup : 1, at_peak = 0;
  bool constant = s.kind == TH_SCHEDULE_CONSTANT;
  double last = 0;
  cr_assert_gt(th_schedule_lr(&s, 1), 0);
  for (long step = 1; step <= s.steps; step++) {
    double lr = th_schedule_lr(&s, step);
    cr_assert(lr <= s.peak, "%ld of %ld: %.17g is above the peak", step, s.steps, lr);
    if (step <= top)
      cr_assert(lr > last, "warm-up: %.17g at %ld does not rise", lr, step);
    else
      cr_assert(lr <= last && lr >= s.floor, "%.17g at %ld rises or is below the floor", lr, step);
    at_peak += lr == s.peak;
    last = lr;
  }
  cr_assert_eq(th_schedule_lr(&s, top), s.peak);
  if (constant || s.floor == s.peak)
    cr_assert_eq(at_peak, s.steps - top + 1);
  else
    cr_assert_eq(at_peak, 1, "kind %d, warmup %ld of %ld: the peak is reached %ld times",
                 (int)s.kind, s.warmup, s.steps, at_peak);
  if (!constant && s.steps > top) cr_assert_eq(last, s.floor);
  cr_assert_eq(th_schedule_lr(&s, s.steps + 1), last);
  cr_assert_eq(th_schedule_lr(&s, s.steps + 1000000), last);
  cr_assert_eq(th_schedule_lr(&s, 0), th_schedule_lr(&s, 1));
  cr_assert_eq(th_schedule_lr(&s, -5), th_schedule_lr(&s, 1));
}

Test(schedule, rises_to_the_peak_once_and_ends_at_the_floor) {
  for (int pair = 0; pair < PAIRS; pair++)
    for (long steps = 1; steps <= 40; steps++)
      for (long warmup = 0; warmup < steps; warmup++)
        for (int kind = 0; kind < 2; kind++)
          check_run((th_schedule){falling[kind], pairs[pair][0], pairs[pair][1], warmup, steps});
}

Test(schedule, long_runs) {
  static const long sizes[][2] = {
      {0, 100000}, {1, 99999}, {2000, 100000}, {99998, 99999}, {333, 77777}};
  for (int i = 0; i < 5; i++)
    for (int kind = 0; kind < 2; kind++)
      check_run((th_schedule){falling[kind], 3e-4, 3e-5, sizes[i][0], sizes[i][1]});
}

Test(schedule, constant) {
  for (long steps = 1; steps <= 20; steps++)
    for (long warmup = 0; warmup <= steps; warmup++)
      check_run((th_schedule){TH_SCHEDULE_CONSTANT, 1e-3, 0, warmup, steps});
}

/* By hand: a line from 1 at step 2 to 0.2 at step 6; half a cosine between the same points. */
Test(schedule, values) {
  static const double line[] = {0.5, 1, 0.8, 0.6, 0.4, 0.2};
  static const double cosine[] = {
      0.5, 1, 0.6 + 0.4 * 0.70710678118654752, 0.6, 0.6 - 0.4 * 0.70710678118654752, 0.2};
  const th_schedule a = {TH_SCHEDULE_LINEAR, 1, 0.2, 2, 6}, b = {TH_SCHEDULE_COSINE, 1, 0.2, 2, 6};
  for (long i = 0; i < 6; i++) {
    cr_assert_float_eq(th_schedule_lr(&a, i + 1), line[i], 1e-15);
    cr_assert_float_eq(th_schedule_lr(&b, i + 1), cosine[i], 1e-15);
  }
}

/* Nothing to learn with, but legal. */
Test(schedule, a_peak_of_zero) {
  const th_schedule s = {TH_SCHEDULE_COSINE, 0, 0, 3, 10};
  cr_assert_eq(th_schedule_check(&s, NULL), TH_OK);
  for (long step = 0; step < 12; step++) cr_assert_eq(th_schedule_lr(&s, step), 0);
}

#define REFUSED(text, ...)                                                                         \
  EXPECT_REFUSED(th_schedule_check(&(th_schedule){__VA_ARGS__}, &error) == TH_OK, TH_ERR_VALUE,    \
                 text)

Test(schedule, rejects) {
  REFUSED("peak is -1", .peak = -1, .steps = 10);
  REFUSED("peak is nan", .peak = NAN, .steps = 10);
  REFUSED("peak is inf", .peak = INFINITY, .steps = 10);
  REFUSED("floor is 2; 0 to peak = 1", .peak = 1, .floor = 2, .steps = 10);
  REFUSED("floor is -0.5", .peak = 1, .floor = -0.5, .steps = 10);
  REFUSED("floor is nan", .peak = 1, .floor = NAN, .steps = 10);
  REFUSED("steps is 0", .peak = 1);
  REFUSED("warmup is -1 of 10 steps; 0 to 10", .peak = 1, .warmup = -1, .steps = 10);
  REFUSED("warmup is 11 of 10 steps; 0 to 10", .peak = 1, .warmup = 11, .steps = 10);
  REFUSED("warmup is 10 of 10 steps; 0 to 9", .kind = TH_SCHEDULE_LINEAR, .peak = 1, .warmup = 10,
          .steps = 10);
  REFUSED("no kind 3", .kind = (th_schedule_kind)3, .peak = 1, .steps = 10);
  EXPECT_REFUSED(th_schedule_check(NULL, &error) == TH_OK, TH_ERR_VALUE, "NULL");
}
