/* train_config.h: the configuration of a training run: one struct, and one list of its fields
 * (train_fields.def) from which options, JSON and checks come. */
#ifndef TH_LAB_TRAIN_CONFIG_H
#define TH_LAB_TRAIN_CONFIG_H

#include <jansson.h>

#include "tapehead.h"

enum {
#define GROUP(number, title)
#define FIELD(member, ...) TH__TRAIN_##member,
#include "lab/train_fields.def"
#undef FIELD
#undef GROUP
  TH__TRAIN_FIELDS
};

/* Words of the choices, by their numbers here; those of task, norm, positions, feed_forward, init and
 * schedule are numbered as in tapehead.h. */
enum { TH__MODEL_GPT, TH__MODEL_LLAMA, TH__MODEL_RNN, TH__MODEL_LSTM, TH__MODEL_SEQ2SEQ };
enum { TH__PRESET_NONE, TH__PRESET_TINY, TH__PRESET_SMALL, TH__PRESET_GPT2_124M };
enum { TH__SYMBOLS_BYTES, TH__SYMBOLS_CHARS };
enum { TH__OPTIM_ADAMW, TH__OPTIM_SGD };

enum { TH__TRAIN_NAMES = 256 };
typedef struct th__names {
  int count;
  char *at[TH__TRAIN_NAMES];
} th__names;

typedef struct th__scale {
  th_scale_kind kind;
  double factor; /* for TH_SCALE_FACTOR */
} th__scale;

/* Where a field's value comes from; the later wins. */
typedef enum th__train_from {
  TH__FROM_DEFAULT,
  TH__FROM_PRESET,
  TH__FROM_FILE,
  TH__FROM_OPTION
} th__train_from;

typedef struct th__train {
  int task; /* counts if there is no text */
  th__names text, validation;
  int symbols;
  double val_fraction;

  int preset, model;
  long layers, d_model, heads, kv_heads, dk, hidden, seq;
  int norm, positions, feed_forward;
  bool post_norm, no_bias, untied;
  th__scale scale;
  int init;
  double dropout;

  long batch, accumulate, steps;
  int optim;
  double lr;
  int schedule;
  long warmup;
  double min_lr;
  long schedule_steps;
  double clip, weight_decay, beta1, beta2;
  uint64_t seed;
  long seeds;

  long eval_every, eval_batches, patience, sample_every, sample_tokens;

  th__names out, log, json; /* one name, or none */
  long save_every, log_every;
  bool plot_terminal;
  long threads;

  unsigned char from[TH__TRAIN_FIELDS]; /* th__train_from */
} th__train;

/* ---- fields ---- */

typedef enum th__field_type {
  TH__FIELD_INTEGER, /* long */
  TH__FIELD_NUMBER,  /* double */
  TH__FIELD_CHOICE,  /* int */
  TH__FIELD_FLAG,    /* bool */
  TH__FIELD_SEED,    /* uint64_t */
  TH__FIELD_SCALE,
  TH__FIELD_NAME, /* th__names with at most one */
  TH__FIELD_NAMES
} th__field_type;

enum {
  TH__USE_FIXED,
  TH__USE_FREE,
  TH__USE_CALL,
  TH__USE_KIND = 3, /* mask of the three above */
  TH__USE_TRANSFORMER = 4,
  TH__USE_ADAMW = 8,
  TH__USE_TEXT = 16
};

typedef struct th__train_field {
  const char *option, *key; /* "d-model", "d_model" */
  th__field_type type;
  size_t offset;
  double least, most;
  const char *const *words; /* of a choice; ends with NULL */
  const char *argument;
  int use, group;
  const char *help; /* NULL: one of the options that every subcommand has */
} th__train_field;

extern const th__train_field th__train_fields[TH__TRAIN_FIELDS];
extern const char *const th__train_groups[]; /* titles; ends with NULL */

/* The number of the field with this key or option; -1 if there is none. */
int th__train_field_find(const char *name);
/* Sets a field from what stands on the command line behind its option (NULL: a flag), or from JSON. Names
 * of files are added to those of the same origin and replace others. TH_ERR_VALUE, and nothing changed,
 * with a sentence that begins with the option or key: `where` stands in front of a key ("run.json: "). */
th_status th__train_set_text(th__train *config, int field, const char *text, th_error *error);
th_status th__train_set_json(th__train *config, int field, const json_t *value, const char *where,
                             th__train_from from, th_error *error);
/* A field's value; NULL when memory ends, json_null() for a name that is not set. */
json_t *th__train_get_json(const th__train *config, int field);
/* The same as text: "0.003", "README.md, b.txt", "yes". */
void th__train_get_text(const th__train *config, int field, char *text, size_t room);
bool th__train_field_same(const th__train *a, const th__train *b, int field);
/* Copies one field with its origin. False when memory ends. */
bool th__train_field_copy(th__train *to, const th__train *from, int field);
void th__train_free(th__train *config); /* what it owns: names */

/* Whether a field means something in this configuration (heads of an LSTM do not). */
bool th__train_field_counts(const th__train *config, int field);

/* ---- configurations ---- */

/* All fields of a JSON object. Errors: an unknown key (with the nearest one), a wrong type, a value out of
 * range, a key given twice; the message names `where` and the key. Fields set so far are kept if they
 * come from something that wins over `from`. */
th_status th__train_from_json(th__train *config, const json_t *object, const char *where,
                              th__train_from from, th_error *error);
th_status th__train_read(th__train *config, const char *path, th_error *error);
/* The fields that count and are kept with a run. NULL when memory ends. */
json_t *th__train_to_json(const th__train *config);

/* Adds the preset's values below those that are set. */
th_status th__train_apply_preset(th__train *config, th_error *error);
/* "layers 4, d_model 128, ...": one line, for --help and docs. */
void th__train_preset_text(int preset, char *text, size_t room);

/* Replaces fields that are 0 and were set by nothing by their defaults. Not the seed. */
void th__train_complete(th__train *config);
/* Whether the fields of a completed configuration fit together. */
th_status th__train_check(const th__train *config, th_error *error);

/* For a run in `folder` that was begun with `stored`: takes over into `stored` what was asked for and may
 * change; anything else that was asked for and differs is refused, with both sides named. */
th_status th__train_merge_resume(th__train *stored, const th__train *asked, const char *folder,
                                 th_error *error);

bool th__train_is_recurrent(const th__train *config);
/* The task's name, or "text". */
const char *th__train_task_name(const th__train *config);
const char *th__train_word(const th__train *config, int field); /* of a choice */

#endif
