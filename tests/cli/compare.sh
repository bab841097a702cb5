# ctest: full
# tapehead compare: its outputs agree, an interrupt reports what is finished, bad input ends with exit code 2, a message,
# and nothing written.
. "$(dirname "$0")/lib.sh"

run() { "$tapehead" compare "$@" >out 2>err; }
small="--distance 2,6 --steps 10 --seeds 2 --batch 4 --width 8"

# --- outputs -----------------------------------------------------------------------------------------------------

plot=""
command -v gnuplot >/dev/null && plot="--plot a.svg"
# shellcheck disable=SC2086
run $small --json a.json --csv a.csv $plot --threads 1 || fail "exit code $?: $(cat err)"
[ ! -s err ] || fail "stderr is no terminal, yet it got: $(cat err)"
[ "$(grep -cE '^ +[26] (RNN|LSTM|transformer) ' out)" -eq 6 ] || fail "the table has not 6 rows"
grep -qF "At distance 6 the RNN is right in" out || fail "no paragraph"
[ "$(awk 'length > 120' out | wc -l)" -eq 0 ] || fail "lines longer than 120: $(awk 'length > 120' out)"
[ "$(grep -c '"model":' a.json)" -eq 6 ] || fail "the JSON has not 6 cells"
for key in cells distance model width parameters accuracy accuracy_least accuracy_most steps gradient_before \
  gradient_after first_step last_step step_ms runs learnt seed seeds batch lr complete threads version command; do
  grep -q "\"$key\": " a.json || fail "the JSON has no $key"
done
[ "$(wc -l <a.csv)" -eq 7 ] || fail "the CSV has $(wc -l <a.csv) lines"
tail -n 1 a.csv | grep -qF ",10,2,4,1,1," || fail "the CSV lacks steps, seeds, batch, seed or threads"
tail -n 1 a.csv | grep -qF '"tapehead compare --distance 2,6' || fail "the CSV lacks the command line"
[ -z "$plot" ] || grep -qF '</svg>' a.svg || fail "the picture is not complete"

# The same numbers, times aside, at two threads, and on standard output, which then holds nothing else.
# shellcheck disable=SC2086
run $small --json - --threads 2 || fail "exit code $?"
same() { grep -vE '"(threads|command|step_ms)":' "$1"; }
[ "$(same a.json)" = "$(same out)" ] || fail "two threads give other numbers than one"
[ "$(head -n 1 out)" = "{" ] && [ "$(tail -n 1 out)" = "}" ] || fail "--json - is not JSON alone"
# shellcheck disable=SC2086
run $small --json - --seed 2 && [ "$(same a.json)" != "$(same out)" ] || fail "the seed changes nothing"
run --help && grep -q -- '--distance=LIST' out || fail "--help"

# --- an interrupt: exit code 128 + signal, what is finished is reported ------------------------------------------

interrupt() { # SIGNAL CODE
  "$tapehead" compare --distance 2,4000 --steps 1000000 --seeds 1 --batch 64 --json i.json >out 2>err &
  process=$!
  sleep 1
  kill "-$1" $process
  wait $process
  code=$?
  [ $code -eq "$2" ] || fail "$1: exit code $code, not $2"
  grep -q interrupted err || fail "$1: no word of it: $(cat err)"
  grep -q '"complete": false' i.json || fail "$1: the JSON does not say so"
  grep -qE '^ +4000 RNN ' out || fail "$1: no table"
}
# A background job of a script ignores SIGINT; SIGTERM is watched in the same way.
interrupt TERM 143

# --- bad input ---------------------------------------------------------------------------------------------------

# refused TEXT OPTIONS...: exit code 2, the text on stderr, nothing on stdout, no file.
refused() {
  text=$1
  shift
  rm -f new.*
  run "$@"
  code=$?
  [ $code -eq 2 ] || fail "$*: exit code $code"
  grep -qF -- "$text" err || fail "$*: no '$text' in: $(cat err)"
  [ ! -s out ] || fail "$*: standard output got: $(head -n 1 out)"
  [ -z "$(ls | grep '^new')" ] || fail "$*: left $(ls | grep '^new')"
}

refused "--distance: 0 is out of range; 1 to 65536" --distance 0
refused "--distance: 8 does not exceed 8; give them rising" --distance 8,8
refused "--distance: 'far' is not a whole number" --distance far
refused "--steps: 0 is out of range" --steps 0
refused "--seeds: 100 is out of range; 1 to 99" --seeds 100
refused "--batch: 'x' is not a whole number" --batch x
refused "--width: 7 is odd" --width 7
refused "--lr: " --lr 0
refused "--lr: " --lr nan
refused "'-' is no file name" --csv -
refused "'new.a' is given for two outputs" --csv new.a --plot new.a
refused "no-such-folder" --csv no-such-folder/new.csv
refused "GiB are needed" --distance 65536 --batch 65536
refused "stray" stray

[ $failures -eq 0 ]
