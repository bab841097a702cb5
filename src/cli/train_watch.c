#include "cli/train_watch.h"

#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "lab/train_report.h"

/* ---- signals ---- */

static volatile sig_atomic_t interrupted;
static void on_interrupt(int number) { interrupted = number; }

void train_watch_signals(void) {
  struct sigaction action = {.sa_handler = on_interrupt,
                             .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  struct sigaction hangup; /* the terminal was closed: not with nohup, which has it ignored */
  if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, NULL);
  signal(SIGPIPE, SIG_IGN); /* a reader that went away is a failed write, with a message */
  signal(SIGXFSZ, SIG_IGN); /* and so is a file that grows beyond a limit */
}

int train_interrupted(void) { return interrupted; }

/* ---- progress ---- */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void train_clear_progress(train_watch *w) {
  if (w->width > 0) fprintf(stderr, "\r%*s\r", w->width, "");
  w->width = 0;
}

/* A line that replaces itself, ten times a second at most. */
static void show_progress(train_watch *w, const th__train_step *step) {
  if (!cli_progress() || (now() < w->next_line && step->step < w->config->steps)) return;
  w->next_line = now() + 0.1;
  struct winsize size;
  int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  char line[TH__TRAIN_LINE], which[32] = "";
  if (w->config->seeds > 1)
    snprintf(which, sizeof which, "seed %llu  ", (unsigned long long)w->seed);
  int width = th__train_progress(line, columns, which, step, w->config->steps);
  fprintf(stderr, "\r%s%*s", line, w->width > width ? w->width - width : 0, "");
  w->width = width;
}

/* ---- what the run tells ---- */

void train_print_head(train_watch *w) {
  if (!w->table || w->head_printed) return;
  w->head_printed = true;
  th__train_head(w->config, stdout);
  fflush(stdout);
}

static void on_begin(void *context, const th__trainer *trainer) {
  train_watch *w = context;
  if (!w->detailed)
    train_print_head(w);
  else if (w->table && !w->head_printed) {
    th__train_table(trainer, stdout);
    fflush(stdout);
  }
}

static bool on_step(void *context, const th__train_step *step) {
  show_progress(context, step);
  return !interrupted && !ferror(stdout);
}

static void on_validation(void *context, const th__train_validation *v) {
  train_watch *w = context;
  if (!w->table || !w->detailed) return;
  train_clear_progress(w);
  printf("step %ld: validation loss %.4f, %.1f%% right%s\n", v->step, v->loss, 100 * v->accuracy,
         v->best ? ", the best so far" : "");
  fflush(stdout);
}

/* Control characters of a sample must not move a terminal's cursor. */
static void on_sample(void *context, long step, const char *text) {
  train_watch *w = context;
  if (!w->table) return;
  train_clear_progress(w);
  printf("step %ld: sample\n  | ", step);
  for (; *text != '\0'; text++) {
    if (*text == '\n')
      printf("\n  | ");
    else
      putchar(((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f ? '?' : *text);
  }
  printf("\n");
  fflush(stdout);
}

th__train_watch train_watch_functions(train_watch *watch) {
  return (th__train_watch){watch, on_begin, on_step, on_validation, on_sample};
}
