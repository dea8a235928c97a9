#!/usr/bin/env bash
# The benchmark, on a machine with a GPU that has a profile: tunes what has no plan yet, measures the
# best kernel of each row against the library, then PyTorch where it is installed and hardware counters
# where ncu is, and writes everything to one JSON file as it goes. What a part does not reach keeps its
# former numbers, so that the whole may be measured in pieces.
# usage: run.sh [BUILD]      BUILD/fuseplan must be there; nothing is compiled but kernels
#   PART     paper,sweep,torch,counters: the parts wanted (default: all)
#   ONLY     ids of rows, comma-separated (default: all)
#   MISSING  1: only rows for which the part has no numbers in JSON yet
#   DB       plan database, or its export (.jsonl) (default: BUILD/bench/plans.db, made where missing)
#   JSON     result (default: profiles/benchmarks/nvidia_h200.json)
#   LIMIT    seconds for everything (default: 540); what is left over makes the exit code 75
#   CUPTI    1: the sweep by CUPTI too (the paper's rows always)
#   COMPILE  1: torch.compile of the sweep too (of the paper's rows always)
#   PAIR     1: counters of the unfused pair too
# Exit codes: those of fuseplan; 5: no GPU, 75: LIMIT reached.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

build=${1:-build}
fuseplan=$build/fuseplan
part=,${PART:-paper,sweep,torch,counters},
json=${JSON:-profiles/benchmarks/nvidia_h200.json}
database=${DB:-$build/bench/plans.db}
limit=${LIMIT:-540}
work=$build/bench/work
paper=profiles/workloads/paper.yaml
sweep=profiles/workloads/sweep.yaml
export FUSEPLAN_CACHE=${FUSEPLAN_CACHE:-$build/cache}
export FUSEPLAN_PROFILES=${FUSEPLAN_PROFILES:-$PWD/profiles}
is_over=
failed=0

die() { # CODE WORDS
  echo "bench: $2" >&2
  exit "$1"
}

left() {
  echo $((limit - SECONDS))
}

# Is there time for one more step? Says what is left out otherwise.
has_time() { # STEP
  [ "$(left)" -ge 15 ] && return 0
  echo "bench: time is up before: $1" >&2
  is_over=1
  return 1
}

wants() { # PART
  [[ $part == *,$1,* ]]
}

# Ids of a workload, without those that have FIELD already where MISSING asks for that.
ids() { # WORKLOAD FIELD
  local without=()
  [ -z "${MISSING:-}" ] || without=(--without "$2" "$json")
  python3 tools/bench/rows.py "$1" --only "${ONLY:-}" "${without[@]}"
}

# One line for each N ids.
groups() { # N ID,...
  tr ',' '\n' <<<"$2" | paste -sd "$(printf ',%.0s' $(seq 2 "$1"))\n"
}

merge() { # SECTION WORKLOAD KIND FILE
  python3 tools/bench/merge.py "$json" "$@" || failed=70
}

# fuseplan tune, ended by its own budget between two problems; its answer is kept.
tune() { # OUT ARGUMENTS...
  local out=$1 status
  shift
  timeout -k 10 "$(($(left) + 60))" "$fuseplan" tune "$@" --db "$database" --device auto \
    --budget "$(left)s" --json >"$out"
  status=$?
  case $status in
  0 | 1) ;; # 1: a row without a plan
  75) is_over=1 ;;
  *) failed=$status ;;
  esac
  [ -s "$out" ]
}

say() { # FILE KIND: one line a row
  python3 - "$1" "$2" <<'PY'
import json, sys
for p in json.load(open(sys.argv[1], encoding="utf-8"))["problems"]:
    def us(r):
        return f"{r['cold_us']:9.2f}" if r and r["cold_us"] else "        -"
    print(f"{p['id']:<20} {sys.argv[2]:<6} ours {us(p['best_kernel'])} us  library {us(p['library'])} us")
PY
}

# The paper's rows: plans first, then the plan's kernel and the library alone, in turns.
run_paper() {
  local group method
  while IFS= read -r group; do
    [ -n "$group" ] || continue
    has_time "tuning $group" || return
    tune "$work/tune.json" "$paper" --only "$group" --measure graph --top-k 24 --samples 100 --resume
    for method in graph cupti; do
      has_time "$method times of $group" || return
      tune "$work/$method.json" "$paper" --only "$group" --measure "$method" --again 1 || continue
      say "$work/$method.json" "$method"
      merge rows "$paper" "$method" "$work/$method.json"
    done
  done < <(groups 5 "$(ids "$paper" ours_cupti_us)")
}

# The sweep: times come from tuning itself, where the winner and the library are sampled in turns to
# the end; rows that had a plan before are measured anew.
run_sweep() {
  local group known
  while IFS= read -r group; do
    [ -n "$group" ] || continue
    has_time "tuning $group" || return
    if tune "$work/tune.json" "$sweep" --only "$group" --measure graph --top-k 12 --samples 100 --resume; then
      say "$work/tune.json" graph
      merge sweep "$sweep" graph "$work/tune.json"
    fi
    known=$(known_of "$group")
    if [ -n "$known" ] && has_time "times of $known" &&
      tune "$work/graph.json" "$sweep" --only "$known" --measure graph --again 1; then
      say "$work/graph.json" graph
      merge sweep "$sweep" graph "$work/graph.json"
    fi
    if [ -n "${CUPTI:-}" ] && has_time "CUPTI times of $group" &&
      tune "$work/cupti.json" "$sweep" --only "$group" --measure cupti --again 1; then
      merge sweep "$sweep" cupti "$work/cupti.json"
    fi
  done < <(groups 7 "$(ids "$sweep" ours_cold_us)")
}

# Ids of a group that tuning did not answer for: they had a plan.
known_of() { # ID,...
  [ -z "$is_over" ] || return
  python3 - "$work/tune.json" "$1" <<'PY'
import json, sys
try:
    done = {p["id"] for p in json.load(open(sys.argv[1], encoding="utf-8"))["problems"]}
except ValueError:
    done = set()
print(",".join(i for i in sys.argv[2].split(",") if i not in done))
PY
}

torch_of() { # SECTION WORKLOAD FIELD OPTIONS...
  local section=$1 workload=$2 wanted
  wanted=$(ids "$2" "$3")
  shift 3
  [ -n "$wanted" ] || return
  has_time "PyTorch, $section" || return
  rm -f "$work/torch.jsonl"
  timeout -k 10 "$(left)" python3 tools/bench/torch_rows.py "$workload" --only "$wanted" \
    --out "$work/torch.jsonl" --seconds "$(($(left) - 30))" "$@" || is_over=1
  [ ! -s "$work/torch.jsonl" ] || merge "$section" "$workload" torch "$work/torch.jsonl"
}

run_torch() {
  if ! timeout 90 python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo "bench: PyTorch is left out: python3 has no torch that sees the GPU" >&2
    return
  fi
  torch_of rows "$paper" compile_cold_us --compile
  if [ -n "${COMPILE:-}" ]; then
    torch_of sweep "$sweep" compile_cold_us --compile
  else
    torch_of sweep "$sweep" eager_us
  fi
}

run_counters() {
  local wanted
  wanted=$(ids "$paper" hbm_bytes_counter)
  [ -n "$wanted" ] || return
  has_time counters || return
  timeout -k 10 "$(($(left) + 60))" tools/bench/counters.sh "$fuseplan" "$database" "$paper" "$wanted" "$(left)" \
    >"$work/counters.jsonl"
  [ $? -ne 75 ] || is_over=1
  [ ! -s "$work/counters.jsonl" ] || merge rows "$paper" counters "$work/counters.jsonl"
}

[ -x "$fuseplan" ] || die 2 "no $fuseplan: 'make' builds it"
command -v python3 >/dev/null || die 5 "no python3 here"
"$fuseplan" doctor --db "$database" 2>/dev/null | grep -q '^ok  *profile ' ||
  die 5 "no GPU with a profile here: '$fuseplan doctor' says why; 'make bench-show' prints what was measured"
mkdir -p "$work" || exit
if [[ $database == *.jsonl ]]; then
  database=$build/bench/plans.db
  "$fuseplan" import "$DB" --db "$database" || exit
fi
! wants paper || run_paper
! wants sweep || run_sweep
! wants torch || run_torch
! wants counters || run_counters
echo "bench: $json, $SECONDS s"
[ "$failed" -eq 0 ] || die "$failed" "a step failed; the rest is in $json"
[ -z "$is_over" ] || die 75 "LIMIT=$limit reached: MISSING=1 goes on with what has no numbers"
