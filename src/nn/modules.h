/* modules.h: the modules for the gradient checker, each a th_op with a name and checks (its backward
 * is NULL: it is made of ops). */
#ifndef TH_NN_MODULES_H
#define TH_NN_MODULES_H

#include "tapehead.h"

/* Ended by NULL. */
extern const th_op *const th__modules[];

/* Blocks are in modules.c, whole models in modules_models.c. */
extern const th_op th__module_gpt, th__module_classifier, th__module_seq2seq;

#endif
