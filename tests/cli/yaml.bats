#!/usr/bin/env bats
# Bad input files: exit 2 and one line "file:line:column: what: remedy".
load common

# The workload or profile on stdin is refused at LINE:COLUMN (a pattern).
refused_at() {
  local where=$1
  cat >"$scratch/bad.yaml"
  expect 2 tune "$scratch/bad.yaml" --device h200 --measure model
  [ "${#stderr_lines[@]}" -eq 1 ]
  [ -z "$output" ]
  case $stderr in
  "fuseplan: $scratch/bad.yaml:"$where': '*) ;;
  *)
    echo "wanted $where, got: $stderr"
    return 1
    ;;
  esac
}

@test "an unknown key" {
  refused_at 2:1 <<<$'schema_version: 1\nproblem: []'
}
@test "a duplicate key" {
  refused_at 2:1 <<<$'schema_version: 1\nschema_version: 1\nproblems: []'
}
@test "a word for a number" {
  refused_at '3:*' <<<$'schema_version: 1\nproblems:\n  - {id: a, kind: gemm_chain, m: many, n: 16, k: 16, l: 16, dtype: f16, act: relu}'
}
@test "a negative budget" {
  refused_at '2:*' <<<$'schema_version: 1\nbudget: -5m\nproblems:\n  - {id: a, kind: gemm_chain, m: 1, n: 16, k: 16, l: 16, dtype: f16, act: relu}'
}
@test "NaN" {
  refused_at '3:*' <<<$'schema_version: 1\nproblems:\n  - {id: a, kind: gemm_chain, m: 1, n: 16, k: 16, l: 16, dtype: f16, act: relu, calls: .nan}'
}
@test "an overflow of m n k" {
  refused_at '3:*' <<<$'schema_version: 1\nproblems:\n  - {id: a, kind: gemm_chain, m: 2147483647, n: 2147483647, k: 2147483647, l: 16, dtype: f16, act: relu}'
}
@test "a tab" {
  refused_at '2:*' <<<$'schema_version: 1\nproblems:\t[]'
}
@test "a byte-order mark" {
  refused_at 1:1 <<<$'\xef\xbb\xbfschema_version: 1'
}
@test "text that is not UTF-8" {
  refused_at '1:*' <<<$'schema_version: \xff'
}
@test "an alias bomb" {
  refused_at '1:*' <<<$'a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]'
}
@test "nothing at all" {
  refused_at 1:1 </dev/null
}

@test "a file of a gigabyte is refused at once" {
  truncate -s 1G "$scratch/large.yaml"
  SECONDS=0
  expect 2 tune "$scratch/large.yaml" --device h200 --measure model
  one_line_error
  [ "$SECONDS" -le 2 ]
}

@test "a directory is no file" {
  expect 2 tune "$scratch" --device h200 --measure model
  one_line_error
}

@test "a device profile with an unknown key" {
  sed 's/^sms:/sm:/' profiles/devices/h200.yaml >"$scratch/bad.yaml"
  expect 2 space --kind gemm_chain --m 1 --n 16 --k 16 --device "$scratch/bad.yaml"
  [[ $stderr == "fuseplan: $scratch/bad.yaml:"* ]]
  [ "${#stderr_lines[@]}" -eq 1 ]
}
