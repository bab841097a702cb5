# tapehead gradcheck: names, exit codes, and that threads do not matter. Its JSON: test_gradcheck_json.c.
set -eu
tapehead=${TAPEHEAD:?the command}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }
status() { set +e; "$@" >"$work/out" 2>"$work/err"; got=$?; set -e; }

# Names: all of them are listed, one may be chosen, so may one case; others are refused.
"$tapehead" gradcheck --list >"$work/list"
for name in linear softmax attention multi_head_attention layer_norm cross_entropy gpt; do
  grep -q "^$name" "$work/list" || fail "--list lacks $name"
done
status "$tapehead" gradcheck softmax
[ "$got" -eq 0 ] || fail "softmax: exit $got"
grep -q ' softmax/saturated\|^softmax/saturated' "$work/out" || fail "softmax/saturated is missing"
if grep -q '^linear' "$work/out"; then fail "softmax also ran linear"; fi
status "$tapehead" gradcheck softmax/saturated
[ "$(grep -c '^softmax' "$work/out")" -eq 2 ] || fail "one case: f64 and f32 expected"
status "$tapehead" gradcheck soft
[ "$got" -eq 2 ] || fail "an unknown name: exit $got"
grep -q "'soft'" "$work/err" || fail "the message does not name it"
status "$tapehead" gradcheck --seed x
[ "$got" -eq 2 ] || fail "--seed x: exit $got"
status "$tapehead" gradcheck softmax --json "$work/no/such/folder.json"
[ "$got" -eq 2 ] || fail "an unwritable file: exit $got"

# The same numbers with one thread and with two, and from one run to the next.
"$tapehead" gradcheck attention --threads 1 --json "$work/one.json" >/dev/null
"$tapehead" gradcheck attention --threads 2 --json "$work/two.json" >/dev/null
cmp "$work/one.json" "$work/two.json" || fail "threads change the result"
