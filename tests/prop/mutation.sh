#!/bin/bash
# Mutation test: each planted error of tests/prop/mutants/list.txt must make p_interp fail.
# Prints TAP. Runs from the repository root. CC and LIST may be set.
#   tests/prop/mutation.sh             all mutants, one worker a core
#   tests/prop/mutation.sh one N       the N-th mutant  (called by the above, in its directory
#   tests/prop/mutation.sh object FILE  one object file  $work)
set -u
export CC=${CC:-gcc} LIST=${LIST:-tests/prop/mutants/list.txt}
schedules=1500
flags=(-std=c11 -O1 -I.)
libraries=(-lcmocka -lmd -lm)
sources=(
  costmodel/{analyzer,blockmap,counted,element,primitives}.c
  costmodel/interp{,_cluster,_fused,_reference,_twophase}.c
  tuner/core/{problem,schedule,tiling,footprint,legal}.c
  tuner/base/{arena,hash,status,str}.c
  tests/prop/p_interp.c
)

mutant() {
  grep -v -e '^#' -e '^$' "$LIST" | sed -n "$1p"
}

# Builds and runs one mutant; writes its line of TAP, without number, to $work/N/result.
run_one() {
  local dir=$work/$1 line file expression name
  line=$(mutant "$1")
  file=${line%% *}
  expression=${line#* }
  name=$(basename "$file" .c)
  mkdir -p "$dir"
  sed -e "$expression" "$file" >"$dir/$name.c"
  local objects=("$dir/$name.o")
  for object in "$work"/objects/*.o; do
    [ "$(basename "$object")" = "$name.o" ] || objects+=("$object")
  done
  if cmp -s "$file" "$dir/$name.c"; then
    echo "not ok - $line: changes nothing"
  elif ! "$CC" "${flags[@]}" -c "$dir/$name.c" -o "$dir/$name.o" 2>"$dir/log" ||
    ! "$CC" "${objects[@]}" "${libraries[@]}" -o "$dir/p_interp" 2>>"$dir/log"; then
    echo "not ok - $line: does not compile"
  elif timeout 60 "$dir/p_interp" "$schedules" >"$dir/log" 2>&1; then
    echo "not ok - $line: survives"
  elif ! grep -q '^not ok 1 ' "$dir/log"; then
    echo "not ok - $line: ends before the comparison does (a crash, a hang)"
  else
    echo "ok - $line"
  fi >"$dir/result"
  rm -f "$dir/p_interp"
}

case ${1:-} in
one)
  run_one "$2"
  exit
  ;;
object)
  "$CC" "${flags[@]}" -c "$2" -o "$work/objects/$(basename "$2" .c).o"
  exit
  ;;
esac

work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT
count=$(grep -c -v -e '^#' -e '^$' "$LIST")
echo "1..$((count + 1))"
mkdir "$work/objects"
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 1 "$0" object
failed=0
if "$CC" "$work"/objects/*.o "${libraries[@]}" -o "$work/p_interp" &&
  "$work/p_interp" "$schedules" >"$work/log" 2>&1; then
  echo "ok 1 - the program without planted errors passes"
else
  echo "not ok 1 - the program without planted errors passes"
  sed 's/^/# /' "$work/log"
  failed=1
fi
seq "$count" | xargs -P "$(nproc)" -n 1 "$0" one
for ((i = 1; i <= count; i++)); do
  result=$(cat "$work/$i/result")
  case $result in
  ok*) echo "ok $((i + 1))${result#ok}" ;;
  *)
    echo "not ok $((i + 1))${result#not ok}"
    failed=1
    ;;
  esac
done
exit "$failed"
