/* support.h: checking a derivation that is written in the test. */
#ifndef TESTS_DERIVE_SUPPORT_H
#define TESTS_DERIVE_SUPPORT_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "derive/derive.h"

static inline th__report *check_text(const char *text) {
  th__report *report = th__derive_check(text, strlen(text), &(th__derive_options){.seed = 1});
  cr_assert_not_null(report);
  return report;
}

static inline const th__finding *finding(const th__report *report, const char *name) {
  for (int i = 0; i < report->count; i++)
    if (strcmp(report->findings[i].name, name) == 0) return &report->findings[i];
  cr_assert_fail("no claim %s; %s", name, report->fault.message);
  return NULL;
}

/* Every claim is right, by itself and as chained. */
static inline void expect_pass(const char *text) {
  th__report *r = check_text(text);
  for (int i = 0; i < r->count; i++) {
    const th__finding *f = &r->findings[i];
    cr_assert(f->verdict == TH__PASS && f->chained == TH__PASS, "%s: %s, chained %s: %s; %s\n%s",
              f->name, th__verdict_name(f->verdict), th__verdict_name(f->chained),
              f->diagnosis.text, f->where, text);
  }
  cr_assert_eq(r->verdict, TH__PASS, "%d:%d: %s\n%s", r->fault.place.line, r->fault.place.column,
               r->fault.message, text);
  cr_assert_gt(r->count, 0);
  th__report_free(r);
}

/* This claim is wrong and named so. */
static inline void expect_wrong(const char *text, const char *name, th__bug kind,
                                const char *sentence) {
  th__report *r = check_text(text);
  cr_assert_eq(r->verdict, TH__WRONG, "%s: %s\n%s", th__verdict_name(r->verdict), r->fault.message,
               text);
  const th__finding *f = finding(r, name);
  cr_assert_eq(f->verdict, TH__WRONG, "%s: %s\n%s", name, th__verdict_name(f->verdict), text);
  cr_assert_eq(f->diagnosis.kind, kind, "%s: %s: %s\n%s", name, th__bug_name(f->diagnosis.kind),
               f->diagnosis.text, text);
  cr_assert_not_null(strstr(f->diagnosis.text, sentence), "\"%s\" lacks \"%s\"", f->diagnosis.text,
                     sentence);
  th__report_free(r);
}

/* The file cannot be checked, and the message says where and why. */
static inline void expect_refused(const char *text, size_t length, int line, int column,
                                  const char *message) {
  th__report *r = th__derive_check(text, length, &(th__derive_options){.seed = 1});
  cr_assert_not_null(r);
  const th__fault *fault = &r->fault;
  for (int i = 0; i < r->count && fault->message[0] == '\0'; i++) fault = &r->findings[i].fault;
  cr_assert_geq(r->verdict, TH__VACUOUS, "%.200s: %s", text, th__verdict_name(r->verdict));
  cr_assert_not_null(strstr(fault->message, message), "%.200s: \"%s\" lacks \"%s\"", text,
                     fault->message, message);
  cr_assert(fault->place.line == line && fault->place.column == column, "%.200s: %d:%d: %s", text,
            fault->place.line, fault->place.column, fault->message);
  th__report_free(r);
}

#endif
