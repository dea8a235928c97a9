#!/usr/bin/env bats
# The program itself: help, version, doctor, exit codes that need no command of their own.
load common

commands=(tune lookup show space export import check gc doctor)

@test "prints usage: to stdout when asked, to stderr with exit 2 when not" {
  expect 0 --help
  [[ $output == 'usage: fuseplan'* ]]
  [ -z "$stderr" ]
  expect 2
  [ -z "$output" ]
  [[ $stderr == 'usage: fuseplan'* ]]
}

@test "prints its version" {
  expect 0 --version
  [[ $output =~ ^fuseplan\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}

@test "refuses an unknown command: exit 2" {
  expect 2 frobnicate
  one_line_error
}

@test "every command has help with an example, and refuses an unknown option with exit 2" {
  for command in "${commands[@]}"; do
    expect 0 "$command" --help
    [[ $output == *$'\nexample:\n  fuseplan '"$command"* ]]
    [ -z "$stderr" ]
    expect 2 "$command" --no-such-option
    one_line_error
  done
}

@test "usage lists every command" {
  expect 0 --help
  for command in "${commands[@]}"; do
    [[ $output == *$'\n'"  $command "* ]]
  done
}

@test "doctor says what works and what to do about the rest" {
  run --separate-stderr "$fuseplan" doctor --json
  [ "$status" -eq 0 ] || [ "$status" -eq 1 ]
  jq -e '(.findings | length) >= 4 and all(.findings[]; .is_good or (.remedy | length > 0))' <<<"$output"
  [ "$(jq .is_all_good <<<"$output")" = "$([ "$status" -eq 0 ] && echo true || echo false)" ]
}

@test "doctor finds a damaged database" {
  head -c 5000 /dev/urandom >"$FUSEPLAN_DB"
  expect 1 doctor
  [[ $output == *integrity* ]]
}

@test "memory that runs out is an internal failure: exit 70" {
  head -c 300M /dev/zero >"$scratch/large.jsonl"
  # shellcheck disable=SC2016 # for the inner shell
  run --separate-stderr bash -c 'ulimit -v 200000; "$@"' bash \
    "$fuseplan" import "$scratch/large.jsonl"
  [ "$status" -eq 70 ]
  one_line_error
}
