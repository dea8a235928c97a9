#!/usr/bin/env bash
# libFuzzer by hand, with AddressSanitizer and UBSan, from the corpus as seed. New inputs stay in
# BUILD/fuzz/NAME; one that fails is left there as crash-...: make it a file of the corpus.
# usage: live.sh NAME [SECONDS]      NAME: api, args, database, import, snapshot, yaml; needs clang and libclang-rt-14-dev
set -euo pipefail
cd "$(dirname "$0")/../.."

name=${1:-}
seconds=${2:-60}
build=${BUILD:-build}
if [ ! -e "tests/fuzz/fuzz_$name.c" ]; then
  echo "usage: make fuzz T=NAME SECONDS=60, with NAME one of: $(echo tests/fuzz/fuzz_*.c |
    sed -E 's,tests/fuzz/fuzz_([a-z]*)\.c,\1,g')" >&2
  exit 2
fi
found=$build/fuzz/$name
mkdir -p "$found"
clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -I. -o "$found.fuzzer" \
  "tests/fuzz/fuzz_$name.c" tuner/cli/opts.c tuner/lib/*.c \
  tuner/launch/failure.c tuner/launch/resident_none.c tuner/base/*.c tuner/core/*.c db/*.c \
  "$build/gen/migrations.c" -l:libsqlite3.a -l:libyaml.a -l:libjansson.a -l:libmd.a -ldl -lm -lpthread
"$found.fuzzer" -max_total_time="$seconds" -artifact_prefix="$found/" -timeout=10 \
  "$found" "tests/fuzz/corpus/$name"
