#!/usr/bin/env bash
# Bytes by hardware counters (Nsight Compute), in a pass of its own, as JSON lines that merge.py reads:
# of the best stored kernel of each row, and with PAIR=1 of the unfused pair as PyTorch runs it.
# Caches are flushed before each kernel (ncu's default). A row that ncu cannot count is left out.
# usage: counters.sh FUSEPLAN DATABASE WORKLOAD.yaml ID,... SECONDS
set -uo pipefail

fuseplan=$1 database=$2 workload=$3 seconds=$5
IFS=, read -ra ids <<<"$4"
here=$(dirname "$0")
report=$(mktemp)
trap 'rm -f "$report"' EXIT
PATH=$PATH:/usr/local/cuda/bin
command -v ncu >/dev/null || {
  echo "bench: counters: ncu is neither on the PATH nor in /usr/local/cuda/bin" >&2
  exit 5
}

count() { # NCU-OPTIONS AND COMMAND...
  timeout -k 5 90 ncu --csv --print-units base --clock-control none --log-file "$report" \
    --metrics dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum "$@" >/dev/null 2>&1
}

for id in "${ids[@]}"; do
  if [ "$SECONDS" -ge "$seconds" ]; then
    echo "bench: counters: time is up before $id" >&2
    exit 75
  fi
  : >"$report"
  # The first launches of the worker verify; each reads what every other reads. Two: a plan of two
  # kernels has both of them.
  count --target-processes all --kernel-name 'regex:_sm90_[0-9a-f]+' --launch-count 2 \
    "$fuseplan" tune "$workload" --only "$id" --again 1 --kernels-only --measure graph --samples 8 \
    --db "$database" --quiet
  python3 "$here/counters.py" "$id" kernel "$report"
  [ -n "${PAIR:-}" ] || continue
  : >"$report"
  count --profile-from-start off python3 "$here/torch_rows.py" "$workload" --only "$id" --profile
  python3 "$here/counters.py" "$id" pair "$report"
done
exit 0
