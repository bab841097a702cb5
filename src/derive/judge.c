#include "derive/judge.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "derive/slope.h"

const char *th__verdict_name(th__verdict verdict) {
  switch (verdict) {
#define X(code, name)                                                                              \
  case code: return name;
    TH__VERDICT_LIST(X)
#undef X
  }
  return "error";
}

/* ---- kinks ---- */

enum { MAX_KINK_ENTRIES = 200 };

/* Where the function has a kink in this entry, any slope between those of its two sides will do. */
static bool is_kink(th__trial *trial, const th__outcome *o, const th__array *got, ptrdiff_t entry,
                    th__number *direction) {
  const th__array *x = o->vertex->value;
  direction[entry] = x->v[entry] == 0 ? 1 : fabsl(x->v[entry]);
  double left_error, right_error;
  th__number left = th__slope(trial, o->vertex, direction, TH__LEFT, &left_error);
  th__number right = th__slope(trial, o->vertex, direction, TH__RIGHT, &right_error);
  th__number claimed = got->v[entry] * direction[entry];
  direction[entry] = 0;
  double size = (double)fmaxl(fabsl(left), fabsl(right));
  double allowed = 100 * (left_error + right_error) + 1e-6 * size;
  if (!((double)fabsl(left - right) > allowed)) return false;
  return claimed >= fminl(left, right) - (th__number)allowed &&
         claimed <= fmaxl(left, right) + (th__number)allowed;
}

/* Whether every entry that is off is one at a kink. */
static bool only_kinks(th__draw *draw, const th__outcome *o, const th__comparison *how) {
  if (draw->graph.kinks == 0 || how->got == NULL) return false;
  th__trial trial = th__trial_start(draw);
  size_t bytes = (size_t)o->truth->count * sizeof(th__number);
  th__number *direction = th__calc_alloc(&draw->calc, bytes);
  bool only = trial.values != NULL && direction != NULL;
  if (direction != NULL) memset(direction, 0, bytes);
  int looked_at = 0;
  for (ptrdiff_t i = 0; only && i < o->truth->count && looked_at < MAX_KINK_ENTRIES; i++) {
    double away = (double)fabsl(how->got->v[i] - o->truth->v[i]);
    if (away <= th__compare_limit(o->truth, how->got, i)) continue;
    looked_at++;
    only = is_kink(&trial, o, how->got, i, direction);
  }
  th__trial_free(&trial);
  return only;
}

/* ---- one draw ---- */

static void note(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(char *text, const char *format, ...) {
  size_t used = strlen(text);
  va_list args;
  va_start(args, format);
  if (used > 0 && used < TH__NOTE_TEXT - 2) used += (size_t)snprintf(text + used, 3, "; ");
  if (used < TH__NOTE_TEXT) vsnprintf(text + used, TH__NOTE_TEXT - used, format, args);
  va_end(args);
}

static void write_where(th__finding *f, const th__outcome *o, const th__comparison *how) {
  ptrdiff_t rest = how->worst;
  char index[TH__ARRAY_SHAPE_TEXT] = "";
  for (int axis = o->truth->ndim - 1; axis >= 0; axis--) {
    char before[TH__ARRAY_SHAPE_TEXT];
    snprintf(before, sizeof before, "%s", index);
    snprintf(index, sizeof index, "%td%s%.90s", rest % o->truth->shape[axis],
             before[0] != '\0' ? ", " : "", before);
    rest /= o->truth->shape[axis];
  }
  snprintf(f->where, sizeof f->where, "%td of %td entries are off; at [%s]: %.9Lg, true %.9Lg",
           how->wrong, o->truth->count, index, how->got->v[how->worst], o->truth->v[how->worst]);
}

/* Of a right line the largest errors over all draws; of a wrong one those of its first wrong draw, which
 * also says where. */
static void enter_errors(th__court *court, int claim, const th__draw *draw,
                         const th__comparison *how, bool off) {
  th__finding *f = &court->report->findings[claim];
  const th__outcome *o = &draw->outcomes[claim];
  if (f->where[0] != '\0') return;
  if (off || how->max_abs > f->max_abs_error) f->max_abs_error = how->max_abs;
  if (off || how->max_rel > f->max_rel_error) f->max_rel_error = how->max_rel;
  if (!off) return;
  if (how->got == NULL)
    snprintf(f->where, sizeof f->where, "shape %s, but %s has shape %s", TH__SHAPE_OF(o->given),
             f->name + 1, TH__SHAPE_OF(o->truth));
  else
    write_where(f, o, how);
}

static th__result hear_given(th__court *court, th__draw *draw, int claim) {
  const th__outcome *o = &draw->outcomes[claim];
  th__finding *f = &court->report->findings[claim];
  th__comparison how = th__compare(&draw->calc, o->truth, o->given);
  if (how.got != NULL && how.judged == 0) return TH__UNJUDGED;
  bool off = how.wrong > 0, kinks = off && only_kinks(draw, o, &how);
  if (!kinks) enter_errors(court, claim, draw, &how, off);
  if (how.shape == TH__SHAPE_STRETCHED && !off && strstr(f->note, "shape") == NULL)
    note(f->note, "has shape %s and is read as %s", TH__SHAPE_OF(o->given), TH__SHAPE_OF(o->truth));
  return !off ? TH__EQUAL_TO_TRUTH : kinks ? TH__KINKED : TH__OFF;
}

/* A claim that cannot be computed at other sizes only is wrong there; at the given ones it is a fault
 * of the file. */
static void hear_fault(th__court *court, const th__draw *draw, int claim, bool varied) {
  th__finding *f = &court->report->findings[claim];
  const th__outcome *o = &draw->outcomes[claim];
  if (varied) {
    if (f->where[0] == '\0')
      snprintf(f->where, sizeof f->where, "at other sizes %.200s", o->fault.message);
    return;
  }
  if (f->verdict == TH__ERROR) return;
  f->verdict = f->chained = TH__ERROR;
  if (!o->inherited)
    f->fault = o->fault;
  else
    note(f->note, "%.200s", o->fault.message);
}

static bool true_gradient_is_finite(const th__outcome *o) {
  for (ptrdiff_t i = 0; i < o->truth->count; i++)
    if (!isfinite(o->truth->v[i])) return false;
  return true;
}

static void hear_claim(th__court *court, th__draw *draw, int claim, th__trial_record *record) {
  const th__claims *claims = &court->derivation->claims;
  const th__outcome *o = &draw->outcomes[claim];
  size_t at = (size_t)(court->draw_count * claims->count + claim);
  court->given[at] = court->chained[at] = TH__UNJUDGED;
  if (claims->list[claim].continued) return;
  if (!true_gradient_is_finite(o)) {
    th__finding *f = &court->report->findings[claim];
    if (strstr(f->note, "finite") == NULL)
      note(f->note, "the true gradient is not finite in some draw, which was not judged");
    return;
  }
  if (o->given == NULL) {
    hear_fault(court, draw, claim, record->varied);
    court->given[at] = record->varied ? TH__OFF : TH__UNJUDGED;
    return;
  }
  court->given[at] = (unsigned char)hear_given(court, draw, claim);
  if (court->given[at] == TH__KINKED) record->chain_unsure = true;
  if (o->chained == NULL) return;
  th__comparison how = th__compare(&draw->calc, o->truth, o->chained);
  bool off = how.wrong > 0 && !record->chain_unsure;
  court->chained[at] = o->truth->count == 0 ? TH__UNJUDGED : off ? TH__OFF : TH__EQUAL_TO_TRUTH;
}

void th__court_hear(th__court *court, th__draw *draw, const th__trial_record *record) {
  th__trial_record *mine = &court->records[court->draw_count];
  *mine = *record;
  for (int i = 0; i < court->derivation->claims.count; i++) hear_claim(court, draw, i, mine);
  court->draw_count++;
}

/* ---- all draws ---- */

typedef struct tally {
  int given, given_off;     /* draws with the given sizes: judged, off */
  int related, related_off; /* with other sizes that keep the relations between the given ones */
  int unequal, unequal_off; /* that at least tell equal sizes apart */
  int varied, varied_off;   /* with any other sizes */
  int kinks;
  const ptrdiff_t *off_sizes; /* of a varied draw that was off */
} tally;

static tally count_results(const th__court *court, const unsigned char *results, int claim) {
  tally t = {0};
  for (int draw = 0; draw < court->draw_count; draw++) {
    const th__trial_record *r = &court->records[draw];
    th__result result = (th__result)results[draw * court->derivation->claims.count + claim];
    if (result == TH__UNJUDGED) continue;
    bool off = result == TH__OFF;
    if (result == TH__KINKED) t.kinks++;
    if (!r->varied) {
      t.given++, t.given_off += off;
      continue;
    }
    t.varied++, t.varied_off += off;
    if (r->unequal) t.unequal++, t.unequal_off += off;
    if (r->related) t.related++, t.related_off += off;
    if (off && t.off_sizes == NULL) t.off_sizes = r->sizes;
  }
  return t;
}

/* Off at the given sizes: wrong. Off only at others: sizes that were given as plain numbers may belong
 * together (h = 3, d = 6: half of it), and a claim may rely on that. So it is wrong if it fails although
 * all such relations hold, or in every draw that tells equal sizes apart. */
static bool is_wrong(const tally *t) {
  if (t->given_off > 0 || t->related_off > 0) return true;
  if (t->unequal > 0) return t->unequal_off == t->unequal;
  return t->varied > 0 && t->varied_off == t->varied;
}

/* "n = 7, d = 12" */
static void sizes_text(const th__court *court, const ptrdiff_t *sizes, char *text, size_t room) {
  const th__facts *facts = &court->derivation->facts;
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < facts->size_count && used < room; i++)
    used += (size_t)snprintf(text + used, room - used, "%s%s = %td", i > 0 ? ", " : "",
                             facts->sizes[i].name, sizes[i]);
}

static void note_sizes(const th__court *court, th__finding *f, const tally *t) {
  char text[120];
  if (t->given_off > 0 || t->varied_off == 0) return;
  sizes_text(court, t->off_sizes, text, sizeof text);
  if (f->verdict == TH__WRONG)
    note(f->note, "right only for the sizes as given; wrong for %s", text);
  else
    note(f->note, "relies on how the given sizes are related; not right for %s", text);
}

static th__verdict verdict_of(const tally *t) {
  if (t->given + t->varied == 0) return TH__VACUOUS;
  if (is_wrong(t)) return TH__WRONG;
  return t->kinks == t->given + t->varied ? TH__KINK : TH__PASS;
}

/* The first wrong line that this claim's right side goes back to. */
static const th__claim *root_cause(const th__court *court, const th__claim *claim, int depth);

static const th__claim *cause_in(const th__court *court, const th__expression *e, int before,
                                 int depth) {
  const th__claims *claims = &court->derivation->claims;
  for (int i = 0; i < claims->count && depth < 32; i++) {
    const th__claim *other = &claims->list[i];
    if (other->statement >= before || !th__expression_uses(e, other->name)) continue;
    const th__finding *f = &court->report->findings[i];
    if (f->verdict == TH__WRONG) return other;
    const th__claim *root = f->chained == TH__WRONG ? root_cause(court, other, depth + 1) : NULL;
    if (root != NULL) return root;
  }
  const th__derivation *d = court->derivation;
  for (int i = d->facts.loss + 1; i < before && depth < 32; i++) { /* through helpers */
    const th__statement *s = &d->program.statements[i];
    for (int t = 0; s->kind == TH__ASSIGN && t < s->count; t++) {
      if (th__claims_at(claims, i, t) != NULL || !th__expression_uses(e, s->targets[t].name))
        continue;
      const th__claim *root = cause_in(court, s->value, i, depth + 1);
      if (root != NULL) return root;
    }
  }
  return NULL;
}

static const th__claim *root_cause(const th__court *court, const th__claim *claim, int depth) {
  const th__statement *s = &court->derivation->program.statements[claim->statement];
  return cause_in(court, s->value, claim->statement, depth);
}

static void note_zero(const th__court *court, int claim, th__finding *f) {
  bool zero = true;
  for (int i = 0; i < court->kept_count && zero; i++) {
    const th__outcome *o = &court->kept[i]->outcomes[claim];
    for (ptrdiff_t k = 0; k < o->truth->count && zero; k++)
      zero = fabsl(o->truth->v[k]) <= (th__number)(4 * o->truth->e[k]);
  }
  if (zero && f->verdict == TH__PASS)
    note(f->note, "the true gradient is 0 in every draw, so nothing but 0 was tested");
}

/* A gradient that is used before anything is claimed about it: the chain begins with its true value. */
static void note_unclaimed(const th__court *court, const th__claim *claim, th__finding *f) {
  const th__derivation *d = court->derivation;
  const th__draw *draw = court->kept[0];
  for (int i = 0; i < d->facts.mention_count; i++) {
    const char *name = d->facts.mentions[i];
    const th__binding *of = th__scope_find(&draw->values, name + 1);
    if (of == NULL || of->value == draw->end || strcmp(name, claim->name) == 0 ||
        th__scope_find(&draw->values, name) != NULL ||
        !th__expression_uses(d->program.statements[claim->statement].value, name))
      continue;
    bool claimed = false;
    for (int k = 0; k < d->claims.count; k++)
      if (d->claims.list[k].statement < claim->statement &&
          strcmp(d->claims.list[k].name, name) == 0)
        claimed = true;
    if (!claimed) {
      note(f->note, "%s is not claimed above, so its true value is taken", name);
      return;
    }
  }
}

static void close_claim(th__court *court, int claim) {
  th__finding *f = &court->report->findings[claim];
  const th__claim *about = &court->derivation->claims.list[claim];
  if (about->continued || f->verdict == TH__ERROR) return;
  tally line = count_results(court, court->given, claim);
  tally chain = count_results(court, court->chained, claim);
  f->verdict = verdict_of(&line);
  /* What is wrong above may have a shape with which this line cannot even be computed. */
  bool computed = chain.given + chain.varied > 0, judged = line.given + line.varied > 0;
  bool broken = f->verdict == TH__WRONG || (judged && root_cause(court, about, 0) != NULL);
  f->chained = !computed && broken ? TH__WRONG : verdict_of(&chain);
  if (f->chained == TH__PASS && f->verdict == TH__KINK) f->chained = TH__KINK;
  if (line.kinks > 0)
    note(f->note, "at a kink in %d of %d draws, where any slope between both sides is right",
         line.kinks, line.given + line.varied);
  note_sizes(court, f, &line);
  if (court->kept_count > 0) note_unclaimed(court, about, f);
  note_zero(court, claim, f);
  if (f->chained == TH__WRONG && f->verdict != TH__WRONG) {
    const th__claim *cause = root_cause(court, about, 0);
    f->culprit = cause != NULL ? cause->name : NULL;
    f->culprit_line = cause != NULL ? cause->place.line : 0;
  }
  if (f->verdict == TH__WRONG) th__explain(court, claim, f);
}

void th__court_close(th__court *court) {
  th__report *report = court->report;
  for (int i = 0; i < report->count; i++) close_claim(court, i);
  int kept = 0;
  for (int i = 0; i < report->count; i++) {
    th__finding *f = &report->findings[i];
    if (court->derivation->claims.list[i].continued) continue;
    if (f->verdict > report->verdict) report->verdict = f->verdict;
    if (f->chained > report->verdict) report->verdict = f->chained;
    report->findings[kept++] = *f;
  }
  report->count = kept;
}
