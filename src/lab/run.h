/* run.h: the folder in which a run is kept:
 *
 *   config.json         what it was begun with
 *   log.jsonl           steps, validations and samples, a line each
 *   last.safetensors    where it can be taken up again
 *   best.safetensors    the model with the lowest validation loss
 *   plots.svg           made at the end
 *
 * The folder is locked while it is open. */
#ifndef TH_LAB_RUN_H
#define TH_LAB_RUN_H

#include <stdio.h>

#include "io/checkpoint.h"
#include "io/lines.h"
#include "lab/trainer.h"

typedef struct th__run {
  const char *folder;                            /* not kept */
  char *config, *log_path, *last, *best, *plots; /* paths */
  int lock;                                      /* the open folder; -1: none */
  bool begun; /* the folder holds this run's configuration: it may be resumed */
  th__lines log;
  th__checkpoint *checkpoint; /* that it is resumed from; NULL: from the beginning */
  long saved;                 /* the step of last.safetensors; -1: none yet */
} th__run;

/* Looks at the folder, which need not exist, and changes nothing. Refused: a run that is there, unless
 * `resume` or `force`; `resume` where there is none; a folder that another run has open. Locks it if it
 * exists. th__run_close() in any case. */
th_status th__run_open(th__run *run, const char *folder, bool resume, bool force, th_error *error);
void th__run_close(th__run *run);

/* The configuration of the run to be resumed: that of its checkpoint (or, if it has none yet, of
 * config.json), with changes to config.json as far as they are allowed. */
th_status th__run_stored_config(th__run *run, th__train *config, th_error *error);

/* Begins a new run, or goes on: makes the folder, removes what a forced run replaces, writes
 * config.json, and cuts the log back to `step`, the last one done. */
th_status th__run_begin(th__run *run, const th__train *config, long step, th_error *error);

/* Saves; the log on the disk reaches as far. */
th_status th__run_save(th__run *run, const th__trainer *trainer, th_error *error);
th_status th__run_save_best(th__run *run, const th__trainer *trainer, th_error *error);

/* Losses and validation, learning rate, gradient norm and entropy by step, from the log (run_plot.c). */
th_status th__run_plot(const th__run *run, th_error *error);
/* The same as text, the losses last: what is left on a terminal. */
th_status th__run_plot_text(const th__run *run, int columns, int rows, FILE *out, th_error *error);

#endif
