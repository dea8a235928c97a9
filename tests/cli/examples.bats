#!/usr/bin/env bats
# The examples of --help and of README.md are run. /tmp stands for the scratch directory; a tune is
# kept to two candidates.
load common

run_example() {
  local line=$1
  line=${line//\/tmp\//$scratch/}
  line=${line/#build\/fuseplan /\"$fuseplan\" }
  line=${line/#fuseplan /\"$fuseplan\" }
  case $1 in *'fuseplan tune '*) line+=' --top-k 2' ;; esac
  bash -c "$line" >"$scratch/stdout" 2>"$scratch/stderr" || {
    local code=$?
    case $1 in *'fuseplan doctor'*) [ "$code" -eq 1 ] && return 0 ;; esac
    echo "exit $code: $line"
    cat "$scratch/stderr"
    return 1
  }
  [ -s "$scratch/stdout" ] || [[ $1 == *' -o '* || $1 == *' --html '* || $1 == *' > '* ]]
}

@test "the examples of --help, in the order of a first use" {
  for command in space tune lookup explain list-misses show export import merge diff history check gc snapshot doctor; do
    example=$("$fuseplan" "$command" --help | sed -n '/^example:/{n;s/^ *//;p}')
    [[ $example == "fuseplan $command"* ]]
    run_example "$example"
  done
}

@test "the examples of README.md" {
  # shellcheck disable=SC2016 # the backquotes of a code block
  mapfile -t examples < <(sed -n '/^```sh$/,/^```$/p' README.md | sed ':a;/\\$/{N;s/\\\n *//;ba}' |
    grep '^build/fuseplan ')
  [ "${#examples[@]}" -ge 5 ]
  for example in "${examples[@]}"; do
    run_example "$example"
  done
}
