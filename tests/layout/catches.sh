# ctest: quick
# The layout tests themselves: each kind of fault, planted in a copy of the sources, is found.
. "$(dirname "$0")/lib.sh"

checks=$PWD/tests/layout
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# Expects CHECK to fail on a copy in which COMMAND has been run, and to say TEXT.
caught() { # CHECK TEXT COMMAND
  rm -rf "$copy/project"
  mkdir "$copy/project"
  for part in src tests examples docs CHANGELOG.md; do
    [ ! -e "$part" ] || cp -R "$part" "$copy/project/"
  done
  (cd "$copy/project" && eval "$3") || finding "cannot be planted: $3"
  if said=$(TAPEHEAD_SOURCE=$copy/project TAPEHEAD_BUILD=$copy/build bash "$checks/$1.sh" 2>&1); then
    finding "$1.sh passes after: $3"
  elif ! echo "$said" | grep -qF "$2"; then
    finding "$1.sh does not say '$2' after: $3"
    echo "$said"
  fi
}

caught includes "tensor must not know autograd" "echo '#include \"autograd/tape.h\"' >>src/tensor/shape.c"
caught includes "autograd must not know nn" "echo '#include \"nn/params.h\"' >>src/autograd/record/softmax.c"
caught includes "is not written from src/" "echo '#include \"shape.h\"' >>src/tensor/shape.c"
caught includes "is no floor of the house" "mkdir src/attic && echo '#include \"ops/real.h\"' >src/attic/a.c"
caught includes "a public header includes no other" "echo '#include \"tensor/shape.h\"' >>src/tapehead.h"
caught includes "the public header only" "mkdir -p examples && echo '#include \"tensor/tensor.h\"' >examples/a.c"

caught ops "softmax: no src/ops/softmax.c" "rm src/ops/softmax.c"
caught ops "no 'Backward' in its derivation" "sed -i 's/ Backward / Way back /' src/ops/softmax.c"
caught ops "softmax: no src/autograd/record/softmax.c" "rm src/autograd/record/softmax.c"
caught ops "softmax: no tests/ops/test_softmax.c" "rm tests/ops/test_softmax.c"
caught ops "test_softmax.c has no golden values" "sed -i '/golden/d' tests/ops/test_softmax.c"
caught ops "no entry for th_softmax" "sed -i '/th_softmax(/d' src/tapehead.h"
caught ops "no row for it" "sed -i '/^|.*softmax/d' docs/ops.md"
caught ops "CHANGELOG.md has no line" "sed -i '/softmax/d' CHANGELOG.md"
caught ops "none: no src/autograd/record/none.c" "echo 'OP(none)' >>src/autograd/ops.def"
caught ops "are not in src/ops/kernels.def" "touch src/ops/none.c"
caught ops "no file in src/ops defines it" "echo 'KERNEL(none_fwd, (void))' >>src/ops/kernels.def"
caught ops "nobody above src/ops calls it" "sed -i 's/softmax_bwd/softmax_fwd/' src/autograd/record/*.c"
caught ops "tests no op" "touch tests/ops/test_none.c"

caught source "left open" "echo '/* TO''DO */' >>src/tensor/shape.c"
caught source "421 lines" "seq -f '/* %.0f */' 421 >src/tensor/long.c"
caught source "dead link: absent.md" "echo '[a](absent.md#here)' >>docs/none.md"
caught source "not called test_*.c" "echo 'Test(a, b) {}' >tests/ops/softmax.c"

# Objects of two floors, the lower of which does all that it must not.
objects=$copy/build/CMakeFiles/tapehead_objects.dir/src
mkdir -p "$objects/tensor" "$objects/autograd"
cc=${CC:-cc}
"$cc" -fPIC -w -c -x c -o "$objects/tensor/a.c.o" - <<'C'
void *malloc(unsigned long);
int puts(const char *);
void th_tape_new(void *);
void not_declared(void) { puts("text"), th_tape_new(malloc(1)); }
C
echo 'void th_tape_new(void *p) {}' | "$cc" -fPIC -w -c -x c -o "$objects/autograd/b.c.o" -
"$cc" -shared -o "$copy/build/libtapehead.so" "$objects/tensor/a.c.o" "$objects/autograd/b.c.o"
caught symbols "tensor must not call autograd: th_tape_new" :
caught symbols "never prints, aborts or exits: puts" :
caught symbols "memory goes through src/tensor/alloc.h: malloc" :
caught symbols "exports not_declared" :
caught symbols "declares th_softmax" :

verdict
