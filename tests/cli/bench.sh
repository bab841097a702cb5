# ctest: quick
# tapehead bench and tapehead version: outputs, and bad input.
. "$(dirname "$0")/lib.sh"

"$tapehead" bench --shape micro,toy,llama,lstm --steps 2 --json b.json >out 2>err || fail "bench: exit code $?: $(cat err)"
for shape in micro toy llama lstm; do
  grep -qE "^$shape +2 " out || fail "bench: the table lacks $shape"
done
for key in shapes name threads steps median_ms min_ms tokens_per_second gflops peak_share peak_rss_mib peak_gflops cpu \
  blas version; do
  grep -q "\"$key\": " b.json || fail "bench: the JSON has no $key"
done
"$tapehead" bench --shape micro --steps 1 --json - >out || fail "bench --json -: exit code $?"
[ "$(head -n 1 out)" = "{" ] && [ "$(tail -n 1 out)" = "}" ] || fail "bench --json - is not JSON alone"
"$tapehead" version --json - | grep -q '"version": ' || fail "version --json -"
"$tapehead" --version | grep -q '^tapehead [0-9]' || fail "--version"

refused() {
  text=$1
  shift
  "$tapehead" "$@" >out 2>err
  code=$?
  [ $code -eq 2 ] || fail "$*: exit code $code"
  grep -qF -- "$text" err || fail "$*: no '$text' in: $(cat err)"
  [ ! -s out ] || fail "$*: standard output got: $(head -n 1 out)"
}
refused "'huge' is not one of micro, toy" bench --shape huge
refused "give at least one name" bench --shape ,
refused "0 is out of range" bench --steps 0
refused "'x' is not a whole number" bench --steps x
refused "cannot open for writing" bench --json /nowhere/b.json
refused "there is no command 'fly'" fly
refused "Usage: tapehead"
refused "unexpected argument 'x'" version x
"$tapehead" version >/dev/full 2>err && fail "a full disk passes for success"

[ "$failures" -eq 0 ] || exit 1
