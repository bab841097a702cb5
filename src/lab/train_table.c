/* train_table.c: what is about to be trained: parameters, which of them decay, memory. */
#include <ctype.h>
#include <string.h>

#include "lab/train_report.h"
#include "lab/trainer.h"

enum { MOST_ROWS = 128, NAME = 64 };

/* Parameters that differ in the number of their layer only. */
typedef struct row {
  char name[NAME]; /* "h.*.attn.c_attn.weight" */
  const th_tensor *tensor;
  int count;
  double decay;
} row;

/* The name with every whole number between dots as a star. */
static void pattern(const char *name, char text[NAME]) {
  size_t used = 0;
  for (const char *at = name; *at != '\0' && used + 1 < NAME;) {
    bool begins = at == name || at[-1] == '.';
    size_t digits = strspn(at, "0123456789");
    if (begins && digits > 0 && at[digits] == '.') {
      text[used++] = '*';
      at += digits;
    } else
      text[used++] = *at++;
  }
  text[used] = '\0';
}

static bool same_shape(const th_tensor *a, const th_tensor *b) {
  if (th_tensor_ndim(a) != th_tensor_ndim(b)) return false;
  for (int i = 0; i < th_tensor_ndim(a); i++)
    if (th_tensor_dim(a, i) != th_tensor_dim(b, i)) return false;
  return true;
}

static int collect(const th__trainer *t, row rows[MOST_ROWS]) {
  const th_params *params = th_model_params(t->model);
  int count = 0;
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    row new = {
        .tensor = th_params_at(params, i), .count = 1, .decay = th_optim_weight_decay(t->optim, i)};
    pattern(th_tensor_name(new.tensor), new.name);
    int at = 0;
    while (at < count && !(strcmp(rows[at].name, new.name) == 0 &&
                           rows[at].decay == new.decay &&same_shape(rows[at].tensor, new.tensor)))
      at++;
    if (at < count)
      rows[at].count++;
    else if (count < MOST_ROWS)
      rows[count++] = new;
  }
  return count;
}

static void put_rows(const row *rows, int count, bool decays, FILE *out) {
  for (int i = 0; i < count; i++) {
    if ((rows[i].decay > 0) != decays) continue;
    fprintf(out, "    %-28s", rows[i].name);
    if (rows[i].count > 1) fprintf(out, " %d x", rows[i].count);
    fprintf(out, " [");
    for (int j = 0; j < th_tensor_ndim(rows[i].tensor); j++)
      fprintf(out, "%s%td", j ? ", " : "", th_tensor_dim(rows[i].tensor, j));
    fprintf(out, "]\n");
  }
}

static void put_group(const row *rows, int count, bool decays, double decay, FILE *out) {
  double numbers = 0;
  int tensors = 0;
  for (int i = 0; i < count; i++) {
    if ((rows[i].decay > 0) != decays) continue;
    tensors += rows[i].count;
    numbers += (double)rows[i].count * (double)th_tensor_count(rows[i].tensor);
  }
  if (tensors == 0) return;
  if (decays)
    fprintf(out, "  decay %g: %d tensors, %.0f numbers\n", decay, tensors, numbers);
  else
    fprintf(out, "  no decay: %d tensors, %.0f numbers\n", tensors, numbers);
  put_rows(rows, count, decays, out);
}

void th__train_table(const th__trainer *t, FILE *out) {
  row rows[MOST_ROWS];
  int count = collect(t, rows);
  const th_params *params = th_model_params(t->model);
  fprintf(out, "%s: %td parameters in %td tensors, vocabulary %td\n",
          th__train_word(t->config, TH__TRAIN_model), th_params_elements(params),
          th_params_count(params), t->vocab);
  put_group(rows, count, true, t->config->weight_decay, out);
  put_group(rows, count, false, 0, out);
  th__train_need need = th__train_bytes(t->config, th__train_data_bytes(t->data), t->vocab);
  fprintf(out,
          "memory: about %.1f MiB for the model with gradients and moments, %.1f MiB for a step",
          need.model / 0x1p20, need.step / 0x1p20);
  if (t->text != NULL) fprintf(out, ", %.1f MiB for the text", need.text / 0x1p20);
  fprintf(out, "\n");
  if (t->text != NULL)
    fprintf(out, "text: %td symbols to train on, %td for validation\n",
            th__text_length(t->text, false), th__text_length(t->text, true));
  if (t->state.step > 0) fprintf(out, "goes on after step %ld\n", t->state.step);
  fprintf(out, "\n");
}
