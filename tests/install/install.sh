# ctest: full
# Installs into a new prefix; a program of somebody else's builds and runs against it, through find_package and through
# pkg-config, with the shared and with the static library; the installed command runs.
set -eu

build=${TAPEHEAD_BUILD:?the build folder}
consumer=${TAPEHEAD_SOURCE:?the project folder}/tests/install/consumer
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
version=$(cached CMAKE_PROJECT_VERSION)
compiler=$(cached CMAKE_C_COMPILER)
generator=$(cached CMAKE_GENERATOR) # make need not be there
flags=$(cached CMAKE_C_FLAGS) # sanitizers have to be in the program too

step() { echo "--- $*"; }

step install
cmake --install "$build" --prefix "$prefix" >"$folder/log"
[ -f "$prefix/include/tapehead.h" ]
[ -f "$prefix/include/tapehead_criterion.h" ]
[ "$(find "$prefix/include" -type f | wc -l)" -eq 2 ]

step find_package
cmake -G "$generator" -S "$consumer" -B "$folder/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DEXPECTED_VERSION="$version" \
  -DCMAKE_C_COMPILER="$compiler" -DCMAKE_C_FLAGS="$flags" >"$folder/log" || { cat "$folder/log"; exit 1; }
cmake --build "$folder/cmake" >"$folder/log" || { cat "$folder/log"; exit 1; }
"$folder/cmake/with_tapehead"
"$folder/cmake/with_static"

step pkg-config
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tapehead.pc)")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion tapehead)" = "$version" ]
libraries=$(pkg-config --variable=libdir tapehead)
# shellcheck disable=SC2046,SC2086  # lists of flags
"$compiler" $flags -std=c11 "$consumer/main.c" -o "$folder/shared" $(pkg-config --cflags --libs tapehead) -lm
LD_LIBRARY_PATH=$libraries "$folder/shared"
# shellcheck disable=SC2046,SC2086
"$compiler" $flags -std=c11 "$consumer/main.c" -o "$folder/static" $(pkg-config --cflags tapehead) \
  $(pkg-config --static --libs tapehead | sed 's/-ltapehead/-l:libtapehead.a/')
"$folder/static"

step "names of the shared library"
soname=libtapehead.so.${version%.*}
[ -e "$libraries/$soname" ]
readelf -d "$libraries/libtapehead.so" | grep -q "SONAME.*\[$soname\]"
for program in "$folder/cmake/with_static" "$folder/static"; do
  if readelf -d "$program" | grep -q 'NEEDED.*libtapehead'; then echo "$program needs the shared library"; exit 1; fi
done

step "one pool of threads"
for file in "$libraries/libtapehead.so" "$folder/static" "$prefix/bin/tapehead"; do
  blas=$(ldd "$file" | awk '/libopenblas/ { print $3 }')
  ldd "$blas" | grep -q 'libgomp\|libomp' || { echo "$file runs with $blas, which is no OpenMP build"; exit 1; }
done

step "the command"
"$prefix/bin/tapehead" --help >/dev/null
