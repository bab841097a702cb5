/* gnuplot.h: running gnuplot on a script, for the files that draw. */
#ifndef TH_LAB_GNUPLOT_H
#define TH_LAB_GNUPLOT_H

#include <stdio.h>

#include "tapehead.h"

/* Writes the script. Its output goes to gnuplot's stdout: no `set output`. */
typedef void th__gnuplot_script(FILE *script, const void *context);

/* What gnuplot drew, as bytes; *size is their number, a 0 byte follows. Free with th__free. NULL with
 * an error: gnuplot is missing (says which package), it failed (its message), memory. */
char *th__gnuplot(th__gnuplot_script *put_script, const void *context, size_t *size,
                  th_error *error);

/* "set terminal svg ..." of that size. */
void th__gnuplot_svg(FILE *script, int width, int height);
/* In single quotes, as gnuplot takes any text; NULL is "". Its markup stays off (noenhanced). */
void th__gnuplot_quote(FILE *script, const char *text);

#endif
