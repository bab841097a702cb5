/* catalogue.c: the faults, one line each: what is wrong, in which operation, in which case, in which
 * input's gradient (-1: all), how, with which number, and what it ought to be called. */
#include "autograd/power/faults.h"

#define NO_MASK 1e9

/* clang-format off */
const th__fault th__faults[] = {
    {"dx negated",                        "linear", "linear with bias", 0, th__spoil_factor, -1, TH__BUG_SIGN},
    {"dW doubled",                        "linear", "linear with bias", 1, th__spoil_factor, 2, TH__BUG_FACTOR},
    {"dW transposed",                     "linear", "linear", 1, th__spoil_transpose, 0, TH__BUG_TRANSPOSE},
    {"dW without the last row's term",    "linear", "linear", 1, th__spoil_linear_term, 0, TH__BUG_MISSING_TERM},
    {"dx without the last output's term", "linear", "linear", 0, th__spoil_linear_term, 0, TH__BUG_MISSING_TERM},
    {"dW overwritten",                    "linear", "linear", 1, th__spoil_overwrite, 0, TH__BUG_OVERWRITTEN},
    {"dx overwritten, x used twice",      "linear", "two uses", 0, th__spoil_overwrite, 0, TH__BUG_OVERWRITTEN},
    {"db of the last row only",           "linear", "linear with bias", 2, th__spoil_last_row, 0, TH__BUG_NOT_SUMMED},
    {"db averaged over the rows",         "linear", "linear with bias", 2, th__spoil_rows, -1, TH__BUG_FACTOR},
    {"dx never written",                  "linear", "linear", 0, th__spoil_nothing, 0, TH__BUG_MISSING_TERM},
    {"da transposed",                     "matmul", "matmul", 0, th__spoil_transpose, 0, TH__BUG_TRANSPOSE},
    {"row sum missing",                   "softmax", "softmax", 0, th__spoil_softmax_row_sum, 0, TH__BUG_MISSING_ROW_SUM},
    {"row sum missing",                   "log_softmax", "log_softmax", 0, th__spoil_log_softmax_row_sum, 0, TH__BUG_MISSING_ROW_SUM},
    {"zeros written",                     "softmax", "softmax", 0, th__spoil_zeros, 0, TH__BUG_MISSING_TERM},
    {"one hot missing",                   "cross_entropy", "cross_entropy", 0, th__spoil_entropy_onehot, 0, TH__BUG_MISSING_TERM},
    {"not divided by the counted rows",   "cross_entropy", "cross_entropy", 0, th__spoil_rows, 1, TH__BUG_FACTOR},
    {"ignored rows not masked",           "cross_entropy", "cross_entropy", 0, th__spoil_entropy_ignored, 0, TH__BUG_MASK_NOT_APPLIED},
    {"mean(dxhat) missing",               "layer_norm", "layer_norm", 0, th__spoil_norm_mean, 0, TH__BUG_MISSING_MEAN},
    {"xhat mean(dxhat xhat) missing",     "layer_norm", "layer_norm", 0, th__spoil_norm_projection, 0, TH__BUG_MISSING_MEAN},
    {"dbias of the last row only",        "layer_norm", "layer_norm", 2, th__spoil_last_row, 0, TH__BUG_NOT_SUMMED},
    {"scale forgotten in dq",             "attention", "attention", 0, th__spoil_width, 0.5, TH__BUG_FACTOR},
    {"scale twice in dk",                 "attention", "attention", 1, th__spoil_width, -0.5, TH__BUG_FACTOR},
    {"1/d_k for 1/sqrt(d_k) in dq",       "attention", "attention, causal", 0, th__spoil_width, -0.5, TH__BUG_FACTOR},
    {"row sum missing in dq",             "attention", "attention", 0, th__spoil_attention_row_sum, 0, TH__BUG_MISSING_ROW_SUM},
    {"row sum missing in dk",             "attention", "attention", 1, th__spoil_attention_row_sum, 0, TH__BUG_MISSING_ROW_SUM},
    {"mask one column too far in dv",     "attention", "attention, causal", 2, th__spoil_attention_mask, 1, TH__BUG_MASK_SHIFTED},
    {"mask one column short",             "attention", "attention, causal", -1, th__spoil_attention_mask, -1, TH__BUG_MASK_SHIFTED},
    {"mask not applied",                  "attention", "attention, causal", -1, th__spoil_attention_mask, NO_MASK, TH__BUG_MASK_NOT_APPLIED},
    {"heads of dq exchanged",             "attention", "attention", 0, th__spoil_swap_heads, 0, TH__BUG_HEADS_PERMUTED},
    {"dv = P dy",                         "attention", "attention", 2, th__spoil_attention_untransposed, 0, TH__BUG_TRANSPOSE},
    {"dk of the group's last head only",  "attention", "attention, grouped", 1, th__spoil_attention_last_head, 0, TH__BUG_NOT_SUMMED},
    {"heads of dk exchanged",             "attention", "multi_head_attention", 1, th__spoil_swap_heads, 0, TH__BUG_HEADS_PERMUTED},
    {"the last of two hits wins",         "embedding", "embedding", 0, th__spoil_embedding_last, 0, TH__BUG_OVERWRITTEN},
    {"gradient where x < 0",              "relu", "relu", 0, th__spoil_gate_open, 1, TH__BUG_MASK_NOT_APPLIED},
    {"gradient where dropped",            "dropout", "dropout", 0, th__spoil_gate_open, 4.0 / 3, TH__BUG_MASK_NOT_APPLIED},
    {"1/(1-p) forgotten",                 "dropout", "dropout", 0, th__spoil_factor, 0.75, TH__BUG_FACTOR},
    {"x phi(x) missing",                  "gelu", "gelu", 0, th__spoil_gelu_term, 0, TH__BUG_MISSING_TERM},
    {"broadcast operand's last row only", "add", "add", 1, th__spoil_last_row, 0, TH__BUG_NOT_SUMMED},
    {"bias of the last row only",         "bias", "bias", 1, th__spoil_last_row, 0, TH__BUG_NOT_SUMMED},
    {"1/n forgotten",                     "mean", "mean", 0, th__spoil_width, 1, TH__BUG_FACTOR},
    {"turned by +angle",                  "rotate", "rotate", 0, th__spoil_rotation, 1, TH__BUG_ROTATED},
    {0}};
/* clang-format on */
