# ctest: full
# tapehead train: its outputs agree, threads change nothing, lost runs say why, bad input ends with exit code 2, a
# message, and nothing written; Ctrl-C keeps what was done.
. "$(dirname "$0")/lib.sh"

run() { "$tapehead" train "$@" >out 2>err; }
small="--layers 1 --heads 2 --d-model 16 --seq 8 --batch 4"

# --- outputs -----------------------------------------------------------------------------------------------------

# shellcheck disable=SC2086
run --task copy $small --steps 12 --seeds 2 --log a.jsonl --json a.json --threads 1 || fail "exit code $?: $(cat err)"
[ ! -s err ] || fail "stderr is no terminal, yet it got: $(cat err)"
[ "$(wc -l <a.jsonl)" -eq 24 ] || fail "the log has $(wc -l <a.jsonl) lines"
for key in seed step loss accuracy grad_norm entropy tokens_per_second seconds_left; do
  [ "$(grep -c "\"$key\": [0-9]" a.jsonl)" -eq 24 ] || fail "a line of the log has no $key"
done
for key in task scale dk heads layers d_model seq optim lr threads version runs seed steps final_loss train_accuracy \
  heldout_accuracy steps_to_95 tokens_per_second; do
  grep -q "\"$key\": " a.json || fail "the JSON has no $key"
done
grep -q '"steps_to_95": null' a.json || fail "12 steps cannot have reached 95 %"
grep -q '^final loss: .*median .*range ' out && grep -q '(0 of 2 runs)' out || fail "no median and range"

same_log() { sed 's/, "tokens_per_second.*//' "$1"; }
same_json() { grep -vE '"(threads|tokens_per_second)":' "$1"; }
# shellcheck disable=SC2086
run --task copy $small --steps 12 --seeds 2 --log b.jsonl --json - --threads 2 || fail "exit code $?: $(cat err)"
[ "$(same_log a.jsonl)" = "$(same_log b.jsonl)" ] || fail "two threads give other losses than one"
[ "$(same_json a.json)" = "$(same_json out)" ] || fail "two threads give another result than one"
[ "$(head -n 1 out)" = "{" ] && [ "$(tail -n 1 out)" = "}" ] || fail "--json - is not JSON alone"
# shellcheck disable=SC2086
run --task copy $small --steps 12 --seed 2 --log b.jsonl || fail "exit code $?"
[ "$(same_log b.jsonl)" = "$(same_log a.jsonl | grep '"seed": 2,')" ] || fail "--seeds 2 does not go on with seed 2"

for task in copy reverse sort recall induction; do
  for scale in none sqrt dk 0.5; do
    # shellcheck disable=SC2086
    run --task $task $small --steps 2 --scale $scale --dk 5 --json c.json || fail "$task, $scale: $(cat err)"
    grep -q "\"scale\": \"$scale\"" c.json && grep -q '"dk": 5,' c.json || fail "$task: scale or dk not in the JSON"
  done
done
seq 1 500 >numbers.txt
# shellcheck disable=SC2086
run --text numbers.txt $small --steps 5 --optim sgd --json c.json || fail "a text: $(cat err)"
grep -q '"task": "text"' c.json && grep -q '"optim": "sgd"' c.json && grep -q '^numbers.txt: ' out || fail "a text"
# shellcheck disable=SC2086
run --text /dev/stdin $small --steps 2 <numbers.txt || fail "a text from a pipe: $(cat err)"
run --help && grep -q -- '--text=FILE' out && grep -q '^Exit status: 0 success' out || fail "--help"

# A terminal gets a line of progress (its figures), anything else does not.
if command -v script >/dev/null; then
  script -qec "stty cols 80; '$tapehead' train --task copy $small --steps 30 --log p.jsonl" /dev/null >terminal </dev/null
  tr '\r' '\n' <terminal | grep -qE '^30/30 loss [0-9.]+ acc [0-9.]+ grad [0-9.e+-]+ entropy [0-9.]+ [0-9]+ tok/s 0:00' ||
    fail "no line of progress on a terminal: $(cat -v terminal)"
fi

# --- lost runs ---------------------------------------------------------------------------------------------------

# lost TEXT OPTIONS...: exit code 1, step and tensor on stderr, no result.
lost() {
  text=$1
  shift
  rm -f new.json
  # shellcheck disable=SC2086
  run --task copy $small --steps 60 --json new.json "$@"
  code=$?
  [ $code -eq 1 ] || fail "$*: exit code $code"
  grep -qE "^tapehead train: seed 1: step [0-9]+: .*$text" err || fail "$*: no '$text' in: $(cat err)"
  [ ! -e new.json ] || fail "$*: a lost run has a result"
}
lost "(Inf or NaN is|largest parameter is) [a-z].*weight.*lower the learning rate" --lr 1e6
lost "diverges.*largest parameter is [a-z0-9_.]+ with" --optim sgd --lr 1e3
lost "not finite.*attention.*or the scale" --scale 1e300
# A lost run keeps no other from running, and does not pass for success.
# shellcheck disable=SC2086
run --task copy $small --steps 60 --optim sgd --lr 1e3 --seeds 2
[ $? -eq 1 ] && [ "$(grep -c diverges err)" -eq 2 ] || fail "two lost runs: $(cat err)"

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
copy() {
  text=$1
  shift
  refused "$text" --task copy --log new.jsonl --json new.json "$@"
}

refused "give either --task"
refused "give either --task" --task copy --text numbers.txt
refused "--task: 'fly' is not one of copy, reverse, sort, recall, induction" --task fly
for option in dk heads layers d-model seq batch steps seeds; do
  copy "--$option: 0 is out of range; 1 to" --$option 0
  copy "--$option: -3 is out of range" --$option=-3
  copy "--$option: 'many' is not a whole number" --$option many
  copy "--$option: '1.5' is not a whole number" --$option 1.5
  copy "--$option: 99999999999999999999 is out of range" --$option 99999999999999999999
done
copy "--lr: 'fast' is not a number" --lr fast
copy "--lr: 0 is out of range" --lr 0
copy "--lr: -1 is out of range" --lr=-1
copy "--lr: nan is out of range" --lr nan
copy "--lr: inf is out of range" --lr inf
copy "--scale: 'cube' is not none, sqrt, dk or a number" --scale cube
copy "--optim: 'lion' is not one of adamw, sgd" --optim lion
copy "unrecognized option '--width'" --width 4
copy "unexpected argument 'x'" x
copy "--d-model 64 does not divide into --heads 5" --heads 5
copy "--d-model 30 does not divide into --heads 4" --d-model 30
copy "seq is 1; at least 2 tokens are needed" --seq 1
refused "recall: seq is 4; at least 5" --task recall --seq 4 --json new.json
refused "induction: seq is 3; at least 4" --task induction --seq 3 --log new.jsonl
# Sizes whose products overflow or exceed any memory: refused with the figure, before anything is taken.
copy "GiB are free; take a shorter seq" --batch 16777216 --seq 16777216
copy "GiB are free; take a shorter seq" --seq 1048576
copy "GiB are free; take a smaller d-model" --d-model 16777216 --heads 16777216 --dk 16777216 --layers 1000

# --- files -------------------------------------------------------------------------------------------------------

: >empty
refused "empty: the text is empty" --text empty --log new.jsonl
printf 'too short' >short
refused "short: 9 bytes are" --text short --json new.json
refused "/nowhere/book: cannot open: No such file" --text /nowhere/book
refused "$folder: cannot read: Is a directory" --text "$folder"
truncate -s 100G huge # takes no space
refused "huge: longer than" --text huge
refused "--text: '' is no file name" --text ''
refused "--log: '-' is no file name" --task copy --log -
refused "nowhere/new.json: cannot open for writing" --task copy --json nowhere/new.json --log new.jsonl
refused "nowhere/new.jsonl: cannot open for writing" --task copy --log nowhere/new.jsonl --json new.json
refused "$folder: cannot open for writing" --task copy --log "$folder"
refused "'new.x' is given for two outputs" --task copy --log new.x --json new.x
refused "new.x and ./new.x are one file" --task copy --log new.x --json ./new.x
cp numbers.txt book
refused "the log would overwrite the text book" --text book --log ./book
refused "the JSON would overwrite the text book" --text book --json ./book
cmp -s book numbers.txt || fail "the text was changed"
if [ "$(id -u)" -ne 0 ]; then
  chmod 000 book
  refused "book: cannot open: Permission denied" --text book
fi

# What was there stays until there is something better.
echo old >old.jsonl
echo old >old.json
run --task copy --seq 1 --log old.jsonl --json old.json
[ "$(cat old.jsonl old.json)" = "old
old" ] || fail "a refused command has replaced a file"

# A full disk.
for option in log json; do
  # shellcheck disable=SC2086
  run --task copy $small --steps 3 "--$option" /dev/full
  code=$?
  [ $code -eq 2 ] && grep -q "/dev/full: cannot write: No space" err || fail "--$option /dev/full: $code, $(cat err)"
done
# shellcheck disable=SC2086
"$tapehead" train --task copy $small --steps 3 >/dev/full 2>err
[ $? -eq 2 ] && grep -q "standard output" err || fail "standard output on a full disk: $(cat err)"
(
  trap '' XFSZ
  ulimit -f 1 # some six lines
  # shellcheck disable=SC2086
  "$tapehead" train --task copy $small --steps 50 --log full.jsonl >/dev/null 2>full.err
)
[ $? -eq 2 ] || fail "no room for the log, yet exit code is not 2"
grep -q "ends with the last whole line" full.err || fail "no room for the log: $(cat full.err)"
[ -s full.jsonl ] && [ "$(grep -c '^{.*}$' full.jsonl)" -eq "$(wc -l <full.jsonl)" ] &&
  [ -z "$(tail -c 1 full.jsonl)" ] || fail "the log ends within a line: $(tail -n 1 full.jsonl)"

# --- Ctrl-C ------------------------------------------------------------------------------------------------------

# wait_for FILE: until it has a line, at most 20 s.
wait_for() {
  for _ in $(seq 200); do
    [ -s "$1" ] && return
    sleep 0.1
  done
  fail "$1 stays empty"
}
rm -f c.*
# shellcheck disable=SC2086
"$tapehead" train --task copy $small --steps 100000000 --seeds 3 --log c.jsonl --json c.json >out 2>err &
child=$!
wait_for c.jsonl
kill -INT $child
wait $child
[ $? -eq 130 ] || fail "Ctrl-C: exit code is not 130"
grep -q "interrupted; the results are those of the steps done" err || fail "Ctrl-C: $(cat err)"
[ "$(grep -c '"seed":' c.json)" -eq 1 ] || fail "Ctrl-C: not one run in the JSON"
[ "$(sed -n 's/.*"steps": \([0-9]*\).*/\1/p' c.json)" -eq "$(wc -l <c.jsonl)" ] || fail "Ctrl-C: steps and log differ"
grep -q "(stopped)" out || fail "Ctrl-C: the table does not say so"

# A step that takes long: the first Ctrl-C waits for it, the second does not.
rm -f c.*
"$tapehead" train --task copy --d-model 256 --layers 8 --seq 128 --batch 32 --log c.jsonl --json c.json >out 2>err &
child=$!
for _ in $(seq 200); do [ -e c.jsonl ] || sleep 0.1; done # it is opened just before Ctrl-C is watched for
sleep 0.3
kill -INT $child
sleep 0.2
kill -INT $child 2>/dev/null
before=$(date +%s)
wait $child
[ $? -eq 130 ] || fail "a second Ctrl-C: exit code is not 130"
[ $(($(date +%s) - before)) -le 3 ] || fail "a second Ctrl-C takes $(($(date +%s) - before)) s"
[ ! -e c.json ] || [ "$(tail -n 1 c.json)" = "}" ] || fail "a second Ctrl-C: half a result"

[ $failures -eq 0 ]
