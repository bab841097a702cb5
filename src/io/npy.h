/* npy.h: arrays in NumPy's file format (NEP 1, versions 1.0 to 3.0). */
#ifndef TH_IO_NPY_H
#define TH_IO_NPY_H

#include "tapehead.h"

/* The largest array that is read: more than that is no toy. */
#define TH__NPY_LIMIT ((size_t)1 << 28) /* bytes */

/* Reads a file into a tensor that you own: float32 and float64 as they are, bool, and whole numbers as
 * TH_I32 if they fit (int8, int16, int32, int64, uint8, uint16, uint32, uint64). Arrays in column
 * order are put into row order. NULL with an error that names file, field and what was expected. */
th_tensor *th__npy_read(const char *path, th_error *error);

/* The same from memory. `name` is used in messages. */
th_tensor *th__npy_parse(const char *name, const void *bytes, size_t count, th_error *error);

#endif
