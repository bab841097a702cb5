# ctest: full
# tapehead train --resume: for every kind of model, and for options that a run may have, a run in three parts, with other
# intervals of evaluation and other numbers of threads in each, has the losses, weights and moments of a run in one part
# that never evaluates. And the same bits at 1, 2, 3, 4 and 8 threads.
. "$(dirname "$0")/lib.sh"
source=${TAPEHEAD_SOURCE:?the project}

run() { "$tapehead" train "$@" >out 2>err; }
losses() { grep '"loss"' "$1" | sed 's/, "tokens_per_second.*//'; }
# Everything behind the header, whose metadata name intervals and the validations so far.
tensors() {
  header=$(od -An -t u8 -N 8 "$1")
  tail -c +$((header + 9)) "$1" | cksum
}
head -c 9000 "$source/README.md" | iconv -c -f UTF-8 -t UTF-8 >book.txt
printf '%s' "$(head -c 4000 book.txt)" | sed 's/$/\r/' >crlf.txt

small="--layers 2 --d-model 16 --seq 9 --batch 5"
number=0
resumes() {
  number=$((number + 1))
  whole=w$number
  parts=p$number
  # shellcheck disable=SC2086
  run $small --steps 12 --eval-every 0 --save-every 0 --out $whole "$@" || fail "$*: $(cat err)"
  # shellcheck disable=SC2086
  run $small --steps 12 --schedule-steps 12 --out $parts "$@" --steps 4 --eval-every 1 --eval-batches 2 --save-every 3 ||
    fail "$*, first part: $(cat err)"
  run --resume --out $parts --steps 11 --eval-every 5 --threads 3 || fail "$*, second part: $(cat err)"
  run --resume --out $parts --steps 12 --eval-every 0 --threads 2 || fail "$*, third part: $(cat err)" # one step is left
  [ "$(losses $whole/log.jsonl)" = "$(losses $parts/log.jsonl)" ] ||
    fail "$*: other losses: $(diff <(losses $whole/log.jsonl) <(losses $parts/log.jsonl) | head -n 4)"
  [ "$(losses $parts/log.jsonl | wc -l)" -eq 12 ] || fail "$*: the log has not each step once"
  [ "$(tensors $whole/last.safetensors)" = "$(tensors $parts/last.safetensors)" ] || fail "$*: other weights or moments"
}
resumes --text book.txt --dropout 0.2 --accumulate 3 --schedule cosine --warmup 11
resumes --text book.txt --symbols chars --model llama --heads 4 --kv-heads 2 --dropout 0.1 --accumulate 2 --schedule linear --warmup 3 --min-lr 0.0001
resumes --text crlf.txt --symbols chars --model rnn --dropout 0.1 --schedule cosine --warmup 4
resumes --text book.txt --model lstm --dropout 0.3 --accumulate 4 --optim sgd --lr 0.1
resumes --task copy --model seq2seq --dropout 0.1 --accumulate 5 --schedule cosine --warmup 1
resumes --task recall --post-norm --no-bias --untied --dropout 0.2
resumes --task sort --norm rms --positions sinusoidal --feed-forward relu --dropout 0.2 --accumulate 5
resumes --task induction --positions rope --feed-forward swiglu --dk 6 --scale 0.3 --clip 0 --weight-decay 0
resumes --text book.txt --validation book.txt --dropout 0.5 --beta1 0 --beta2 0
# A seed that signed 64-bit numbers do not hold: the log of the first part was lost when the second began.
resumes --task copy --model lstm --dropout 0.2 --seed 18446744073709551615

# Numbers of which config.json must keep every digit: such a run was refused for what its own configuration said.
digits="--lr 0.001234567890123456789 --min-lr 0.00012345678901234567 --schedule cosine --scale 0.33333333333333331
  --dropout 0.12345678901234567 --clip 0.1234567890123456 --weight-decay 0.012345678901234567 --beta2 0.9876543210987654"
# shellcheck disable=SC2086
resumes --text book.txt $digits
run --config w$number/config.json --out digits || fail "--config of many digits: $(cat err)"
[ "$(tensors w$number/last.safetensors)" = "$(tensors digits/last.safetensors)" ] || fail "config.json does not repeat the run"

# A run that ended for want of patience goes on as one that had more of it from the beginning.
early="--text book.txt --batch 4 --seq 9 --steps 300 --lr 0.03 --eval-every 2 --eval-batches 2"
# shellcheck disable=SC2086
run $early --patience 2 --out impatient && run --resume --patience 5 --out impatient && run $early --patience 5 --out patient ||
  fail "patience: $(cat err)"
cmp impatient/last.safetensors patient/last.safetensors || fail "more patience later is not patience from the beginning"
[ "$(losses impatient/log.jsonl)" = "$(losses patient/log.jsonl)" ] || fail "more patience: other losses"
[ "$(losses patient/log.jsonl | wc -l)" -lt 300 ] || fail "patience did not end"

for model in gpt llama rnn lstm seq2seq; do
  for threads in 1 2 3 4 8; do
    run --task copy --model $model --layers 2 --d-model 64 --seq 33 --batch 24 --accumulate 2 --dropout 0.1 \
      --steps 3 --eval-every 2 --threads $threads --out $model$threads || fail "$model, $threads threads: $(cat err)"
    cmp ${model}1/last.safetensors $model$threads/last.safetensors || fail "$model, $threads threads: other weights"
    cmp ${model}1/best.safetensors $model$threads/best.safetensors || fail "$model, $threads threads: another best one"
    [ "$(losses ${model}1/log.jsonl)" = "$(losses $model$threads/log.jsonl)" ] || fail "$model, $threads threads: other losses"
  done
done

[ $failures -eq 0 ]
