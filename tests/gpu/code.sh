#!/usr/bin/env bash
# The machine code of a few instances and stored plans; tests/gpu/check.sh reads all. Prints TAP;
# needs no GPU.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
exec "${BUILD:-build}/tests/gpu/gpu_code" 4
