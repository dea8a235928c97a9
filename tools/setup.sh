#!/usr/bin/env bash
# Installs what a Debian machine lacks. usage: setup.sh build|test|browser|lint|fuzz|bench
set -euo pipefail

build="gcc libc6-dev make libsqlite3-dev libyaml-dev libjansson-dev libmd-dev"
test="$build g++ libcmocka-dev bats perl valgrind sqlite3 jq python3 pkg-config"
lint="$build libcmocka-dev clang clang-format clang-tidy cppcheck shellcheck pyflakes3"
browser="chromium fonts-dejavu-core tidy"
fuzz="$build clang libclang-rt-14-dev"

case "${1:-}" in
build) wanted=$build ;;
test) wanted=$test ;;
lint) wanted=$lint ;;
browser) wanted=$browser ;;
bench) wanted=python3 ;;
fuzz) wanted=$fuzz ;;
*)
  echo "usage: setup.sh build|test|browser|lint|fuzz|bench" >&2
  exit 2
  ;;
esac

missing=()
for package in $wanted; do
  if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed'; then
    missing+=("$package")
  fi
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

echo "setup: installing ${missing[*]}" >&2
if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here: install what corresponds to: ${missing[*]}" >&2
  exit 5
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: no sudo here: as root, run: apt-get install ${missing[*]}" >&2
    exit 5
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" >/dev/null
