/* tapehead check FILE...: hand derivations, line by line, reported as a compiler reports. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "derive/derive.h"
#include "derive/lexer.h"
#include "io/npy.h"

typedef struct options {
  cli_common common;
  th__derive_options check;
  const char **files;
  int file_count;
} options;

enum { KEY_DRAWS = 1, KEY_FIXED_SIZES };

static const struct argp_option own_options[] = {
    {"draws", KEY_DRAWS, "N", 0, "Random points at which each claim is tested (default 6)", 0},
    {"fixed-sizes", KEY_FIXED_SIZES, 0, 0, "Use only the sizes written in the file", 0},
    {0}};

static const char text[] =
    "Check hand-derived gradients, line by line. A file holds a forward pass, loss(O), and claims "
    "dX = ... about the gradients; '-' is standard input. Each claim is judged twice: given the "
    "true gradients on its right side, and as it follows from the claims above it. "
    "docs/derivations.md describes the language."
    "\vExit status: 0 all claims are right, 1 a claim is wrong, 2 a file cannot be read, does not "
    "parse, its shapes do not fit, or it claims nothing.";

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case KEY_DRAWS:
    o->check.draws = (int)cli_integer(state, "--draws", argument, 1, TH__MAX_DRAWS);
    return 0;
  case KEY_FIXED_SIZES: o->check.fixed_sizes = true; return 0;
  case ARGP_KEY_ARG: o->files[o->file_count++] = argument; return 0;
  case ARGP_KEY_END:
    if (o->file_count == 0) argp_error(state, "no file given; name the derivations to check");
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* ---- text ---- */

typedef struct source {
  const char *name; /* as given; "<stdin>" for "-" */
  char folder[4096];
  char *text;
  size_t length;
} source;

static bool read_stream(FILE *stream, source *s) {
  s->text = malloc((size_t)TH__TEXT_LIMIT + 2);
  if (s->text == NULL) return false;
  s->length = fread(s->text, 1, (size_t)TH__TEXT_LIMIT + 1, stream); /* one more: found too long */
  s->text[s->length] = '\0';
  return ferror(stream) == 0;
}

/* False after a message. */
static bool read_source(const char *path, source *s) {
  *s = (source){.name = path};
  if (strcmp(path, "-") == 0) {
    s->name = "<stdin>";
    if (read_stream(stdin, s)) return true;
    cli_error("check", "cannot read standard input: %s", strerror(errno));
    return false;
  }
  const char *slash = strrchr(path, '/');
  if (slash != NULL && (size_t)(slash - path) < sizeof s->folder - 1)
    snprintf(s->folder, sizeof s->folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  FILE *file = fopen(path, "rb");
  bool good = file != NULL && read_stream(file, s);
  if (!good) cli_error("check", "%s: cannot read: %s", path, strerror(errno));
  if (file != NULL) fclose(file);
  return good;
}

/* ---- colours ---- */

typedef struct paint {
  const char *strong, *good, *bad, *warn, *off;
} paint;

static paint paint_for(FILE *stream) {
  if (!cli_colour(stream)) return (paint){"", "", "", "", ""};
  return (paint){"\033[1m", "\033[32m", "\033[1;31m", "\033[33m", "\033[0m"};
}

static const char *paint_of(const paint *p, th__verdict verdict) {
  return verdict == TH__PASS ? p->good : verdict == TH__KINK ? p->warn : p->bad;
}

/* ---- for people ---- */

/* Bytes from `at` that hold `columns` characters, at most up to `end`. */
static size_t bytes_of(const char *at, const char *end, int columns) {
  const char *begin = at;
  while (at < end && columns-- > 0) {
    at++;
    while (at < end && ((unsigned char)*at & 0xC0) == 0x80) at++;
  }
  return (size_t)(at - begin);
}

static bool printable(const char *line, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (((unsigned char)line[i] < 0x20 && line[i] != '\t') || line[i] == 0x7F) return false;
  return true;
}

/* The line itself with a caret, cut where it is long. */
static void print_line(FILE *out, const source *s, th__place place, int width) {
  const char *line = s->text, *end = s->text + s->length;
  for (int i = 1; i < place.line && line != NULL; i++) {
    line = memchr(line, '\n', (size_t)(end - line));
    if (line != NULL) line++;
  }
  if (line == NULL) return;
  const char *line_end = memchr(line, '\n', (size_t)(end - line));
  if (line_end == NULL) line_end = end;
  if (line_end > line && line_end[-1] == '\r') line_end--;
  if (!printable(line, (size_t)(line_end - line))) return;
  int skipped = place.column > 80 ? place.column - 60 : 0;
  line += bytes_of(line, line_end, skipped);
  size_t shown = bytes_of(line, line_end, 100);
  fprintf(out, "%6d | %s%.*s%s\n", place.line, skipped > 0 ? "..." : "", (int)shown, line,
          line + shown < line_end ? "..." : "");
  fprintf(out, "       | ");
  int column = place.column - skipped + (skipped > 0 ? 3 : 0);
  for (int i = 1; i < column; i++) fputc(line[i - 1] == '\t' && skipped == 0 ? '\t' : ' ', out);
  fputc('^', out);
  for (int i = 1; i < width; i++) fputc('~', out);
  fputc('\n', out);
}

static void print_fault(const source *s, const th__fault *fault, const char *verdict) {
  paint p = paint_for(stderr);
  fflush(stdout);
  fprintf(stderr, "%s%s:%d:%d: %s%s:%s %s\n", p.strong, s->name, fault->place.line,
          fault->place.column, p.bad, verdict, p.off, fault->message);
  print_line(stderr, s, fault->place, 1);
}

/* How far off, and where. The shapes, if those are wrong. */
static void print_error(const th__finding *f) {
  printf("       = ");
  if (isfinite(f->max_abs_error))
    printf("error %.3g (relative %.3g): ", f->max_abs_error, f->max_rel_error);
  printf("%s\n", f->where);
}

static void print_finding(const source *s, const th__finding *f) {
  if (f->verdict == TH__ERROR && f->fault.message[0] != '\0') {
    print_fault(s, &f->fault, "error");
    return;
  }
  paint p = paint_for(stdout);
  printf("%s%s:%d:%d: %s%s:%s %s", p.strong, s->name, f->place.line, f->place.column,
         paint_of(&p, f->verdict), th__verdict_name(f->verdict), p.off, f->name);
  if (f->diagnosed) printf(": %s", f->diagnosis.text);
  if (f->verdict == TH__VACUOUS) printf(": nothing was compared");
  if (f->verdict == TH__PASS) printf(" (error %.1e)", f->max_rel_error);
  if (f->chained == TH__WRONG && f->verdict != TH__WRONG) {
    printf("; its result is wrong");
    if (f->culprit != NULL) printf(" because of %s, line %d", f->culprit, f->culprit_line);
  }
  putchar('\n');
  if (f->verdict != TH__PASS) print_line(stdout, s, f->place, (int)strlen(f->name));
  if (f->verdict == TH__WRONG) print_error(f);
  if (f->remedy[0] != '\0') printf("       = %s\n", f->remedy);
  if (f->note[0] != '\0') printf("       = note: %s\n", f->note);
}

static void print_report(const source *s, const th__report *r) {
  for (int i = 0; i < r->count; i++) print_finding(s, &r->findings[i]);
  if (r->fault.message[0] != '\0')
    print_fault(s, &r->fault, r->verdict == TH__VACUOUS ? "vacuous" : "error");
  if (r->note[0] != '\0') printf("%s: note: %s\n", s->name, r->note);
  if (r->count == 0) return;
  int good = 0;
  for (int i = 0; i < r->count; i++) good += r->findings[i].verdict <= TH__KINK;
  printf("%s: %d of %d claims right; %d draws, %d of them with other sizes; %d of %d true gradients "
         "confirmed by finite differences\n",
         s->name, good, r->count, r->draws, r->sizes_varied, r->cross_checked, r->values);
}

/* ---- for programs ---- */

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *finding_json(const th__finding *f) {
  json_t *diagnosis =
      f->diagnosed ? json_pack("{s:s, s:s, s:o}", "kind", th__bug_name(f->diagnosis.kind), "text",
                               f->diagnosis.text, "factor", number(f->diagnosis.factor))
                   : json_null();
  return json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o}", "line", f->place.line, "name", f->name,
                   "verdict", th__verdict_name(f->verdict), "chained", th__verdict_name(f->chained),
                   "max_abs_error", number(f->max_abs_error), "max_rel_error",
                   number(f->max_rel_error), "diagnosis", diagnosis);
}

static json_t *fault_json(const th__fault *fault) {
  return json_pack("{s:i, s:i, s:s}", "line", fault->place.line, "column", fault->place.column,
                   "message", fault->message);
}

/* The fault of a file, or of its first line that has one; NULL if none has. */
static const th__fault *first_fault(const th__report *r) {
  if (r->fault.message[0] != '\0') return &r->fault;
  for (int i = 0; i < r->count; i++)
    if (r->findings[i].fault.message[0] != '\0') return &r->findings[i].fault;
  return NULL;
}

static json_t *report_json(const char *name, const th__report *r) {
  json_t *claims = json_array();
  for (int i = 0; i < r->count; i++) json_array_append_new(claims, finding_json(&r->findings[i]));
  json_t *file = json_pack("{s:s, s:s, s:o}", "file", name, "verdict", th__verdict_name(r->verdict),
                           "claims", claims);
  const th__fault *fault = first_fault(r);
  if (fault != NULL) json_object_set_new(file, "error", fault_json(fault));
  return file;
}

static json_t *unread_json(const char *name) {
  return json_pack("{s:s, s:s, s:[], s:{s:i, s:i, s:s}}", "file", name, "verdict",
                   th__verdict_name(TH__ERROR), "claims", "error", "line", 0, "column", 0,
                   "message", "cannot be read");
}

/* ---- the command ---- */

static int exit_of(th__verdict verdict) {
  switch (verdict) {
  case TH__PASS:
  case TH__KINK: return EXIT_OK;
  case TH__WRONG: return EXIT_CHECK_FAILED;
  default: return EXIT_USAGE;
  }
}

static int check_file(const options *o, const char *path, json_t *files, bool quiet) {
  source s;
  if (!read_source(path, &s)) {
    json_array_append_new(files, unread_json(path));
    free(s.text);
    return EXIT_USAGE;
  }
  th__derive_options check = o->check;
  check.seed = o->common.seed;
  check.folder = s.folder;
  check.load = th__npy_read;
  th__report *report = th__derive_check(s.text, s.length, &check);
  int status = EXIT_USAGE;
  if (report == NULL)
    cli_error("check", "%s: out of memory", path);
  else {
    status = exit_of(report->verdict);
    if (!quiet) print_report(&s, report);
    if (quiet && report->fault.message[0] != '\0') print_fault(&s, &report->fault, "error");
    json_array_append_new(files, report_json(path, report));
  }
  th__report_free(report);
  free(s.text);
  return status;
}

int command_check(int argc, char **argv) {
  options o = {.common.seed = 1};
  o.files = malloc((size_t)argc * sizeof *o.files);
  if (o.files == NULL) return cli_error("check", "out of memory");
  cli_parse(argc, argv, own_options, parse, "FILE...", text, &o);
  if (!cli_check_writable("check", o.common.json)) {
    free(o.files);
    return EXIT_USAGE;
  }
  bool quiet = o.common.json != NULL && strcmp(o.common.json, "-") == 0;
  json_t *files = json_array();
  int status = EXIT_OK;
  for (int i = 0; i < o.file_count; i++) {
    int one = check_file(&o, o.files[i], files, quiet);
    if (one > status) status = one;
  }
  json_t *document = json_pack("{s:o}", "files", files);
  if (o.common.json == NULL)
    json_decref(document);
  else if (!cli_write_json("check", o.common.json, document))
    status = EXIT_USAGE;
  free(o.files);
  return status;
}
