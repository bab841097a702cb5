# ctest: full
# tapehead generate: a text that was learnt by heart comes back, token by token; samples; where it ends; JSON; bad input
# ends with exit code 2 and a message.
. "$(dirname "$0")/lib.sh"
# Whatever the locale: the system may have none but C.
characters() { LC_ALL=C.UTF-8 wc -m <out; }

line='Le café est là, le thé aussi. '
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do printf '%s\n' "$line"; done >text.txt
small="--layers 1 --heads 2 --d-model 32 --seq 32 --batch 8 --seed 3"
# shellcheck disable=SC2086
"$tapehead" train --text text.txt --symbols chars $small --steps 100 --out run >out 2>err || { cat err; exit 1; }
# shellcheck disable=SC2086
"$tapehead" train --text text.txt --symbols chars --model lstm --layers 1 --d-model 16 --seq 16 --batch 4 --steps 3 --out lstm >out 2>err || { cat err; exit 1; }
# shellcheck disable=SC2086
"$tapehead" train --task copy $small --steps 5 --out copy >out 2>err || { cat err; exit 1; }

run() { "$tapehead" generate --checkpoint run/last.safetensors "$@" >out 2>err; }
expect() { # TEXT
  printf '%s\n' "$1" | cmp -s - out || fail "expected '$1', got '$(cat out)'"
}

# --- text --------------------------------------------------------------------------------------------------------

run --prompt 'Le caf' --tokens 8 --temperature 0 || fail "exit code $?: $(cat err)"
expect 'Le café est là'
[ ! -s err ] || fail "stderr got: $(cat err)"
run --prompt 'Le café' --tokens 0 || fail "exit code $?: $(cat err)"
expect 'Le café'
printf 'Le caf' >prompt.txt
run --prompt-file prompt.txt --tokens 8 --temperature 0 || fail "exit code $?: $(cat err)"
expect 'Le café est là'
run --prompt-file - --tokens 8 --temperature 0 <prompt.txt || fail "exit code $?: $(cat err)"
expect 'Le café est là'
run --tokens 10 --temperature 0 || fail "no prompt: exit code $?: $(cat err)" # as behind a line's end
expect 'Le café es'
run --prompt '' --tokens 10 --temperature 0 || fail "an empty prompt: exit code $?"
expect 'Le café es'
run --prompt 'Le caf' --tokens 8 --top-k 1 && expect 'Le café est là'
run --prompt 'Le caf' --tokens 8 --top-p 0.000001 && expect 'Le café est là'

# Sample k is the same among few and many, at any number of threads, and with the same seed.
run --samples 3 --tokens 20 --temperature 3 --seed 5 --threads 1 && mv out three
run --samples 2 --tokens 20 --temperature 3 --seed 5 --threads 2 && mv out two
sed 's/of 3 ---/of 2 ---/' three | head -c "$(wc -c <two)" | cmp -s - two || fail "samples depend on their number"
[ "$(grep -c '^--- sample [123] of 3 ---$' three)" -eq 3 ] || fail "three samples are not told apart"
run --samples 2 --tokens 20 --temperature 3 --seed 6
cmp -s out two && fail "another seed gives the same samples"

# --- where it ends -----------------------------------------------------------------------------------------------

run --prompt 'Le caf' --tokens 100 --temperature 0 || fail "a full context: exit code $?"
grep -q 'stopped after 27 tokens: the context of the model is full (32)' err || fail "no reason: $(cat err)"
[ "$(characters)" -eq 34 ] || fail "$(characters) characters"
run --prompt 'Le caf' --tokens 100 --temperature 0 --slide || fail "--slide: exit code $?"
[ "$(characters)" -eq 107 ] && [ ! -s err ] || fail "--slide: $(characters) characters; $(cat err)"
"$tapehead" generate --checkpoint lstm/last.safetensors --prompt Le --tokens 100 >out 2>err || fail "lstm: exit code $?"
[ "$(characters)" -eq 103 ] && [ ! -s err ] || fail "lstm: $(characters) characters; $(cat err)"
"$tapehead" generate --checkpoint copy/last.safetensors --prompt '3 1 2' --tokens 4 >out 2>err || fail "copy: exit code $?"
grep -qE '^3 1 2( [0-9]+){4}$' out || fail "numbers: $(cat out)"
"$tapehead" generate --checkpoint copy/last.safetensors --tokens 3 >out 2>err && grep -qE '^[0-9]+( [0-9]+){2}$' out ||
  fail "numbers without a prompt: $(cat out err)"

# A reader that goes away ends it, quietly; a disk that is full does not look like success.
run2() { "$tapehead" generate --checkpoint lstm/last.safetensors --tokens 100000000 2>err; }
[ "$(run2 | head -c 20 | wc -c)" -eq 20 ] && [ ! -s err ] || fail "a closed pipe: $(cat err)"
if [ -w /dev/full ]; then
  "$tapehead" generate --checkpoint run/last.safetensors --tokens 5 >/dev/full 2>err
  [ $? -eq 2 ] && grep -q 'cannot write' err || fail "a full disk"
fi

# --- JSON --------------------------------------------------------------------------------------------------------

run --prompt 'Le caf' --tokens 3 --temperature 0 --samples 2 --json a.json || fail "exit code $?: $(cat err)"
for key in checkpoint prompt prompt_ids tokens temperature top_k top_p seed samples sample text ids log_probabilities end; do
  grep -q "\"$key\": " a.json || fail "the JSON has no $key"
done
[ "$(grep -c '"text": "é e"' a.json)" -eq 2 ] || fail "the JSON has other texts: $(grep text a.json)"
run --prompt 'Le caf' --tokens 3 --temperature 0 --samples 2 --json - || fail "exit code $?: $(cat err)"
[ "$(cat out)" = "$(cat a.json)" ] || fail "--json - differs from --json FILE"

# --- bad input ---------------------------------------------------------------------------------------------------

refused() { # TEXT ARGUMENT...
  local text=$1
  shift
  run "$@"
  [ $? -eq 2 ] || fail "not refused: $*"
  grep -qF -- "$text" err || fail "$*: expected '$text', got '$(cat err)'"
  [ ! -s out ] || fail "$*: wrote '$(cat out)'"
}
refused "the prompt:1: byte offset 1: character 'Z' (U+005A) is not in the vocabulary of" --prompt 'LZ'
refused "the prompt:1: byte offset 2: character '中' (U+4E2D)" --prompt 'Le中'
refused "byte 0xff begins no valid UTF-8" --prompt "$(printf 'L\377')"
printf 'Le\nX' >prompt.txt
refused "prompt.txt:2: byte offset 3: character 'X'" --prompt-file prompt.txt
refused "absent.txt: cannot open" --prompt-file absent.txt
refused "the prompt has 33 tokens, but the context of the model holds 32" --prompt "Le Le Le Le Le Le Le Le Le Le Le "
refused "--temperature: -1 is out of range" --temperature -1
refused "--temperature: nan" --temperature nan
refused "--top-k: 0 is out of range" --top-k 0
refused "--top-p: 1.5 is out of range" --top-p 1.5
refused "--top-p: 0 is out of range" --top-p 0
refused "--tokens: -1 is out of range" --tokens -1
refused "--samples: 0 is out of range" --samples 0
refused "either --prompt or --prompt-file" --prompt a --prompt-file b
refused "absent/a.json" --json absent/a.json
refused "absent.safetensors: cannot open" --checkpoint absent.safetensors
refused "text.txt: " --checkpoint text.txt
head -c 2000 run/last.safetensors >cut.safetensors
refused "cut.safetensors: " --checkpoint cut.safetensors
"$tapehead" generate --checkpoint copy/last.safetensors --prompt '1 x' >out 2>err
[ $? -eq 2 ] && grep -q "'x' is none of the numbers 0 to 16" err || fail "numbers: $(cat err)"
"$tapehead" generate >out 2>err
[ $? -eq 2 ] && grep -q 'give --checkpoint FILE' err || fail "no checkpoint: $(cat err)"
run --help && grep -q -- '--checkpoint=FILE' out && grep -q '^Exit status: 0 success' out || fail "--help"

[ "$failures" -eq 0 ]
