/* train_report.h: what is shown and written of training runs. */
#ifndef TH_LAB_TRAIN_REPORT_H
#define TH_LAB_TRAIN_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "lab/train.h"

enum { TH__TRAIN_LINE = 512 }; /* room for a line of the log, or of progress */

/* A step as a line of JSON, and as a line of progress of less than `columns` characters, without a
 * line's end. Both return its length. `which` stands in front of the progress: "seed 3  " or "". */
int th__train_log_line(char line[TH__TRAIN_LINE], uint64_t seed, const th__train_step *step);
int th__train_progress(char line[TH__TRAIN_LINE], int columns, const char *which,
                       const th__train_step *step, long steps);
/* A validation and a sample as lines of JSON. Free the latter with th__free; NULL when memory ends. */
int th__train_validation_line(char line[TH__TRAIN_LINE], uint64_t seed,
                              const th__train_validation *validation);
char *th__train_sample_line(uint64_t seed, long step, const char *text);

/* The document of issue and manual; NULL when memory ends. */
json_t *th__train_json(const th__train *config, const th__train_run *runs, int count);

/* The table: its head, a line per run, and over several runs the median and range of each figure. */
void th__train_head(const th__train *config, FILE *out);
void th__train_row(const th__train_run *run, FILE *out);
void th__train_summary(const th__train_run *runs, int count, FILE *out);

/* What is about to be trained: parameters, which of them decay, memory (train_table.c). */
void th__train_table(const th__trainer *trainer, FILE *out);

#endif
