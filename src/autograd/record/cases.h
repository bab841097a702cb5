/* cases.h: how the gradient checker runs ops that take one tensor or two and nothing else. A case's
 * context points to a pointer to the op. */
#ifndef TH_AUTOGRAD_RECORD_CASES_H
#define TH_AUTOGRAD_RECORD_CASES_H

#include "tapehead.h"

typedef th_tensor *th__unary(th_tape *tape, th_tensor *x);
typedef th_tensor *th__binary(th_tape *tape, th_tensor *a, th_tensor *b);

/* op(x), op(x transposed): context is a th__unary *const *. */
th_tensor *th__run_unary(th_tape *tape, th_tensor *const *in, const void *context);
th_tensor *th__run_unary_transposed(th_tape *tape, th_tensor *const *in, const void *context);

/* op(a, b), op(a transposed, b), op(a, b transposed), op(x, x): context is a th__binary *const *. */
th_tensor *th__run_binary(th_tape *tape, th_tensor *const *in, const void *context);
th_tensor *th__run_first_transposed(th_tape *tape, th_tensor *const *in, const void *context);
th_tensor *th__run_second_transposed(th_tape *tape, th_tensor *const *in, const void *context);
th_tensor *th__run_twice(th_tape *tape, th_tensor *const *in, const void *context);

#endif
