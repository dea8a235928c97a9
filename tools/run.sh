#!/usr/bin/env bash
# The first look: tunes two real FFNs into BUILD/run.db, looks one up and shows the table.
# On a machine with a GPU that has a profile: compiled, verified and measured there. Without: for the
# H200, by the cost model; the best are compiled where NVRTC is, and their dataflow is interpreted.
# Last, the plans that come with it are read into BUILD/shipped.db and shown.
# usage: run.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build}
fuseplan=$build/fuseplan
database=$build/run.db
export FUSEPLAN_CACHE=${FUSEPLAN_CACHE:-$build/cache}
export FUSEPLAN_PROFILES=${FUSEPLAN_PROFILES:-$PWD/profiles}
rm -f "$database" "$database-wal" "$database-shm"

device=h200
findings=$("$fuseplan" doctor --db "$database" || true)
if grep -q '^ok  *profile ' <<<"$findings"; then
  device=auto
  echo "run: a GPU with a profile: candidates are measured"
else
  echo "run: no GPU with a profile here: plans for the H200 by the cost model"
fi
grep -q '^ok  *nvrtc ' <<<"$findings" ||
  echo "run: no NVRTC here: kernels are not compiled ('$fuseplan doctor' says what to install)"

tune() {
  echo "+ fuseplan tune $*"
  "$fuseplan" tune "$@" --top-k 11 --device "$device" --measure auto --db "$database"
}
tune profiles/workloads/paper.yaml --only G4
tune profiles/workloads/llm_ffn.yaml --only llama-3.1-8b@m16

problem=(--kind gated_ffn --m 16 --n 14336 --k 4096 --l 4096 --dtype bf16 --act silu)
echo "+ fuseplan lookup ${problem[*]} --device $device"
"$fuseplan" lookup "${problem[@]}" --device "$device" --db "$database"
echo "+ fuseplan show --db $database"
"$fuseplan" show --db "$database"

echo "run: the plans that come with fuseplan, measured on an H200:"
shipped=$build/shipped.db
rm -f "$shipped" "$shipped-wal" "$shipped-shm"
for file in profiles/plans/*.jsonl; do
  echo "+ fuseplan import $file --db $shipped"
  "$fuseplan" import "$file" --db "$shipped"
done
echo "+ fuseplan show --db $shipped"
"$fuseplan" show --db "$shipped"
