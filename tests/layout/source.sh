# ctest: quick
# Nothing is left open, no file is longer than one sitting, no test lies outside what ctest runs, no link is dead.
. "$(dirname "$0")/lib.sh"

longest=420

while IFS=: read -r file line text; do
  [ -z "$file" ] || finding "$file:$line: left open: $text"
done <<LINES
$(grep -rnIE '\b(TO[D]O|FIX[M]E|X[X]X|HAC[K])\b|not implemente[d]|\b[s]tub\b' \
  src examples tests bench fuzz docs script cmake CMakeLists.txt README.md CONTRIBUTING.md 2>/dev/null)
LINES

while read -r file; do
  lines=$(wc -l <"$file")
  [ "$lines" -le "$longest" ] || finding "$file: $lines lines, at most $longest"
done <<FILES
$(find src examples tests bench fuzz -name '*.[ch]' ! -path src/tapehead.h)
FILES

while read -r file; do
  [ -z "$file" ] || finding "$file: has Criterion tests but is not called test_*.c"
done <<FILES
$(grep -rlE '^(Test|ParameterizedTest|Theory)\(' tests --include='*.c' | grep -vE '/test_[^/]*$')
FILES

for file in *.md docs/*.md; do
  [ -f "$file" ] || continue
  for link in $(grep -oE '\]\([^) ]+\)' "$file" | sed 's/^](//; s/)$//; s/#.*//' | grep -vE '^([a-z]+:|$)'); do
    [ -e "$(dirname "$file")/$link" ] || finding "$file: dead link: $link"
  done
done

verdict
