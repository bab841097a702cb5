/* The library of derivations: each is right, and its twin's mistake is named. */
#include "derive/support.h"

#define FOLDER TEST_FOLDER "/../examples/derivations/"

static th__report *check_example(const char *name) {
  char path[512];
  snprintf(path, sizeof path, FOLDER "%s", name);
  FILE *file = fopen(path, "rb");
  cr_assert_not_null(file, "%s is missing", path);
  static char text[1 << 16];
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  th__report *report = th__derive_check(text, length, &(th__derive_options){.seed = 1});
  cr_assert_not_null(report);
  cr_assert_str_empty(report->fault.message, "%s:%d: %s", name, report->fault.place.line,
                      report->fault.message);
  return report;
}

typedef struct example {
  const char *name;
  int claims; /* in the right one */
  const char *wrong_claim;
  th__bug kind;
  const char *sentence;
} example;

static const example examples[] = {
    {"linear", 3, "db", TH__BUG_NOT_SUMMED, "axis 0"},
    {"softmax", 3, "dS", TH__BUG_MISSING_ROW_SUM, "-P * sum(P * dP, axis=-1) (fit 1.000)"},
    {"cross_entropy", 1, "dZ", TH__BUG_FACTOR, "right up to a factor 5 = n"},
    {"attention", 6, "dZ", TH__BUG_MASK_SHIFTED, "mask M shifted by one column"},
    {"multi_head", 14, "dX", TH__BUG_OVERWRITTEN, "only the part through C (line 16)"},
    {"multi_head", 14, "dA", TH__BUG_HEADS_PERMUTED, "heads"},
    {"layer_norm", 4, "dX", TH__BUG_MISSING_MEAN, "-r * mean(dN, axis=-1) (fit 1.000)"},
    {"rms_norm", 4, "dX", TH__BUG_MISSING_MEAN, "mean("},
    {"gelu", 5, "dX", TH__BUG_MISSING_TERM, "X * exp(-X**2/2) * dY"},
    {"rope", 1, "dX", TH__BUG_ROTATED, "dY is rotated the wrong way"},
    {"lstm", 14, "dD", TH__BUG_MISSING_TERM, "dR"},
    {"qk_norm", 8, "dK", TH__BUG_MISSING_ROW_SUM, "-B * sum(B *"},
    {"linear_attention", 9, "dB", TH__BUG_MISSING_TERM, "misses the term dz"},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

Test(examples, are_right) {
  for (int i = 0; i < EXAMPLES; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s.deriv", examples[i].name);
    th__report *r = check_example(name);
    cr_assert_eq(r->verdict, TH__PASS, "%s: %s", name, th__verdict_name(r->verdict));
    cr_assert_eq(r->count, examples[i].claims, "%s: %d claims", name, r->count);
    cr_assert_eq(r->cross_checked, r->values, "%s: %d of %d gradients confirmed", name,
                 r->cross_checked, r->values);
    cr_assert_gt(r->sizes_varied, 0, "%s", name);
    for (int k = 0; k < r->count; k++)
      cr_assert(r->findings[k].verdict == TH__PASS && r->findings[k].chained == TH__PASS, "%s: %s",
                name, r->findings[k].name);
    th__report_free(r);
  }
}

/* Of the wrong twin, exactly the lines listed are wrong. */
Test(examples, have_twins_whose_mistake_is_named) {
  for (int i = 0; i < EXAMPLES; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s.wrong.deriv", examples[i].name);
    th__report *r = check_example(name);
    const th__finding *f = finding(r, examples[i].wrong_claim);
    cr_assert_eq(f->verdict, TH__WRONG, "%s: %s", name, f->name);
    cr_assert_eq(f->diagnosis.kind, examples[i].kind, "%s: %s: %s", name,
                 th__bug_name(f->diagnosis.kind), f->diagnosis.text);
    cr_assert_not_null(strstr(f->diagnosis.text, examples[i].sentence), "%s: \"%s\"", name,
                       f->diagnosis.text);
    for (int k = 0; k < r->count; k++) {
      bool listed = false;
      for (int j = 0; j < EXAMPLES; j++)
        if (strcmp(examples[j].name, examples[i].name) == 0 &&
            strcmp(examples[j].wrong_claim, r->findings[k].name) == 0)
          listed = true;
      cr_assert_eq(r->findings[k].verdict == TH__WRONG, listed, "%s: %s is %s", name,
                   r->findings[k].name, th__verdict_name(r->findings[k].verdict));
    }
    th__report_free(r);
  }
}

/* Whatever the seed. */
Test(examples, at_other_random_points) {
  for (uint64_t seed = 2; seed < 5; seed++)
    for (int i = 0; i < EXAMPLES; i++) {
      char path[512];
      static char text[1 << 16];
      snprintf(path, sizeof path, FOLDER "%s.deriv", examples[i].name);
      FILE *file = fopen(path, "rb");
      cr_assert_not_null(file);
      size_t length = fread(text, 1, sizeof text - 1, file);
      fclose(file);
      th__report *r = th__derive_check(text, length, &(th__derive_options){.seed = seed});
      cr_assert_eq(r->verdict, TH__PASS, "%s, seed %d", path, (int)seed);
      th__report_free(r);
    }
}
