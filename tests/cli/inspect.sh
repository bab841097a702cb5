# ctest: quick
# tapehead inspect: what a checkpoint of `train` holds, the attention of a text, files of others, bad input.
. "$(dirname "$0")/lib.sh"
source=${TAPEHEAD_SOURCE:?the source folder}
inspect() { "$tapehead" inspect "$@" >out 2>err; }
# A command that must be refused: exit code 2, nothing on stdout, and a message that holds the first argument.
refused() {
  text=$1
  shift
  inspect "$@"
  code=$?
  [ "$code" -eq 2 ] || fail "$*: exit code $code"
  grep -qF -- "$text" err || fail "$*: no '$text' in: $(cat err)"
}

"$tapehead" train --text "$source/README.md" --symbols chars --layers 2 --heads 2 --d-model 16 --seq 16 --batch 4 \
  --steps 3 --out run >/dev/null 2>err || fail "train: $(cat err)"
file=run/last.safetensors

# --- a checkpoint ------------------------------------------------------------------------------------------------

inspect --checkpoint $file || fail "exit code $?: $(cat err)"
grep -q '^model: kind gpt, layers 2, heads 2, width 16' out || fail "no configuration: $(head -5 out)"
grep -qE '^vocabulary: [0-9]+ characters' out || fail "no vocabulary"
grep -q '^state: step 3' out || fail "no state"
grep -qE '^h\.1\.mlp\.c_fc\.weight +\[64, 16\] +F32 +1024 ' out || fail "no line for a matrix"
# 2 tables, 2 x (4 matrices with biases, 2 norms), the last norm
grep -qE '^28 tensors, ' out || fail "not 28 tensors: $(tail -1 out)"

inspect --checkpoint $file --json a.json || fail "exit code $?: $(cat err)"
for key in model vocab state train tensors mean sd largest; do
  grep -q "\"$key\": " a.json || fail "the JSON has no $key"
done
inspect --checkpoint $file --json - || fail "exit code $?"
cmp -s out a.json || fail "--json - is not what --json FILE holds"

# --- a text ------------------------------------------------------------------------------------------------------

inspect --checkpoint $file --text "the tape" --map all --svg maps.svg --json b.json || fail "exit code $?: $(cat err)"
grep -qE '^8 tokens, [0-9.]+ nats' out || fail "no loss"
[ "$(grep -cE '^ +[01] +[01] +[0-9.]+ +[0-9.]+ ' out)" -eq 4 ] || fail "the table has not 4 heads"
[ "$(grep -cE '^layer [01] head [01]: H' out)" -eq 4 ] || fail "there are not 4 maps"
grep -qF '␣ |' out || fail "the space is not shown"
[ "$(grep -o 'layer [01] head [01]: H' maps.svg | wc -l)" -eq 4 ] || fail "the picture has not 4 maps"
grep -qF '</svg>' maps.svg || fail "the picture is not complete"
grep -q '"most_attended": ' b.json || fail "the JSON has no most attended tokens"
inspect --checkpoint $file --text "the tape" --map 1,0 || fail "exit code $?: $(cat err)"
[ "$(grep -c ': H ' out)" -eq 1 ] || fail "--map 1,0 shows more than one map"
for bad in "--text ☃" "--text the --map 2,0"; do # nothing is shown before a mistake is
  # shellcheck disable=SC2086
  inspect --checkpoint $file $bad
  [ ! -s out ] || fail "$bad: standard output got: $(head -n 1 out)"
done
inspect --checkpoint $file --text "t" --map 0,0 --svg one.svg || fail "one token: exit code $?: $(cat err)"

# --- a file of somebody else -------------------------------------------------------------------------------------

# 8 bytes of length, the header, then one f32: 1.0
printf '\100\0\0\0\0\0\0\0%-64s\0\0\200?' '{"a.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' >other.safetensors
inspect --checkpoint other.safetensors || fail "exit code $?: $(cat err)"
grep -qE '^a\.weight +\[1\] +F32 +1 +1 +0 +1$' out || fail "the tensor of another writer: $(cat out)"
refused "holds no model" --checkpoint other.safetensors --text a

# --- bad input ---------------------------------------------------------------------------------------------------

refused "give --checkpoint FILE"
refused "run is a folder; name a file in it, say run/best.safetensors" --checkpoint run
refused "No such file" --checkpoint none.safetensors
head -c 100 $file >cut.safetensors
refused "cut.safetensors" --checkpoint cut.safetensors
refused "'☃' (U+2603)" --checkpoint $file --text "the ☃"
refused "context is 16" --checkpoint $file --text "a text that is longer than that"
refused "empty" --checkpoint $file --text ""
refused "need a --text" --checkpoint $file --map all
refused "layers 0 to 1, heads 0 to 1" --checkpoint $file --text the --map 2,0
refused "not a whole number" --checkpoint $file --text the --map x
refused "LAYER,HEAD" --checkpoint $file --text the --map 1
refused "maps.svg" --checkpoint $file --text the --svg none/maps.svg

[ $failures -eq 0 ] || exit 1
echo "inspect: all good"
