/* purpose.h: the library's own random streams. Purposes from 2^31 on are reserved for them, so that no
 * stream of a user, whatever his seed, repeats one of these. */
#ifndef TH_TENSOR_PURPOSE_H
#define TH_TENSOR_PURPOSE_H

#include <stdint.h>

#define TH__PURPOSE_INIT UINT32_C(0x80000000)          /* + number of the parameter */
#define TH__PURPOSE_TASK_TRAINING UINT32_C(0x90000000) /* step: number of the batch */
#define TH__PURPOSE_TASK_HELDOUT UINT32_C(0x90000001)
#define TH__PURPOSE_RECALL_TRAINING                                                                \
  UINT32_C(0x90000010) /* the demo's task: step, number of the batch */
#define TH__PURPOSE_RECALL_HELDOUT UINT32_C(0x90000011)
#define TH__PURPOSE_RECALL_DIRECTION UINT32_C(0x90000012) /* of its finite differences */
#define TH__PURPOSE_TEXT_TRAINING UINT32_C(0x90000018)    /* step: number of the batch */
#define TH__PURPOSE_TEXT_HELDOUT UINT32_C(0x90000019)
#define TH__PURPOSE_TRAIN_SAMPLE UINT32_C(0x9000001a) /* step: of the training; while it runs */
#define TH__PURPOSE_GENERATE UINT32_C(0x9000001b) /* step: number of the sample; i: the new token */
#define TH__PURPOSE_COMPARE_TRAINING UINT32_C(0x9000001c) /* step: number of the batch */
#define TH__PURPOSE_COMPARE_HELDOUT UINT32_C(0x9000001d)  /* step: number of 32 sequences */
#define TH__PURPOSE_COMPARE_GRADIENT UINT32_C(0x9000001e)
#define TH__PURPOSE_COMPARE_TABLES UINT32_C(0x90000028) /* + 0, 1 */
#define TH__PURPOSE_SATURATE UINT32_C(0x90000020)  /* + 0 .. 4: q, k, v, upstream, directions */
#define TH__PURPOSE_GRADCHECK UINT32_C(0x90000030) /* + what is drawn: gradcheck.h */

#endif
