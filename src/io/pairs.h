/* pairs.h: parameters beside the tensors of a file. */
#ifndef TH_IO_PAIRS_H
#define TH_IO_PAIRS_H

#include "io/safetensors.h"

/* Tensors to be read and where to; both arrays have room for `room` pairs. */
typedef struct th__pairs {
  const th__entry **entries;
  th_tensor **tensors;
  ptrdiff_t count, room;
} th__pairs;
th_status th__pairs_new(th__pairs *pairs, ptrdiff_t room, th_error *error);
void th__pairs_free(th__pairs *pairs);

/* Looks for `tensor` under `prefix``name`, and adds the two to the pairs. Another shape is an error that
 * names both sides; so is another type, if `exact`, or one that cannot be converted. */
th_status th__pairs_add(th__pairs *pairs, const th__safetensors *file, const char *prefix,
                        const char *name, th_tensor *tensor, bool exact, th_error *error);

/* Adds all parameters. A tensor of the file that is none of them is an error, unless its name begins
 * with "optim.". */
th_status th__pairs_add_params(th__pairs *pairs, const th__safetensors *file,
                               const th_params *params, bool exact, th_error *error);

/* Fills all tensors, or none on an error. */
th_status th__pairs_read(const th__pairs *pairs, th__safetensors *file, th_error *error);

#endif
