# ctest: quick
# tapehead saturate: its outputs agree, bad input ends with exit code 2, a message, and nothing written.
. "$(dirname "$0")/lib.sh"

run() { "$tapehead" saturate "$@" >out 2>err; }
small="--dk 4,64 --keys 2,8 --samples 20"

# --- outputs -----------------------------------------------------------------------------------------------------

# shellcheck disable=SC2086
run $small --json a.json --csv a.csv --plot a.svg --threads 1 || fail "exit code $?: $(cat err)"
[ ! -s err ] || fail "stderr is no terminal, yet it got: $(cat err)"
[ "$(grep -cE '^ +(4|64) +[28] (none|sqrt|dk) ' out)" -eq 12 ] || fail "the table has not 12 points"
[ "$(grep -c '"dk":' a.json)" -eq 12 ] || fail "the JSON has not 12 points"
for key in points keys scale logit_variance entropy one_minus_max saturated_share jacobian_trace jacobian_norm \
  dq_norm dk_norm fd_rel_error_median mean stderr median q10 q90 seed samples threads version; do
  grep -q "\"$key\": " a.json || fail "the JSON has no $key"
done
[ "$(wc -l <a.csv)" -eq 13 ] || fail "the CSV has $(wc -l <a.csv) lines"
tail -n 1 a.csv | grep -qF ",20,f32,0,1," || fail "the CSV lacks samples, precision, seed or threads"
tail -n 1 a.csv | grep -qF '"tapehead saturate --dk 4,64' || fail "the CSV lacks the command line"
grep -qF '</svg>' a.svg || fail "the picture is not complete"

# The same numbers at two threads, and on standard output, which then holds nothing else.
# shellcheck disable=SC2086
run $small --json - --threads 2 || fail "exit code $?"
same() { grep -vE '"(threads|command)":' "$1"; }
[ "$(same a.json)" = "$(same out)" ] || fail "two threads give other numbers than one"
[ "$(head -n 1 out)" = "{" ] && [ "$(tail -n 1 out)" = "}" ] || fail "--json - is not JSON alone"
# shellcheck disable=SC2086
run $small --json - --seed 1 && [ "$(same a.json)" != "$(same out)" ] || fail "the seed changes nothing"

run --dk 16 --keys 8 --scale none,0.25 --samples 9 --dtype f64 || fail "exit code $?"
grep -qE '^ +16 +8 0\.25 ' out || fail "no row for scale 0.25"
run --help && grep -q -- '--scale=LIST' out || fail "--help"

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

refused "--dk: 0 is out of range; 1 to 1048576" --dk 4,0
refused "--dk: -4 is out of range" --dk=-4
refused "--dk: '1e3' is not a whole number" --dk 1e3
refused "--dk: 'four' is not a whole number" --dk four
refused "--dk: '4,,8' is not a list" --dk 4,,8
refused "--dk: '' is not a list" --dk ''
refused "--dk: 99999999999999999999 is out of range" --dk 99999999999999999999
refused "--keys: 0 is out of range" --keys 0
refused "--keys: 2000000 is out of range" --keys 2000000
refused "--keys: more than 64 values" --keys "$(seq -s, 65)"
refused "--samples: 0 is out of range; 1 to 4194304" --samples 0
refused "--samples: 'many' is not a whole number" --samples many
refused "--scale: 'cube' is not none, sqrt, dk or a number" --scale none,cube
refused "--scale: 'nan' is not" --scale nan
refused "--scale: 'none,' is not a list" --scale none,
refused "--dtype: 'f16' is not one of f32, f64" --dtype f16
refused "--seed: '-1' is not a whole number" --seed=-1
refused "--threads: 0 is out of range" --threads 0
refused "unrecognized option '--width'" --width 4
refused "unexpected argument '4'" --dk 4 4
refused "requires an argument" --csv
refused "--csv: '-' is no file name" --csv -
refused "--plot: '' is no file name" --plot ''
refused "'new.x' is given for two outputs" --json new.x --csv new.x
refused "GiB are free; use fewer" --dk 1048576 --keys 1048576 --json new.json
refused "scale 1e60: weights or gradients are not finite in f32" --dk 4 --keys 2 --scale 1e60 --json new.json

# --- files that cannot be written --------------------------------------------------------------------------------

refused "nowhere/new.json" --json nowhere/new.json --csv new.csv
refused "nowhere/new.csv" --csv nowhere/new.csv --json new.json
mkdir new_folder
run --plot new_folder
[ $? -eq 2 ] && grep -q "new_folder" err || fail "a folder in place of a file: $(cat err)"
rmdir new_folder

for option in json csv plot; do
  run --dk 4 --keys 2 --samples 4 "--$option" /dev/full
  code=$?
  [ $code -eq 2 ] && grep -q "/dev/full" err || fail "--$option /dev/full: exit code $code, $(cat err)"
done
"$tapehead" saturate --dk 4 --keys 2 --samples 4 >/dev/full 2>err
[ $? -eq 2 ] && grep -q "standard output" err || fail "standard output on a full disk: $(cat err)"

# A file that cannot grow (as on a full disk): what was there stays, and no temporary file.
echo precious >old.csv
(
  trap '' XFSZ
  ulimit -f 0
  "$tapehead" saturate --dk 4 --keys 2 --samples 4 --csv old.csv >/dev/null 2>/dev/null
)
[ $? -eq 2 ] || fail "no room for the file, yet exit code is not 2"
[ "$(cat old.csv)" = precious ] || fail "a failed write has destroyed the old file"
[ "$(ls old*)" = old.csv ] || fail "a failed write has left $(ls old*)"

# Without gnuplot the numbers are still written.
PATH=/nonexistent "$tapehead" saturate --dk 4 --keys 2 --samples 4 --csv no.csv --plot no.svg >out 2>err
[ $? -eq 2 ] && grep -q "gnuplot-nox" err || fail "without gnuplot: $(cat err)"
[ -s no.csv ] && [ -s out ] && [ ! -e no.svg ] || fail "without gnuplot: the rest was not written"

[ $failures -eq 0 ]
