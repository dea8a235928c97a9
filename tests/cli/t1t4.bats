#!/usr/bin/env bats
# fuseplan export --format t4, t1 against the fields of the schemas T4 results 1.0.0 and T1 input 1.0.0.
load common

measured() {
  local made=$BATS_FILE_TMPDIR/measured.db
  [ -e "$made" ] || "$fuseplan" import profiles/plans/h200-paper.jsonl --db "$made" >/dev/null
  cp "$made" "$FUSEPLAN_DB"
  id=$(sqlite3 "$FUSEPLAN_DB" "select id from problems where text like 'gemm_chain m=128 n=768 k=768%'")
}

# usage: conforms FILE SHAPE   a shape is a Python type, a tuple of texts (an enumeration), a list
# (of that), or a dictionary; a name that ends with '?' may be missing. Other names are allowed.
conforms() {
  python3 - "$1" "$2" <<'P'
import json, sys

def check(value, shape, where):
    if isinstance(shape, dict):
        assert isinstance(value, dict), f"{where} is no object"
        for name, inner in shape.items():
            if name.rstrip("?") in value:
                check(value[name.rstrip("?")], inner, f"{where}.{name}")
            else:
                assert name.endswith("?"), f"{where} lacks {name}"
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where} is no array"
        for i, item in enumerate(value):
            check(item, shape[0], f"{where}[{i}]")
    elif isinstance(shape, tuple):
        assert value in shape, f"{where} is {value}"
    elif shape is float:
        assert isinstance(value, (int, float)) and not isinstance(value, bool), f"{where} is no number"
    else:
        assert isinstance(value, shape) and not (shape is int and isinstance(value, bool)), f"{where} is no {shape}"

check(json.load(open(sys.argv[1])), eval(sys.argv[2]), "$")
P
}

T4='{"schema_version": str, "results": [{"timestamp?": str, "configuration": dict, "objectives?": [str],
  "times": {"runtimes?": [float], "compilation_time?": float, "framework?": float,
            "search_algorithm?": float, "validation?": float},
  "invalidity": ("timeout", "compile", "runtime", "correctness", "constraints", "correct"),
  "correctness": float,
  "measurements?": [{"name": str, "value": float, "unit": str}]}]}'
T1='{"ConfigurationSpace": {"TuningParameters": [{"Name": str, "Type": ("int", "uint", "float", "bool", "string"),
    "Values": str}], "Conditions?": [{"Parameters": [str], "Expression": str}]},
  "Budget?": [{"Type": ("TuningDuration", "ConfigurationCount", "ConfigurationFraction"), "BudgetValue": float}],
  "General?": {"FormatVersion?": int, "OutputFormat?": ("JSON", "XML"),
    "TimeUnit?": ("Nanoseconds", "Microseconds", "Milliseconds", "Seconds")},
  "KernelSpecification": {"Language": ("OpenCL", "CUDA", "Vulkan"), "KernelName": str, "KernelFile": str,
    "GlobalSizeType?": ("OpenCL", "CUDA", "Vulkan"), "SharedMemory?": int, "Device?": {"Name?": str},
    "GlobalSize": {"X": str}, "LocalSize": {"X": str}}}'

@test "t4 conforms to the schema, with every tried candidate" {
  measured
  expect 0 export --format t4 --problem "$id" -o "$scratch/t4.json"
  conforms "$scratch/t4.json" "$T4"
  tried=$(sqlite3 "$FUSEPLAN_DB" "select count(*) from candidates where problem_id = $id and not is_library
    and outcome not in ('pending', 'skipped', 'built')")
  jq -e --argjson tried "$tried" '.schema_version == "1.0.0" and (.results | length == $tried and length > 20 and
    all(.configuration | has("loops") and has("stages") and length == 13))' "$scratch/t4.json"
}

@test "t4 gives the samples in milliseconds and the plan's time as the least" {
  measured
  expect 0 export --format t4 --problem "$id"
  plan=$(sqlite3 "$FUSEPLAN_DB" "select measured_us from plans where problem_id = $id")
  jq -e --argjson us "$plan" '[.results[] | select(.invalidity == "correct") | .correctness == 1 and
    (.times.runtimes | length > 2)] | length > 20 and all' <<<"$output"
  jq -e --argjson us "$plan" '[.results[].measurements[] | select(.name == "time") | .value] | min
    | (. * 1000 - $us) | fabs < 1e-9' <<<"$output"
}

@test "t4 calls outcomes by the schema's names" {
  measured
  sqlite3 "$FUSEPLAN_DB" "with c as (select id, row_number() over () as i from candidates
      where problem_id = $id and not is_library)
    update candidates set outcome = (select case i when 1 then 'compile_error' when 2 then 'run_timeout'
      when 3 then 'wrong_result' when 4 then 'worker_lost' when 5 then 'resource_limit' when 6 then 'pending'
      else outcome end from c where c.id = candidates.id) where id in (select id from c)"
  before=$(sqlite3 "$FUSEPLAN_DB" "select count(*) from candidates where problem_id = $id and not is_library")
  expect 0 export --format t4 --problem "$id"
  jq -e --argjson n "$before" '.results | length == $n - 1 and
    ([.[].invalidity] | unique) == ["compile", "constraints", "correct", "correctness", "runtime", "timeout"] and
    all(.[]; .invalidity == "correct" or (.correctness == 0 and all(.measurements[]; .name != "time")))' <<<"$output"
}

@test "t1 conforms to the schema, and holds every configuration of t4" {
  measured
  "$fuseplan" export --format t4 --problem "$id" -o "$scratch/t4.json"
  expect 0 export --format t1 --problem "$id" -o "$scratch/t1.json"
  conforms "$scratch/t1.json" "$T1"
  python3 - "$scratch/t1.json" "$scratch/t4.json" <<'P'
import ast, json, os, sys
t1, t4 = (json.load(open(name)) for name in sys.argv[1:])
types = {"int": int, "string": str}
space = {p["Name"]: ast.literal_eval(p["Values"]) for p in t1["ConfigurationSpace"]["TuningParameters"]}
for p in t1["ConfigurationSpace"]["TuningParameters"]:
    assert all(type(v) is types[p["Type"]] for v in space[p["Name"]])
    assert len(set(space[p["Name"]])) == len(space[p["Name"]])
for result in t4["results"]:
    assert list(result["configuration"]) == list(space)
    assert all(value in space[name] for name, value in result["configuration"].items())
k = t1["KernelSpecification"]
assert os.path.exists(k["KernelFile"]) and int(k["GlobalSize"]["X"]) > 0 and int(k["LocalSize"]["X"]) > 0
P
}

@test "t4 and t1 want one problem and one device" {
  measured
  expect 2 export --format t4
  one_line_error
  expect 2 export --format t1 --problem 99999
  one_line_error
  expect 2 export --format t4 --problem "$id" --device h100_sxm
  one_line_error
  expect 2 export --format t4 --problem "$id" --cubins
  expect 2 export --problem "$id"
  expect 2 export --format xml
  sqlite3 "$FUSEPLAN_DB" "insert into device_classes select id + 1, replace(key, substr(key, 1, 1), 'z'),
      class || ' other', 'other', title, capability_major, capability_minor, sms, l2_bytes, hbm_bytes, sm_clock_mhz,
      smem_bytes_per_block, smem_bytes_per_sm, registers_per_sm, threads_per_sm, max_cluster from device_classes;
    update candidates set device_class_id = (select max(id) from device_classes)
      where problem_id = $id and id % 2"
  expect 2 export --format t4 --problem "$id"
  [[ $stderr == *--device* ]]
  expect 0 export --format t4 --problem "$id" --device other
}

@test "what was never compiled has no t1, and its t4 has no results" {
  small_database
  sqlite3 "$FUSEPLAN_DB" 'update candidates set kernel_id = null'
  expect 2 export --format t1 --problem 1
  one_line_error
  expect 0 export --format t4 --problem 1
  [ "$output" = '{"schema_version":"1.0.0","results":[]}' ]
}
