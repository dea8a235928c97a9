#!/usr/bin/env bats
# fuseplan lookup, explain, list-misses: tiers, layers, what is said of an answer, and the log.
load common

near=(--kind gemm_chain --m 130 --n 512 --k 32 --l 256 --dtype f16 --act relu --device h200)

# The shipped plans, which are measured, made once a file.
measured_database() {
  local made=$BATS_FILE_TMPDIR/measured.db
  [ -e "$made" ] || "$fuseplan" import profiles/plans/h200-paper.jsonl --db "$made" >/dev/null
  cp "$made" "$FUSEPLAN_DB"
}

@test "--require-hit: exit 1 and the command that would tune it" {
  measured_database
  expect 1 lookup "${near[@]}" --require-hit
  one_line_error
  [[ $stderr == *"'fuseplan tune --kind gemm_chain --m 130 --n 512 --k 32 --l 256"* ]]
  expect 0 lookup "${G1[@]}" --require-hit
}

@test "--model: the model's pick where nothing is stored, and it says so" {
  small_database
  expect 1 lookup "${near[@]}"
  expect 0 lookup "${near[@]}" --model --json
  jq -e '.tier == "model" and .stored == false and .provenance == "predicted" and .est_us > 0 and
    .runnable == false and (.schedule | has("blk_m"))' <<<"$output"
  expect 1 lookup "${near[@]}" --model --require-hit
  expect 0 lookup "${G1[@]}" --model --json
  jq -e '.tier == "exact"' <<<"$output"
}

@test "--compile: the model's pick is compiled and stored, and answers the next time too" {
  small_database
  expect 0 lookup "${near[@]}" --compile --json
  jq -e '.tier == "model" and .stored and .provenance == "predicted"' <<<"$output"
  expect 0 lookup "${near[@]}" --json
  jq -e '.tier == "exact" and .provenance == "predicted"' <<<"$output"
}

@test "the command for a database whose path needs quotes is quoted" {
  small_database
  odd="$scratch/it's here.db"
  cp "$FUSEPLAN_DB" "$odd"
  expect 0 explain "${near[@]}" --db "$odd" --json
  command=$(jq -r .tune <<<"$output")
  eval "set -- ${command#fuseplan }"
  expect 0 "$@" --measure model --top-k 1
  expect 0 lookup "${near[@]}" --db "$odd" --require-hit
}

@test "another driver makes a plan stale: served, flagged, and listed for tuning" {
  measured_database
  expect 0 lookup "${G1[@]}" --driver '999.1 (CUDA 99.0)' --json
  jq -e '.tier == "exact" and .match == "driver"' <<<"$output"
  expect 0 lookup "${G1[@]}" --driver '999.1 (CUDA 99.0)'
  [[ $output == *stale* ]]
  expect 0 list-misses
  [[ $output == *'# stale on h200, asked 2 times'* ]]
  expect 0 explain "${G1[@]}" --driver '999.1 (CUDA 99.0)'
  [[ $output == *'driver: measured with 5'*', here 999.1'* ]]
}

@test "the log of misses is a workload that tune takes" {
  small_database
  expect 1 list-misses
  expect 1 lookup "${near[@]}"
  expect 1 lookup "${near[@]}"
  expect 1 lookup --kind conv_chain --batch 1 --ic 64 --h 14 --w 14 --n 128 --l 64 --k1 3 --device h200
  expect 1 lookup --kind gemm_chain --m 1 --n 64 --k 64 --device h200 --no-log
  expect 0 list-misses
  echo "$output" >"$scratch/tonight.yaml"
  [ "$(grep -c 'id: miss' "$scratch/tonight.yaml")" -eq 2 ]
  grep -q 'miss-1,.*m: 130,.*calls: 2' "$scratch/tonight.yaml"
  expect 0 tune "$scratch/tonight.yaml" --only miss-1 --device h200 --measure model --top-k 1
  expect 0 lookup "${near[@]}" --require-hit
  expect 0 list-misses --clear
  expect 1 list-misses
}

@test "a database that cannot be written answers all the same" {
  small_database
  chmod a-w "$FUSEPLAN_DB"
  expect 0 lookup "${G1[@]}"
  expect 1 lookup "${near[@]}"
  [ "$(sqlite3 "$FUSEPLAN_DB" 'select count(*) from misses')" -le 1 ]
}

@test "explain: what was tried, the closest plan, what differs, and how to tune" {
  measured_database
  expect 0 explain "${G1[@]}" --json
  jq -e '.tier == "exact" and .not_answered == {}' <<<"$output"
  expect 0 explain "${near[@]}" --json
  jq -e '.not_answered.exact and .closest[0].differs == "m 128, not 130" and
    (.closest[0].refused | length > 0) and (.tune | startswith("fuseplan tune --kind"))' <<<"$output"
  expect 0 explain "${near[@]}"
  [[ $output == *'m 128, not 130'* && $output == *'to tune it'* ]]
}

@test "the command that explain prints tunes the shape" {
  small_database
  expect 0 explain "${near[@]}" --json
  command=$(jq -r .tune <<<"$output")
  # shellcheck disable=SC2086 # the words of the command
  expect 0 ${command#fuseplan } --measure model --top-k 1
  expect 0 lookup "${near[@]}"
}

@test "tune takes a workload or a shape, not both, not neither" {
  expect 2 tune --device h200
  one_line_error
  expect 2 tune profiles/workloads/paper.yaml "${G1[@]}"
  one_line_error
}

@test "layers: yours over the program's own; measured below beats predicted above" {
  small_database
  "$fuseplan" import profiles/plans/h200-paper.jsonl --db "$scratch/system.db"
  export FUSEPLAN_SYSTEM_DB=$scratch/system.db
  expect 0 lookup "${G1[@]}" --json
  jq -e --arg db "$scratch/system.db" '.provenance == "measured" and .database == $db' <<<"$output"
  measured_database
  expect 0 lookup "${G1[@]}" --json
  jq -e --arg db "$FUSEPLAN_DB" '.database == $db' <<<"$output"
  rm "$FUSEPLAN_DB"
  expect 0 lookup "${G1[@]}" --json
  jq -e --arg db "$scratch/system.db" '.database == $db' <<<"$output"
  expect 4 lookup "${G1[@]}" --db "$FUSEPLAN_DB"
  one_line_error
}

@test "the plans that come with the program answer without any database of one's own" {
  unset FUSEPLAN_SYSTEM_DB
  expect 0 lookup "${G1[@]}" --json
  jq -e --arg db "$(dirname "$fuseplan")/plans.db" '.provenance == "measured" and .database == $db' <<<"$output"
}

@test "a snapshot answers like the database it was made from, and cannot be mistaken when it is damaged" {
  measured_database
  expect 0 snapshot "$scratch/plans.snapshot"
  expect 0 snapshot --check "$scratch/plans.snapshot"
  for shape in "${G1[*]}" "--kind gated_ffn --m 96 --n 8192 --k 2048 --device h200"; do
    # shellcheck disable=SC2086 # the words of the shape
    expect 0 lookup $shape --json
    first=$(jq -S 'del(.database, .age_days)' <<<"$output")
    # shellcheck disable=SC2086
    expect 0 lookup $shape --db "$scratch/plans.snapshot" --json
    [ "$first" = "$(jq -S 'del(.database, .age_days)' <<<"$output")" ]
  done
  printf 'X' | dd of="$scratch/plans.snapshot" bs=1 seek=5000 conv=notrunc 2>/dev/null
  expect 4 snapshot --check "$scratch/plans.snapshot"
  one_line_error
  truncate -s 9000 "$scratch/plans.snapshot"
  expect 4 lookup "${G1[@]}" --db "$scratch/plans.snapshot"
  one_line_error
}

@test "m = 0, beyond 2^31 - 1 and words are refused; 1, a prime and 2^31 - 1 are answered" {
  measured_database
  for m in 0 -1 2147483648 99999999999999999999 x; do
    expect 2 lookup --kind gemm_chain --m $m --n 512 --k 32 --l 256 --device h200
    one_line_error
  done
  for m in 1 127 2147483647; do
    expect 1 lookup --kind gemm_chain --m $m --n 512 --k 32 --l 256 --device h200
  done
}
