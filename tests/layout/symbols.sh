# ctest: quick
# What includes cannot show, because everybody sees the public header: calls run downward only, the library never
# prints or exits, all memory comes through src/tensor/alloc.c, and what is exported is what tapehead.h declares.
. "$(dirname "$0")/lib.sh"

build=${TAPEHEAD_BUILD:?the build folder}
objects=$build/CMakeFiles/tapehead_objects.dir/src
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# "floor/file kind symbol" for every symbol defined (D) or used (U) in the library.
(cd "$objects" && find . -name '*.o' | sort | while read -r object; do
  nm "$object" | awk -v file="${object#./}" '
    NF == 2 && $1 == "U" { print file, "U", $2 }
    NF == 3 && $2 ~ /^[TDBRV]$/ { print file, "D", $3 }'
done) >"$temporary/symbols"
[ -s "$temporary/symbols" ] || { echo "no objects in $objects"; exit 1; }
[ -f "$build/libtapehead.so" ] || { echo "no libtapehead.so in $build"; exit 1; }

awk '
  BEGIN {
    split("tensor ops autograd nn optim data io derive lab", floors)
    split("0 1 2 3 3 3 3 4 4", levels)
    for (i in floors) level[floors[i]] = levels[i]
  }
  { split($1, path, "/"); floor = path[1]; source = $1; sub(/\.o$/, "", source) }
  $2 == "D" { home[$3] = floor }
  $2 == "U" { user[++uses] = floor; name[uses] = $3; file[uses] = source }
  END {
    for (i = 1; i <= uses; i++)
      if (name[i] in home && level[home[name[i]]] > level[user[i]])
        print "src/" file[i] ": " user[i] " must not call " home[name[i]] ": " name[i]
  }' "$temporary/symbols" >"$temporary/upward"

# jansson and stdio have their own memory; ours is counted, and can be made to fail, in one place.
awk '
  $2 != "U" { next }
  { source = $1; sub(/\.o$/, "", source) }
  $3 ~ /^(printf|vprintf|puts|putchar|perror|stdout|stderr|abort|exit|_exit|__assert_fail)$/ {
    print "src/" source ": the library never prints, aborts or exits: " $3
  }
  source != "tensor/alloc.c" &&
  $3 ~ /^(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup|asprintf|vasprintf)$/ {
    print "src/" source ": memory goes through src/tensor/alloc.h: " $3
  }' "$temporary/symbols" >"$temporary/calls"

while read -r line; do [ -z "$line" ] || finding "$line"; done <<LINES
$(cat "$temporary/upward" "$temporary/calls")
LINES

nm -D --defined-only "$build/libtapehead.so" | awk '{ print $3 }' | grep -v '^__gcov\|^__asan\|^__odr_asan' |
  sort -u >"$temporary/exported"
# A declaration may go over several lines: the name is the first th_ word before a bracket, or before a semicolon.
awk '/^TH_API / { text = $0; while (text !~ /[(;]/ && (getline more) > 0) text = text " " more
       sub(/[(;].*/, "", text); count = split(text, words, /[ *]+/); print words[count] }' src/tapehead.h |
  sort -u >"$temporary/declared"
for name in $(comm -23 "$temporary/exported" "$temporary/declared"); do
  finding "libtapehead.so exports $name, which tapehead.h does not declare with TH_API"
done
for name in $(comm -13 "$temporary/exported" "$temporary/declared"); do
  finding "tapehead.h declares $name, which libtapehead.so does not export"
done

verdict
