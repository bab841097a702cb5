/* Slot-coded recall: its data, its model, its measurements and its reports. */
#include "lab/recall_model.h"
#include "lab/recall_report.h"
#include "support.h"

static const int32_t *ids(const th_tensor *x) { return th_tensor_data(x); }

/* ---- data ---- */

Test(recall, every_sequence_holds_every_key_once_and_the_answer) {
  th__recall_batch batch;
  cr_assert(th__recall_batch_new(&batch, NULL));
  for (uint64_t number = 0; number < 20; number++) {
    th__recall_batch_fill(&batch, 7, number % 2, number);
    for (int b = 0; b < TH__RECALL_BATCH; b++) {
      const int32_t *keys = ids(batch.slot_keys) + b * TH__RECALL_SLOTS;
      const int32_t *values = ids(batch.slot_values) + b * TH__RECALL_SLOTS;
      uint32_t seen = 0;
      for (int j = 0; j < TH__RECALL_SLOTS; j++) {
        seen |= UINT32_C(1) << keys[j];
        cr_assert(values[j] >= 0 && values[j] < TH__RECALL_VALUES);
      }
      cr_assert_eq(seen, UINT32_MAX);
      for (int i = b * TH__RECALL_QUERIES; i < (b + 1) * TH__RECALL_QUERIES; i++) {
        int32_t slot = ids(batch.slots)[i];
        cr_assert_eq(ids(batch.query_keys)[i], keys[slot]);
        cr_assert_eq(ids(batch.answers)[i], values[slot]);
      }
    }
  }
  th__recall_batch_free(&batch);
}

Test(recall, batches_depend_on_seed_part_and_number_only) {
  th__recall_batch a, b;
  cr_assert(th__recall_batch_new(&a, NULL) && th__recall_batch_new(&b, NULL));
  size_t bytes = (size_t)th_tensor_count(a.slot_keys) * sizeof(int32_t);
  th__recall_batch_fill(&a, 1, false, 5);
  th__recall_batch_fill(&b, 1, false, 4);
  th__recall_batch_fill(&b, 1, false, 5);
  cr_assert_arr_eq(ids(a.slot_keys), ids(b.slot_keys), bytes);
  th__recall_batch_fill(&b, 1, true, 5);
  cr_assert_arr_neq(ids(a.slot_keys), ids(b.slot_keys), bytes);
  th__recall_batch_fill(&b, 2, false, 5);
  cr_assert_arr_neq(ids(a.slot_keys), ids(b.slot_keys), bytes);
  th__recall_batch_free(&a);
  th__recall_batch_free(&b);
}

/* ---- gradients ---- */

/* The check itself must be able to fail: right gradients pass, spoilt ones do not. */
Test(recall, live_gradients_match_finite_differences) {
  const th_scale_kind scales[] = {TH_SCALE_NONE, TH_SCALE_SQRT, TH_SCALE_DK};
  for (int i = 0; i < 3; i++) {
    const th__recall settings = {.scale = scales[i], .dk = 32, .seed = 3};
    th__recall_model model;
    th__recall_batch batch;
    th_tape *tape = th_tape_new();
    cr_assert(th__recall_model_new(&model, &settings, TH_F32, NULL));
    cr_assert(th__recall_batch_new(&batch, NULL));
    th__recall_batch_fill(&batch, 3, false, 0);
    th_backward(tape, th__recall_forward(tape, &model, &settings, &batch).loss);
    cr_assert_eq(th_tape_status(tape), TH_OK, "%s", th_tape_message(tape));
    cr_assert_lt(th__recall_fd_error(&model, &settings, &batch, 0, NULL), 1e-4);
    float *dwk = th_tensor_data(th_tensor_grad(model.wk));
    for (int j = 0; j < 32 * TH__RECALL_WIDTH; j++) dwk[j] = -dwk[j];
    cr_assert_gt(th__recall_fd_error(&model, &settings, &batch, 0, NULL), 0.5);
    th__recall_batch_free(&batch);
    th__recall_model_free(&model);
    th_tape_free(tape);
  }
}

/* Row gradients are those of the mean loss times the number of rows, so that their squares add up. */
Test(recall, a_point_agrees_with_the_tape) {
  const th__recall settings = {.scale = TH_SCALE_SQRT, .dk = 16, .seed = 4};
  th__recall_model model;
  th__recall_batch batch;
  th__recall_point point = {0};
  th_tape *tape = th_tape_new();
  cr_assert(th__recall_model_new(&model, &settings, TH_F32, NULL));
  cr_assert(th__recall_batch_new(&batch, NULL));
  th__recall_batch_fill(&batch, 4, false, 0);
  th__recall_pass pass = th__recall_forward(tape, &model, &settings, &batch);
  th_backward(tape, pass.loss);
  cr_assert(th__recall_measure(tape, &model, &settings, &batch, &pass, &point));
  cr_assert_float_eq(point.loss, th_tensor_item(pass.loss), 1e-12);
  cr_assert(point.entropy_ratio > 0.5 && point.entropy_ratio < 1);
  cr_assert_float_eq(point.saturated_share, point.stuck_right_share + point.stuck_wrong_share,
                     1e-12);
  double squares = 0;
  const float *dwq = th_tensor_data(th_tensor_grad(model.wq));
  for (int i = 0; i < 16 * TH__RECALL_WIDTH; i++) squares += (double)dwq[i] * (double)dwq[i];
  cr_assert_float_eq(point.dwq_norm, sqrt(squares), 1e-9);
  double row = 0;
  const float *dq = th_tensor_data(th_tensor_grad(pass.q));
  for (ptrdiff_t i = 0; i < TH__RECALL_ROWS; i++) {
    double of_row = 0;
    for (int c = 0; c < 16; c++) of_row += pow((double)dq[i * 16 + c], 2);
    row += TH__RECALL_ROWS * sqrt(of_row) / TH__RECALL_ROWS;
  }
  cr_assert_float_eq(point.dq_norm.mean, row, 1e-6 * row);
  th__recall_batch_free(&batch);
  th__recall_model_free(&model);
  th_tape_free(tape);
}

/* ---- runs ---- */

static void short_grid(th__recall_grid *grid, int threads) {
  th_error error;
  th_set_threads(threads);
  cr_assert(th__recall_grid_new(grid, 10, 1, 1, &error), "%s", error.message);
  cr_assert_eq(th__recall_runs(grid->runs, grid->count, NULL, NULL, &error), TH_OK, "%s",
               error.message);
  th_set_threads(0);
}

Test(recall, same_figures_at_any_number_of_threads) {
  th__recall_grid one, three;
  short_grid(&one, 1);
  short_grid(&three, 3);
  for (ptrdiff_t i = 0; i < one.count; i++) {
    cr_assert_eq(one.runs[i].point_count, three.runs[i].point_count);
    cr_assert_eq(one.runs[i].heldout_accuracy, three.runs[i].heldout_accuracy);
    for (int j = 0; j < one.runs[i].point_count; j++)
      for (int f = 0; f < TH__RECALL_FIGURES; f++) {
        double a = th__recall_figure_of(&one.runs[i].points[j], (th__recall_figure)f);
        double b = th__recall_figure_of(&three.runs[i].points[j], (th__recall_figure)f);
        cr_assert(a == b || (isnan(a) && isnan(b)), "run %td, point %d, figure %d", i, j, f);
      }
  }
  th__recall_grid_free(&one);
  th__recall_grid_free(&three);
}

/* AdamW and the scale learn; d_k is small, so that it takes a second. */
Test(recall, a_scaled_run_learns) {
  th__recall_run run = {
      .settings = {.scale = TH_SCALE_SQRT, .dk = 16, .sgd = true, .steps = 150, .seed = 1}};
  cr_assert_eq(th__recall_runs(&run, 1, NULL, NULL, NULL), TH_OK);
  cr_assert(run.steps_to_95 > 0 && run.steps_to_95 <= 150, "steps to 95 %%: %d", run.steps_to_95);
  cr_assert_gt(run.heldout_accuracy, 0.95);
  cr_assert_lt(run.points[run.point_count - 1].loss, 0.5 * run.points[0].loss);
}

Test(recall, a_diverging_run_is_an_error_with_its_step) {
  th__recall_run run = {
      .settings = {
          .scale = TH_SCALE_SQRT, .dk = 16, .sgd = true, .lr = 1e40, .steps = 50, .seed = 1}};
  th_error error;
  cr_assert_neq(th__recall_runs(&run, 1, NULL, NULL, &error), TH_OK);
  cr_assert_not_null(strstr(error.message, "step"), "%s", error.message);
}

/* ---- reports ---- */

Test(recall, report_has_every_field) {
  th__recall_grid grid;
  short_grid(&grid, 0);
  json_t *document = th__recall_json(&grid), *runs = json_object_get(document, "runs");
  cr_assert_eq((ptrdiff_t)json_array_size(runs), grid.count);
  json_t *run = json_array_get(runs, 0);
  const char *of_run[] = {"optim",     "scale", "dk", "seed", "steps_to_95", "heldout_accuracy",
                          "trajectory"};
  for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++)
    cr_assert_not_null(json_object_get(run, of_run[i]), "%s", of_run[i]);
  cr_assert(json_is_null(json_object_get(run, "steps_to_95")));
  json_t *point = json_array_get(json_object_get(run, "trajectory"), 0);
  const char *of_point[] = {"step",
                            "loss",
                            "accuracy",
                            "logit_sd",
                            "entropy_ratio",
                            "saturated_share",
                            "stuck_wrong_share",
                            "stuck_right_share",
                            "jacobian_norm_median",
                            "dq_norm",
                            "dwq_norm",
                            "dwv_norm",
                            "fd_rel_error"};
  for (size_t i = 0; i < sizeof of_point / sizeof *of_point; i++)
    cr_assert_not_null(json_object_get(point, of_point[i]), "%s", of_point[i]);
  const char *keys[] = {"version", "threads", "seconds"};
  for (size_t i = 0; i < 3; i++)
    cr_assert_not_null(json_object_get(document, keys[i]), "%s", keys[i]);
  json_decref(document);

  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  th__recall_csv(&grid, stream);
  fclose(stream);
  ptrdiff_t lines = 0, points = 0;
  for (const char *c = text; *c != '\0'; c++) lines += *c == '\n';
  for (ptrdiff_t i = 0; i < grid.count; i++) points += grid.runs[i].point_count;
  cr_assert_eq(lines, 1 + points);
  free(text);
  th__recall_grid_free(&grid);
}
