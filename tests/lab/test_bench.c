/* The benchmark's shapes, its count of operations, and that it measures. No times are judged. */
#include "lab/bench.h"
#include "support.h"

Test(bench, shapes) {
  const th__bench_shape *shape = th__bench_find("gpt2-124m");
  cr_assert_not_null(shape);
  cr_assert(shape->layers == 12 && shape->width == 768 && shape->vocab == 50257);
  cr_assert_null(th__bench_find("huge"));
}

/* 12 C^2 per layer and V C once, 6 each per token; attention 12 T C per layer and token. */
Test(bench, operations_of_a_step) {
  const th__bench_shape *micro = th__bench_find("micro");
  double matrices = 12.0 * 32 * 32 + 32.0 * 16;
  cr_assert_float_eq(th__bench_flops(micro), (6 * matrices + 12.0 * 16 * 32) * 16 * 32, 1);
}

/* All matrices of the models that are timed, counted from the models themselves. */
static double matrix_elements(th_model *model) {
  double elements = 0;
  th_params *params = th_model_params(model);
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    th_tensor *tensor = th_params_at(params, i);
    if (th_tensor_ndim(tensor) == 2) elements += (double)th_tensor_count(tensor);
  }
  th_model_free(model);
  return elements;
}

Test(bench, operations_of_llama_and_lstm) {
  const th_gpt llama = {TH_LLAMA,     .layers = 4,   .heads = 4, .kv_heads = 2,
                        .width = 128, .context = 64, .vocab = 65};
  const th_recurrent lstm = {.layers = 1, .width = 128, .vocab = 65, .lstm = true};
  double table = 65 * 128, matrices = matrix_elements(th_gpt_new(&llama, 1, NULL)) - table;
  cr_assert_float_eq(th__bench_flops(th__bench_find("llama")),
                     (6 * matrices + 12.0 * 4 * 64 * 128) * 64 * 12, 1);
  matrices = matrix_elements(th_recurrent_new(&lstm, 1, NULL));
  cr_assert_float_eq(th__bench_flops(th__bench_find("lstm")), 6 * matrices * 64 * 32, 1);
}

Test(bench, runs_and_measures) {
  th__bench_result r;
  th_error error;
  cr_assert_eq(th__bench_run(th__bench_find("micro"), 4, 1, &r, &error), TH_OK, "%s", error.message);
  cr_assert_eq(r.steps, 4);
  cr_assert(r.min_ms > 0 && r.min_ms <= r.median_ms);
  cr_assert_float_eq(r.tokens_per_second * r.median_ms * 1e-3, 512, 1e-6);
  cr_assert_gt(r.peak_rss_mib, 1);
}

Test(bench, peak_is_finite_and_positive) {
  double peak = th__bench_peak();
  cr_assert(isfinite(peak) && peak > 0.1, "%g", peak);
}
