#!/usr/bin/env bats
# fuseplan tune, by model: what it stores, and each way to end.
load common

by_model=(--device h200 --measure model --top-k 2)
paper=profiles/workloads/paper.yaml

@test "plans by model, stores, and says so in JSON" {
  expect 0 tune $paper --only G1 "${by_model[@]}" --json
  jq -e '.planned == 1 and .without_plan == 0 and .measure == "model" and .device == "h200"' <<<"$output"
  jq -e '.problems[0] | .id == "G1" and .provenance == "predicted" and .est_us > 0 and
    .measured_us == 0 and (.reason | length > 0)' <<<"$output"
  expect 0 lookup "${G1[@]}" --json
}

@test "writes one line a problem to stdout and the summary to stderr" {
  expect 0 tune $paper --only G1 "${by_model[@]}"
  [ "${#lines[@]}" -eq 1 ]
  [[ ${lines[0]} =~ ^G1\ .*us\ predicted ]]
  [[ $stderr == *'1 planned'* ]]
}

@test "says nothing with --quiet" {
  expect 0 tune $paper --only G1 "${by_model[@]}" --quiet
  [ -z "$output" ]
  [ -z "$stderr" ]
}

@test "leaves a problem without a plan: exit 1, the rule is named" {
  expect 1 tune tests/cli/narrow.yaml "${by_model[@]}"
  [[ $output == *'no plan: skeleton_kind: no skeleton reads an image of 8 channels'* ]]
}

@test "plans a convolution by model, of one tap and of nine" {
  expect 0 tune $paper --only C1,C5 "${by_model[@]}" --json
  jq -e '.planned == 2 and .without_plan == 0' <<<"$output"
}

@test "passes over what is planned already with --resume" {
  small_database
  expect 0 tune $paper --only G1 "${by_model[@]}" --resume --json
  jq -e '.planned == 0 and .already_planned == 1' <<<"$output"
}

@test "tries deterministic candidates alone with --deterministic, and lookup finds the plan" {
  expect 0 tune $paper --only G1 "${by_model[@]}" --top-k 40 --json
  [ "$(reduces)" != "dsm none" ]
  rm "$FUSEPLAN_DB"
  expect 0 tune $paper --only G1 "${by_model[@]}" --top-k 40 --deterministic --json
  jq -e '.problems[0].deterministic' <<<"$output"
  [ "$(reduces)" = "dsm none" ]
  expect 0 tune $paper --only G1 "${by_model[@]}" --deterministic --resume --json
  jq -e '.already_planned == 1' <<<"$output"
  expect 0 lookup "${G1[@]}" --deterministic
  [[ $output == *'bits'*'the same every time'* ]]
}

reduces() {
  sqlite3 "$FUSEPLAN_DB" 'select distinct reduce from candidates order by 1' | xargs
}

@test "lookup --deterministic passes over a plan that adds in the order of arrival: exit 1" {
  small_database
  sqlite3 "$FUSEPLAN_DB" "update candidates set reduce = 'l2', schedule =
    replace(replace(schedule, 'reduce=dsm ', 'reduce=l2 '), 'reduce=none', 'reduce=l2')"
  expect 0 lookup "${G1[@]}" --json
  jq -e '.deterministic == false' <<<"$output"
  expect 1 lookup "${G1[@]}" --deterministic --json
  jq -e '.tier == "library" and (.reason | test("deterministic"))' <<<"$output"
  expect 0 tune $paper --only G1 "${by_model[@]}" --deterministic --resume --json
  jq -e '.planned == 1' <<<"$output"
  expect 0 lookup "${G1[@]}" --deterministic
}

@test "stops when the budget is spent: exit 75, and --resume goes on" {
  expect 75 tune $paper --only G1,G2 "${by_model[@]}" --budget 0.001s --json
  jq -e '.budget_spent and .planned == 1' <<<"$output"
  expect 0 tune $paper --only G1,G2 "${by_model[@]}" --resume --json
  jq -e '.already_planned == 1 and .planned == 1' <<<"$output"
}

interrupted() { # SIGNAL CODE
  run --separate-stderr timeout --preserve-status -s "$1" 3 \
    "$fuseplan" tune profiles/workloads/llm_ffn.yaml --device h200 --measure model --top-k 1
  [ "$status" -eq "$2" ]
  [[ $stderr == *interrupted* ]]
  [ "$(sqlite3 "$FUSEPLAN_DB" 'select state from runs')" = interrupted ]
  [ "$(sqlite3 "$FUSEPLAN_DB" 'pragma integrity_check')" = ok ]
}

@test "keeps what is done on SIGINT: exit 130" {
  interrupted INT 130
}

@test "keeps what is done on SIGTERM: exit 143" {
  interrupted TERM 143
}

@test "needs a GPU to measure: exit 5, with a remedy" {
  if has_gpu; then skip "this machine has a GPU"; fi
  expect 5 tune $paper --only G1 --device h200 --measure cupti
  one_line_error
  expect 5 tune $paper --only G1 --device auto
  one_line_error
  [[ ${stderr_lines[0]} == *'--device'* ]]
}

@test "refuses an unknown id, device, budget or option: exit 2" {
  expect 2 tune $paper --only G99 "${by_model[@]}"
  one_line_error
  expect 2 tune $paper --only G1 --device b300 --measure model
  one_line_error
  expect 2 tune $paper --only G1 "${by_model[@]}" --budget -3m
  one_line_error
  expect 2 tune $paper --only G1 "${by_model[@]}" --budget
  one_line_error
  expect 2 tune $paper --hepl
  one_line_error
  expect 2 tune
  one_line_error
  expect 2 tune no-such-file.yaml "${by_model[@]}"
  one_line_error
  [ ! -e "$FUSEPLAN_DB" ]
}

@test "an empty FUSEPLAN_DB means no store" {
  FUSEPLAN_DB='' expect 2 tune $paper --only G1 "${by_model[@]}"
  one_line_error
}

@test "leaves no scratch directory in the cache" {
  expect 0 tune $paper --only G1 "${by_model[@]}"
  [ -z "$(find "$FUSEPLAN_CACHE" -maxdepth 1 -name 'work*')" ]
}
