# ctest: full
# tapehead demo: a short one writes the whole report; bad input.
. "$(dirname "$0")/lib.sh"

"$tapehead" demo --seeds 1 --steps 20 >out 2>err || fail "exit code $?: $(cat err)"
[ ! -s err ] || fail "stderr is no terminal, yet it got: $(head -n 3 err)"
for part in '^(a) ' '^(b) ' '^(c) ' '^(d) '; do grep -q "$part" out || fail "part $part is missing"; done
for name in linear softmax attention multi_head_attention; do
  grep -qE "^ +$name +[0-9]+ cases, +[0-9]+ entries: all right" out || fail "no gradient check of $name"
done
for file in index.html checks.json saturation.json saturation.csv saturation.svg recall.json recall.csv \
  recall-adamw-dk16.svg recall-adamw-dk64.svg recall-adamw-dk256.svg recall-sgd-dk16.svg recall-sgd-dk64.svg \
  recall-sgd-dk256.svg; do
  [ -s "report/$file" ] || fail "report/$file is missing"
done
[ "$(ls report | wc -l)" -eq 13 ] || fail "the report holds something else: $(ls report)"
# Self-contained: pictures inside, nothing fetched.
[ "$(grep -c '<svg' report/index.html)" -ge 7 ] || fail "the page lacks pictures"
grep -qE '(src|href)="?https?:' report/index.html && fail "the page fetches something"
[ "$(grep -o '"steps_to_95"' report/recall.json | wc -l)" -eq 18 ] || fail "recall.json lacks runs"
grep -q '</html>' report/index.html || fail "the page is cut"

refused() {
  text=$1
  shift
  "$tapehead" demo "$@" >out 2>err
  code=$?
  [ $code -eq 2 ] || fail "$*: exit code $code"
  grep -qF -- "$text" err || fail "$*: no '$text' in: $(cat err)"
  [ ! -s out ] || fail "$*: standard output got: $(head -n 1 out)"
}
refused "0 is out of range" --seeds 0
refused "'x' is not a whole number" --steps x
refused "cannot" --out /nowhere/report
touch file
refused "cannot" --out file
refused "unexpected argument" here

[ "$failures" -eq 0 ] || exit 1
