#!/usr/bin/env bats
# The benchmark's scripts, without a GPU: what they refuse, merge and print; and `tune --again`.

load common

# A stand-in for the program on a machine with a GPU: answers of `tune` as the real one spells them.
fake_program() {
  mkdir -p "$scratch/build"
  cat >"$scratch/build/fuseplan" <<'END'
#!/usr/bin/env bash
echo "$*" >>"${0%/*}/calls"
case $1 in
doctor) echo "ok    profile   h200" ;;
tune)
  us=4 library_us=8
  [[ $* == *"--measure cupti"* ]] && us=5 library_us=12
  cat <<JSON
{"problems":[{"id":"G1","has_plan":true,"winner":"kernel","environment":{"device_name":"fake",
 "sm_clock_mhz":"1980","throttle":"none"},
 "best_kernel":{"outcome":"ok","cold_us":$us.0,"cold_low_us":3.9,"cold_high_us":4.1,"hot_us":3.0,
  "method":"cupti","n_samples":100,"is_exact":true,"relative_error":1e-4,"hbm_bytes":368640,
  "l2_bytes":1000000,"schedule_text":"a schedule","schedule":{"exchange":"dsm"},
  "kernel":{"name":"chain_sm90_1"}},
 "library":{"outcome":"ok","cold_us":$library_us.0,"cold_low_us":7.9,"cold_high_us":8.1,"hot_us":7.0,
  "method":"cupti","reason":"an algorithm","relative_error":1e-4}}]}
JSON
  ;;
esac
END
  chmod +x "$scratch/build/fuseplan"
}

bench() { # NAME=VALUE...: the benchmark with the stand-in, into $scratch/out.json
  run --separate-stderr env JSON="$scratch/out.json" "$@" tools/bench/run.sh "$scratch/build"
}

# Ratios of library to ours 2, 1/2 and 8: geometric mean 2; with the library as a candidate
# 2, 1, 8: the cube root of 16. Eager to ours 4 and 1. Sweep: 4 and 1 up to m = 256, 1.21 at 1024.
small_json() {
  cat >"$scratch/small.json" <<'END'
{"environment":{"device_name":"NVIDIA H200"},
 "rows":[
  {"id":"G1","m":128,"ours_cold_us":2.0,"library_cold_us":4.0,"eager_us":8.0,"floor_us":1.0,
   "ours_exchange":"dsm","hbm_bytes_counter":103,"hbm_read_bytes_analyzer":100,
   "pair_hbm_bytes_counter":206},
  {"id":"S1","m":128,"ours_cold_us":10.0,"library_cold_us":5.0,"eager_us":10.0,"floor_us":4.0,
   "ours_exchange":"l2","best_is_library":true},
  {"id":"C1","m":3136,"ours_cold_us":4.0,"ours_cupti_us":3.0,"library_cold_us":32.0,
   "library_cupti_us":33.0,"floor_us":0.5}],
 "sweep":[
  {"id":"gpt2@m1","m":1,"ours_cold_us":1.0,"library_cold_us":4.0},
  {"id":"gpt2@m256","m":256,"ours_cold_us":6.0,"library_cold_us":6.0},
  {"id":"gpt2@m1024","m":1024,"ours_cold_us":100.0,"library_cold_us":121.0}]}
END
}

mean() { # NAME: the number of a line of means
  awk -v name="$1" 'index($0, "  " name " ") == 1 { sub(name, ""); print $1 }' <<<"$output"
}

@test "the benchmark without a GPU says so in one line: exit 5" {
  if has_gpu; then skip "there is a GPU"; fi
  run --separate-stderr tools/bench/run.sh "$(dirname "$fuseplan")"
  [ "$status" -eq 5 ]
  [ -z "$output" ]
  [ "${#stderr_lines[@]}" -eq 1 ]
  [[ $stderr == 'bench: no GPU with a profile here'* ]]
}

@test "the benchmark without the program says what to do: exit 2" {
  run --separate-stderr tools/bench/run.sh "$scratch"
  [ "$status" -eq 2 ]
  [[ $stderr == *"'make' builds it" ]]
}

@test "means are those computed by hand" {
  small_json
  run python3 tools/bench/show.py "$scratch/small.json"
  [ "$status" -eq 0 ]
  [ "$(mean 'library / best kernel, cold, all' | head -n 1)" = 2.00 ]
  [ "$(mean 'library / best kernel, cold, G')" = 2.00 ]
  [ "$(mean 'library / best kernel, cold, S')" = 0.50 ]
  [ "$(mean 'library / best kernel, cold, C')" = 8.00 ]
  [ "$(mean 'library / plan, cold, all' | head -n 1)" = 2.52 ]
  [ "$(mean 'eager / best kernel, all' | head -n 1)" = 2.00 ]
  [ "$(mean 'library / best kernel, cold, m <= 256')" = 2.00 ]
  [ "$(mean 'library / best kernel, cold, m >= 1024')" = 1.21 ]
  [ "$(mean 'bytes saved against the pair, hbm, G and C, mean')" = '50%' ]
}

@test "the table has one line a row, with what was not measured as a dash" {
  small_json
  run python3 tools/bench/show.py "$scratch/small.json"
  [[ $(grep '^S1 ' <<<"$output") == *' 10.00 '*' 5.00 '*' - '*' 0.50 '*'l2 (library won)' ]]
  [[ $(grep '^G1 ' <<<"$output") == *' 1.03  dsm' ]]
  [ "$(grep -c '^gpt2@m' <<<"$output")" -eq 3 ]
}

@test "a file that is no benchmark is refused: exit 3" {
  for text in '' '[]' '{"rows":[]}'; do
    echo "$text" >"$scratch/bad.json"
    run --separate-stderr python3 tools/bench/show.py "$scratch/bad.json"
    [ "$status" -eq 3 ]
    [ "${#stderr_lines[@]}" -eq 1 ]
  done
  run --separate-stderr python3 tools/bench/show.py "$scratch/none.json"
  [ "$status" -eq 3 ]
  [[ $stderr == *'No such file'* ]]
}

@test "a piece of the benchmark fills its rows and leaves the others empty" {
  fake_program
  bench PART=paper ONLY=G1
  [ "$status" -eq 0 ]
  [ "$(jq '.rows | length' "$scratch/out.json")" -eq 26 ]
  jq -e '.rows[0] | .id == "G1" and .ours_cold_us == 4 and .library_cold_us == 8
    and .ours_cupti_us == 5 and .library_cupti_us == 12 and .ours_exchange == "dsm"
    and .best_is_library == false and .flashfuser_h100_us == 6.57 and .floor_us == 0.0819
    and .hbm_bytes_analyzer == 368640 and .hbm_read_bytes_analyzer == 368640 - 2 * 128 * 256
    and .measured.cupti.sm_clock_mhz == "1980" and (.measured.graph.date | length) == 20' "$scratch/out.json"
  jq -e '.rows[1] | .ours_cold_us == null and .floor_us > 0 and .measured == {}' "$scratch/out.json"
  jq -e '.environment.device_name == "fake" and (.environment | has("sm_clock_mhz") | not)' "$scratch/out.json"
}

@test "a later piece keeps the numbers of the earlier one; MISSING=1 leaves out what is there" {
  fake_program
  bench PART=paper ONLY=G1
  echo '{"id":"G1","eager_us":30.0,"environment":{"torch":"2"}}' >"$scratch/torch.jsonl"
  python3 tools/bench/merge.py "$scratch/out.json" rows profiles/workloads/paper.yaml torch "$scratch/torch.jsonl"
  jq -e '.rows[0] | .ours_cold_us == 4 and .eager_us == 30' "$scratch/out.json"
  : >"$scratch/build/calls"
  bench PART=paper ONLY=G1 MISSING=1
  [ "$status" -eq 0 ]
  run ! grep -q '^tune' "$scratch/build/calls"
}

@test "a row without a library plan of ours is set against PyTorch's pair by replay" {
  fake_program
  bench PART=paper ONLY=G1
  echo '{"id":"C1","torch_graph_us":9.5,"torch_graph_hot_us":8.5}' >"$scratch/torch.jsonl"
  python3 tools/bench/merge.py "$scratch/out.json" rows profiles/workloads/paper.yaml torch "$scratch/torch.jsonl"
  jq -e '.rows[] | select(.id == "C1") | .library_cold_us == 9.5 and .library_source == "pytorch"
    and .best_is_library' "$scratch/out.json"
  jq -e '.rows[0].library_source == "fuseplan"' "$scratch/out.json"
}

@test "time that is up ends the benchmark with 75 and says what was left out" {
  fake_program
  bench PART=paper ONLY=G1 LIMIT=5
  [ "$status" -eq 75 ]
  [[ $stderr == *'time is up before: tuning G1'* ]]
}

@test "counters of a report are summed over kernels and averaged over launches" {
  cat >"$scratch/report.csv" <<'END'
==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","one_sm90_1","dram__bytes_read.sum","byte","1,000"
"1","1","one_sm90_1","dram__bytes_read.sum","byte","1,020"
"2","1","two_sm90_1","dram__bytes_read.sum","byte","500"
END
  run python3 tools/bench/counters.py G1 kernel "$scratch/report.csv"
  jq -e '.hbm_bytes_counter == 1510' <<<"$output"
  run python3 tools/bench/counters.py G1 pair "$scratch/report.csv"
  jq -e '.pair_hbm_bytes_counter == 2520' <<<"$output"
  echo '==ERROR== no permission' >"$scratch/report.csv"
  run python3 tools/bench/counters.py G1 kernel "$scratch/report.csv"
  [ "$status" -eq 1 ]
  [[ $output == *'no permission'* ]]
}

@test "the benchmark's floor and rows are those of the workload files" {
  run python3 tools/bench/rows.py profiles/workloads/paper.yaml
  [ "$(tr ',' '\n' <<<"$output" | wc -l)" -eq 26 ]
  run python3 tools/bench/rows.py profiles/workloads/sweep.yaml
  [ "$(tr ',' '\n' <<<"$output" | wc -l)" -eq 84 ]
  local only=$output
  expect 0 tune profiles/workloads/sweep.yaml --only "${only%%,*}" --device h200 --measure model --top-k 1 --json
  [ "$(jq -r '.problems[0].id' <<<"$output")" = qwen3-0.6b@m1 ]
}

@test "tune --again takes the stored kernels and stores nothing" {
  expect 0 import profiles/plans/h200-paper.jsonl
  expect 0 export -o "$scratch/before.jsonl"
  expect 0 tune profiles/workloads/paper.yaml --only G1 --device h200 --measure model --again 2 --json
  [ "$(jq '.problems[0].n_candidates' <<<"$output")" -eq 2 ]
  local again
  again=$(jq -cS '.problems[0].schedule' <<<"$output")
  expect 0 lookup "${G1[@]}" --json
  [ "$(jq -cS .schedule <<<"$output")" = "$again" ] || [ "$(jq .winner <<<"$output")" = '"library"' ]
  expect 0 export -o "$scratch/after.jsonl"
  cmp "$scratch/before.jsonl" "$scratch/after.jsonl"
}

@test "tune --again of what is not stored leaves the problem without a plan: exit 1" {
  expect 0 import profiles/plans/h200-paper.jsonl
  expect 1 tune profiles/workloads/sweep.yaml --only gpt2@m1 --device h200 --measure model --again 1 --json
  jq -e '.problems[0].has_plan | not' <<<"$output"
  expect 2 tune profiles/workloads/paper.yaml --only G1 --device h200 --measure model --again 1 --resume
  one_line_error
}
