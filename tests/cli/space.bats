#!/usr/bin/env bats
# fuseplan space: counts, ranking and their JSON form.
load common

paper=(--kind gemm_chain --m 256 --n 16384 --k 4096 --l 4096 --dtype f16 --device h100_sxm --paper)

@test "counts the paper's space exactly, rule by rule" {
  expect 0 space "${paper[@]}" --count --json
  [ -z "$stderr" ]
  [ "$(jq -r '[.rules[].name] | join(" ")' <<<"$output")" = \
    'initial divisible_tiles cluster_size activation dependency capacity' ]
  [ "$(jq '.rules[0].remaining' <<<"$output")" -eq 27514634240000 ]
  [ "$(jq '.rules[1].remaining' <<<"$output")" -eq 114159375 ]
  jq -e '.seconds > 0 and (.rules | map(.remaining)) == (.rules | map(.remaining) | sort | reverse)' \
    <<<"$output"
}

@test "lands within 10 % of the paper's later counts" {
  expect 0 space "${paper[@]}" --count --json
  jq -e '[.rules[2:][].remaining] as $n | [2.47e7, 1.44e7, 9.62e6, 1.15e6] as $paper |
    all(range(4); ($n[.] / $paper[.] - 1) | fabs < 0.1)' <<<"$output"
}

@test "counts, prunes and ranks the paper's space in two seconds" {
  expect 0 space "${paper[@]}" --json
  jq -e '.seconds < 2 and (.best | length) == 11 and .ranked > 100000' <<<"$output"
  jq -e '[.best[].est_us] | . == sort' <<<"$output"
}

@test "counts the larger space in the same form" {
  expect 0 space --kind gated_ffn --m 7 --n 11008 --k 4096 --device h200 --count --json
  jq -e '.rules[0].name == "initial" and (.rules | map(.remaining)) ==
    (.rules | map(.remaining) | sort | reverse) and (has("best") | not)' <<<"$output"
}

@test "ranks the larger space, every schedule with named fields" {
  expect 0 space --kind gemm_chain --m 128 --n 512 --k 32 --l 256 --device h200 --top 3 --json
  jq -e '(.best | length) == 3 and all(.best[]; .schedule |
    has("loops") and has("cls_m") and has("blk_n") and has("exchange") and has("stages"))' <<<"$output"
}

@test "prints a table without --json" {
  expect 0 space "${paper[@]}" --count
  [[ ${lines[0]} =~ ^initial\ +27514634240000$ ]]
  [[ ${lines[1]} =~ ^divisible_tiles\ +114159375$ ]]
}

@test "counts a convolution chain in its im2col form" {
  expect 0 space --kind conv_chain --ic 64 --h 56 --w 56 --n 256 --l 64 --k1 1 --device h200 --count --json
  jq -e '.rules[0].remaining > 0' <<<"$output"
}

@test "refuses what is no problem: exit 2, one line and where to find help" {
  expect 2 space --kind gemm_chain --n 512 --k 32
  one_line_error
  [[ ${stderr_lines[0]} == *'--m is missing'* ]]
  expect 2 space --kind transformer --m 1 --n 1 --k 1
  one_line_error
  expect 2 space --kind gemm_chain --m 2147483647 --n 2147483647 --k 2147483647
  one_line_error
  expect 2 space --kind conv_chain --ic 64 --h 56 --w 56 --n 256 --l 64 --k1 2
  one_line_error
}

@test "names the device profiles there are when one is unknown" {
  expect 2 space --kind gemm_chain --m 1 --n 16 --k 16 --device b300
  one_line_error
  [[ ${stderr_lines[0]} == *h100_sxm*h200* ]]
}

@test "ranks by the paper's plain model on request" {
  expect 0 space --kind gemm_chain --m 128 --n 512 --k 32 --l 256 --device h200 --top 1 --json
  local by_time
  by_time=$(jq '.best[0].est_us' <<<"$output")
  expect 0 space --kind gemm_chain --m 128 --n 512 --k 32 --l 256 --device h200 --top 1 --json \
    --model plain
  # No launch, latency or barrier in it: far below.
  jq -e --argjson by_time "$by_time" '.best[0].est_us * 5 < $by_time' <<<"$output"
  expect 2 space --kind gemm_chain --m 128 --n 512 --k 32 --device h200 --model best
  one_line_error
}
