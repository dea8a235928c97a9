#!/usr/bin/env python3
"""Sums what Nsight Compute counted: counters.py ID KERNEL|pair REPORT.csv  -> one JSON line

REPORT is the output of `ncu --csv --print-units base`, one line a kernel and metric. Launches of the
same kernel are averaged, different kernels added up. Nothing counted: exit 1 with ncu's own words.
"""
import csv
import json
import sys

FIELDS = {"dram__bytes_read.sum": "hbm_bytes_counter", "dram__bytes_write.sum": "hbm_write_bytes_counter",
          "lts__t_bytes.sum": "l2_bytes_counter"}
PAIR_FIELDS = {"dram__bytes_read.sum": "pair_hbm_bytes_counter", "lts__t_bytes.sum": "pair_l2_bytes_counter"}


def read_counts(lines):
    """-> {metric: {kernel: [values]}}"""
    counts = {}
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    for entry in csv.DictReader(lines[start:]):
        try:
            value = float(entry["Metric Value"].replace(",", ""))
            counts.setdefault(entry["Metric Name"], {}).setdefault(entry["Kernel Name"], []).append(value)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue  # words between the lines
    return counts


def main():
    one, what, path = sys.argv[1:]
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    counts = read_counts(lines)
    out = {"id": one}
    for metric, field in (PAIR_FIELDS if what == "pair" else FIELDS).items():
        if metric in counts:
            # A pair may launch one kernel twice: all of it counts.
            out[field] = sum(sum(v) if what == "pair" else sum(v) / len(v)
                             for v in counts[metric].values())
    if len(out) == 1:
        words = next((line for line in lines if "==ERROR==" in line or "rror" in line), "ncu counted nothing")
        print(f"bench: counters of {one}: {words[:200]}", file=sys.stderr)
        sys.exit(1)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
