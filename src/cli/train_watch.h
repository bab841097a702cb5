/* train_watch.h: what `tapehead train` shows while it trains, and the signals that end it. */
#ifndef TH_CLI_TRAIN_WATCH_H
#define TH_CLI_TRAIN_WATCH_H

#include "lab/train.h"

typedef struct train_watch {
  const th__train *config;
  bool table;    /* stdout is not taken by JSON */
  bool detailed; /* parameters first, validations and samples as they come, the table at the end */
  bool head_printed;
  uint64_t seed;
  double next_line; /* progress: seconds, about, and its width on the screen */
  int width;
} train_watch;

th__train_watch train_watch_functions(train_watch *watch);
/* The first of SIGINT, SIGTERM and SIGHUP asks for an end after the step, a second one ends at once. */
void train_watch_signals(void);
int train_interrupted(void); /* the signal, or 0 */
void train_print_head(train_watch *watch);
void train_clear_progress(train_watch *watch);

#endif
