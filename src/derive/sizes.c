#include "derive/sizes.h"

#include <string.h>

enum { TRIES = 60, MAX_FOUND = 24, LARGEST = 4096, SMALL = 8 };

typedef struct search {
  th__calc *calc;
  const th__derivation *derivation;
  const ptrdiff_t *given;
  int count; /* of sizes */
  uint64_t random;
  double budget;      /* operations that trial runs may still take */
  ptrdiff_t elements; /* limits of one trial run */
  double work;
  int found_count;
  th__jitter found[MAX_FOUND];
  int kept[MAX_FOUND]; /* relations that each of them keeps */
} search;

static ptrdiff_t below(search *s, ptrdiff_t limit) {
  th_random stream = {s->derivation->seed, 0x6448, 0};
  return (ptrdiff_t)th_random_below(stream, s->random++, (uint64_t)limit);
}

/* ---- relations ---- */

/* One is a multiple of the other, and not 1 or equal. */
static bool multiples(ptrdiff_t a, ptrdiff_t b) {
  if (a > b) return multiples(b, a);
  return a > 1 && a < b && b % a == 0;
}

static bool keeps(const search *s, const ptrdiff_t *sizes, int i, int j) {
  return sizes[i] * s->given[j] == sizes[j] * s->given[i];
}

static void relations(const search *s, const ptrdiff_t *sizes, th__jitter *jitter, int *kept) {
  jitter->unequal = jitter->related = true;
  *kept = 0;
  for (int i = 0; i < s->count; i++)
    for (int j = i + 1; j < s->count; j++) {
      if (s->given[i] == s->given[j] && sizes[i] == sizes[j]) jitter->unequal = false;
      if (!multiples(s->given[i], s->given[j])) continue;
      if (keeps(s, sizes, i, j))
        ++*kept;
      else
        jitter->related = false;
    }
  for (int i = 0; i < s->count; i++)
    if (sizes[i] == s->given[i]) jitter->unequal = false; /* a size that is not varied hides too */
  jitter->related = jitter->related && jitter->unequal;
}

/* ---- trial runs ---- */

/* Whether the forward pass runs with these sizes, without becoming much larger. */
static bool fits(search *s, const ptrdiff_t *sizes) {
  if (s->budget <= 0) return false;
  th__draw draw;
  th__draw_start(&draw, s->derivation, 0, 1, sizes);
  draw.calc.limits.elements = s->elements;
  draw.calc.limits.work = s->work;
  bool good = th__draw_forward(&draw);
  s->budget -= draw.calc.work + 1e4;
  th__draw_free(&draw);
  return good;
}

static bool is_new(const search *s, const ptrdiff_t *sizes) {
  size_t bytes = (size_t)s->count * sizeof *sizes;
  for (int i = 0; i < s->found_count; i++)
    if (memcmp(s->found[i].sizes, sizes, bytes) == 0) return false;
  return memcmp(s->given, sizes, bytes) != 0;
}

static void try_sizes(search *s, const ptrdiff_t *sizes) {
  if (s->found_count == MAX_FOUND || !is_new(s, sizes) || !fits(s, sizes)) return;
  ptrdiff_t *copy = th__calc_alloc(s->calc, (size_t)s->count * sizeof *copy);
  if (copy == NULL) return;
  memcpy(copy, sizes, (size_t)s->count * sizeof *copy);
  th__jitter *jitter = &s->found[s->found_count];
  jitter->sizes = copy;
  relations(s, copy, jitter, &s->kept[s->found_count]);
  s->found_count++;
}

/* ---- proposals ---- */

/* A size that follows from one already chosen, in the given proportion; 0 if there is none. */
static ptrdiff_t in_proportion(search *s, const ptrdiff_t *sizes, const int *order, int chosen,
                               int which) {
  int start = chosen > 0 ? (int)below(s, chosen) : 0;
  for (int k = 0; k < chosen; k++) {
    int other = order[(start + k) % chosen];
    if (!multiples(s->given[which], s->given[other])) continue;
    if (sizes[other] * s->given[which] % s->given[other] == 0)
      return sizes[other] * s->given[which] / s->given[other];
  }
  return 0;
}

/* A size of its own: small ones grow, so that they leave special values behind; large ones shrink. */
static ptrdiff_t alone(search *s, ptrdiff_t given) {
  if (given <= SMALL) return given + 1 + below(s, s->count + 3);
  ptrdiff_t least = given / 3 > SMALL / 2 ? given / 3 : SMALL / 2;
  return least + below(s, given - least);
}

/* All sizes anew, in random order: some in proportion to others. */
static void propose(search *s, ptrdiff_t *sizes, int *order) {
  for (int i = 0; i < s->count; i++) order[i] = i;
  for (int i = s->count - 1; i > 0; i--) {
    int j = (int)below(s, i + 1), keep = order[i];
    order[i] = order[j];
    order[j] = keep;
  }
  bool follow = below(s, 4) > 0;
  for (int k = 0; k < s->count; k++) {
    int i = order[k];
    ptrdiff_t size = follow ? in_proportion(s, sizes, order, k, i) : 0;
    sizes[i] = size > 0 ? size : alone(s, s->given[i]);
  }
}

/* From the given sizes, one after another is changed as long as the program still fits; and two at once,
 * because one may have to follow the other. */
static void creep(search *s, ptrdiff_t *sizes) {
  static const int steps[] = {1, 2, 3, -1};
  for (int i = 0; i < s->count; i++) {
    ptrdiff_t before = sizes[i];
    for (int k = 0; k < 5; k++) {
      sizes[i] = k < 4 ? before + steps[k] : 2 * before;
      if (sizes[i] >= 1 && sizes[i] <= LARGEST && fits(s, sizes)) break;
      sizes[i] = before;
    }
  }
  for (int i = 0; i < s->count; i++)
    for (int j = i + 1; j < s->count; j++) {
      ptrdiff_t a = sizes[i], b = sizes[j];
      if (a != s->given[i] || b != s->given[j]) continue;
      for (int k = 0; k < 2; k++) {
        sizes[i] = k == 0 ? 2 * a : a + 1;
        sizes[j] = k == 0 ? 2 * b : b + 1;
        if (sizes[i] <= LARGEST && sizes[j] <= LARGEST && fits(s, sizes)) break;
        sizes[i] = a, sizes[j] = b;
      }
    }
  try_sizes(s, sizes);
}

static void sort_by_kept(search *s) {
  for (int i = 1; i < s->found_count; i++)
    for (int k = i; k > 0; k--) {
      int later = s->kept[k] + 100 * s->found[k].unequal;
      if (later <= s->kept[k - 1] + 100 * s->found[k - 1].unequal) break;
      th__jitter jitter = s->found[k];
      int kept = s->kept[k];
      s->found[k] = s->found[k - 1], s->kept[k] = s->kept[k - 1];
      s->found[k - 1] = jitter, s->kept[k - 1] = kept;
    }
}

int th__sizes_vary(th__calc *c, const th__draw *first, int room, th__jitter *found) {
  const th__derivation *derivation = first->derivation;
  const ptrdiff_t *given = first->sizes;
  search *s = th__calc_alloc(c, sizeof *s);
  int count = derivation->facts.size_count;
  ptrdiff_t *sizes = th__calc_alloc(c, (size_t)(count + 1) * sizeof *sizes);
  int *order = th__calc_alloc(c, (size_t)(count + 1) * sizeof *order);
  if (s == NULL || sizes == NULL || order == NULL || count == 0 || room == 0) return 0;
  *s = (search){.calc = c, .derivation = derivation, .given = given, .count = count};
  s->budget = derivation->limits.work / 5;
  s->elements = 4 * first->forward_elements + 5000;
  s->work = 4 * first->forward_work + 1e5;
  for (int i = 0; i < TRIES && s->found_count < MAX_FOUND; i++) {
    propose(s, sizes, order);
    try_sizes(s, sizes);
  }
  if (s->found_count == 0) {
    memcpy(sizes, given, (size_t)count * sizeof *sizes);
    creep(s, sizes);
  }
  sort_by_kept(s);
  int taken = s->found_count < room ? s->found_count : room;
  memcpy(found, s->found, (size_t)taken * sizeof *found);
  return taken;
}
