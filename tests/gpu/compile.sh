#!/usr/bin/env bash
# Compiles the skeletons' selfchecks, the worker's kernels and the golden .cu with nvcc, every warning
# an error, and refuses spills. NVRTC has no such switch, hence nvcc here; what NVRTC makes of the
# same texts is tested by tests/unit/t_build.c. Prints TAP; needs no GPU. CUDA_HOME may be set.
#   tests/gpu/compile.sh            all files, two compilations at a time
#   tests/gpu/compile.sh one FILE   a line of TAP for one file, without number
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || nvcc=$(command -v nvcc || true)

compile_one() {
  local log
  if ! log=$("$nvcc" -std=c++17 -arch=sm_90a -Werror all-warnings -Xptxas -v -I. -cubin \
    -o /dev/null "$1" 2>&1); then
    echo "not ok - $1 compiles without warnings"
  elif echo "$log" | grep -E 'spill' | grep -vq ' 0 bytes spill stores, 0 bytes spill loads'; then
    echo "not ok - $1 has no spills"
  else
    echo "ok - $1 compiles without warnings and without spills"
    return
  fi
  echo "$log" | tail -n 30 | sed 's/^/# /'
}

if [ "${1:-}" = one ]; then
  compile_one "$2"
  exit
fi

mapfile -t files < <(find codegen/skeletons tests/golden/emit -name '*.cu' | sort)
echo "1..${#files[@]}"
if [ -z "$nvcc" ]; then
  for ((i = 1; i <= ${#files[@]}; i++)); do
    echo "ok $i - ${files[i - 1]} # SKIP nvcc is not installed"
  done
  exit 0
fi
printf '%s\0' "${files[@]}" | xargs -0 -P 2 -n 1 "$0" one |
  awk '/^(not )?ok / { n++; sub(/ok -/, "ok " n " -") } /^not ok/ { bad = 1 } { print } END { exit bad }'
