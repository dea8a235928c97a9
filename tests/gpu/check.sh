#!/usr/bin/env bash
# On a GPU: verifies candidates, plants faults, launches kernels thousands of times on one stream and
# two, compares their errors with the library's, reads the machine code, and runs small kernels under
# compute-sanitizer. Needs a built $BUILD (build) and nothing else that is not on the PATH or in
# /usr/local/cuda/bin; what is missing is skipped with the reason. Speaks TAP; the last line reads
# "N passed, N failed".
# usage: tests/gpu/check.sh
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
PATH=$PATH:/usr/local/cuda/bin
cubins=$BUILD/gpu/cubins
work=$BUILD/gpu/check

log=$work/log.txt
rm -rf "$work"
mkdir -p "$work" || exit 1
: >"$log"

tell() { # LINE: prints a TAP line without its number, and keeps it
  printf '%s\n' "$1" | sed -E 's/^(not ok|ok) [0-9]+/\1/' | tee -a "$log"
}

tell_all() { # FILE: the TAP lines of a program, without its plan
  while IFS= read -r line; do
    case $line in
    1..*) ;;
    *) tell "$line" ;;
    esac
  done <"$1"
}

run_program() { # SECONDS PROGRAM: its TAP lines, and a failed one where it ends badly without
  local out=$work/$2 status
  timeout "$1" "$BUILD/tests/gpu/$2" >"$out.txt" 2>"$out.err"
  status=$?
  tell_all "$out.txt"
  if [ "$status" -ne 0 ]; then
    sed 's/^/# /' "$out.err" | tail -n 20
    grep -q '^not ok' "$out.txt" || tell "not ok - $2 ended with status $status after $1 s at most"
  fi
}

has_cubins() {
  compgen -G "$cubins/*.cubin" >/dev/null
}

disassemble() { # CUBIN: writes its machine code beside it
  local out=$work/sass/${1##*/}
  if command -v nvdisasm >/dev/null; then
    timeout 60 nvdisasm "$1" >"$out.sass"
  else
    timeout 60 cuobjdump -sass "$1" >"$out.sass"
  fi
}

# Names of cubins whose machine code has (or lacks) a pattern.
judge_sass() { # NAME PATTERN has|lacks
  local wrong n
  if [ "$3" = has ]; then
    wrong=$(cd "$work/sass" && grep -LE "$2" -- *.sass)
  else
    wrong=$(cd "$work/sass" && grep -lE "$2" -- *.sass)
  fi
  n=$(find "$work/sass" -name '*.sass' | wc -l)
  if [ -z "$wrong" ] && [ "$n" -gt 0 ]; then
    tell "ok - machine code of $n candidates: $1"
  else
    tell "not ok - machine code of $n candidates: $1"
    printf '%s\n' "$wrong" | head -n 5 | sed 's/^/# /'
  fi
}

run_sass() {
  local reason=
  command -v nvdisasm >/dev/null || command -v cuobjdump >/dev/null ||
    reason="neither nvdisasm nor cuobjdump is on the PATH"
  has_cubins || reason="no candidate was built for a device"
  if [ -n "$reason" ]; then
    for name in "tensor-core products" "tensor copies" "no local memory"; do
      tell "ok - machine code: $name # SKIP $reason"
    done
    return
  fi
  mkdir -p "$work/sass"
  export -f disassemble
  export work
  printf '%s\0' "$cubins"/*.cubin | xargs -0 -P "$(nproc)" -I{} bash -c 'disassemble {}'
  judge_sass "tensor-core products (HGMMA)" 'HGMMA' has
  judge_sass "tensor copies (UTMALDG)" 'UTMALDG' has
  judge_sass "no local memory (LDL, STL)" '\b(LDL|STL)\b' lacks
}

sanitize() { # TOOL NAME: the worker under a tool, over NAME.frames
  local at=$work/$1-$2
  timeout 150 compute-sanitizer --tool "$1" --target-processes all --log-file "$at.log" \
    "$BUILD/fuseplan" worker <"$work/$2.frames" >"$at.answers" 2>"$at.err"
  echo $? >"$at.status"
}

judge_sanitizer() { # TOOL NAME ANSWERS WHAT
  local at=$work/$1-$2 n status
  n=$(grep -ao '"ok":true' "$at.answers" | wc -l)
  status=$(cat "$at.status")
  if [ "$n" -eq "$3" ] && [ "$status" -eq 0 ] &&
    grep -qE '(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: .*\(0 errors, 0 warnings)' "$at.log"; then
    tell "ok - $1 finds nothing in $4"
  else
    tell "not ok - $1 on $4: status $status, $n of $3 answers"
    grep -ao '{"ok":false[^}]*}' "$at.answers" | head -n 3 | sed 's/^/# /'
    { tail -n 5 "$at.err" && grep -aE 'SUMMARY' "$at.log" && head -n 12 "$at.log"; } | sed 's/^/# /'
  fi
}

# A fault that was planted must be found: a tool that sees nothing proves nothing.
judge_planted() { # TOOL FAULT
  local log=$work/$1-planted-$2.log
  if grep -qE '(ERROR SUMMARY: [1-9]|RACECHECK SUMMARY: .*\([1-9])' "$log"; then
    tell "ok - $1 finds the planted fault: $2"
  else
    tell "not ok - $1 finds the planted fault: $2"
    head -n 12 "$log" | sed 's/^/# /'
  fi
}

# Kernels are small, but polling a barrier under racecheck takes seconds: sessions run side by side.
run_sanitizers() {
  local tools="memcheck racecheck synccheck" reason='' tool name n what
  command -v compute-sanitizer >/dev/null || reason="compute-sanitizer is not on the PATH"
  has_cubins || reason="no candidate was built for a device"
  if [ -n "$reason" ]; then
    for tool in $tools; do
      tell "ok - $tool finds nothing # SKIP $reason"
    done
    return
  fi
  if ! timeout 100 "$BUILD/tests/gpu/gpu_frames" "$work" >"$work/frames.txt"; then
    tell "not ok - gpu_frames"
    return
  fi
  export -f sanitize
  export BUILD work
  while read -r name _; do
    for tool in $tools; do
      case $name in
      planted-*) [[ " $planted " == *" $tool:${name#planted-} "* ]] || continue ;;
      esac
      printf 'sanitize %s %s\0' "$tool" "$name"
    done
  done <"$work/frames.txt" | xargs -0 -P 12 -I{} bash -c '{}'
  while read -r name n what; do
    [[ $name == planted-* ]] && continue
    for tool in $tools; do
      judge_sanitizer "$tool" "$name" "$n" "$what"
    done
  done <"$work/frames.txt"
  for what in $planted; do
    judge_planted "${what%:*}" "${what#*:}"
  done
}

# Which tool must find which fault of tests/gpu/planted.
planted="memcheck:illegal racecheck:race synccheck:divergent"

run_program 240 gpu_check
run_program 120 gpu_launches
run_program 100 gpu_accuracy
run_program 100 gpu_code
run_sass
run_sanitizers

passed=$(grep -cE '^ok ' "$log")
skipped=$(grep -cE '^ok .*# SKIP' "$log")
failed=$(grep -cE '^not ok ' "$log")
echo "1..$((passed + failed))"
if [ $((passed + failed)) -eq 0 ]; then
  echo "no test ran"
  failed=1
fi
echo "skipped: $skipped"
echo "$((passed - skipped)) passed, $failed failed"
[ "$failed" -eq 0 ]
