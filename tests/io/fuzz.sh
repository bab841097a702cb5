#!/bin/bash
# The reader of safetensors files survives a minute of libFuzzer. ctest: full
. "$(dirname "$0")/../fuzz/lib.sh" safetensors 4096 'tests/golden/files/*.safetensors'
