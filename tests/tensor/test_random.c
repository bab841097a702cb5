/* Counter-based random numbers: fixed values, independence of order, distributions. */
#include <Random123/philox.h>

#include "support.h"

/* Known answer of Philox4x32-10 for a zero counter and key (Random123's kat_vectors). */
Test(random, known_answer) {
  th_random stream = {0};
  uint64_t first = th_random_bits(stream, 0), second = th_random_bits(stream, 1);
  cr_assert_eq((uint32_t)first, 0x6627e8d5u);
  cr_assert_eq((uint32_t)(first >> 32), 0xe169c58du);
  cr_assert_eq((uint32_t)second, 0xbc57ac4cu);
  cr_assert_eq((uint32_t)(second >> 32), 0x9b00dbd8u);
}

Test(random, streams_differ) {
  th_random base = {1, 2, 3};
  const th_random others[] = {{2, 2, 3},
                              {1, 3, 3},
                              {1, 2, 4},
                              {1, 2, 3 + ((uint64_t)1 << 32)},
                              {1 + ((uint64_t)1 << 32), 2, 3}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    cr_assert_neq(th_random_bits(base, 0), th_random_bits(others[i], 0), "stream %zu", i);
}

Test(random, uniform_moments_and_range) {
  th_random stream = {.seed = 7};
  double sum = 0, squares = 0;
  enum { N = 200000 };
  for (int i = 0; i < N; i++) {
    double u = th_random_uniform(stream, (uint64_t)i);
    cr_assert(u >= 0 && u < 1);
    sum += u;
    squares += u * u;
  }
  cr_assert_float_eq(sum / N, 0.5, 5 * sqrt(1.0 / 12 / N));
  cr_assert_float_eq(squares / N, 1.0 / 3, 5 * sqrt(4.0 / 45 / N));
}

Test(random, normal_moments) {
  th_random stream = {.seed = 8};
  double sum = 0, squares = 0, fourth = 0;
  enum { N = 200000 };
  for (int i = 0; i < N; i++) {
    double z = th_random_normal(stream, (uint64_t)i);
    cr_assert(isfinite(z));
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
  }
  cr_assert_float_eq(sum / N, 0, 5 * sqrt(1.0 / N));
  cr_assert_float_eq(squares / N, 1, 5 * sqrt(2.0 / N));
  cr_assert_float_eq(fourth / N, 3, 5 * sqrt(96.0 / N));
}

Test(random, below_stays_below_and_is_even) {
  th_random stream = {.seed = 9};
  int counts[7] = {0};
  for (int i = 0; i < 70000; i++) counts[th_random_below(stream, (uint64_t)i, 7)]++;
  for (int i = 0; i < 7; i++) cr_assert(abs(counts[i] - 10000) < 500, "%d: %d", i, counts[i]);
}

Test(random, filling_equals_single_numbers) {
  th_random stream = {.seed = 3, .purpose = 4, .step = 5};
  th_tensor *x = th_tensor_new(TH_F64, TH_SHAPE(3, 5), NULL);
  th_init_normal(x, 1, 2, stream);
  for (int i = 0; i < 15; i++)
    cr_assert_eq(((double *)th_tensor_data(x))[i], 1 + 2 * th_random_normal(stream, (uint64_t)i));
  th_tensor_free(x);
}
