# ctest: full
# tapehead train --out: killed (-9) twenty times at random moments and resumed each time, a run ends with the bytes of
# the run that was left alone: weights, moments, best checkpoint, losses.
. "$(dirname "$0")/lib.sh"

# A checkpoint every few steps: many of the kills fall into one.
options="--task copy --layers 2 --heads 2 --d-model 24 --seq 9 --batch 4 --accumulate 2 --dropout 0.1 --schedule cosine
  --warmup 10 --lr 0.002 --steps 8000 --save-every 23 --eval-every 31 --eval-batches 1 --sample-every 500 --threads 1"
losses() { sed 's/, "tokens_per_second.*//' "$1"; }

# shellcheck disable=SC2086
"$tapehead" train $options --out whole >/dev/null || fail "the unbroken run: exit code $?"

# shellcheck disable=SC2086
begin() { "$tapehead" train $options --out parts >out 2>err & }
go_on() { "$tapehead" train --resume --out parts >out 2>err & }

# Seeded delays: the moments are random, the test is the same each time as far as a machine allows.
delays=$(awk 'BEGIN { srand(20); for (i = 0; i < 200; i++) printf "%.3f\n", 0.03 + 0.12 * rand() }')
kills=0
begin
for delay in $delays; do
  child=$!
  sleep "$delay"
  kill -9 $child 2>/dev/null
  wait $child 2>/dev/null
  code=$?
  if [ $code -eq 0 ]; then # it was done first
    break
  elif [ $code -eq 137 ]; then
    kills=$((kills + 1))
  elif [ -e parts/config.json ]; then
    fail "resumed after kill $kills: exit code $code: $(cat err)"
    break
  fi
  [ $kills -eq 20 ] && break
  if [ -e parts/config.json ]; then go_on; else begin; fi
done
[ $kills -ge 20 ] || fail "killed $kills times only; the run is too short for this machine"
steps=$(grep -c '"loss"' parts/log.jsonl)
[ "$steps" -lt 8000 ] || fail "the last kill came after the last step"
"$tapehead" train --resume --out parts >out 2>err || fail "the last part: exit code $?: $(cat err)"

for file in last.safetensors best.safetensors config.json; do
  cmp "whole/$file" "parts/$file" || fail "$file differs from that of the unbroken run"
done
[ "$(losses whole/log.jsonl)" = "$(losses parts/log.jsonl)" ] ||
  fail "the log differs: $(diff <(losses whole/log.jsonl) <(losses parts/log.jsonl) | head -n 4)"
[ "$(grep -c '"loss"' parts/log.jsonl)" -eq 8000 ] || fail "the log has not each step once"
[ -z "$(ls parts | grep tmp)" ] || fail "left over: $(ls parts)"

[ $failures -eq 0 ]
