# ctest: quick
# Includes run downward only, and are written from src/.
. "$(dirname "$0")/lib.sh"

while IFS=: read -r file line include; do
  [ -n "$file" ] || continue
  floor=${file#src/}
  floor=${floor%%/*}
  target=$(echo "$include" | sed 's/.*"\(.*\)".*/\1/')
  case $target in
    tapehead.h | tapehead_config.h) continue ;;
  esac
  if [ "$file" = "src/$floor" ]; then
    finding "$file:$line: a public header includes no other of ours than \"tapehead.h\""
    continue
  fi
  here=$(level "$floor")
  there=$(level "${target%%/*}")
  if [ "$here" = none ]; then
    finding "$file: src/$floor is no floor of the house"
  elif [ "$there" = none ]; then
    finding "$file:$line: \"$target\" is not written from src/, as in \"$floor/...\""
  elif [ "$there" -gt "$here" ]; then
    finding "$file:$line: $floor must not know ${target%%/*}: \"$target\""
  fi
done <<LINES
$(grep -rnE '^ *# *include *"' src --include='*.[ch]' --include='*.def')
LINES

while IFS=: read -r file line _; do
  [ -z "$file" ] || finding "$file:$line: an example includes the public header only, as <tapehead.h>"
done <<LINES
$(grep -rnE '^ *# *include *"' examples --include='*.c' 2>/dev/null | grep -v '"tapehead.h"')
LINES

verdict
