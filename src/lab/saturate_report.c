/* saturate_report.c: a sweep's results as JSON, as CSV and as a table. */
#include <inttypes.h>
#include <string.h>

#include "lab/saturate.h"

static const char *const figure_names[] = {
#define X(code, name) name,
    TH__SATURATE_FIGURE_LIST(X)
#undef X
};

/* ---- JSON ---- */

static json_t *summary_json(const th__summary *s) {
  return json_pack("{s:f, s:f, s:f, s:f, s:f}", "mean", s->mean, "stderr", s->standard_error,
                   "median", s->median, "q10", s->q10, "q90", s->q90);
}

static json_t *point_json(const th__saturate_point *p) {
  json_t *point = json_pack("{s:I, s:I, s:s, s:f, s:f}", "dk", (json_int_t)p->dk, "keys",
                            (json_int_t)p->keys, "scale", p->scale.name, "logit_variance",
                            p->logit_variance, "logit_variance_stderr", p->logit_variance_error);
  bool good = point != NULL;
  for (int i = 0; i < TH__SATURATE_FIGURES && good; i++)
    good = json_object_set_new(point, figure_names[i], summary_json(&p->figures[i])) == 0;
  json_t *rest = json_pack("{s:f, s:f, s:f, s:I, s:I, s:I}", "saturated_share", p->saturated_share,
                           "fd_rel_error_median", p->fd_rel_error_median, "fd_rel_error_max",
                           p->fd_rel_error_max, "fd_rows", (json_int_t)p->fd_rows, "zero_weights",
                           (json_int_t)p->zero_weights, "zero_gradient_rows",
                           (json_int_t)p->zero_gradient_rows);
  good = good && json_object_update(point, rest) == 0;
  json_decref(rest);
  if (good) return point;
  json_decref(point);
  return NULL;
}

json_t *th__saturate_json(const th__saturate_result *result, const char *command) {
  json_t *points = json_array();
  bool good = points != NULL;
  for (int i = 0; i < result->count && good; i++)
    good = json_array_append_new(points, point_json(&result->points[i])) == 0;
  /* JSON as jansson has it knows signed 64-bit integers: larger seeds are written as text. */
  json_t *seed = result->seed <= INT64_MAX ? json_integer((json_int_t)result->seed)
                                           : json_sprintf("%" PRIu64, result->seed);
  json_t *document =
      json_pack("{s:O*, s:o, s:I, s:i, s:s, s:s, s:s*}", "points", good ? points : NULL, "seed",
                seed, "samples", (json_int_t)result->samples, "threads", result->threads, "version",
                th_version(), "dtype", th_dtype_name(result->dtype), "command", command);
  json_decref(points);
  if (good) return document;
  json_decref(document);
  return NULL;
}

/* ---- CSV ---- */

static void put_quoted(FILE *out, const char *text) {
  fputc('"', out);
  for (; text != NULL && *text != '\0'; text++) {
    if (*text == '"') fputc('"', out);
    fputc(*text, out);
  }
  fputc('"', out);
}

void th__saturate_csv(const th__saturate_result *result, const char *command, FILE *out) {
  fprintf(out, "dk,keys,scale,logit_variance,logit_variance_stderr");
  for (int i = 0; i < TH__SATURATE_FIGURES; i++)
    fprintf(out, ",%s_mean,%s_stderr,%s_median,%s_q10,%s_q90", figure_names[i], figure_names[i],
            figure_names[i], figure_names[i], figure_names[i]);
  fprintf(out, ",saturated_share,fd_rel_error_median,fd_rel_error_max,fd_rows,zero_weights,"
               "zero_gradient_rows,samples,dtype,seed,threads,version,command\n");
  for (int i = 0; i < result->count; i++) {
    const th__saturate_point *p = &result->points[i];
    fprintf(out, "%td,%td,%s,%.17g,%.17g", p->dk, p->keys, p->scale.name, p->logit_variance,
            p->logit_variance_error);
    for (int f = 0; f < TH__SATURATE_FIGURES; f++) {
      const th__summary *s = &p->figures[f];
      fprintf(out, ",%.17g,%.17g,%.17g,%.17g,%.17g", s->mean, s->standard_error, s->median, s->q10,
              s->q90);
    }
    fprintf(out, ",%.17g,%.17g,%.17g,%td,%td,%td,%ld,%s,%" PRIu64 ",%d,%s,", p->saturated_share,
            p->fd_rel_error_median, p->fd_rel_error_max, p->fd_rows, p->zero_weights,
            p->zero_gradient_rows, result->samples, th_dtype_name(result->dtype), result->seed,
            result->threads, th_version());
    put_quoted(out, command);
    fputc('\n', out);
  }
}

/* ---- table ---- */

static int name_width(const th__saturate_result *result) {
  size_t width = 5;
  for (int i = 0; i < result->count; i++)
    if (strlen(result->points[i].scale.name) > width) width = strlen(result->points[i].scale.name);
  return (int)width;
}

void th__saturate_table(const th__saturate_result *result, FILE *out) {
  int width = name_width(result);
  fprintf(out,
          "Attention of one query at random q, k, v and upstream gradient ~ N(0, 1): %ld rows per "
          "point, %s, seed %" PRIu64 "\n\n",
          result->samples, th_dtype_name(result->dtype), result->seed);
  fprintf(out,
          "%7s %7s %-*s %9s %8s %9s %6s %9s %19s %9s %9s %7s %7s\n"
          "%7s %7s %-*s %9s %8s %9s %6s %9s %9s %9s %9s %9s %7s %7s\n",
          "", "", width, "", "variance", "entropy", "1 - max", "share", "|J|", "|dL/dq|", "|dL/dK|",
          "FD rel.", "zero", "rows", "d_k", "keys", width, "scale", "of logits", "mean", "median",
          "> 0.99", "median", "mean", "median", "median", "error", "weights", "dead");
  for (int i = 0; i < result->count; i++) {
    const th__saturate_point *p = &result->points[i];
    const th__summary *f = p->figures;
    if (i > 0 && i % result->scale_count == 0) fputc('\n', out);
    fprintf(out, "%7td %7td %-*s %9.3g %8.3f %9.2e %6.3f %9.2e %9.2e %9.2e %9.2e %9.1e %7td %7td\n",
            p->dk, p->keys, width, p->scale.name, p->logit_variance, f[TH__ENTROPY].mean,
            f[TH__ONE_MINUS_MAX].median, p->saturated_share, f[TH__JACOBIAN_NORM].median,
            f[TH__DQ_NORM].mean, f[TH__DQ_NORM].median, f[TH__DK_NORM].median,
            p->fd_rel_error_median, p->zero_weights, p->zero_gradient_rows);
  }
  fprintf(out,
          "\n"
          "1 - max: the sum of all weights but the largest. Share > 0.99: rows whose largest weight "
          "exceeds that. J: the\n"
          "softmax's Jacobian. FD: both gradients against finite differences, median over %td rows "
          "of each point. Zero\n"
          "weights: exactly 0, by underflow. Rows dead: both gradients exactly 0. The scales of a "
          "point see the same rows.\n",
          result->count > 0 ? result->points[0].fd_rows : 0);
}
