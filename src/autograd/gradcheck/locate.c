/* locate.c: which operation's backward a set of wrong gradients points to. A mistake in what an
 * operation passes to one of its inputs spoils exactly the gradients of the leaves behind that input. */
#include <stdio.h>
#include <string.h>

#include "autograd/gradcheck/evidence.h"

enum { MOST_NODES = 512 };

typedef struct graph {
  int count;
  const th_node *nodes[MOST_NODES]; /* in the order of recording */
  unsigned behind[MOST_NODES];      /* leaves behind each node's output */
} graph;

static unsigned leaves_of(const th__subject *subject, const graph *g, th_tensor *const *leaves,
                          const th_tensor *x) {
  const th_tensor *root = x->base != NULL ? x->base : x;
  for (int i = 0; i < subject->input_count; i++)
    if (leaves[i] == root) return 1u << subject->slot[i];
  for (int n = g->count; n-- > 0;)
    if (g->nodes[n]->output == root) return g->behind[n];
  return 0;
}

static bool read_graph(const th__subject *subject, th_tape *tape, th_tensor *const *leaves,
                       graph *g) {
  int total = 0;
  for (const th_node *node = tape->last; node != NULL; node = node->previous) total++;
  if (total > MOST_NODES) return false;
  int at = total;
  for (const th_node *node = tape->last; node != NULL; node = node->previous) g->nodes[--at] = node;
  for (g->count = 0; g->count < total; g->count++) {
    const th_node *node = g->nodes[g->count];
    unsigned behind = 0;
    for (int i = 0; i < node->input_count; i++)
      if (node->inputs[i] != NULL) behind |= leaves_of(subject, g, leaves, node->inputs[i]);
    g->behind[g->count] = behind;
  }
  return true;
}

/* "linear", or "linear 2 of 4" where there are several. */
static void node_name(const graph *g, int n, char *text, size_t room) {
  const char *name = g->nodes[n]->op->name;
  int before = 0, all = 0;
  for (int m = 0; m < g->count; m++)
    if (strcmp(g->nodes[m]->op->name, name) == 0) {
      all++;
      before += m <= n;
    }
  if (all > 1)
    snprintf(text, room, "%s %d of %d", name, before, all);
  else
    snprintf(text, room, "%s", name);
}

/* Adds "attention, through its input 1" to the list; false once there are too many. */
static bool add_place(const graph *g, int n, int input, int *places, char *text, size_t room) {
  char name[64];
  size_t used = strlen(text);
  if (++*places > 2) return false;
  node_name(g, n, name, sizeof name);
  used += (size_t)snprintf(text + used, room - used, "%s%s",
                           *places == 1 ? "in the backward of " : " or of ", name);
  if (input >= 0 && used < room)
    snprintf(text + used, room - used, ", through its input %d", input);
  return true;
}

/* An operation that could have spoiled exactly these: all its inputs lead to them, or one does. */
static void describe(const th__subject *subject, const graph *g, th_tensor *const *leaves,
                     unsigned wrong, char *text, size_t room) {
  int places = 0;
  bool good = true;
  for (int n = g->count; n-- > 0 && good;) {
    const th_node *node = g->nodes[n];
    if (g->behind[n] == wrong) {
      good = add_place(g, n, -1, &places, text, room);
      continue;
    }
    for (int i = 0; i < node->input_count && good; i++)
      if (node->inputs[i] != NULL && leaves_of(subject, g, leaves, node->inputs[i]) == wrong)
        good = add_place(g, n, i, &places, text, room);
  }
  if (!good) text[0] = '\0'; /* too many would explain it */
}

void th__locate(const th__subject *subject, unsigned wrong, char *text, size_t room) {
  th_tensor *leaves[TH_MAX_INPUTS] = {0};
  th_tape *tape = th_tape_new();
  bool good = tape != NULL;
  text[0] = '\0';
  for (int i = 0; i < subject->input_count && good; i++) {
    const th_tensor *x = subject->inputs[i];
    leaves[i] = subject->slot[i] != i ? leaves[subject->slot[i]]
                : th__is_float(x)     ? th_input_grad(tape, x->dtype, x->ndim, x->shape, x->data)
                                      : th_input(tape, x->dtype, x->ndim, x->shape, x->data);
    good = leaves[i] != NULL;
  }
  graph g;
  if (good && subject->function(tape, leaves, subject->context) != NULL && tape->last != NULL &&
      tape->last->previous != NULL && read_graph(subject, tape, leaves, &g))
    describe(subject, &g, leaves, wrong, text, room);
  th_tape_free(tape);
}
