#!/usr/bin/env bash
# The command line under valgrind: no invalid access, no leak, and the exit code it has without.
# Prints TAP. BUILD may be set. The plan that the commands work on is tuned without valgrind: NVRTC
# is not ours to check.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

fuseplan=$(realpath "${BUILD:-build}")/fuseplan
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export FUSEPLAN_DB=$scratch/plans.db FUSEPLAN_CACHE=$scratch/cache FUSEPLAN_PROFILES=$PWD/profiles
problem=(--kind gemm_chain --m 128 --n 512 --k 32 --l 256 --dtype f16 --act relu --device h200)
number=0
failed=0

check() { # CODE ARGUMENTS...
  local wanted=$1 code
  shift
  number=$((number + 1))
  valgrind --quiet --error-exitcode=99 --leak-check=full \
    --show-leak-kinds=definite,indirect,possible --log-file="$scratch/log" "$fuseplan" "$@" >"$scratch/out" 2>&1
  code=$?
  if [ "$code" -eq "$wanted" ] && [ ! -s "$scratch/log" ]; then
    echo "ok $number - fuseplan ${*//"$scratch"\/} exits with $wanted, clean"
  else
    echo "not ok $number - fuseplan ${*//"$scratch"\/} exits with $wanted, clean"
    { echo "exit $code"; head -n 40 "$scratch/log"; tail -n 5 "$scratch/out"; } | sed 's/^/# /'
    failed=1
  fi
}

"$fuseplan" tune profiles/workloads/paper.yaml --only G1 --device h200 --measure model --top-k 2 \
  --quiet || echo "Bail out! tune failed"
echo '{"type":' >"$scratch/bad.jsonl"
printf 'schema_version: 1\nproblems: [{id: a, m: x}]\n' >"$scratch/bad.yaml"

check 0 --help
check 2 frobnicate
check 0 space "${problem[@]}" --count --json
check 0 space "${problem[@]}" --paper --json
check 2 space --kind gemm_chain
check 0 tune profiles/workloads/paper.yaml --only G1 --device h200 --measure model --resume --json
check 1 tune tests/cli/narrow.yaml --device h200 --measure model
check 2 tune "$scratch/bad.yaml" --device h200 --measure model
check 0 lookup "${problem[@]}" --json
check 0 lookup "${problem[@]}"
check 1 lookup --kind gemm_chain --m 3 --n 512 --k 32 --device h200 --json
check 0 show
check 0 show --json
check 0 show --html -
check 0 show --problem 1
check 1 show --problem 99 --json
check 0 export -o "$scratch/plans.jsonl"
check 0 export --cubins
check 0 import "$scratch/plans.jsonl" --db "$scratch/copy.db" --json
check 0 check --db "$scratch/copy.db" --json
check 0 check --db "$scratch/copy.db" --repair
check 0 gc --db "$scratch/copy.db" --keep-runs 0 --dry-run
check 0 gc --db "$scratch/copy.db" --keep-runs 0 --json
check 3 import "$scratch/bad.jsonl" --db "$scratch/copy.db"
check 4 show --db "$scratch/plans.jsonl"
echo "1..$number"
exit "$failed"
