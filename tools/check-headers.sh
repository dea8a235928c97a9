#!/usr/bin/env bash
# Compiles each .h alone, as C11 and as C++17 (a caller may be C++). Headers that need the CUDA
# toolkit are left out, and counted, where it is missing. The C++ pass keeps -Wshadow and
# -Wconversion out: they are the C compiler's business.
# usage: check-headers.sh     CUDA_HOME may be set
set -euo pipefail
cd "$(dirname "$0")/.."

toolkit=${CUDA_HOME:-/usr/local/cuda}/include
include=(-I.)
if [ -e "$toolkit/cuda.h" ]; then
  include+=(-isystem "$toolkit")
fi

compile_alone() {
  local header=$1 failed=0
  echo "#include \"$header\"" | gcc -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion \
    -Wstrict-prototypes -Werror "${include[@]}" -x c -fsyntax-only - || failed=1
  echo "#include \"$header\"" | clang++ -std=c++17 -Wall -Wextra -Werror "${include[@]}" \
    -x c++ -fsyntax-only - || failed=1
  [ "$failed" -eq 0 ] || echo "$header: does not stand alone"
  return "$failed"
}

failed=0
left_out=0
count=0
for header in $(find tuner costmodel codegen db -name '*.h' | sort); do
  if [ ${#include[@]} -eq 1 ] && grep -q '<cuda.h>' "$header"; then
    left_out=$((left_out + 1))
    continue
  fi
  count=$((count + 1))
  compile_alone "$header" || failed=1
done
echo "check-headers: $count headers alone, $left_out left out for want of the CUDA toolkit"
[ "$count" -gt 0 ] && [ "$failed" -eq 0 ]
