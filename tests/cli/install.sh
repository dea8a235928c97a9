#!/usr/bin/env bash
# Installs into a temporary prefix, compiles the examples against it (shared and static) and runs
# them, compares what the libraries export with the list, and uninstalls. Prints TAP.
# BUILD and CUDA_HOME may be set.
# shellcheck disable=SC2317 # functions are called by their names
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
build=${BUILD:-build}
toolkit=${CUDA_HOME:-/usr/local/cuda}/include
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/usr
database=$scratch/plans.db
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
number=0
failed=0

# One test: a function, its output shown when it fails; 77: skipped.
try() { # NAME FUNCTION
  number=$((number + 1))
  "$2" >"$scratch/log" 2>&1
  case $? in
  0) echo "ok $number - $1" ;;
  77) echo "ok $number - $1 # SKIP $(tail -n 1 "$scratch/log")" ;;
  *)
    echo "not ok $number - $1"
    sed 's/^/# /' "$scratch/log" | tail -n 30
    failed=1
    ;;
  esac
}

installs() {
  make --no-print-directory BUILD="$build" PREFIX="$prefix" install &&
    "$prefix/bin/fuseplan" --version && test -e "$prefix/share/fuseplan/profiles/devices/h200.yaml"
}
stages() {
  make --no-print-directory BUILD="$build" PREFIX=/opt/f DESTDIR="$scratch/stage" install &&
    test -x "$scratch/stage/opt/f/bin/fuseplan" &&
    grep -qx prefix=/opt/f "$scratch/stage/opt/f/lib/pkgconfig/fuseplan.pc"
}
# The installed program finds its installed profiles, from another folder.
finds_profiles() {
  local workload=$prefix/share/fuseplan/profiles/workloads/paper.yaml
  (cd / && env -u FUSEPLAN_PROFILES "$prefix/bin/fuseplan" tune "$workload" --only G1 --top-k 2 \
    --device h200 --measure model --db "$database" --quiet)
}
# shellcheck disable=SC2046 # words of pkg-config
compile() { # EXAMPLE OUTPUT OPTIONS...
  local example=$1 output=$2
  shift 2
  cc -std=c11 -Wall -Wextra -Wno-unused-function -Werror -isystem "$toolkit" "tools/examples/$example.c" \
    -o "$output" $(pkg-config --cflags fuseplan) "$@"
}
look_up() { # PROGRAM
  "$1" "$database" h200 128 512 32 256 | tee "$scratch/answer" && grep -q 'exchange=' "$scratch/answer" &&
    { "$1" "$database" h200 129 512 32 256; [ $? -eq 1 ]; }
}
# shellcheck disable=SC2046
shared() {
  compile lookup "$scratch/shared" $(pkg-config --libs fuseplan) -Wl,-rpath,"$prefix/lib" &&
    look_up "$scratch/shared" && readelf -d "$scratch/shared" | grep -q 'libfuseplan.so.0\]'
}
# shellcheck disable=SC2046
static() {
  compile lookup "$scratch/static" $(pkg-config --libs --static fuseplan |
    sed 's/-lfuseplan/-l:libfuseplan.a/') && look_up "$scratch/static" &&
    ! readelf -d "$scratch/static" | grep -q libfuseplan
}
# Their exit code without a GPU is 77.
# shellcheck disable=SC2046
on_gpu() {
  local example
  [ -e "$toolkit/cuda.h" ] || { echo "no CUDA headers"; return 77; }
  for example in launch graph; do
    compile "$example" "$scratch/$example" $(pkg-config --libs fuseplan) -ldl \
      -Wl,-rpath,"$prefix/lib" || return 1
  done
  for example in launch graph; do
    "$scratch/$example" "$database" 128 512 32 256 || return $?
  done
}
exported() {
  grep -oE '\<fuseplan_[a-z_]+' tuner/lib/fuseplan.map | sort >"$scratch/listed"
  nm -D --defined-only "$prefix/lib/libfuseplan.so" | awk '$2 != "A" { print $3 }' |
    sed 's/@.*//' | sort | diff "$scratch/listed" - &&
    nm -g --defined-only "$prefix/lib/libfuseplan.a" | awk 'NF == 3 { print $3 }' | sort |
    diff "$scratch/listed" - &&
    grep -oE '\<fuseplan_[a-z_]+\(' tuner/lib/fuseplan.h | tr -d '(' | sort -u | diff "$scratch/listed" -
}
versions() {
  local version
  version=$("$prefix/bin/fuseplan" --version | cut -d' ' -f2)
  [ "$(pkg-config --modversion fuseplan)" = "$version" ] &&
    [ "$(readlink -f "$prefix/lib/libfuseplan.so")" = "$prefix/lib/libfuseplan.so.$version" ] &&
    [ "$(sed -nE 's/#define FUSEPLAN_VERSION_[A-Z]+ //p' "$prefix/include/fuseplan.h" | paste -sd.)" = "$version" ] &&
    [ "$(grep -c "fuseplan $version" tools/man/fuseplan.1 tools/man/fuseplan.3 | grep -c ':1$')" = 2 ]
}
# Every command and every function has its place there.
man_pages() {
  local name
  "$build/fuseplan" --help | sed -nE 's/^  ([a-z-]+)  +.*/\1/p' >"$scratch/names"
  [ -s "$scratch/names" ] || return 1
  while read -r name; do
    grep -qE "^\.BI? $name( |\$)" tools/man/fuseplan.1 || { echo "fuseplan.1: $name"; return 1; }
  done <"$scratch/names"
  while read -r name; do
    grep -q "$name" tools/man/fuseplan.3 || { echo "fuseplan.3: $name"; return 1; }
  done <"$scratch/listed"
  if command -v mandoc >/dev/null; then
    mandoc -Tlint -Wwarning tools/man/fuseplan.1 tools/man/fuseplan.3
  elif command -v groff >/dev/null; then
    ! groff -man -ww -z tools/man/fuseplan.1 tools/man/fuseplan.3 2>&1 | grep .
  else
    echo "neither mandoc nor groff"
    return 77
  fi
}
uninstalls() {
  make --no-print-directory BUILD="$build" PREFIX="$prefix" uninstall &&
    ! find "$prefix" -type f -o -type l | grep .
}

if ! command -v pkg-config >/dev/null; then
  echo "1..0 # SKIP no pkg-config here"
  exit 0
fi
echo "1..11"
try "make install puts program, library and profiles below the prefix" installs
try "DESTDIR is put before the prefix and named nowhere" stages
try "the installed program finds its profiles" finds_profiles
try "an example compiles and runs against the shared library" shared
try "an example compiles and runs against the static library" static
try "the examples for a GPU compile and run" on_gpu
try "the libraries export what tuner/lib/fuseplan.map lists, and nothing else" exported
try "one version everywhere" versions
try "man pages name every command and function, without a warning" man_pages
try "a second install changes nothing" installs
try "make uninstall leaves no file" uninstalls
exit "$failed"
