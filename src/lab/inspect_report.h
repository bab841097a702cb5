/* inspect_report.h: what `tapehead inspect` shows, as tables and as JSON. */
#ifndef TH_LAB_INSPECT_REPORT_H
#define TH_LAB_INSPECT_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "data/vocab.h"
#include "io/checkpoint.h"
#include "lab/inspect.h"

/* A file that was looked into. */
typedef struct th__inspect_file {
  const char *path;
  th__checkpoint *checkpoint;
  th_model *model;  /* NULL: a safetensors file that holds no model of ours */
  th__vocab *vocab; /* NULL if it holds none */
} th__inspect_file;

/* TH_ERR_IO for a file that is not in order. Release with th__inspect_close, also after an error. */
th_status th__inspect_open(th__inspect_file *file, const char *path, th_error *error);
void th__inspect_close(th__inspect_file *file);

/* Configuration, vocabulary, state, tensors. */
th_status th__inspect_file_table(const th__inspect_file *file, FILE *out, th_error *error);
json_t *th__inspect_file_json(const th__inspect_file *file);

/* How tokens are named in maps and tables: one short word each, white space made visible. Free with
 * th__free. NULL when memory ends. */
char **th__inspect_names(const th__vocab *vocab, const int32_t *tokens, ptrdiff_t count,
                         th_error *error);

/* A line per layer and head. */
void th__inspect_text_table(const th__inspection *inspection, char *const *names, FILE *out);
json_t *th__inspect_text_json(const th__inspection *inspection, char *const *names);

#endif
