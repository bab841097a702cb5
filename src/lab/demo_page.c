/* demo_page.c: the report folder: data, pictures and one page that shows them all. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "io/file.h"
#include "lab/demo.h"
#include "lab/machine.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

/* A writer of one folder; after the first failure it does nothing more. */
typedef struct writer {
  const char *folder;
  th_status status;
  th_error *error;
} writer;

static void write_file(writer *w, const char *name, const char *bytes, size_t count) {
  char path[4096];
  if (w->status != TH_OK) return;
  int length = snprintf(path, sizeof path, "%s/%s", w->folder, name);
  w->status = length >= (int)sizeof path
                  ? th__error(w->error, TH_ERR_IO, "%.100s...: the path is too long", w->folder)
                  : th__write_file(path, bytes, count, w->error);
}

static void write_json(writer *w, const char *name, json_t *document) {
  char *text =
      document == NULL ? NULL : json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  json_decref(document);
  if (text != NULL)
    write_file(w, name, text, strlen(text));
  else if (w->status == TH_OK)
    w->status = th__error_memory(w->error, name, 0);
  th__free(text);
}

/* Text collected in memory, then written; `fill` prints it. */
typedef void fill_text(const th__demo *demo, FILE *out);

static void write_text(writer *w, const char *name, const th__demo *demo, fill_text *fill) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (out != NULL) fill(demo, out);
  bool good = out != NULL && !ferror(out);
  if (out != NULL && fclose(out) != 0) good = false;
  if (good)
    write_file(w, name, text, size);
  else if (w->status == TH_OK)
    w->status = th__error_memory(w->error, name, size);
  th__free(text);
}

/* ---- data ---- */

static json_t *checks_json(const th__demo *demo) {
  json_t *list = json_array();
  for (int i = 0; i < demo->check_count; i++) {
    const th__demo_check *c = &demo->checks[i];
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:f, s:f}", "op", c->op, "variant",
                                          c->variant, "verdict", th_verdict_name(c->verdict),
                                          "compared", (json_int_t)c->compared, "f64_max_rel_error",
                                          c->f64_rel_error, "f32_max_abs_error", c->f32_abs_error));
  }
  return json_pack("{s:o, s:i, s:i, s:s}", "checks", list, "passed",
                   demo->check_count - demo->checks_failed, "failed", demo->checks_failed,
                   "version", th_version());
}

static void fill_saturation_csv(const th__demo *demo, FILE *out) {
  th__saturate_csv(demo->sweep, demo->command, out);
}
static void fill_recall_csv(const th__demo *demo, FILE *out) { th__recall_csv(&demo->grid, out); }

/* ---- the page ---- */

static void put_escaped(const char *text, size_t count, FILE *out) {
  for (size_t i = 0; i < count; i++) switch (text[i]) {
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    default: fputc(text[i], out);
    }
}

/* What `fill` prints, as preformatted text. */
static void put_block(const th__demo *demo, fill_text *fill, const char *tag, FILE *out) {
  char *text = NULL;
  size_t size = 0;
  FILE *block = open_memstream(&text, &size);
  if (block == NULL) return;
  fill(demo, block);
  if (fclose(block) == 0) {
    fprintf(out, "<%s>", tag);
    put_escaped(text, size, out);
    fprintf(out, "</%s>\n", tag);
  }
  th__free(text);
}

/* The SVG without its XML declaration, which may not stand inside HTML. */
static void put_svg(const char *svg, FILE *out) {
  const char *start = strstr(svg, "<svg");
  if (start != NULL) fprintf(out, "<figure>%s</figure>\n", start);
}

static void fill_sweep_table(const th__demo *demo, FILE *out) {
  th__saturate_table(demo->sweep, out);
}
static void fill_recall_table(const th__demo *demo, FILE *out) {
  th__recall_table(&demo->grid, out);
}

static void fill_checks_table(const th__demo *demo, FILE *out) {
  fprintf(out, "%-40s %-12s %9s %18s %18s\n", "case", "verdict", "compared", "f64 relative error",
          "f32 absolute error");
  for (int i = 0; i < demo->check_count; i++) {
    const th__demo_check *c = &demo->checks[i];
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", c->op, c->variant[0] ? "/" : "", c->variant);
    fprintf(out, "%-40s %-12s %9td %18.1e %18.1e\n", name, th_verdict_name(c->verdict), c->compared,
            c->f64_rel_error, c->f32_abs_error);
  }
}

static void put_head(const th__demo *demo, FILE *out) {
  char cpu[128];
  th__machine_cpu(cpu, sizeof cpu);
  fprintf(
      out,
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>What 1/sqrt(d_k) is for</title>\n"
      "<style>body{font:16px/1.5 sans-serif;max-width:1280px;margin:2em auto;padding:0 1em;color:#222}"
      "pre{background:#f5f5f5;padding:.8em;overflow-x:auto;font-size:12px;line-height:1.35}"
      "figure{margin:1em 0}svg{max-width:100%%;height:auto}p{max-width:50em}.small{color:#666;"
      "font-size:13px}</style></head><body>\n<h1>What 1/sqrt(d_k) is for</h1>\n");
  fprintf(out, "<p class=\"small\">tapehead %s, %s kernels, %d threads, ", th_version(), th_isa(),
          th_threads());
  put_escaped(cpu, strlen(cpu), out);
  fprintf(out, "; seed %llu; %.0f s; command: ", (unsigned long long)demo->seed, demo->seconds);
  put_escaped(demo->command, strlen(demo->command), out);
  fprintf(out, "</p>\n");
}

static const char about_recall[] =
    "<p>The task: 32 slots, each the sum of a key's and a value's embedding; all 32 keys occur, each with "
    "one of 16 values; 4 queries hold a key and answer its value (chance 1/16). One attention layer, one "
    "head, d_model = d_v = 64, norms without gain, no biases, no feed-forward; embeddings ~ N(0,1), "
    "matrices ~ N(0, 1/fan_in); 32 fresh sequences a step. AdamW 1e-3 (weight decay 0.01), SGD 0.3.</p>\n"
    "<p>Row gradients (dq: with respect to a query after Wq) are those of the mean loss times the number "
    "of rows, 128; weight gradients (dWq, dWv) are those of the mean loss. <i>satur.</i>: rows whose "
    "largest weight exceeds 0.99, of which <i>wrong</i> on a key that was not asked for and <i>right</i> "
    "on the one that was. |J|: Frobenius norm of the softmax Jacobian, median row. FD error: the gradients "
    "of Wq, Wk and Wv, as training computes them in f32, against finite differences in f64, along one "
    "direction each, the largest relative error. All are medians over the seeds; bands span the seeds. "
    "Accuracy is measured on 256 held-out answers, at the end on 2048; 95 % counts as reached when 2048 more "
    "confirm it.</p>\n";

static void put_page(const th__demo *demo, char *const *svgs, FILE *out) {
  put_head(demo, out);
  put_block(demo, th__demo_conclusion, "p", out);
  fprintf(out, "<h2>The gradients are right</h2>\n");
  put_block(demo, fill_checks_table, "pre", out);
  fprintf(out, "<h2>Saturation of the softmax at random queries and keys</h2>\n");
  put_svg(svgs[0], out);
  put_block(demo, fill_sweep_table, "pre", out);
  fprintf(out, "<h2>A task that needs one sharp look-up</h2>\n%s", about_recall);
  put_block(demo, fill_recall_table, "pre", out);
  for (int optim = 0; optim < TH__RECALL_OPTIMS; optim++)
    for (int dk = TH__RECALL_DKS - 1; dk >= 0; dk--) {
      char *text = NULL;
      size_t size = 0;
      FILE *block = open_memstream(&text, &size);
      fprintf(out, "<h3>%s, d_k = %td</h3>\n", th__recall_optim_names[optim], th__recall_dks[dk]);
      put_svg(svgs[1 + optim * TH__RECALL_DKS + dk], out);
      if (block == NULL) continue;
      th__recall_development(&demo->grid, optim, dk, block);
      if (fclose(block) == 0) fprintf(out, "<pre>%s</pre>\n", text);
      th__free(text);
    }
  fprintf(out, "</body></html>\n");
}

static void write_page(writer *w, const th__demo *demo, char *const *svgs) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (out != NULL) put_page(demo, svgs, out);
  bool good = out != NULL && !ferror(out);
  if (out != NULL && fclose(out) != 0) good = false;
  if (good)
    write_file(w, "index.html", text, size);
  else if (w->status == TH_OK)
    w->status = th__error_memory(w->error, "index.html", size);
  th__free(text);
}

/* ---- the folder ---- */

enum { PICTURES = 1 + TH__RECALL_OPTIMS * TH__RECALL_DKS };

/* Draws and writes picture i: the sweep, then a cell of the runs each. */
static char *write_picture(writer *w, const th__demo *demo, int i) {
  char name[64] = "saturation.svg", *svg = NULL;
  size_t size = 0;
  if (w->status != TH_OK) return NULL;
  th_error local = {0};
  if (i == 0)
    svg = th__saturate_svg(demo->sweep, &size, &local);
  else {
    int optim = (i - 1) / TH__RECALL_DKS, dk = (i - 1) % TH__RECALL_DKS;
    snprintf(name, sizeof name, "recall-%s-dk%td.svg", th__recall_optim_names[optim],
             th__recall_dks[dk]);
    svg = th__recall_svg(&demo->grid, optim, dk, &size, &local);
  }
  if (svg == NULL) {
    if (w->error != NULL) *w->error = local;
    w->status = local.status;
  } else
    write_file(w, name, svg, size);
  return svg;
}

th_status th__demo_write(const th__demo *demo, const char *folder, th_error *error) {
  writer w = {.folder = folder, .error = error};
  if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    return th__error(error, TH_ERR_IO, "%s: cannot make the folder: %s", folder, strerror(errno));
  write_json(&w, "checks.json", checks_json(demo));
  write_json(&w, "saturation.json", th__saturate_json(demo->sweep, demo->command));
  write_json(&w, "recall.json", th__recall_json(&demo->grid));
  write_text(&w, "saturation.csv", demo, fill_saturation_csv);
  write_text(&w, "recall.csv", demo, fill_recall_csv);
  char *svgs[PICTURES] = {NULL};
  for (int i = 0; i < PICTURES; i++) svgs[i] = write_picture(&w, demo, i);
  if (w.status == TH_OK) write_page(&w, demo, svgs);
  for (int i = 0; i < PICTURES; i++) th__free(svgs[i]);
  return w.status;
}
