#!/usr/bin/env bash
# Every static check, each to its end, so that one run shows all findings. Exit 1 if any failed.
# usage: lint.sh [CHECK...]     all: format clang tidy cppcheck shell python layers headers docs
#        CUDA_HOME may be set
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export LC_ALL=C

toolkit=${CUDA_HOME:-/usr/local/cuda}/include
mapfile -t c_files < <(find tuner costmodel codegen db tests -name '*.c' | sort)
mapfile -t all_files < <(find tuner costmodel codegen db tests tools/examples -regex '.*\.\(c\|h\|cuh\|cu\)' \
  -not -path 'tests/golden/*' | sort)
if [ ! -e "$toolkit/cuda.h" ]; then
  mapfile -t c_files < <(grep -LE '"tuner/(launch|measure)/(driver|maps|loaded|gpu|sample_cuda|sample_verify|sample_cupti|inputs|verify_cuda|baseline_cublaslt|baseline_cudnn|baseline_pair)\.h"|<cuda\.h>' "${c_files[@]}")
  echo "lint: no CUDA toolkit at $toolkit: the files that need it are left out of clang and clang-tidy"
fi
export FLAGS="-std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wvla -Werror
  -I. -isystem $toolkit -DFPL_VERSION=\"lint\" -DFPL_BUILD=\"build\""

# Runs "$1" (a script of one line, files in "$@") on the files that follow, two processes at a time.
in_parallel() {
  local script=$1
  shift
  printf '%s\0' "$@" | xargs -0 -P 2 -n 8 bash -c "$script" bash
}

check_format() {
  in_parallel 'clang-format --dry-run -Werror "$@"' "${all_files[@]}"
}
# shellcheck disable=SC2016
check_clang() {
  in_parallel 'for file; do clang $FLAGS -fsyntax-only "$file" || exit 1; done' "${c_files[@]}"
}
# shellcheck disable=SC2016
check_tidy() {
  in_parallel 'clang-tidy --quiet "$@" -- $FLAGS 2>&1 | grep -vE "^[0-9]+ warnings?( |$)|^Suppressed|^Use -header"; exit "${PIPESTATUS[0]}"' \
    "${c_files[@]}"
}
# Suppressed: what needs headers that cppcheck is not given, and two of its guesses.
check_cppcheck() {
  cppcheck --quiet -j 2 --std=c11 --enable=warning,performance,portability --error-exitcode=1 \
    --inline-suppr --suppress=missingIncludeSystem --suppress=unknownMacro \
    --suppress=nullPointerRedundantCheck --suppress=nullPointerArithmeticRedundantCheck \
    --suppress=ctunullpointer -I. -DFPL_VERSION='"lint"' tuner costmodel codegen db
}
# bats sets variables from afar and runs tests in subshells: SC2154, SC2030, SC2031.
# A file that names its interpreter is run by its name.
check_executable() {
  local file found=0
  while IFS= read -r -d '' file; do
    if [ "$(head -c 2 "$file" | tr -d '\0')" = '#!' ] && [ ! -x "$file" ]; then
      echo "$file: begins with #! but is not executable: chmod +x"
      found=1
    fi
  done < <(find tests tools -type f -print0)
  return "$found"
}
check_shell() {
  find tools tests .ci -type f \( -name '*.sh' -o -path tests/run -o -path .ci/run \) -print0 |
    xargs -0 shellcheck &&
    find tests \( -name '*.bats' -o -name '*.bash' \) -print0 | xargs -0 -r shellcheck --shell=bats --exclude=SC2154,SC2030,SC2031 &&
    check_executable
}
check_python() {
  pyflakes3 tools tests
}
check_layers() {
  tools/check-layers.sh && tools/check-layers.sh --self-test
}
check_headers() {
  tools/check-headers.sh
}
check_docs() {
  tools/check-docs.sh
}

[ $# -gt 0 ] || set -- format clang tidy cppcheck shell python layers headers docs
failed=()
for check; do
  start=$SECONDS
  if "check_$check"; then
    echo "lint: $check: clean ($((SECONDS - start)) s)"
  else
    echo "lint: $check: FAILED"
    failed+=("$check")
  fi
done
[ ${#failed[@]} -eq 0 ] || {
  echo "lint: failed: ${failed[*]}"
  exit 1
}
