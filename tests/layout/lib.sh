# What the layout tests share. Each prints all it finds, one line each, and fails if that is anything.
set -eu
cd "${TAPEHEAD_SOURCE:?the project folder}"

findings=0
finding() { echo "$*"; findings=$((findings + 1)); }
verdict() { [ "$findings" -eq 0 ] || { echo "$findings finding(s)"; exit 1; }; }

# The floors of the house, from the ground up. A file knows its own floor and those below.
level() {
  case $1 in
    tensor) echo 0 ;;
    ops) echo 1 ;;
    autograd) echo 2 ;;
    nn | optim | data | io) echo 3 ;;
    derive | lab) echo 4 ;;
    cli) echo 5 ;;
    *) echo none ;;
  esac
}

# The names in src/autograd/ops.def.
ops() { sed -n 's/^OP(\([a-z0-9_]*\)).*/\1/p' src/autograd/ops.def; }
