#!/usr/bin/env python3
"""Prints the benchmark's table and its means: show.py [FILE.json]"""
import json
import os
import sys

sys.dont_write_bytecode = True  # the tree stays as it is
from rows import geomean  # noqa: E402

DEFAULT = "profiles/benchmarks/nvidia_h200.json"
# Title, width, field. Times in microseconds.
COLUMNS = (("ours", 8, "ours_cold_us"), ("library", 8, "library_cold_us"), ("ours hot", 8, "ours_hot_us"),
           ("lib hot", 8, "library_hot_us"), ("ours cu", 8, "ours_cupti_us"),
           ("lib cu", 8, "library_cupti_us"), ("eager", 8, "eager_us"), ("compile", 8, "compile_cold_us"),
           ("paper", 7, "flashfuser_h100_us"), ("floor", 8, "floor_us"))


def ratio(row, above, below):
    """None unless both are there."""
    a, b = row.get(above), row.get(below)
    return a / b if a and b else None


def library_over_ours(row):
    return ratio(row, "library_cold_us", "ours_cold_us")


def library_over_plan(row):
    """The library is a candidate like any other: where it won, the plan is the library."""
    return 1.0 if row.get("best_is_library") else library_over_ours(row)


def number(value, width, form="{:.2f}"):
    return (form.format(value) if value is not None else "-").rjust(width)


def counted(row):
    """Bytes read by counters against those of the analyzer."""
    return ratio(row, "hbm_bytes_counter", "hbm_read_bytes_analyzer")


def print_table(title, rows):
    width = max([len(r["id"]) for r in rows] + [4])
    head = " ".join(name.rjust(w) for name, w, _ in COLUMNS)
    print(f"{title}\n{'row':<{width}} {head}  lib/ours cupti eager floor% bytes  exchange")
    for row in rows:
        floor = ratio(row, "floor_us", "ours_cold_us")
        print(f"{row['id']:<{width}}", *(number(row.get(f), w) for _, w, f in COLUMNS),
              number(library_over_ours(row), 9),
              number(ratio(row, "library_cupti_us", "ours_cupti_us"), 5),
              number(ratio(row, "eager_us", "ours_cold_us"), 5),
              number(100 * floor if floor else None, 6, "{:.0f}"), number(counted(row), 5) + " ",
              (row.get("ours_exchange") or "-") + (" (library won)" if row.get("best_is_library") else ""))


def print_mean(name, values):
    values = [v for v in values if v is not None]
    if values:
        print(f"  {name:<44} {geomean(values):6.2f}   least {min(values):5.2f}, {len(values)} rows")
    else:
        print(f"  {name:<44}      -")


def print_paper(rows):
    print("geometric means, the paper's rows")
    groups = [("all", rows)] + [(letter, [r for r in rows if r["id"].startswith(letter)]) for letter in "GSC"]
    for name, group in groups:
        print_mean(f"library / best kernel, cold, {name}", map(library_over_ours, group))
    print_mean("library / plan, cold, all", map(library_over_plan, rows))
    print_mean("library / best kernel, cold, by CUPTI, all",
               (ratio(r, "library_cupti_us", "ours_cupti_us") for r in rows))
    print_mean("library / best kernel, hot, all", (ratio(r, "library_hot_us", "ours_hot_us") for r in rows))
    for name, group in groups:
        print_mean(f"eager / best kernel, {name}", (ratio(r, "eager_us", "ours_cold_us") for r in group))
    print_mean("compile / best kernel, cold, all", (ratio(r, "compile_cold_us", "ours_cold_us") for r in rows))
    print_mean("FlashFuser on an H100 / best kernel, all",
               (ratio(r, "flashfuser_h100_us", "ours_cold_us") for r in rows))
    print_mean("floor / best kernel, cold, all", (ratio(r, "floor_us", "ours_cold_us") for r in rows))
    for level in ("hbm", "l2"):
        pairs = [ratio(r, f"{level}_bytes_counter", f"pair_{level}_bytes_counter") for r in rows if r["id"][0] in "GC"]
        pairs = [1 - p for p in pairs if p is not None]
        if pairs:
            print(f"  {'bytes saved against the pair, ' + level + ', G and C, mean':<44} "
                  f"{100 * sum(pairs) / len(pairs):5.0f}%   {len(pairs)} rows")


def print_sweep(rows):
    print("geometric means, the sweep")
    ranges = (("all", 1, 1 << 62), ("m <= 256", 1, 256), ("m >= 1024", 1024, 1 << 62))
    for name, least, most in ranges:
        group = [r for r in rows if least <= r["m"] <= most]
        print_mean(f"library / best kernel, cold, {name}", map(library_over_ours, group))
        print_mean(f"library / plan, cold, {name}", map(library_over_plan, group))
    print_mean("eager / best kernel, all", (ratio(r, "eager_us", "ours_cold_us") for r in rows))


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else DEFAULT
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        environment, rows, sweep = data["environment"], data["rows"], data["sweep"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not a benchmark: {error}"
        print(f"bench-show: {path}: {reason}", file=sys.stderr)
        sys.exit(3)
    print(", ".join(f"{k} {environment[k]}" for k in
                    ("device_name", "driver", "nvrtc", "cublaslt", "cudnn", "cupti", "torch") if environment.get(k)))
    print("us a launch in a CUDA graph, cold unless said; cu: by CUPTI, launch by launch; paper: FlashFuser on an H100; "
          "bytes: read by counters / by the analyzer")
    if rows:
        print_table("the paper's rows", rows)
        print_paper(rows)
    if sweep:
        print_table("sweep", sweep)
        print_sweep(sweep)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
