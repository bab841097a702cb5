/* table.c: the kernels of one precision and instruction set, gathered in a table. */
#include "ops/kernels.h"
#include "ops/real.h"

#define TH__TABLE2(bits) th__kernels_##bits
#define TH__TABLE(bits) TH__TABLE2(bits)

extern const TH__TABLE(TH__REAL_NAME) RN(table);

const TH__TABLE(TH__REAL_NAME) RN(table) = {
#define KERNEL(name, ...) .name = RN(name),
#include "ops/kernels.def"
#undef KERNEL
};
