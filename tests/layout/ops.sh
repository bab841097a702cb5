# ctest: quick
# Every op in src/autograd/ops.def is complete: kernels with their derivation, record function, test, golden, entry in
# the public header, row in the table of ops, line in the changelog.
. "$(dirname "$0")/lib.sh"

kernels=$(sed -n 's/^KERNEL(\([a-z0-9_]*\),.*/\1/p' src/ops/kernels.def)

missing=""
says() { # NAME FILE PATTERN WHAT
  if [ ! -f "$2" ]; then
    [ "$missing" = "$1 $2" ] || finding "$1: no $2"
    missing="$1 $2"
  elif ! grep -qE "$3" "$2"; then
    finding "$1: $2 has no $4"
  fi
}

[ -n "$(ops)" ] || finding "src/autograd/ops.def lists no op"
for op in $(ops); do
  # The derivation stands with the kernels; an op made of other files' kernels has it where it is recorded.
  derivation=src/autograd/record/$op.c
  headings="Forward Backward"
  if [ -f "src/ops/$op.c" ] || echo "$kernels" | grep -qE "^${op}_(fwd|bwd)$"; then
    derivation=src/ops/$op.c
    headings="Shapes Forward Backward Writes Checks"
  fi
  for heading in $headings; do
    says "$op" "$derivation" "^ \* $heading " "'$heading' in its derivation"
  done
  says "$op" "src/autograd/record/$op.c" "th__op_$op *=" "op value th__op_$op"
  says "$op" "tests/ops/test_$op.c" "include \"golden/[a-z0-9_]+\.inc\"" "golden values"
  says "$op" src/tapehead.h "^TH_API (th_tensor \*|void )th_$op\(" "entry for th_$op"
  says "$op" docs/ops.md "^\|[^|]*\b(th_)?$op\b" "row for it in the table"
  says "$op" CHANGELOG.md "\b$op\b" "line for it"
done

# The other way round: nothing lies about that no list knows.
for file in src/ops/*.c; do
  name=$(basename "$file" .c)
  grep -qE "^/\*.*\b$name\.c\b" src/ops/kernels.def || [ "$name" = select ] || [ "$name" = table ] ||
    finding "$file: its kernels are not in src/ops/kernels.def under '$name.c'"
done
for kernel in $kernels; do
  grep -qE "RN\($kernel\)" src/ops/*.c || finding "kernel $kernel in src/ops/kernels.def: no file in src/ops defines it"
  grep -rqE "\b$kernel\b" src --include='*.[ch]' --exclude-dir=ops ||
    finding "kernel $kernel: nobody above src/ops calls it"
done
for file in tests/ops/test_*.c; do
  name=$(basename "$file" .c)
  name=${name#test_}
  ops | grep -qx "$name" || grep -qE "^TH_API th_tensor \*th_$name\(" src/tapehead.h ||
    [ -f "src/ops/$name.c" ] || [ -f "src/ops/$name.h" ] || finding "$file tests no op and no file of src/ops"
done

verdict
