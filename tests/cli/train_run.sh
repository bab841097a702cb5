# ctest: full
# tapehead train --out: what a run's folder holds, resuming and its refusals, --force, signals, a full disk, presets,
# configuration files, texts of several files, the same bits at any number of threads.
. "$(dirname "$0")/lib.sh"
source=${TAPEHEAD_SOURCE:?the project}

run() { "$tapehead" train "$@" >out 2>err; }
small="--layers 1 --heads 2 --d-model 16 --seq 8 --batch 4 --dropout 0.1"
losses() { sed 's/, "tokens_per_second.*//' "$1"; }

# refused TEXT OPTIONS...: exit code 2, the text on stderr, nothing on stdout.
refused() {
  text=$1
  shift
  run "$@"
  code=$?
  [ $code -eq 2 ] || fail "$*: exit code $code"
  grep -qF -- "$text" err || fail "$*: no '$text' in: $(cat err)"
  [ ! -s out ] || fail "$*: standard output got: $(head -n 1 out)"
}

# --- a run's folder ----------------------------------------------------------------------------------------------

# shellcheck disable=SC2086
run --task copy $small --steps 30 --eval-every 10 --save-every 10 --out a || fail "exit code $?: $(cat err)"
for file in config.json log.jsonl last.safetensors best.safetensors; do
  [ -s "a/$file" ] || fail "no a/$file"
done
[ "$(grep -c '"loss"' a/log.jsonl)" -eq 30 ] && [ "$(grep -c '"validation_loss"' a/log.jsonl)" -eq 3 ] ||
  fail "the log: $(cat a/log.jsonl)"
if command -v gnuplot >/dev/null; then
  grep -q '</svg>' a/plots.svg || fail "no plots: $(cat err)"
  # shellcheck disable=SC2086
  run --task copy $small --steps 30 --eval-every 20 --out plotted --plot-terminal && grep -q '\*\*\*' out || fail "no plot as text: $(cat out)"
  grep -qE "^validation loss: [0-9.]+ after the last step, which is no multiple of --eval-every" out ||
    fail "a last validation below the lowest is not explained: $(grep validation out)"
  for title in Loss "Learning rate" "Norm of the gradient" "Entropy of attention"; do
    grep -q "^ *$title *\$" out || fail "no plot of: $title"
  done
  grep -qF "plotted in plotted/plots.svg" out || fail "nobody says where the plots are"
fi
grep -q "^gpt: 3712 parameters in 16 tensors" out && grep -q "  decay 0.01: 6 tensors, 3472 numbers" out &&
  grep -q "h.\*.mlp.c_fc.weight  *\[64, 16\]" out && grep -q "  no decay: 10 tensors, 240 numbers" out &&
  grep -q "^memory: about " out || fail "no table of parameters: $(cat out)"
if command -v gnuplot >/dev/null; then
  run --resume --out plotted --plot-terminal && grep -q "^ *Entropy of attention *\$" out || fail "no plot of a finished run"
fi
# What it was begun with begins it again.
run --config a/config.json --out again || fail "--config a/config.json: $(cat err)"
cmp a/last.safetensors again/last.safetensors || fail "the written configuration makes another run"
[ "$(losses a/log.jsonl)" = "$(losses again/log.jsonl)" ] || fail "... with other losses"
# Every so many steps only.
# shellcheck disable=SC2086
run --task copy $small --steps 30 --log-every 10 --log every.jsonl && [ "$(wc -l <every.jsonl)" -eq 3 ] || fail "--log-every"

# --- an existing run ---------------------------------------------------------------------------------------------

before=$(cat a/* | cksum)
# shellcheck disable=SC2086
refused "a holds a run; go on with it (--resume), replace it (--force)" --task copy $small --out a
refused "a holds a run" --text /nowhere/book --out a # before anything else is looked at
refused "needs the run's folder; give --out DIR" --task copy --resume
refused "needs the run's folder; give --out DIR" --task copy --force
refused "give one of the two" --out a --resume --force
refused "none holds no run that could be resumed" --out none --resume
refused "--d-model 32 was asked for, but the run in a has 16" --out a --resume --d-model 32
refused "--seed 2 was asked for, but the run in a has 1" --out a --resume --seed 2
refused "--task sort was asked for, but the run in a has copy" --out a --resume --task sort
refused "--text x was asked for, but the run in a has none" --out a --resume --text x
refused "--model lstm was asked for, but the run in a has gpt" --out a --resume --model lstm
refused "--steps 20: the run has done 30 steps already" --out a --resume --steps 20
[ "$(cat a/* | cksum)" = "$before" ] || fail "a refused command has changed the run"
run --out a --resume && grep -q "the run in a is finished: all 30 steps were done; a larger --steps goes on" out ||
  fail "a finished run: $(cat out err)"
[ "$(cat a/log.jsonl a/last.safetensors | cksum)" = "$(cat again/log.jsonl again/last.safetensors | cksum)" ] ||
  [ "$(losses a/log.jsonl)" = "$(losses again/log.jsonl)" ] || fail "resuming a finished run has changed it"
# The same command with --resume goes on, too; and config.json may raise the steps.
# shellcheck disable=SC2086
run --task copy $small --steps 40 --eval-every 10 --out a --resume || fail "the same command: $(cat err)"
[ "$(grep -c '"loss"' a/log.jsonl)" -eq 40 ] || fail "resumed to 40: $(grep -c '"loss"' a/log.jsonl) steps"
sed -i 's/"steps": 40/"steps": 50/' a/config.json
run --out a --resume || fail "config.json with more steps: $(cat err)"
[ "$(grep -c '"loss"' a/log.jsonl)" -eq 50 ] || fail "config.json with 50 steps: $(grep -c '"loss"' a/log.jsonl)"
sed -i 's/"layers": 1/"layers": 2/' a/config.json
refused "--layers 2 was asked for, but the run in a/last.safetensors has 1" --out a --resume
# shellcheck disable=SC2086
run --task copy $small --steps 5 --out a --force || fail "--force: $(cat err)"
[ "$(grep -c '"loss"' a/log.jsonl)" -eq 5 ] || fail "--force keeps the old log"
[ ! -e a/best.safetensors ] || fail "--force keeps the old best checkpoint"

# --- folders -----------------------------------------------------------------------------------------------------

: >file
refused "file: cannot open: Not a directory" --task copy --out file
refused "nowhere/deep: cannot make the folder: No such file" --task copy --out nowhere/deep
refused "--out: '' is no file name" --task copy --out ''
if [ "$(id -u)" -ne 0 ]; then
  mkdir closed && chmod 555 closed
  refused "closed/config.json: cannot open for writing: Permission denied" --task copy --out closed
  refused "closed/b: cannot make the folder: Permission denied" --task copy --out closed/b
fi
# What is refused makes no folder.
refused "recall: seq is 4" --task recall --seq 4 --out new
[ ! -e new ] || fail "a refused command has made its folder"

# --- signals -----------------------------------------------------------------------------------------------------

# wait_for FILE: until it has a line, at most 20 s.
wait_for() {
  for _ in $(seq 200); do
    [ -s "$1" ] && return
    sleep 0.1
  done
  fail "$1 stays empty"
}
for signal in INT TERM HUP; do
  rm -rf s
  # shellcheck disable=SC2086
  "$tapehead" train --task copy $small --steps 100000000 --save-every 0 --out s >out 2>err &
  child=$!
  wait_for s/log.jsonl
  kill -$signal $child
  wait $child
  code=$?
  [ $code -eq $((128 + $(kill -l $signal))) ] || fail "SIG$signal: exit code $code"
  grep -q '`tapehead train --resume --out s` goes on' err || fail "SIG$signal: $(cat err)"
  ! command -v gnuplot >/dev/null || [ -s s/plots.svg ] || fail "SIG$signal: no plots: $(cat err)"
  steps=$(grep -c '"loss"' s/log.jsonl)
  run --resume --out s --steps $((steps + 3)) || fail "after SIG$signal: $(cat err)"
  grep -q "goes on after step $steps\$" out || fail "after SIG$signal and $steps steps: $(cat out)"
done
# What is named can be pasted, whatever the folder's name.
# shellcheck disable=SC2086
"$tapehead" train --task copy $small --steps 100000000 --save-every 0 --out "s t" >out 2>err &
child=$!
wait_for "s t/log.jsonl"
kill -INT $child
wait $child
grep -qF -- "--out \$'s t'\` goes on" err || fail "a folder's name with a space: $(cat err)"

# --- a full disk -------------------------------------------------------------------------------------------------

# shellcheck disable=SC2086
run --task copy $small --steps 10 --save-every 10 --log-every 1000 --out full || fail "$(cat err)"
cp full/last.safetensors good
(
  ulimit -f 8 # KiB; a checkpoint has some 50
  "$tapehead" train --resume --out full --steps 30 >out 2>err
)
code=$?
[ $code -eq 2 ] || fail "no room for a checkpoint: exit code $code"
grep -q "last.safetensors: cannot write: File too large" err &&
  grep -q 'the checkpoint of step 10 is whole; `tapehead train --resume --out full` goes on' err || fail "no room: $(cat err)"
cmp good full/last.safetensors || fail "a save without room has destroyed the last good one"
[ -z "$(ls full | grep tmp)" ] || fail "a failed save leaves $(ls full)"
run --resume --out full --steps 30 || fail "with room again: $(cat err)"

# A run that is lost says what its last checkpoint is worth.
# shellcheck disable=SC2086
run --task copy $small --steps 100 --optim sgd --lr 1e3 --save-every 3 --out lost
[ $? -eq 1 ] && grep -q "diverges" err && grep -q "is whole, but resuming would take the same steps again" err ||
  fail "a lost run: $(cat err)"

# --- texts -------------------------------------------------------------------------------------------------------

seq 1 300 >one.txt
seq 300 500 >two.txt
printf '1\n2\n3\n4\n5\ngr\303\274n\n6\n7\n8\n' >umlaut.txt
# shellcheck disable=SC2086
run --text one.txt two.txt --validation umlaut.txt $small --steps 5 --symbols chars
grep -q "umlaut.txt:6: byte offset 10: character 'g' (U+0067) is not in the vocabulary" err || fail "an unknown character: $(cat err)"
# shellcheck disable=SC2086
run --text one.txt two.txt $small --steps 5 --out texts && grep -q '"one.txt",' texts/config.json &&
  grep -q '"two.txt"' texts/config.json || fail "two files: $(cat err)"
run --text one.txt --text two.txt --validation one.txt --steps 2 --symbols chars || fail "--validation: $(cat err)"
printf 'ab\377cd\nab' >bad.txt
refused "bad.txt:1: byte offset 2" --text bad.txt --symbols chars
: >empty.txt
refused "empty.txt: " --text one.txt empty.txt
echo 301 >>two.txt
refused "two.txt" --resume --out texts
sed -i '$d' two.txt
run --resume --out texts --steps 8 || fail "the text is as it was: $(cat err)"
mv two.txt moved.txt
run --resume --out texts --steps 10 --text one.txt moved.txt || fail "the text lies elsewhere now: $(cat err)"

# --- presets and configurations ----------------------------------------------------------------------------------

run --text "$source/README.md" --preset tiny --steps 3 --warmup 1 --out tiny || fail "--preset tiny: $(cat err)"
grep -q '"d_model": 64' tiny/config.json || fail "--preset tiny: $(cat tiny/config.json)"
run --help && grep -q "tiny: layers 2, d-model 64" out && grep -q "gpt2-124m: layers 12" out || fail "--help: presets"
cat >run.json <<JSON
{"task": "copy", "layers": 1, "heads": 2, "d_model": 16, "seq": 8, "batch": 4, "steps": 6, "json": "c.json", "seeds": 2}
JSON
run --config run.json && [ "$(grep -c '"seed": ' c.json)" -eq 2 ] && grep -q '"layers": 1' c.json || fail "--config: $(cat err)"
run --config run.json --layers 2 --seeds 1 && grep -q '"layers": 2' c.json || fail "an option wins: $(cat err)"
run --config run.json --text one.txt --seeds 1 && grep -q '"task": "text"' c.json || fail "--text wins: $(cat err)"
echo '{"task": "copy", "stepps": 6}' >wrong.json
refused 'wrong.json: unknown key "stepps"; did you mean "steps"?' --config wrong.json
echo '{"task": "copy", ' >wrong.json
refused 'wrong.json:2:' --config wrong.json
# The configuration in the manual is one.
sed -n '/^```json$/,/^```$/p' "$source/docs/training.md" | grep -v '^```' >manual.json
[ -s manual.json ] || fail "the manual shows no configuration"
cp "$source/README.md" book.txt
run --config manual.json --steps 2 --warmup 0 --out manual || fail "the manual's configuration: $(cat err)"

# Every option stands in the manual.
for option in $("$tapehead" train --help | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u); do
  grep -q -- "\`$option" "$source/docs/training.md" || case $option in
  --help | --usage | --version) ;;
  *) fail "docs/training.md does not have $option" ;;
  esac
done

# --- every kind of model, and the same bits at any number of threads -----------------------------------------------

for model in gpt llama rnn lstm seq2seq; do
  # shellcheck disable=SC2086
  run --task copy --model $model --layers 1 --d-model 16 --seq 9 --batch 4 --steps 6 --save-every 3 --out m-$model ||
    fail "$model: $(cat err)"
  run --resume --out m-$model --steps 9 || fail "$model, resumed: $(cat err)"
done
for threads in 1 2 3 4 8; do
  run --task recall --layers 2 --heads 4 --d-model 64 --seq 48 --batch 24 --dropout 0.1 --steps 4 --eval-every 2 \
    --threads $threads --out t$threads || fail "$threads threads: $(cat err)"
  cmp t1/last.safetensors t$threads/last.safetensors || fail "$threads threads: other weights"
  cmp t1/best.safetensors t$threads/best.safetensors || fail "$threads threads: another best checkpoint"
  [ "$(losses t1/log.jsonl)" = "$(losses t$threads/log.jsonl)" ] || fail "$threads threads: other losses"
done

[ $failures -eq 0 ]
