/* schedule.c: the learning rate of each step. */
#include <math.h>

#include "tapehead.h"
#include "tensor/error.h"

static const double PI = 3.14159265358979323846;

th_status th_schedule_check(const th_schedule *s, th_error *error) {
  if (s == NULL) return th__error(error, TH_ERR_VALUE, "schedule: it is NULL");
  if ((unsigned)s->kind > TH_SCHEDULE_COSINE)
    return th__error(error, TH_ERR_VALUE, "schedule: there is no kind %d; see th_schedule_kind",
                     (int)s->kind);
  if (!(isfinite(s->peak) && s->peak >= 0))
    return th__error(error, TH_ERR_VALUE,
                     "schedule: peak is %g; a finite number of 0 or more is expected", s->peak);
  if (!(s->floor >= 0 && s->floor <= s->peak))
    return th__error(error, TH_ERR_VALUE, "schedule: floor is %g; 0 to peak = %g is expected",
                     s->floor, s->peak);
  if (s->steps < 1)
    return th__error(error, TH_ERR_VALUE, "schedule: steps is %ld; at least 1 is expected",
                     s->steps);
  bool constant = s->kind == TH_SCHEDULE_CONSTANT;
  if (s->warmup >= 0 && (s->warmup < s->steps || (constant && s->warmup == s->steps))) return TH_OK;
  return th__error(error, TH_ERR_VALUE,
                   "schedule: warmup is %ld of %ld steps; 0 to %ld is expected%s", s->warmup,
                   s->steps, constant ? s->steps : s->steps - 1,
                   constant ? "" : ", so that the rate can fall to its floor");
}

/* The peak stands at step `warmup`, or at step 1 without one; a single step is the peak. */
double th_schedule_lr(const th_schedule *s, long step) {
  if (step < 1) step = 1;
  if (step > s->steps) step = s->steps;
  if (step < s->warmup) return s->peak * ((double)step / (double)s->warmup);
  long top = s->warmup > 0 ? s->warmup : 1;
  if (s->kind == TH_SCHEDULE_CONSTANT || step <= top) return s->peak;
  if (step == s->steps) return s->floor;
  double part = (double)(step - top) / (double)(s->steps - top);
  double weight = s->kind == TH_SCHEDULE_LINEAR ? 1 - part : 0.5 * (1 + cos(PI * part));
  /* floor + (peak - floor) may round to above the peak. */
  return fmin(s->peak, s->floor + (s->peak - s->floor) * weight);
}
