#include "lab/inspect_report.h"

#include <math.h>
#include <string.h>

#include "tensor/alloc.h"
#include "tensor/error.h"

/* ---- opening ---- */

/* The object in a metadata text; *there says whether the file has one. */
static json_t *object_of(const th__inspect_file *file, const char *key, bool *there,
                         th_error *error) {
  const char *text =
      json_string_value(json_object_get(th__checkpoint_metadata(file->checkpoint), key));
  *there = text != NULL;
  if (text == NULL) return NULL;
  json_error_t why;
  json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &why);
  if (json_is_object(object)) return object;
  json_decref(object);
  th__error(error, TH_ERR_IO, "%s: metadata \"%s\" is no JSON object: %s", file->path, key,
            object == NULL ? why.text : "another type");
  return NULL;
}

th_status th__inspect_open(th__inspect_file *file, const char *path, th_error *error) {
  *file = (th__inspect_file){.path = path};
  th_error local = {0};
  file->checkpoint = th__checkpoint_open(path, &local);
  bool there = false;
  json_t *json = NULL;
  if (file->checkpoint != NULL) {
    if ((json = object_of(file, "tapehead.model", &there, &local)) != NULL)
      file->model = th__checkpoint_model(file->checkpoint, &local);
    json_decref(json);
    json = NULL;
    if (local.status == TH_OK)
      if ((json = object_of(file, "tapehead.vocab", &there, &local)) != NULL)
        file->vocab = th__vocab_from_json(json, &local);
    json_decref(json);
  }
  if (local.status != TH_OK) th__error(error, local.status, "%s", local.message);
  return local.status;
}

void th__inspect_close(th__inspect_file *file) {
  th__vocab_free(file->vocab);
  th_model_free(file->model);
  th__checkpoint_close(file->checkpoint);
  *file = (th__inspect_file){0};
}

/* ---- a file ---- */

#define LINE_WIDTH 100

#define VALUE_TEXT 200

/* A value as it is shown: short, so a longer list is its length, and a longer text is cut. */
static void value_text(const json_t *value, char text[VALUE_TEXT]) {
  size_t length = 0;
  if (json_is_string(value))
    length = (size_t)snprintf(text, VALUE_TEXT, "%s", json_string_value(value));
  else if (json_array_size(value) > 8)
    length = (size_t)snprintf(text, VALUE_TEXT, "(%zu values)", json_array_size(value));
  else
    length = json_dumpb(value, text, VALUE_TEXT - 1,
                        JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
  text[length < VALUE_TEXT ? length : VALUE_TEXT - 1] = '\0';
}

/* "title: key value, key value, ...", broken into lines. */
static th_status put_object(const th__inspect_file *file, const char *title, const char *key,
                            FILE *out, th_error *error) {
  bool there;
  th_error local = {0};
  json_t *object = object_of(file, key, &there, &local);
  if (object == NULL) return there ? th__error(error, local.status, "%s", local.message) : TH_OK;
  int column = fprintf(out, "%s:", title), indent = column;
  const char *name, *comma = "";
  json_t *value;
  json_object_foreach(object, name, value) {
    char text[VALUE_TEXT];
    value_text(value, text);
    int width = (int)(strlen(name) + strlen(text)) + 2;
    fputs(comma, out);
    if (column + width > LINE_WIDTH && comma[0] != '\0')
      column = fprintf(out, "\n%*s", indent, "") - 1;
    column += fprintf(out, " %s %s", name, text) + 1;
    comma = ",";
  }
  fputc('\n', out);
  json_decref(object);
  return TH_OK;
}

static void put_vocabulary(const th__vocab *vocab, FILE *out) {
  ptrdiff_t size = th__vocab_size(vocab);
  int column =
      fprintf(out, "vocabulary: %td %s", size, th__vocab_kind_name(th__vocab_kind_of(vocab)));
  if (th__vocab_kind_of(vocab) != TH__VOCAB_NUMBERS) {
    for (ptrdiff_t i = 0; i < size; i++) {
      char label[TH__VOCAB_LABEL];
      th__vocab_label(vocab, i, label);
      char *name = label, *end;
      if (label[0] == '\'' && (end = strstr(label + 1, "' (")) != NULL) {
        *end = '\0'; /* 'x' (U+0078): x says enough */
        name = label + 1;
      }
      if (column + (int)strlen(name) > LINE_WIDTH) column = fprintf(out, "\n%11s", "") - 1;
      column += fprintf(out, "%s%s", i == 0 ? ": " : " ", name);
    }
  }
  fputc('\n', out);
}

static void shape_text(char *text, size_t room, const th__entry *entry) {
  size_t used = (size_t)snprintf(text, room, "[");
  for (int i = 0; i < entry->ndim && used < room; i++)
    used += (size_t)snprintf(text + used, room - used, i == 0 ? "%td" : ", %td", entry->shape[i]);
  if (used < room) snprintf(text + used, room - used, "]");
}

static bool is_moment(const th__entry *entry) { return strncmp(entry->name, "optim.", 6) == 0; }

/* Figures of a tensor that is made of numbers we read; otherwise false. */
static bool figures_of(const th__inspect_file *file, const th__entry *entry,
                       th__inspect_tensor *figures) {
  th_error ignored;
  th_tensor *tensor = th__safetensors_load(th__checkpoint_file(file->checkpoint), entry, &ignored);
  bool good = tensor != NULL && th__inspect_parameter(tensor, figures, &ignored) == TH_OK;
  th_tensor_free(tensor);
  return good;
}

static void put_tensors(const th__inspect_file *file, FILE *out) {
  th__safetensors *tensors = th__checkpoint_file(file->checkpoint);
  ptrdiff_t numbers = 0, count = 0, moments = 0;
  fprintf(out, "\n%-32s %-18s %-5s %10s %11s %10s %10s\n", "tensor", "shape", "type", "numbers",
          "mean", "sd", "largest");
  for (ptrdiff_t i = 0; i < th__safetensors_count(tensors); i++) {
    const th__entry *entry = th__safetensors_at(tensors, i);
    if (is_moment(entry)) {
      moments++;
      continue;
    }
    char shape[TH__ENTRY_TEXT];
    th__inspect_tensor f;
    shape_text(shape, sizeof shape, entry);
    fprintf(out, "%-32s %-18s %-5s %10td", entry->name, shape, th__stored_name(entry->stored),
            entry->count);
    if (figures_of(file, entry, &f)) {
      fprintf(out, " %11.3g %10.3g %10.3g", f.mean, f.sd, f.largest);
      if (f.broken > 0) fprintf(out, "  %td of them Inf or NaN", f.broken);
    }
    fputc('\n', out);
    numbers += entry->count;
    count++;
  }
  fprintf(out, "%td tensors, %td numbers", count, numbers);
  if (moments > 0) fprintf(out, "; beside them %td moments of the optimiser", moments);
  fputc('\n', out);
}

th_status th__inspect_file_table(const th__inspect_file *file, FILE *out, th_error *error) {
  const char *version = json_string_value(
      json_object_get(th__checkpoint_metadata(file->checkpoint), "tapehead.version"));
  fprintf(out, "%s: %.3g MiB of tensors", file->path,
          (double)th__safetensors_bytes(th__checkpoint_file(file->checkpoint)) / 0x1p20);
  if (version != NULL) fprintf(out, ", written by tapehead %s", version);
  fputc('\n', out);
  th_status status = put_object(file, "model", "tapehead.model", out, error);
  if (status == TH_OK && file->vocab != NULL) put_vocabulary(file->vocab, out);
  if (status == TH_OK) status = put_object(file, "state", "tapehead.state", out, error);
  if (status == TH_OK) status = put_object(file, "run", "tapehead.train", out, error);
  if (status == TH_OK) put_tensors(file, out);
  return status;
}

static json_t *tensor_json(const th__inspect_file *file, const th__entry *entry) {
  json_t *shape = json_array();
  for (int i = 0; i < entry->ndim; i++) json_array_append_new(shape, json_integer(entry->shape[i]));
  json_t *json = json_pack("{s:s, s:o, s:s}", "name", entry->name, "shape", shape, "type",
                           th__stored_name(entry->stored));
  th__inspect_tensor f;
  if (figures_of(file, entry, &f))
    json_object_update_new(json,
                           json_pack("{s:f, s:f, s:f, s:I}", "mean", f.mean, "sd", f.sd, "largest",
                                     f.largest, "not_finite", (json_int_t)f.broken));
  return json;
}

json_t *th__inspect_file_json(const th__inspect_file *file) {
  static const char *const keys[] = {"model", "vocab", "state", "train"};
  const json_t *metadata = th__checkpoint_metadata(file->checkpoint);
  json_t *json = json_pack("{s:s, s:O?}", "file", file->path, "version",
                           json_object_get(metadata, "tapehead.version"));
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    char key[32];
    snprintf(key, sizeof key, "tapehead.%s", keys[i]);
    const char *text = json_string_value(json_object_get(metadata, key));
    if (text != NULL) json_object_set_new(json, keys[i], json_loads(text, 0, NULL));
  }
  json_t *tensors = json_array();
  th__safetensors *stored = th__checkpoint_file(file->checkpoint);
  for (ptrdiff_t i = 0; i < th__safetensors_count(stored); i++)
    if (!is_moment(th__safetensors_at(stored, i)))
      json_array_append_new(tensors, tensor_json(file, th__safetensors_at(stored, i)));
  json_object_set_new(json, "tensors", tensors);
  return json;
}

/* ---- a text ---- */

/* The bytes that name a symbol; room for TH__VOCAB_LABEL. */
static void name_of(const th__vocab *vocab, int32_t token, char *name) {
  char bytes[TH__VOCAB_SYMBOL];
  size_t at = 0;
  int length = th__vocab_decode(vocab, token, bytes);
  int32_t code = th__utf8_next(bytes, (size_t)length, &at);
  if (code == ' ')
    strcpy(name, "\u2423");
  else if (code == '\n')
    strcpy(name, "\u21b5");
  else if (code < ' ' || code == 0x7f || (code >= 0x80 && code < 0xa0)) /* or no UTF-8 at all */
    snprintf(name, TH__VOCAB_LABEL, "%02x", (unsigned)(unsigned char)bytes[0]);
  else
    snprintf(name, TH__VOCAB_LABEL, "%.*s", length, bytes);
}

char **th__inspect_names(const th__vocab *vocab, const int32_t *tokens, ptrdiff_t count,
                         th_error *error) {
  size_t bytes = (size_t)count * (sizeof(char *) + TH__VOCAB_LABEL);
  char **names = th__alloc(bytes);
  if (names == NULL) {
    th__error_memory(error, "inspect", bytes);
    return NULL;
  }
  char *room = (char *)(names + count);
  for (ptrdiff_t i = 0; i < count; i++, room += TH__VOCAB_LABEL) {
    names[i] = room;
    name_of(vocab, tokens[i], room);
  }
  return names;
}

void th__inspect_text_table(const th__inspection *in, char *const *names, FILE *out) {
  fprintf(out, "%td tokens", in->tokens);
  if (isfinite(in->loss)) fprintf(out, ", %.4f nats for each next one", in->loss);
  fprintf(out, "\n\n%5s %5s %8s %9s %7s  %s\n", "layer", "head", "entropy", "eff. keys", "> 0.99",
          "most attended: token at position, share of all attention");
  for (ptrdiff_t i = 0; i < in->layers * in->heads; i++) {
    const th__inspect_head *h = &in->head[i];
    fprintf(out, "%5td %5td %8.3f %9.2f %7.2f ", h->layer, h->head, h->entropy, h->effective,
            h->saturated);
    for (int k = 0; k < TH__INSPECT_TOP && h->top[k] >= 0; k++)
      fprintf(out, " %s at %td %.0f %%%s", names[h->top[k]], h->top[k], 100 * h->top_share[k],
              k + 1 < TH__INSPECT_TOP && h->top[k + 1] >= 0 ? "," : "");
    fputc('\n', out);
  }
  fprintf(out,
          "\nentropy: nats, mean over queries; eff. keys: exp(entropy), mean over queries; > 0.99: "
          "share of queries\nwith more than 0.99 on one key.\n");
}

static json_t *weights_json(const double *weights, ptrdiff_t n) {
  json_t *rows = json_array();
  for (ptrdiff_t i = 0; i < n; i++) {
    json_t *row = json_array();
    for (ptrdiff_t j = 0; j < n; j++) json_array_append_new(row, json_real(weights[i * n + j]));
    json_array_append_new(rows, row);
  }
  return rows;
}

json_t *th__inspect_text_json(const th__inspection *in, char *const *names) {
  json_t *tokens = json_array(), *heads = json_array();
  for (ptrdiff_t i = 0; i < in->tokens; i++)
    json_array_append_new(tokens, json_string_nocheck(names[i]));
  for (ptrdiff_t i = 0; i < in->layers * in->heads; i++) {
    const th__inspect_head *h = &in->head[i];
    json_t *most = json_array();
    for (int k = 0; k < TH__INSPECT_TOP && h->top[k] >= 0; k++)
      json_array_append_new(most, json_pack("{s:I, s:f}", "position", (json_int_t)h->top[k],
                                            "share", h->top_share[k]));
    json_array_append_new(
        heads, json_pack("{s:I, s:I, s:f, s:f, s:f, s:o, s:o}", "layer", (json_int_t)h->layer,
                         "head", (json_int_t)h->head, "entropy", h->entropy, "effective_keys",
                         h->effective, "saturated", h->saturated, "most_attended", most, "weights",
                         weights_json(in->weights + i * in->tokens * in->tokens, in->tokens)));
  }
  json_t *loss = isfinite(in->loss) ? json_real(in->loss) : json_null();
  return json_pack("{s:o, s:o, s:o}", "tokens", tokens, "loss", loss, "heads", heads);
}
