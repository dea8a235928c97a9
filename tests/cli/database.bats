#!/usr/bin/env bats
# fuseplan lookup, show, export, import: answers, round trip, and databases that are none.
load common

@test "looks a stored plan up: exit 0, one object with the contract's keys" {
  small_database
  expect 0 lookup "${G1[@]}" --json
  [ -z "$stderr" ]
  [ "${#lines[@]}" -eq 1 ]
  jq -e 'has("tier") and has("provenance") and has("est_us") and has("measured_us") and
    has("library_us") and has("speedup") and has("environment")' <<<"$output"
  jq -e '.tier == "exact" and (.schedule | has("loops") and has("blk_m") and has("stages")) and
    (.kernel | has("name") and has("grid") and has("cluster") and has("block") and
    has("smem_bytes") and has("sha"))' <<<"$output"
}

@test "prints a plan for a person" {
  small_database
  expect 0 lookup "${G1[@]}"
  [[ ${lines[0]} =~ ^tier\ +exact$ ]]
  [[ $output == *schedule*loops=* ]]
}

@test "looks up, shows and exports a plan whose kernel was never compiled" {
  small_database
  sqlite3 "$FUSEPLAN_DB" 'update candidates set kernel_id = null; update plans set kernel_id = null'
  expect 0 lookup "${G1[@]}"
  [[ $output == *'not compiled'* && $output != *grid* ]]
  expect 0 lookup "${G1[@]}" --json
  jq -e '.kernel.grid == 0' <<<"$output"
  expect 0 show
  expect 0 export
}

@test "answers a miss with exit 1, on stdout only with --json" {
  small_database
  expect 1 lookup --kind gemm_chain --m 129 --n 512 --k 32 --l 256 --device h200
  one_line_error
  expect 1 lookup --kind gemm_chain --m 129 --n 512 --k 32 --l 256 --device h200 --json
  jq -e '.tier == "library" and .stored == false and .winner == "library"' <<<"$output"
  [ -z "$stderr" ]
}

@test "never takes a plan of another device" {
  small_database
  expect 1 lookup --kind gemm_chain --m 128 --n 512 --k 32 --l 256 --device h100_sxm
}

@test "lookup writes nothing, so that a read-only database serves" {
  small_database
  chmod 444 "$FUSEPLAN_DB"
  before=$(sha256sum <"$FUSEPLAN_DB")
  expect 0 lookup "${G1[@]}"
  [ "$before" = "$(sha256sum <"$FUSEPLAN_DB")" ]
}

@test "lookup refuses usage errors with exit 2" {
  expect 2 lookup --kind gemm_chain --m 0 --n 512 --k 32 --device h200
  one_line_error
  expect 2 lookup --kind gemm_chain --m 1 --n 512 --k 32 --act sigmoid --device h200
  one_line_error
  expect 2 lookup "${G1[@]}" extra
  one_line_error
  FUSEPLAN_DB='' expect 2 lookup "${G1[@]}"
  one_line_error
}

@test "shows plans as a table and as JSON" {
  small_database
  expect 0 show
  [[ ${lines[0]} == id* ]]
  [[ ${lines[1]} == *'gemm_chain m=128 n=512 k=32 l=256'* ]]
  expect 0 show --json
  jq -e '.plans | length == 1' <<<"$output"
}

@test "shows every candidate of a problem, the chosen one marked" {
  small_database
  expect 0 show
  id=${lines[1]%% *}
  expect 0 show --problem "$id"
  [ "$(grep -c 'loops=' <<<"$output")" -eq 2 ]
  [ "$(grep -c '^\*' <<<"$output")" -eq 1 ]
  expect 0 show --problem "$id" --json
  jq -e '(.candidates | length) == 2 and all(.candidates[]; has("outcome") and has("est_us"))' <<<"$output"
}

@test "an unknown problem is a negative answer: exit 1" {
  small_database
  expect 1 show --problem ffffffff
  one_line_error
}

@test "export, import, export gives the same bytes, and the same plan without a search" {
  small_database
  expect 0 export -o "$scratch/first.jsonl" --json
  [ "$(jq .bytes <<<"$output")" -eq "$(wc -c <"$scratch/first.jsonl")" ]
  expect 0 import "$scratch/first.jsonl" --db "$scratch/copy.db" --json
  jq -e '.plans == 1 and .added > 0 and .flagged == 0' <<<"$output"
  expect 0 export --db "$scratch/copy.db" -o "$scratch/second.jsonl"
  cmp "$scratch/first.jsonl" "$scratch/second.jsonl"
  expect 0 lookup "${G1[@]}" --json
  first=$(jq -S 'del(.created_unix, .database, .age_days, .runnable)' <<<"$output")
  expect 0 lookup "${G1[@]}" --db "$scratch/copy.db" --json
  [ "$first" = "$(jq -S 'del(.created_unix, .database, .age_days, .runnable)' <<<"$output")" ]
}

@test "exports to stdout, each line an object" {
  small_database
  expect 0 export
  [ -z "$stderr" ]
  jq -es 'length > 5 and .[0].format == "fuseplan"' <<<"$output"
}

@test "importing twice adds nothing" {
  small_database
  expect 0 export -o "$scratch/first.jsonl"
  expect 0 import "$scratch/first.jsonl" --json
  jq -e '.added == 0 and .known > 0' <<<"$output"
}

@test "a malformed import is refused as a whole: exit 3, file:line" {
  small_database
  expect 0 export -o "$scratch/good.jsonl"
  head -n 5 "$scratch/good.jsonl" >"$scratch/bad.jsonl"
  echo '{"type":"plan","broken":' >>"$scratch/bad.jsonl"
  expect 3 import "$scratch/bad.jsonl" --db "$scratch/new.db"
  one_line_error
  [[ $stderr == *"$scratch/bad.jsonl:6"* ]]
  expect 0 show --db "$scratch/new.db"
  [ "$output" = 'no plans' ]
  expect 3 import "$scratch/absent.jsonl" --db "$scratch/new.db"
  one_line_error
}

@test "a file that is no database: exit 4" {
  head -c 5000 /dev/urandom >"$FUSEPLAN_DB"
  expect 4 lookup "${G1[@]}"
  one_line_error
  expect 4 show
  one_line_error
  expect 4 export
  one_line_error
}

@test "the database of another program: exit 4, untouched" {
  sqlite3 "$FUSEPLAN_DB" 'create table t (x); insert into t values (1)'
  before=$(sha256sum <"$FUSEPLAN_DB")
  expect 4 lookup "${G1[@]}"
  one_line_error
  expect 4 tune profiles/workloads/paper.yaml --only G1 --device h200 --measure model --top-k 1 --quiet
  one_line_error
  [ "$before" = "$(sha256sum <"$FUSEPLAN_DB")" ]
}

@test "a database of a newer schema: exit 4" {
  small_database
  sqlite3 "$FUSEPLAN_DB" 'pragma user_version = 99'
  expect 4 lookup "${G1[@]}"
  one_line_error
}

@test "a database that another program keeps locked: exit 4 after a while, lookup goes on" {
  small_database
  {
    echo 'begin immediate; select 1;'
    exec sleep 30
  } 3>&- | sqlite3 "$FUSEPLAN_DB" 3>&- &
  sleep 1
  expect 0 lookup "${G1[@]}"
  expect 4 tune profiles/workloads/paper.yaml --only G1 --device h200 --measure model --top-k 1 --quiet
  one_line_error
  kill "$(jobs -p)"
}
