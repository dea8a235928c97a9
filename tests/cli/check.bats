#!/usr/bin/env bats
# fuseplan check, gc: findings, repairs, what stays, exit codes.
load common

fixture() {
  expect 0 import tests/fixtures/schema_2.jsonl
  expect 0 check --repair # its one orphan
}

@test "check of a sound database: exit 0, no finding, nothing written" {
  fixture
  before=$(sha256sum <"$FUSEPLAN_DB")
  expect 0 check
  [ "$output" = '0 findings, 0 repaired' ]
  [ -z "$stderr" ]
  expect 0 check --json
  jq -e '.found == 0 and .repaired == 0 and .findings == []' <<<"$output"
  [ "$before" = "$(sha256sum <"$FUSEPLAN_DB")" ]
}

@test "check tells a wrong cubin and an illegal plan, one line each: exit 1; --repair: exit 0" {
  fixture
  sqlite3 "$FUSEPLAN_DB" "update kernels set cubin = x'00' where cubin is not null;
    update device_classes set max_cluster = 1 where id = 1"
  expect 1 check
  [[ ${lines[0]} == 'cubin kernels '* && ${lines[1]} == 'illegal plans '* ]]
  n=${#lines[@]}
  [ "${lines[n - 1]}" = "$((n - 1)) findings, 0 repaired" ]
  expect 0 check --repair --json
  jq -e '.found == .repaired and .findings[0].kind == "cubin" and
    .findings[0].repair == "cubin dropped, to be compiled anew"' <<<"$output"
  expect 0 check
}

@test "check leaves alone what cannot be repaired: exit 1 again" {
  fixture
  sqlite3 "$FUSEPLAN_DB" "update candidates set attempt = 7 where id = 1"
  expect 1 check --repair
  [[ ${lines[0]} == 'unreadable candidates 1: its key '* ]]
  expect 1 check
}

@test "check of a damaged or missing database: exit 4" {
  fixture
  size=$(stat -c %s "$FUSEPLAN_DB")
  page=$(sqlite3 "$FUSEPLAN_DB" "select rootpage from sqlite_schema where name = 'plans'")
  printf '\245\245\245\245' | dd of="$FUSEPLAN_DB" bs=1 seek=$(((page - 1) * 4096)) conv=notrunc status=none
  expect 4 check --repair
  [[ ${lines[0]} == 'damage file: '* ]]
  [ "$size" -eq "$(stat -c %s "$FUSEPLAN_DB")" ]
  expect 4 check --db "$scratch/absent.db"
  one_line_error
  expect 4 gc --db "$scratch/absent.db"
  one_line_error
  expect 2 check --db ''
  expect 2 gc --keep-runs -1
}

@test "gc removes old candidates and keeps every answer" {
  fixture
  expect 0 show --json
  answers=$output
  before=$(sqlite3 "$FUSEPLAN_DB" 'select count(*) from candidates')
  expect 0 gc --keep-runs 0 --dry-run --json
  jq -e '.dry_run and .candidates > 0' <<<"$output"
  [ "$before" -eq "$(sqlite3 "$FUSEPLAN_DB" 'select count(*) from candidates')" ]
  removed=$(jq .candidates <<<"$output")
  expect 0 gc --keep-runs 0 --json
  jq -e --argjson n "$removed" '.candidates == $n and .bytes_after < .bytes_before' <<<"$output"
  [ $((before - removed)) -eq "$(sqlite3 "$FUSEPLAN_DB" 'select count(*) from candidates')" ]
  expect 0 show --json
  [ "$answers" = "$output" ]
  expect 0 check
  expect 0 gc --keep-runs 0
  [[ $output == 'removed 0 candidates, 0 measurements, 0 cubins, 0 rows'* ]]
}
