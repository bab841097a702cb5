/* run_plot.c: a run's log as pictures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "lab/plot.h"
#include "lab/run.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

enum { MOST_POINTS = 2000 };

/* Points of one curve. When there are too many, every second one is dropped and only every second one
 * taken from there on: what is kept is spread evenly whatever the length. */
typedef struct curve {
  const char *key;
  double x[MOST_POINTS], y[MOST_POINTS];
  ptrdiff_t count, seen, stride;
} curve;

enum { LOSS, VALIDATION, RATE, NORM, ENTROPY, CURVES };
static const char *const keys[CURVES] = {"loss", "validation_loss", "lr", "grad_norm", "entropy"};

static void add(curve *c, double x, double y) {
  if (c->seen++ % c->stride != 0) return;
  if (c->count == MOST_POINTS) {
    for (ptrdiff_t i = 0; i < MOST_POINTS / 2; i++) c->x[i] = c->x[2 * i], c->y[i] = c->y[2 * i];
    c->count = MOST_POINTS / 2;
    c->stride *= 2;
    if ((c->seen - 1) % c->stride != 0) return;
  }
  c->x[c->count] = x;
  c->y[c->count++] = y;
}

static th_status read_log(const char *path, curve curves[CURVES], th_error *error) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL) return th__error(error, TH_ERR_IO, "%.150s: cannot open", path);
  char *line = NULL;
  size_t room = 0;
  for (ssize_t got; (got = getline(&line, &room, file)) > 0;) {
    json_t *json = json_loadb(line, (size_t)got, JSON_DECODE_INT_AS_REAL, NULL); /* large seeds */
    double step = json_number_value(json_object_get(json, "step"));
    for (int i = 0; i < CURVES; i++) {
      const json_t *value = json_object_get(json, keys[i]);
      if (json_is_number(value)) add(&curves[i], step, json_number_value(value));
    }
    json_decref(json);
  }
  th__free(line);
  fclose(file);
  return TH_OK;
}

static curve *read_curves(const th__run *run, th_error *error) {
  curve *curves = th__alloc_zero(CURVES * sizeof *curves);
  if (curves == NULL) {
    th__error_memory(error, "plot", CURVES * sizeof *curves);
    return NULL;
  }
  for (int i = 0; i < CURVES; i++) curves[i].key = keys[i], curves[i].stride = 1;
  if (read_log(run->log_path, curves, error) == TH_OK) return curves;
  th__free(curves);
  return NULL;
}

static th__series series_of(const curve *c, const char *title) {
  return (th__series){.title = title, .count = c->count, .x = c->x, .y = c->y};
}

/* The plots of a run, which look into one another: not to be copied. */
typedef struct panels {
  th__series losses[2], rate, norm, entropy;
  th__plot plots[4];
  int count;
} panels;

static void make_panels(const curve *c, panels *p) {
  *p = (panels){.losses = {series_of(&c[LOSS], "training"), series_of(&c[VALIDATION], "validation")},
                .rate = series_of(&c[RATE], "learning rate"),
                .norm = series_of(&c[NORM], "before clipping"),
                .entropy = series_of(&c[ENTROPY], "mean over layers, heads, queries"),
                .count = c[ENTROPY].count > 0 ? 4 : 3};
  const th__plot plots[] = {
      {.title = "Loss", .y_label = "nats", .series = p->losses, .series_count = 2},
      {.title = "Learning rate", .y_label = "", .series = &p->rate, .series_count = 1},
      {.title = "Norm of the gradient", .y_label = "", .series = &p->norm, .series_count = 1},
      {.title = "Entropy of attention", .y_label = "nats", .series = &p->entropy, .series_count = 1}};
  for (int i = 0; i < p->count; i++) {
    p->plots[i] = plots[i];
    p->plots[i].x_label = "step";
  }
}

th_status th__run_plot(const th__run *run, th_error *error) {
  curve *c = read_curves(run, error);
  if (c == NULL) return TH_ERR_IO;
  panels p;
  make_panels(c, &p);
  size_t size;
  char *svg = th__plots_svg(p.plots, p.count, 2, 1200, 800, &size, error);
  th__free(c);
  if (svg == NULL) return TH_ERR_IO;
  th_status status = th__write_file(run->plots, svg, size, error);
  th__free(svg);
  return status;
}

th_status th__run_plot_text(const th__run *run, int columns, int rows, FILE *out, th_error *error) {
  curve *c = read_curves(run, error);
  if (c == NULL) return TH_ERR_IO;
  panels p;
  make_panels(c, &p);
  th_status status = TH_OK;
  for (int i = p.count - 1; i >= 0 && status == TH_OK; i--) {
    size_t size;
    char *text = th__plot_text(&p.plots[i], columns, rows, &size, error);
    if (text == NULL)
      status = TH_ERR_IO;
    else
      fputs(text, out);
    th__free(text);
  }
  th__free(c);
  return status;
}
