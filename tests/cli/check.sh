# tapehead check: exit codes, reports like a compiler's, JSON on its own, files of every kind.
set -eu
tapehead=${TAPEHEAD:?the command}
source_folder=${TAPEHEAD_SOURCE:?the source folder}
examples=$source_folder/examples/derivations
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; cat "$work/out" "$work/err" 2>/dev/null || true; exit 1; }
check() { set +e; (cd "$work" && "$tapehead" check "$@") >"$work/out" 2>"$work/err"; got=$?; set -e; }
says() { grep -qF -- "$1" "$work/out" || fail "stdout lacks: $1"; }
warns() { grep -qF -- "$1" "$work/err" || fail "stderr lacks: $1"; }

# 0: all claims right.
check "$examples"/linear.deriv "$examples"/rope.deriv
[ "$got" -eq 0 ] || fail "right files: exit $got"
says "linear.deriv:10:1: pass: dX"
says "linear.deriv: 3 of 3 claims right"
[ ! -s "$work/err" ] || fail "right files: something on stderr"

# 1: a claim is wrong. File, line, column, the line itself, a caret, the diagnosis.
check "$examples"/softmax.wrong.deriv
[ "$got" -eq 1 ] || fail "a wrong claim: exit $got"
says "softmax.wrong.deriv:7:1: wrong: dS: misses the term -P * sum(P * dP, axis=-1) (fit 1.000)"
says "     7 | dS = P * dP"
says "       | ^~"
check "$examples"/linear.deriv "$examples"/softmax.wrong.deriv "$examples"/rope.deriv
[ "$got" -eq 1 ] || fail "one wrong file of three: exit $got"

# The line below a wrong one is right, and says whose fault its result is.
cat >"$work/chain.deriv" <<'END'
n, d = 5, 4
Q = input(n, d)
K = input(n, d)
S = Q @ K.T / sqrt(d)
P = softmax(S)
loss(P)
dS = P * dP
dQ = dS @ K / sqrt(d)
END
check chain.deriv
says "chain.deriv:8:1: pass: dQ"
says "its result is wrong because of dS, line 7"

# 2: does not parse, does not fit, cannot be read, claims nothing. On stderr, with the place.
printf 'X = input(3)\nY = X *\nloss(Y)\ndX = dY\n' >"$work/parse.deriv"
check parse.deriv
[ "$got" -eq 2 ] || fail "a syntax error: exit $got"
warns "parse.deriv:2:8: error: expected a value, but the line ends here"
warns "     2 | Y = X *"
printf 'n = 3\nX = input(n, 4)\nY = X @ X\nloss(Y)\ndX = dY\n' >"$work/shape.deriv"
check shape.deriv
[ "$got" -eq 2 ] || fail "a shape error: exit $got"
warns "shape.deriv:3:7: error: shapes (3, 4) and (3, 4) do not fit for @"
printf 'X = input(3)\nY = 2 * X\nloss(Y)\n' >"$work/nothing.deriv"
check nothing.deriv
[ "$got" -eq 2 ] || fail "no claims: exit $got"
warns "nothing.deriv:3:1: vacuous: nothing is claimed"
check missing.deriv
[ "$got" -eq 2 ] || fail "a missing file: exit $got"
warns "missing.deriv: cannot read"
check .
[ "$got" -eq 2 ] || fail "a folder: exit $got"
check
[ "$got" -eq 2 ] || fail "no file: exit $got"
head -c 5000 /dev/urandom >"$work/junk.deriv"
check junk.deriv
[ "$got" -eq 2 ] || fail "junk: exit $got"
warns "this is not text"
check /dev/zero
[ "$got" -eq 2 ] || fail "/dev/zero: exit $got"
check parse.deriv "$examples"/softmax.wrong.deriv
[ "$got" -eq 2 ] || fail "an error and a wrong claim: exit $got"
for bad in "--draws 0" "--draws x" "--seed -1" "--nonsense"; do
  # shellcheck disable=SC2086  # two words
  check $bad chain.deriv
  [ "$got" -eq 2 ] || fail "$bad: exit $got"
done

# Standard input, windows line ends, a byte order mark.
set +e; "$tapehead" check - <"$work/chain.deriv" >"$work/out" 2>"$work/err"; got=$?; set -e
[ "$got" -eq 1 ] || fail "standard input: exit $got"
says "<stdin>:7:1: wrong"
printf '\357\273\277X = input(3)\r\nY = 2 * X\r\nloss(Y)\r\ndX = 2 * dY\r\n' >"$work/windows.deriv"
check windows.deriv
[ "$got" -eq 0 ] || fail "windows line ends: exit $got"

# JSON: alone on stdout, or in a file beside the report; the same for the same seed, another for another.
check --json - chain.deriv
[ "$got" -eq 1 ] || fail "--json -: exit $got"
[ "$(head -c 1 "$work/out")" = "{" ] || fail "--json -: something before the JSON"
for key in '"files"' '"file": "chain.deriv"' '"verdict": "wrong"' '"line": 7' '"name": "dS"' '"chained": "wrong"' \
           '"kind": "missing-row-sum"' '"factor": null' '"max_abs_error"' '"max_rel_error"' '"diagnosis": null'; do
  says "$key"
done
cp "$work/out" "$work/first"
check --json - chain.deriv
cmp "$work/out" "$work/first" || fail "two runs differ"
check --json - --threads 1 chain.deriv
cmp "$work/out" "$work/first" || fail "threads change the result"
check --json - --seed 7 chain.deriv
if cmp -s "$work/out" "$work/first"; then fail "the seed changes nothing"; fi
check --json here.json chain.deriv
says "chain.deriv:7:1: wrong"
[ "$(cat "$work/here.json")" = "$(cat "$work/first")" ] || fail "the file differs from stdout"
check --json - parse.deriv missing.deriv
[ "$got" -eq 2 ] || fail "--json with errors: exit $got"
says '"verdict": "error"'
says '"message": "expected a value, but the line ends here"'
check --json no/such/folder.json chain.deriv
[ "$got" -eq 2 ] || fail "an unwritable JSON file: exit $got"

# Colours are for terminals; a file gets none.
check chain.deriv
if grep -q "$(printf '\033')" "$work/out"; then fail "colours in a file"; fi
if command -v script >/dev/null 2>&1; then
  script -qec "$tapehead check $work/chain.deriv" /dev/null >"$work/tty" </dev/null || true
  grep -q "$(printf '\033')" "$work/tty" || fail "no colours on a terminal"
  NO_COLOR=1 script -qec "$tapehead check $work/chain.deriv" /dev/null >"$work/tty" </dev/null || true
  if grep -q "$(printf '\033')" "$work/tty"; then fail "NO_COLOR is ignored"; fi
fi

# Sizes as they are: then n = d hides a division by the wrong one.
printf 'n, d = 4, 4\nX = input(n, d)\nY = mean(X, axis=0)\nloss(Y)\ndX = ones(n, 1) * dY / d\n' >"$work/square.deriv"
check square.deriv
[ "$got" -eq 1 ] || fail "a square case hides a mistake"
says "n/d"
check --fixed-sizes square.deriv
[ "$got" -eq 0 ] || fail "--fixed-sizes: exit $got"

# An array from a file beside the derivation: [2, 3] float64 zeros and ones.
mkdir "$work/sub"
{
  printf '\223NUMPY\001\000v\000'
  printf '%-117s\n' "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"
  printf '\0\0\0\0\0\0\360?\0\0\0\0\0\0\0\0\0\0\0\0\0\0\360?\0\0\0\0\0\0\360?\0\0\0\0\0\0\0\0\0\0\0\0\0\0\360?'
} >"$work/sub/x.npy"
printf 'X = input("x.npy")\nY = X * X\nloss(Y)\ndX = 2 * X * dY\n' >"$work/sub/file.deriv"
check sub/file.deriv
[ "$got" -eq 0 ] || fail "an array from a file: exit $got"
printf 'X = input("y.npy")\nY = X * X\nloss(Y)\ndX = 2 * X * dY\n' >"$work/sub/file.deriv"
check sub/file.deriv
[ "$got" -eq 2 ] || fail "a missing array: exit $got"
warns "sub/y.npy: cannot open"

# Memory stays small whatever is asked for (in a shell of its own, because of the limit).
if command -v prlimit >/dev/null 2>&1; then
  printf 'X = input(1000000, 1000000)\nloss(X)\ndX = G\n' >"$work/huge.deriv"
  set +e; prlimit --as=1500000000 "$tapehead" check "$work/huge.deriv" >"$work/out" 2>"$work/err"; got=$?; set -e
  [ "$got" -eq 2 ] || fail "huge sizes: exit $got"
  warns "too large"
fi

# A full disk is not a success.
if [ -w /dev/full ]; then
  set +e; "$tapehead" check "$work/windows.deriv" >/dev/full 2>"$work/err"; got=$?; set -e
  [ "$got" -eq 2 ] || fail "a full disk: exit $got"
fi
