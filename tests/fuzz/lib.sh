# . lib.sh TARGET LONGEST SEEDS...: fuzz/TARGET.c survives FUZZ_SECONDS (60) of libFuzzer on inputs of up to LONGEST bytes.
# It begins with the files that match SEEDS, patterns from the project's folder.
# Skipped (77) without clang and its fuzzer.
set -euo pipefail
target=$1 longest=$2
shift 2
source_folder=${TAPEHEAD_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
seconds=${FUZZ_SECONDS:-60}

compiler=""
for candidate in clang clang-14; do
  if command -v "$candidate" > /dev/null &&
     echo 'int LLVMFuzzerTestOneInput(const char *d, long n); int LLVMFuzzerTestOneInput(const char *d, long n) { return d == 0 && n > 0; }' |
       "$candidate" -x c - -fsanitize=fuzzer,address -o /dev/null 2> /dev/null; then
    compiler=$candidate
    break
  fi
done
[ -n "$compiler" ] || { echo "no clang with libFuzzer here"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -G Ninja -S "$source_folder" -B "$work/build" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Debug -DTAPEHEAD_FUZZ=ON \
      -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=OFF -DTAPEHEAD_BENCH=OFF > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" --target "fuzz_$target" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }

mkdir "$work/corpus"
for seed in "$@"; do cp "$source_folder"/$seed "$work/corpus"; done
seeds_given=$(find "$work/corpus" -type f | wc -l)
cd "$work"
"$work/build/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len="$longest" \
  -dict="$source_folder/fuzz/$target.dict" -print_final_stats=1 "$work/corpus" > "$work/log" 2>&1 || {
  tail -60 "$work/log"
  for input in crash-* timeout-* oom-*; do
    [ -f "$input" ] && { echo "--- $input"; base64 "$input"; }
  done
  exit 1
}
runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
[ "${runs:-0}" -gt "$seeds_given" ] || # a slow machine gets to few, but beyond the seeds
  { echo "only ${runs:-0} inputs in $seconds seconds"; tail "$work/log"; exit 1; }
echo "$runs inputs in $seconds seconds"
