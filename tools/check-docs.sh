#!/usr/bin/env bash
# Documents and sizes, each finding as file:line: what.
#   paths named in the *.md files exist (`tuner/core/legal.h`, `make check`, also a "path: line")
#   SQL, C and CUDA files have at most 800 lines, C functions at most 60
#   nothing speaks of how the tree was made, or names a private path
# usage: check-docs.sh
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

mapfile -t documents < <(find . -name '*.md' -not -path './build/*' -not -path './.*/*' | sed 's,^\./,,' | sort)
mapfile -t sources < <(find tuner costmodel codegen db tests tools -type f \
  -regex '.*\.\(c\|h\|cuh\|cu\|def\|sql\|sh\|bats\)' | sort)

# Words in backquotes that begin with a folder of the top level, or name a file of it.
# shellcheck disable=SC2016 # backquotes of the documents
check_paths() {
  grep -HnoE '`[^` ]+`' "${documents[@]}" | tr -d '`' | while IFS=: read -r file line name; do
    case $name in
    *'*'* | *'<'* | *'{'* | *'…'* | *...*) continue ;; # patterns
    tuner/* | costmodel/* | codegen/* | db/* | profiles/* | tests/* | tools/* | .ci/*) ;;
    Makefile | LICENSE | *.md) ;;
    *) continue ;;
    esac
    [ -e "$name" ] || [ -e "$(dirname "$file")/$name" ] || echo "$file:$line: $name does not exist"
  done
}

check_links() {
  grep -HnoE '\]\([^)#:]+\)' "${documents[@]}" | sed -E 's/\]\((.*)\)$/\1/' |
    while IFS=: read -r file line name; do
      [ -e "$(dirname "$file")/$name" ] || echo "$file:$line: link to $name, which does not exist"
    done
}

check_targets() {
  grep -HnoE '`make [a-z][a-z-]*' "${documents[@]}" | sed 's/`make //' |
    while IFS=: read -r file line name; do
      grep -qE "^$name:" Makefile || echo "$file:$line: make $name is no target"
    done
}

# Public functions named with their parentheses or in backquotes.
check_symbols() {
  grep -HnoE '`fpl_[a-z0-9_]+' "${documents[@]}" | tr -d '`' | while IFS=: read -r file line name; do
    grep -qrwE "$name" --include='*.h' --include='*.c' tuner costmodel codegen db ||
      echo "$file:$line: $name does not exist"
  done
}

# ARCHITECTURE.md names every file that needs a feature macro.
check_feature_files() {
  grep -rlE '^#define _(GNU|POSIX_C)_SOURCE' --include='*.c' tuner costmodel codegen db |
    while read -r file; do
      grep -qF "\`$file\`" ARCHITECTURE.md ||
        echo "ARCHITECTURE.md:1: $file needs a feature macro and is not named"
    done
}

check_lengths() {
  for file in "${sources[@]}"; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || echo "$file:801: $lines lines, at most 800"
  done
  # A function: from a line that opens a brace at the end of a declaration in column 0 to "}".
  for file in $(printf '%s\n' "${sources[@]}" | grep -E '\.[ch]$'); do
    awk -v file="$file" '
      /^[A-Za-z_].*\)[ ]*\{$/ || (/^ .*\) \{$/ && opened == 0 && head) { opened = FNR }
      /^[A-Za-z_].*[(,]/ && !/;$/ { head = 1 }
      /^\}/ {
        if (opened && FNR - opened > 60)
          printf "%s:%d: function of %d lines, at most 60\n", file, opened, FNR - opened
        opened = 0
        head = 0
      }
      /;$/ && !opened { head = 0 }' "$file"
  done
}

check_words() {
  local words='/work/|\<helper (agent|session)s?\>|\<(sub)?agents?\>|\<issue #?[0-9]|\<TODO\>|\<FIXME\>|\<XXX\>|placeholder'
  grep -HnE "$words" "${documents[@]}" "${sources[@]}" Makefile .ci/run |
    grep -v '^tools/check-docs.sh:' | cut -c1-140 | sed 's/$/   <- private or unfinished/'
}

found=$({ check_paths; check_links; check_targets; check_symbols; check_feature_files; check_lengths; check_words; } || true)
if [ -n "$found" ]; then
  echo "$found"
  exit 1
fi
echo "check-docs: ${#documents[@]} documents, ${#sources[@]} sources"
