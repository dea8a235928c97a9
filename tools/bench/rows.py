#!/usr/bin/env python3
"""Rows of the benchmark: the problems of a workload file, their bytes, operations and floor.

Reads the one-line form that the files in profiles/workloads use: `defaults: {...}` and one
`- {id: ..., kind: ..., ...}` a problem. `fuseplan tune` is what checks such a file.

As a program it prints the ids of a workload, comma-separated:
  rows.py WORKLOAD.yaml [--only ID,...] [--without FIELD FILE.json]
--only keeps the ids that it has; --without leaves out rows that have FIELD in FILE already.
"""
import argparse
import json
import math
import re

# Reads from memory and dense f16 products, whole chip: measured on an H200, cf. the hbm_rate and
# tensor_rate of profiles/devices/h200.yaml.
HBM_BYTES_PER_US = 4.5e6
TENSOR_FLOPS_PER_US = 790e6
ELEMENT_BYTES = 2


def parse_map(text):
    """`{a: 1, m: [1, 2]}` as a dict; numbers become int."""
    out = {}
    for key, value in re.findall(r"(\w+):\s*(\[[^\]]*\]|[^,{}]+)", text.strip()[1:-1]):
        value = value.strip()
        if value.startswith("["):
            out[key] = [int(x) for x in value[1:-1].split(",")]
        else:
            out[key] = int(value) if re.fullmatch(r"\d+", value) else value
    return out


def make_row(entry, m):
    """A problem in the terms of tuner/core/problem.h; a conv chain in its im2col form."""
    row = {"id": entry["id"], "family": entry["kind"], "model": entry.get("model"),
           "dtype": entry.get("dtype", "f16"), "act": entry["act"]}
    if entry["kind"] == "conv_chain":
        conv = {name: entry[name] for name in ("batch", "ic", "h", "w", "k1")}
        row.update(m=conv["batch"] * conv["h"] * conv["w"], n=entry["oc1"],
                   k=conv["ic"] * conv["k1"] ** 2, l=entry["oc2"], conv=conv)
    else:
        row.update(m=m, n=entry["n"], k=entry["k"], l=entry["l"])
    return row


def read_workload(path):
    """The rows of a file, in its order; a list of m makes one row each, `id@m16`."""
    rows, defaults = [], {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.split(" #")[0].strip()
            if line.startswith("defaults:"):
                defaults = parse_map(line[len("defaults:"):])
            if not line.startswith("- {"):
                continue
            entry = {**defaults, **parse_map(line[2:])}
            m = entry.get("m", 0)
            for one in m if isinstance(m, list) else [m]:
                row = make_row(entry, one)
                if isinstance(m, list) and row["family"] != "conv_chain":
                    row["id"] += f"@m{one}"
                rows.append(row)
    return rows


def branches(row):
    return 2 if row["family"] == "gated_ffn" else 1


def flops(row):
    return 2 * row["m"] * row["n"] * (branches(row) * row["k"] + row["l"])


def min_bytes(row):
    """Inputs and weights read once, the output written once; of a convolution the raw image."""
    a = row["m"] * (row["conv"]["ic"] if "conv" in row else row["k"])
    weights = row["n"] * (branches(row) * row["k"] + row["l"])
    return ELEMENT_BYTES * (a + weights + row["m"] * row["l"])


def output_bytes(row):
    return ELEMENT_BYTES * row["m"] * row["l"]


def floor_us(row):
    return max(min_bytes(row) / HBM_BYTES_PER_US, flops(row) / TENSOR_FLOPS_PER_US)


def geomean(values):
    """None for nothing."""
    values = list(values)
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def main():
    parser = argparse.ArgumentParser(description="Prints the ids of a workload.")
    parser.add_argument("workload")
    parser.add_argument("--only", default="")
    parser.add_argument("--without", nargs=2, metavar=("FIELD", "FILE"))
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    has = set()
    if options.without:
        try:
            with open(options.without[1], encoding="utf-8") as file:
                data = json.load(file)
        except FileNotFoundError:
            data = {}
        has = {row["id"] for row in data.get("rows", []) + data.get("sweep", [])
               if row.get(options.without[0]) is not None}
    print(",".join(row["id"] for row in read_workload(options.workload)
                   if (not wanted or row["id"] in wanted) and row["id"] not in has))


if __name__ == "__main__":
    main()
