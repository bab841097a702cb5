# . "$(dirname "$0")/lib.sh": what tests of a command begin with. They run in an empty folder of their own, which goes at
# the end; fail() counts, so that one run shows all that is wrong; a test ends with a look at $failures.
set -u
tapehead=${TAPEHEAD:?the command}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
