/* sweep.c: the derivative along a line, with an error bar, from central differences at several steps.
 *
 * D(h) = (f(x + h) - f(x - h)) / 2h = f' + c2 h^2 + c4 h^4 + ...  for a smooth f, so two step sizes
 * remove the h^2 term, three the h^4 term, and so on (Richardson's extrapolation; Neville's table):
 *     T[j][0] = D(h_j),   T[j][m] = T[j][m-1] + (T[j][m-1] - T[j-1][m-1]) / ((h_{j-m} / h_j)^2 - 1).
 * As in Ridders (1982), the error of an entry is how far it lies from the two it was made of; to this
 * the round-off of the D(h_j) is added, which grows as 1/h. The entry with the smallest bar is taken.
 *
 * Where the two one-sided slopes differ by something that does not shrink with h there is a kink:
 * right at x (no derivative; both slopes are reported) or at a distance, and then only the steps that
 * stay on this side of it count.
 *
 * Most claims are settled by two or three steps. A claim that is not gets the long way: larger steps
 * while they help (less round-off), then smaller ones (kinks, narrow domains, and a sample of the
 * round-off as it really is, in case it is larger than the outputs let expect). */
#include <math.h>

#include "autograd/gradcheck/gradcheck.h"

#define MAX_LEVELS 32

typedef struct sweep {
  const th__line *line;
  double analytic, allowed;
  int count;
  th__level levels[MAX_LEVELS]; /* finite ones, by rising step */
  bool outside;                 /* a step left the function's domain */
  bool confirming;              /* a step far smaller than the others has been taken */
} sweep;

static th_status add_level(sweep *s, double unit, int exponent, th_error *error) {
  double step = ldexp(unit, exponent);
  for (int j = 0; j < s->count; j++)
    if (s->levels[j].step == step) return TH_OK;
  if (s->count == MAX_LEVELS) return TH_OK;
  th__level level;
  th_status status = th__line_level(s->line, step, &level, error);
  if (status != TH_OK) return status;
  if (!level.finite) {
    s->outside = true;
    return TH_OK;
  }
  int at = s->count++;
  for (; at > 0 && s->levels[at - 1].step > level.step; at--) s->levels[at] = s->levels[at - 1];
  s->levels[at] = level;
  return TH_OK;
}

/* ---- kinks ---- */

static double asymmetry(const th__level *level) { return fabs(level->right - level->left); }

/* How many levels, from the smallest step, lie on this side of any kink: the asymmetry of a smooth
 * function grows like h, or like h^3 where f'' = 0, but does not jump. */
static int smooth_levels(const sweep *s) {
  int i = 1;
  for (; i < s->count; i++) {
    const th__level *small = &s->levels[i - 1], *large = &s->levels[i];
    double ratio = large->step / small->step;
    double expected = (asymmetry(small) + 6 * small->noise) * ratio * ratio * ratio;
    if (asymmetry(large) > 2 * expected + 6 * large->noise) break;
  }
  return i < s->count ? i : s->count;
}

/* A kink at the very point: the asymmetry does not shrink between the two smallest steps at which it
 * stands clear of round-off (of the levels on this side of the next kink). `matters` is what would count
 * as an error. */
static bool kink_at_point(const sweep *s, int count, double matters, th__estimate *estimate) {
  for (int i = 0; i + 1 < count; i++) {
    const th__level *small = &s->levels[i], *large = &s->levels[i + 1];
    double gap = asymmetry(small);
    if (gap <= 20 * small->noise || gap <= matters) continue;
    if (gap < 0.75 * asymmetry(large)) return false;
    double ratio = large->step / small->step; /* one-sided slopes are f' + c1 h + ... */
    estimate->right = (ratio * small->right - large->right) / (ratio - 1);
    estimate->left = (ratio * small->left - large->left) / (ratio - 1);
    return gap < 1.5 * asymmetry(large);
  }
  return false;
}

/* ---- extrapolation ---- */

typedef struct best_entry {
  double value, bar, noise, step; /* step: the smallest one used */
} best_entry;

/* Of the many entries of the table the one with the smallest bar is taken, so some agree by chance. */
#define AGREEMENT 4
#define BORNE_OUT 2

/* How far the next smaller step lies from where `value`, made of levels j and larger, lets expect it. Two
 * large steps may agree by chance, even where f is far from its first terms: D(h) need not be monotonous. */
static double contradiction(const sweep *s, int j, double value) {
  if (j == 0) return 0;
  const th__level *level = &s->levels[j], *smaller = &s->levels[j - 1];
  double ratio = smaller->step / level->step;
  double expected = fabs(level->central - value) * ratio * ratio;
  return fmax(fabs(smaller->central - value) - expected, 0);
}

/* Goes through Neville's table of levels 0 .. count-1 (rising step, so rows are built from the end)
 * with `rough` as the least round-off of f itself. */
static best_entry extrapolate(const sweep *s, int count, double rough) {
  best_entry best = {NAN, INFINITY, INFINITY, 0};
  double value[MAX_LEVELS], noise[MAX_LEVELS]; /* column m of the row above, in place */
  for (int j = count - 1; j >= 0; j--) {
    const th__level *level = &s->levels[j];
    double left_value = level->central, left_noise = fmax(level->noise, rough / level->step);
    if (j == count - 1 && count == 1)
      best = (best_entry){left_value, asymmetry(level) + left_noise, left_noise, level->step};
    for (int m = 1; j + m < count; m++) {
      double ratio = s->levels[j + m].step / level->step, weight = 1 / (ratio * ratio - 1);
      double next = left_value + (left_value - value[m - 1]) * weight;
      double next_noise = left_noise * (1 + weight) + noise[m - 1] * weight;
      double apart = fmax(fabs(next - left_value), fabs(next - value[m - 1]));
      double bar = fmax(AGREEMENT * apart, BORNE_OUT * contradiction(s, j, next)) + next_noise;
      value[m - 1] = left_value, noise[m - 1] = left_noise;
      if (bar < best.bar) best = (best_entry){next, bar, next_noise, level->step};
      left_value = next, left_noise = next_noise;
    }
    value[count - 1 - j] = left_value, noise[count - 1 - j] = left_noise;
  }
  return best;
}

/* The round-off of f as the steps below the best one show it: D(h) - f' times h. */
static double observed_noise(const sweep *s, int count, const best_entry *best, int *samples) {
  double most = 0;
  *samples = 0;
  for (int j = 0; j < count && s->levels[j].step < best->step; j++, (*samples)++)
    most = fmax(most, fabs(s->levels[j].central - best->value) * s->levels[j].step);
  return most;
}

/* Round-off of a difference: each of the outputs that have changed at any step carries its own, at
 * every step. NOISE_FACTOR: the measured noise is a standard deviation, or half a unit in the last
 * place. */
#define NOISE_FACTOR 4

static void set_noise(sweep *s) {
  double affected = s->line->worker->affected_noise;
  for (int j = 0; j < s->count; j++) {
    th__level *level = &s->levels[j];
    level->noise = NOISE_FACTOR * fmax(affected / level->step, level->rounded);
  }
}

/* Outputs that not even the largest step changed may still hide this much. */
static double hidden(const sweep *s) {
  return fmax(s->line->worker->other_noise, 0) / s->levels[s->count - 1].step;
}

/* Steps are let in from the smallest one up, and no more of them once they contradict what the smaller
 * ones said: to steps much larger than the distance to a pole, say, f is smooth, and its slope another. */
static best_entry extrapolate_upwards(const sweep *s, int count, double rough) {
  best_entry best = extrapolate(s, count < 2 ? count : 2, rough);
  for (int p = 3; p <= count; p++) {
    best_entry next = extrapolate(s, p, rough);
    double moved = fabs(next.value - best.value);
    double size = fmax(fabs(next.value), fabs(best.value));
    if (moved > 10 * best.bar + next.bar && moved > 1e-3 * size) break;
    if (moved > best.bar + next.bar) next.bar = moved; /* they disagree: believe neither too much */
    best = next;
  }
  return best;
}

static void conclude(sweep *s, th__estimate *e) {
  *e = (th__estimate){.value = NAN, .bar = INFINITY, .floor = INFINITY};
  if (s->count == 0) return;
  e->finite = true;
  set_noise(s);
  for (int j = 0; j < s->count; j++) e->moved = e->moved || s->levels[j].moved;
  int count = smooth_levels(s);
  best_entry best = extrapolate_upwards(s, count, 0);
  const th__level *largest = &s->levels[s->count - 1];
  e->rough = largest->noise > 1e4 * NOISE_FACTOR * largest->rounded;
  int samples;
  double rough = observed_noise(s, count, &best, &samples);
  if (samples >= 2) best = extrapolate_upwards(s, count, rough);
  double under = hidden(s);
  e->value = best.value;
  e->bar = best.bar + under;
  e->floor = best.noise + under;
  e->left = s->levels[0].left;
  e->right = s->levels[0].right;
  e->kink = kink_at_point(s, count, s->allowed, e);
}

/* ---- the order of steps ---- */

static double claim_error(const sweep *s, const th__estimate *e) {
  return isfinite(s->analytic) ? fabs(s->analytic - e->value) : 0;
}

static bool certainly_right(const sweep *s, const th__estimate *e) {
  return e->finite && !e->kink && s->count >= 2 && claim_error(s, e) + e->bar <= s->allowed;
}

static bool looks_wrong(const sweep *s, const th__estimate *e) {
  return e->finite && !e->kink && s->count >= 3 && smooth_levels(s) == s->count &&
         claim_error(s, e) > 100 * (e->bar + s->allowed);
}

/* Before a claim is called wrong, a far smaller step must agree: to large ones a pole or a kink close by
 * may look like a smooth function. */
static bool confirmed(const sweep *s, const th__estimate *e) {
  const th__level *small = &s->levels[0];
  double room = e->bar + 3 * small->noise + 0.05 * claim_error(s, e);
  return s->confirming && fabs(small->central - e->value) <= room;
}

static bool settled(const sweep *s, const th__estimate *e) {
  return certainly_right(s, e) || (looks_wrong(s, e) && confirmed(s, e));
}

static th_status confirm(sweep *s, th__estimate *e, th_error *error) {
  const th__line *line = s->line;
  bool small = line->own > 0;
  th_status status = add_level(s, small ? line->own : line->scale, small ? -10 : -22, error);
  s->confirming = true;
  if (status == TH_OK) conclude(s, e);
  return status;
}

static th_status try_levels(sweep *s, double unit, const int *exponents, int count,
                            bool while_better, th__estimate *e, bool *done, th_error *error) {
  int worse = 0;
  for (int i = 0; i < count && !*done; i++) {
    double before = e->bar;
    bool outside = s->outside;
    th_status status = add_level(s, unit, exponents[i], error);
    if (status != TH_OK) return status;
    conclude(s, e);
    if (!s->confirming && looks_wrong(s, e)) status = confirm(s, e, error);
    if (status != TH_OK) return status;
    *done = settled(s, e);
    if (while_better && (e->bar >= before || smooth_levels(s) < s->count)) worse++;
    if (while_better && (worse == 2 || (!outside && s->outside))) break;
  }
  return TH_OK;
}

th_status th__sweep(const th__line *line, double analytic, double allowed, th__estimate *estimate,
                    th_error *error) {
  static const int first[] = {-13, -14}, larger[] = {-11, -9, -7, -5, -3, -1, 2, 5, 8, 11},
                   smaller[] = {-17, -20, -23}, near[] = {-5, -7, -9, -11, -13, -15},
                   tiny[] = {-26, -29, -32, -35, -38, -41, -44};
#define COUNT(list) (int)(sizeof(list) / sizeof *(list))
  sweep s = {.line = line, .analytic = analytic, .allowed = allowed};
  th__line_begin(line);
  *estimate = (th__estimate){.value = NAN, .bar = INFINITY};
  bool done = false;
  th_status status = TH_OK;
  for (int i = 0; i < COUNT(first) && status == TH_OK; i++)
    status = add_level(&s, line->scale, first[i], error);
  if (status != TH_OK) return status;
  conclude(&s, estimate);
  done = settled(&s, estimate);
  if (!s.outside && !estimate->kink)
    status = try_levels(&s, line->scale, larger, COUNT(larger), true, estimate, &done, error);
  if (status == TH_OK && !done)
    status = try_levels(&s, line->scale, smaller, COUNT(smaller), false, estimate, &done, error);
  /* Steps that suit the tensor may be far too large for a small entry of it. */
  if (status == TH_OK && !done && line->own > 0)
    status = try_levels(&s, line->own, near, COUNT(near), false, estimate, &done, error);
  /* A kink or the domain's edge may be close. */
  bool crowded = estimate->kink || s.count < 4 || smooth_levels(&s) < 4 ||
                 claim_error(&s, estimate) > allowed + estimate->bar;
  if (status == TH_OK && !done && crowded)
    status = try_levels(&s, line->scale, tiny, COUNT(tiny), false, estimate, &done, error);
  return status;
#undef COUNT
}
