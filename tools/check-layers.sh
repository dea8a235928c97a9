#!/usr/bin/env bash
# Who may include whom, which external header stands where, and what only the command line may call.
# usage: check-layers.sh [ROOT]      prints file:line: what, for each violation; exit 1 if any
#        check-layers.sh --self-test plants violations and expects each to be found
set -euo pipefail
export LC_ALL=C

# layer | layers it may include besides itself
layers='
tuner/base    |
tuner/core    | tuner/base
costmodel     | tuner/core tuner/base
codegen       | tuner/core tuner/base
codegen/skeletons |
db            | tuner/core tuner/base
tuner/search  | tuner/core tuner/base
tuner/launch  | tuner/core tuner/base
tuner/measure | tuner/launch tuner/core tuner/base
tuner/lib     | tuner/launch tuner/core tuner/base db
tuner/cli     | tuner/core tuner/base costmodel codegen db tuner/search tuner/launch tuner/measure
'

# external header | where it may be included: folders end with a slash
external='
yaml.h     | tuner/base/yamlread.c
sha2.h     | tuner/base/hash.c
sqlite3.h  | db/
cuda.h     | tuner/launch/ tuner/measure/
cupti.h    | tuner/measure/sample_cupti.c
cublasLt.h | tuner/measure/baseline_cublaslt.c
nvrtc.h    | codegen/
jansson.h  | db/ tuner/measure/ tuner/cli/
'

# The code without comments and without the text of strings, each line "file:line:code".
code_of() {
  awk '
    FNR == 1 { in_comment = 0 }
    {
      code = ""
      rest = $0
      if (rest !~ /^[ \t]*#[ \t]*include/)
        gsub(/"([^"\\]|\\.)*"/, "\"\"", rest)
      while (rest != "") {
        if (in_comment) {
          end = index(rest, "*/")
          if (!end) break
          rest = substr(rest, end + 2)
          in_comment = 0
        } else {
          start = index(rest, "/*")
          line_comment = index(rest, "//")
          if (line_comment && (!start || line_comment < start)) {
            code = code substr(rest, 1, line_comment - 1)
            break
          }
          if (!start) { code = code rest; break }
          code = code substr(rest, 1, start - 1)
          rest = substr(rest, start + 2)
          in_comment = 1
        }
      }
      print FILENAME ":" FNR ":" code
    }' "$@"
}

# Every #include of layer $1 that names a file in quotes: it must exist and be of an allowed layer.
check_includes() { # layer allowed...
  local layer=$1 place path seen
  shift
  grep -E "^$layer/[^:]*:[0-9]+:[[:space:]]*#[[:space:]]*include[[:space:]]*\"" "$code" |
    sed -E 's/^([^:]*:[0-9]+):[^"]*"([^"]*)".*/\1 \2/' |
    while read -r place path; do
      if [ ! -e "$path" ]; then
        echo "$place: \"$path\": no such file: includes are written from the root"
        continue
      fi
      for seen in "$layer" "$@"; do
        case $path in "$seen"/*) continue 2 ;; esac
      done
      echo "$place: $layer must not include \"$path\""
    done
}

check_external() { # header allowed...
  local header=$1 place allowed
  shift
  grep -E ":[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]${header}[>\"]" "$code" | cut -d: -f1,2 |
    while read -r place; do
      for allowed in "$@"; do
        case $place in "$allowed"*) continue 2 ;; esac
      done
      echo "$place: <$header> belongs into $*"
    done
}

# Printing, ending the program and the environment are the command line's.
check_calls() {
  grep -v '^tuner/cli/' "$code" |
    grep -E '(^|[^A-Za-z0-9_])(v?f?printf|puts|putchar|perror|exit|abort|(secure_)?getenv|setenv|system|popen)[[:space:]]*\(' |
    sed -E 's/^([^:]*:[0-9]+):[[:space:]]*(.*)/\1: only tuner\/cli may call this: \2/'
  grep -E ':[[:space:]]*#[[:space:]]*define.*[^A-Za-z0-9_](return|goto)[^A-Za-z0-9_]' "$code" |
    sed -E 's/^([^:]*:[0-9]+):.*/\1: a macro hides return or goto/'
}

check_tree() {
  local name rest found
  code=$(mktemp)
  mapfile -t files < <(find tuner costmodel codegen db -type f -regex '.*\.\(c\|h\|cuh\|cu\|def\)' | sort)
  code_of "${files[@]}" >"$code"
  found=$(
    while IFS='|' read -r name rest; do
      # shellcheck disable=SC2086 # lists of folders
      [ -z "$name" ] || check_includes $name $rest || true
    done <<<"$layers"
    while IFS='|' read -r name rest; do
      # shellcheck disable=SC2086
      [ -z "$name" ] || check_external $name $rest || true
    done <<<"$external"
    check_calls || true
  )
  rm -f "$code"
  [ -z "$found" ] && return 0
  echo "$found"
  return 1
}

# file | line to plant in it
planted='
tuner/base/arena.c     | #include "tuner/core/device.h"
tuner/core/device.c    | #include "costmodel/analyzer.h"
costmodel/analyzer.c   | #include "db/db.h"
codegen/emit.c         | #include "costmodel/analyzer.h"
db/write.c             | #include "codegen/emit.h"
tuner/search/rank.c    | #include "tuner/measure/measure.h"
tuner/measure/stats.c  | #include "tuner/cli/opts.h"
codegen/emit.c         | #include "emit.h"
codegen/emit.c         | #include <sqlite3.h>
tuner/core/device.c    | #include <yaml.h>
tuner/cli/main.c       | #include <cuda.h>
costmodel/analyzer.h   | #include <jansson.h>
codegen/skeletons/chain_plan.cuh | #include "tuner/core/legal.h"
tuner/core/legal.c     | void f(void) { printf("x"); }
db/open.c              | void f(void) { exit(1); }
tuner/measure/pool.c   | const char *f(void) { return getenv("HOME"); }
codegen/cache.c        | void f(void) { /* so */ abort (); }
tuner/search/rank.c    | #define TRY(x) if (!(x)) return 1
'
harmless='
tuner/core/legal.c     | /* printf("x"); exit(1) */ static int snprintf_like; // abort()
db/open.c              | static const char text[] = "exit(1) #include <cuda.h>";
codegen/emit.c         | #include "codegen/emit.h"
'

self_test() {
  local copy name line failed=0
  copy=$(mktemp -d)
  # shellcheck disable=SC2064 # the path of now
  trap "rm -rf '$copy'" EXIT
  try() { # wanted file line
    (
      cd "$copy"
      cp "$2" "$copy/saved"
      printf '%s\n' "$3" >>"$2"
      result=0
      check_tree >"$copy/found" || result=1
      cp "$copy/saved" "$2"
      [ "$result" -eq "$1" ]
    ) || {
      echo "check-layers: self-test: $([ "$1" = 1 ] && echo 'not found' || echo 'wrongly refused'): $2: $3"
      failed=1
    }
  }
  # A small tree of the named files, empty, is enough: what is tested is the script.
  echo "$planted$harmless" | grep '|' | while IFS='|' read -r name line; do
    echo "$name"
    case $line in *'#include "'*) echo "$line" | cut -d'"' -f2 ;; esac
  done | while read -r name; do
    case $name in */*) mkdir -p "$copy/$(dirname "$name")" && : >"$copy/$name" ;; esac
  done
  while IFS='|' read -r name line; do
    [ -n "$line" ] && try 1 "${name%% *}" "${line# }"
  done <<<"$planted"
  while IFS='|' read -r name line; do
    [ -n "$line" ] && try 0 "${name%% *}" "${line# }"
  done <<<"$harmless"
  return "$failed"
}

if [ "${1:-}" = --self-test ]; then
  self_test
else
  cd "${1:-$(dirname "$0")/..}"
  check_tree
fi
