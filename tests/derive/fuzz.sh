#!/bin/bash
# The parser and all behind it survive a minute of libFuzzer. ctest: full
. "$(dirname "$0")/../fuzz/lib.sh" derive 2000 'examples/derivations/*.deriv'
