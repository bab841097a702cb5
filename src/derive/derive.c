#include "derive/derive.h"

#include <stdio.h>
#include <string.h>

#include "derive/judge.h"
#include "derive/slope.h"
#include "tensor/alloc.h"

enum { DEFAULT_DRAWS = 6 };

static const th__limits reasonable = {.elements = 3000000, .work = 5e8, .vertices = 100000};

/* Normal inputs also come small: a function that is saturated at scale 1 shows its slopes there, and
 * so does every mistake in them. */
static double scale_of(int draw) {
  static const double scales[] = {1, 0.0625, 1, 0.25, 1, 0.0078125};
  return scales[draw % (int)(sizeof scales / sizeof *scales)];
}

typedef struct check {
  th__report *report;
  th__calc calc; /* of the report: syntax, findings, evidence */
  th__derivation derivation;
  th__court court;
  bool fixed_sizes;
  int draws;
  double proof_budget;
  ptrdiff_t *given;
  int jitter_count;
  th__jitter jitters[TH__MAX_DRAWS];
} check;

static void refuse(check *k, const th__fault *fault, th__verdict verdict) {
  k->report->verdict = verdict;
  k->report->fault = *fault;
}

/* ---- before the first draw ---- */

static bool read_program(check *k, const char *text, size_t length) {
  th__derivation *d = &k->derivation;
  if (th__parse(&k->calc, text, length, &d->program) &&
      th__facts_find(&k->calc, &d->program, &d->facts) &&
      th__claims_find(&k->calc, &d->program, &d->facts, &d->claims))
    return true;
  bool nothing = d->claims.list != NULL && d->claims.count == 0 &&
                 strstr(k->calc.fault.message, "nothing is claimed") != NULL;
  refuse(k, &k->calc.fault, nothing ? TH__VACUOUS : TH__ERROR);
  return false;
}

static bool prepare(check *k) {
  const th__facts *facts = &k->derivation.facts;
  size_t claims = (size_t)k->derivation.claims.count, draws = (size_t)k->draws;
  th__court *court = &k->court;
  *court = (th__court){.calc = &k->calc, .derivation = &k->derivation, .report = k->report};
  court->records = th__calc_alloc(&k->calc, draws * sizeof *court->records);
  court->given = th__calc_alloc(&k->calc, draws * claims);
  court->chained = th__calc_alloc(&k->calc, draws * claims);
  k->report->findings = th__calc_alloc(&k->calc, claims * sizeof *k->report->findings);
  k->given = th__calc_alloc(&k->calc, (size_t)(facts->size_count + 1) * sizeof *k->given);
  if (th__calc_failed(&k->calc)) return false;
  for (int i = 0; i < facts->size_count; i++) k->given[i] = facts->sizes[i].given;
  k->report->count = (int)claims;
  for (size_t i = 0; i < claims; i++)
    k->report->findings[i] = (th__finding){.name = k->derivation.claims.list[i].name,
                                           .place = k->derivation.claims.list[i].place};
  return true;
}

/* A claim about whole numbers or masks, which have no gradient. */
static bool check_inputs(check *k) {
  static const char *const whole[] = {"integers", "mask"};
  const th__derivation *d = &k->derivation;
  for (int i = 0; i < d->facts.loss; i++) {
    const th__statement *s = &d->program.statements[i];
    const th__expression *e = s->value;
    if (s->kind != TH__ASSIGN || s->count != 1 || e->kind != TH__EXPR_CALL || e->count == 0 ||
        strcmp(e->name, "input") != 0)
      continue;
    const th__expression *last = e->items[e->count - 1];
    for (int w = 0; w < 2 && last->kind == TH__EXPR_CALL; w++)
      for (int c = 0; c < d->claims.count; c++) {
        const th__claim *claim = &d->claims.list[c];
        if (strcmp(last->name, whole[w]) != 0 || strcmp(claim->of, s->targets[0].name) != 0)
          continue;
        k->calc.place = claim->place;
        th__calc_fail(&k->calc, "%s: %s holds %s and has no gradient", claim->name, claim->of,
                      w == 0 ? "whole numbers" : "a mask");
        return false;
      }
  }
  return true;
}

/* ---- draws ---- */

static void report_disagreement(check *k, const th__draw *draw, const th__vertex *x) {
  const char *name = "?";
  for (int i = 0; i < draw->values.count; i++)
    if (draw->values.list[i].value == x) name = draw->values.list[i].name;
  th__fault fault = {.place = x->place};
  snprintf(fault.message, sizeof fault.message,
           "the true gradient of %s by reverse differentiation and by finite differences "
           "disagree, so nothing is judged; please report this file",
           name);
  refuse(k, &fault, TH__ERROR);
}

/* The true gradients of one draw, proven as far as the budget goes. */
static bool prove(check *k, th__draw *draw) {
  int checked = 0, wanted = 0;
  for (int i = 0; i <= draw->end->index; i++) wanted += draw->graph.vertices[i]->wanted;
  const th__vertex *fault = th__proof_find_fault(draw, &k->proof_budget, &checked);
  if (fault != NULL) report_disagreement(k, draw, fault);
  k->report->values = wanted;
  if (checked > k->report->cross_checked) k->report->cross_checked = checked;
  return fault == NULL;
}

/* Faults in lines that are not judged themselves: helpers, and claims that a later line goes on from. */
static void report_faults(check *k, const th__draw *draw) {
  const th__claims *claims = &k->derivation.claims;
  const th__fault *fault = &draw->helper_fault;
  for (int i = 0; i < claims->count && fault->message[0] == '\0'; i++)
    if (claims->list[i].continued && !draw->outcomes[i].inherited) fault = &draw->outcomes[i].fault;
  if (fault->message[0] != '\0' && k->report->fault.message[0] == '\0') refuse(k, fault, TH__ERROR);
}

typedef enum run { DONE, DROPPED, STOPPED } run;

/* What stops a draw at the given sizes stops everything; at other sizes, chosen here and not by the
 * author, only that draw. */
static run stop(check *k, const th__draw *draw, const th__trial_record *record) {
  if (record->varied) return DROPPED;
  refuse(k, &draw->calc.fault, TH__ERROR);
  return STOPPED;
}

static run run_draw(check *k, th__draw *draw, const th__trial_record *record) {
  if (!th__draw_forward(draw) || !th__draw_reverse(draw)) return stop(k, draw, record);
  if (!prove(k, draw)) return STOPPED;
  if (!th__draw_claims(draw)) return stop(k, draw, record);
  if (!record->varied) report_faults(k, draw);
  if (draw->unit_upstream && k->report->note[0] == '\0')
    snprintf(k->report->note, sizeof k->report->note,
             "the loss is one number and its own gradient is not used: it is taken as 1");
  th__court_hear(&k->court, draw, record);
  return DONE;
}

/* The first draws have the given sizes, the others what else fits. */
static bool make_draw(check *k, int number, int given_draws) {
  th__trial_record record = {.sizes = k->given};
  if (number >= given_draws) {
    const th__jitter *jitter = &k->jitters[(number - given_draws) % k->jitter_count];
    record = (th__trial_record){true, jitter->unequal, jitter->related, false, jitter->sizes};
  }
  th__draw *draw = th__alloc(sizeof *draw);
  if (draw == NULL) {
    th__calc_fail(&k->calc, "out of memory");
    refuse(k, &k->calc.fault, TH__ERROR);
    return false;
  }
  th__draw_start(draw, &k->derivation, number, scale_of(number), record.sizes);
  run how = run_draw(k, draw, &record);
  if (how == DONE && k->court.kept_count < TH__KEPT_DRAWS)
    k->court.kept[k->court.kept_count++] = draw;
  else {
    th__draw_free(draw);
    th__free(draw);
  }
  k->report->draws += how == DONE;
  k->report->sizes_varied += how == DONE && record.varied;
  return how != STOPPED;
}

/* False when the draws could not be finished; then nothing is judged. */
static bool run_draws(check *k) {
  int given_draws = k->draws < 3 ? 1 : 2;
  if (!make_draw(k, 0, given_draws)) return false;
  int varied = k->fixed_sizes ? 0 : k->draws - given_draws;
  if (varied > 0) k->jitter_count = th__sizes_vary(&k->calc, k->court.kept[0], varied, k->jitters);
  if (k->jitter_count == 0) given_draws = k->draws;
  for (int i = 1; i < k->draws; i++)
    if (!make_draw(k, i, given_draws)) return false;
  th__verdict before = k->report->verdict;
  th__court_close(&k->court);
  if (before > k->report->verdict) k->report->verdict = before;
  return true;
}

static void run_check(check *k, const char *text, size_t length) {
  if (!read_program(k, text, length)) return;
  if (!prepare(k) || !check_inputs(k)) {
    refuse(k, &k->calc.fault, TH__ERROR);
    k->report->count = 0;
    return;
  }
  if (!run_draws(k)) k->report->count = 0;
  if (k->report->verdict == TH__ERROR && k->report->fault.message[0] == '\0' &&
      th__calc_failed(&k->calc))
    refuse(k, &k->calc.fault, TH__ERROR);
  for (int i = 0; i < k->court.kept_count; i++) {
    th__draw_free(k->court.kept[i]);
    th__free(k->court.kept[i]);
  }
}

th__report *th__derive_check(const char *text, size_t length, const th__derive_options *options) {
  th__report *report = th__alloc_zero(sizeof *report);
  check *k = th__alloc_zero(sizeof *k);
  if (report == NULL || k == NULL) {
    th__free(report);
    th__free(k);
    return NULL;
  }
  k->report = report;
  th__limits limits = options->limits;
  if (limits.elements == 0) limits.elements = reasonable.elements;
  if (limits.work == 0) limits.work = reasonable.work;
  if (limits.vertices == 0) limits.vertices = reasonable.vertices;
  k->calc = (th__calc){.arena = &report->arena, .limits = limits};
  k->derivation = (th__derivation){.limits = limits, .seed = options->seed};
  k->derivation.folder = options->folder != NULL ? options->folder : "";
  k->derivation.load = options->load;
  k->draws = options->draws <= 0              ? DEFAULT_DRAWS
             : options->draws > TH__MAX_DRAWS ? TH__MAX_DRAWS
                                              : options->draws;
  k->fixed_sizes = options->fixed_sizes;
  k->proof_budget = limits.work;
  run_check(k, text, length);
  th__free(k);
  return report;
}

void th__report_free(th__report *report) {
  if (report == NULL) return;
  th__arena_free(&report->arena);
  th__free(report);
}
