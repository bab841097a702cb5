/* checkpoint.h: everything a run needs to go on, in one safetensors file (docs/files.md): the weights
 * under their names, the optimiser's moments as optim.m.NAME and optim.v.NAME, and texts in the
 * metadata:
 *
 *   tapehead.version   the version that wrote it
 *   tapehead.model     the configuration (model_json.h)
 *   tapehead.optim     kind and steps of the optimiser, where one was saved
 *   ...                whatever the caller adds */
#ifndef TH_IO_CHECKPOINT_H
#define TH_IO_CHECKPOINT_H

#include <jansson.h>

#include "io/safetensors.h"
#include "tapehead.h"

/* Replaces `path`, whole or not at all. optim may be NULL, and steps the model's parameters. metadata:
 * an object of strings under keys other than those three, or NULL. */
th_status th__checkpoint_save(const char *path, const th_model *model, const th_optim *optim,
                              const json_t *metadata, th_error *error);

/* An open file whose header has been checked. */
typedef struct th__checkpoint th__checkpoint;
th__checkpoint *th__checkpoint_open(const char *path, th_error *error);
void th__checkpoint_close(th__checkpoint *checkpoint);

const json_t *th__checkpoint_metadata(const th__checkpoint *checkpoint); /* an object of strings */
/* The JSON text under a key of the metadata, read; decref it. NULL with `error` if it is not there. */
json_t *th__checkpoint_json(const th__checkpoint *checkpoint, const char *key, th_error *error);
th__safetensors *th__checkpoint_file(const th__checkpoint *checkpoint); /* its tensors */

/* The model that the file describes, with its weights. Owned by the caller. A vocabulary in the metadata
 * (tapehead.vocab, data/vocab.h) must have as many entries as wte.weight has rows, here and below. */
th_model *th__checkpoint_model(th__checkpoint *checkpoint, th_error *error);

/* Into an existing model, bit for bit: names, shapes and types must be the same, which the error says
 * for both sides. All or nothing. */
th_status th__checkpoint_weights(th__checkpoint *checkpoint, th_model *model, th_error *error);

/* Moments and steps into an optimiser of the same kind over the same parameters, bit for bit. The
 * optimiser's settings (lr, betas, ...) stay as they are. All or nothing. */
th_status th__checkpoint_optim(th__checkpoint *checkpoint, th_optim *optim, th_error *error);

#endif
