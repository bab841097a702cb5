/* error.h: filling a th_error. */
#ifndef TH_TENSOR_ERROR_H
#define TH_TENSOR_ERROR_H

#include <stdarg.h>

#include "tapehead.h"

/* Sets status and sentence (printf-style) and returns the status. error may be NULL. */
th_status th__error(th_error *error, th_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
th_status th__error_v(th_error *error, th_status status, const char *format, va_list args);

/* Out of memory, said the same way everywhere. */
th_status th__error_memory(th_error *error, const char *who, size_t bytes);

#endif
