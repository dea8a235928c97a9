#!/usr/bin/env python3
"""Merges what one part of the benchmark measured into the JSON file of all of it.

  merge.py FILE.json SECTION WORKLOAD.yaml PART RESULT

SECTION: rows or sweep. PART, and what RESULT holds:
  graph     the object of `fuseplan tune --json --measure graph`: the mean of a graph's replay, gaps
            between launches included
  cupti     the same with --measure cupti: each launch by itself, first start to last end
  torch     JSON lines of torch_rows.py
  counters  JSON lines of counters.sh
Every problem of the workload gets a row; fields of other parts stay as they are. `measured` says of
each part when it was measured and at which clock. The file is replaced as a whole.
"""
import csv
import json
import os
import sys
import time

sys.dont_write_bytecode = True  # the tree stays as it is
import rows as bench_rows  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PAPER_FIGURES = os.path.join(HERE, "../../profiles/benchmarks/flashfuser_h100.csv")

# In the order of the file; what nothing measured is null.
FIELDS = (
    "id family m dtype ours_cold_us ours_hot_us ours_exchange best_is_library library_cold_us "
    "library_hot_us eager_us compile_cold_us flashfuser_h100_us floor_us hbm_bytes_analyzer "
    "hbm_bytes_counter model n k l act conv min_bytes flops "
    "method n_samples ours_cold_low_us ours_cold_high_us ours_cupti_us ours_cupti_hot_us "
    "ours_kernel ours_schedule ours_exact ours_error "
    "library_source library_method library_algorithm library_cold_low_us library_cold_high_us "
    "library_cupti_us library_cupti_hot_us library_error "
    "compile_hot_us compile_s torch_graph_us torch_graph_hot_us torch_note "
    "hbm_read_bytes_analyzer hbm_write_bytes_counter l2_bytes_analyzer l2_bytes_counter "
    "pair_hbm_bytes_counter pair_l2_bytes_counter measured").split()

METHOD = {
    "cold": "inputs rotate over at least twice the L2 and 240 MB",
    "hot": "the same inputs again and again",
    "ours_cold_us, ours_hot_us, library_cold_us, library_hot_us":
        "medians of a CUDA graph replay's time over its launches, gaps between launches included, "
        "our kernel and the library plan in turns in random order in one process",
    "ours_cupti_us, library_cupti_us": "medians of first start to last end by CUPTI, launches in a "
        "CUDA graph, none started early, in turns likewise, cold (…_hot_us: hot)",
    "torch_graph_us, compile_cold_us, compile_hot_us":
        "PyTorch: median of a graph replay's time over its launches",
    "eager_us": "PyTorch: wall clock of a loop of launches over rotating weights",
    "floor_us": "the larger of min_bytes / 4.5 TB/s and flops / 790 TFLOP/s",
    "hbm_bytes_counter": "dram__bytes_read.sum by Nsight Compute, one launch, caches flushed before it; "
        "to be compared with hbm_read_bytes_analyzer",
    "flashfuser_h100_us": "published, on an H100: profiles/benchmarks/flashfuser_h100.csv",
}


def rounded(value, digits=3):
    return round(value, digits) if isinstance(value, float) else value


def positive(value):
    """A time; 0 stands for not measured."""
    return rounded(value) if value else None


def of_tune(answer, part):
    """Fields of one problem of `fuseplan tune --json`."""
    ours = answer.get("best_kernel") or {}
    library = answer.get("library") or {}
    if library.get("outcome") != "ok":
        library = {}
    if part == "cupti":
        return {"ours_cupti_us": positive(ours.get("cold_us")),
                "ours_cupti_hot_us": positive(ours.get("hot_us")),
                "library_cupti_us": positive(library.get("cold_us")),
                "library_cupti_hot_us": positive(library.get("hot_us"))}
    return {
        "ours_cold_us": positive(ours.get("cold_us")), "ours_hot_us": positive(ours.get("hot_us")),
        "ours_cold_low_us": positive(ours.get("cold_low_us")),
        "ours_cold_high_us": positive(ours.get("cold_high_us")),
        "ours_exchange": (ours.get("schedule") or {}).get("exchange"),
        "ours_schedule": ours.get("schedule_text"),
        "ours_kernel": (ours.get("kernel") or {}).get("name"),
        "ours_exact": ours.get("is_exact"), "ours_error": ours.get("relative_error"),
        "method": ours.get("method") or library.get("method"), "n_samples": ours.get("n_samples"),
        "hbm_bytes_analyzer": ours.get("hbm_bytes"), "l2_bytes_analyzer": ours.get("l2_bytes"),
        "best_is_library": answer["winner"] == "library" if answer.get("has_plan") else None,
        "library_cold_us": positive(library.get("cold_us")),
        "library_hot_us": positive(library.get("hot_us")),
        "library_cold_low_us": positive(library.get("cold_low_us")),
        "library_cold_high_us": positive(library.get("cold_high_us")),
        "library_source": "fuseplan" if library else None,
        "library_method": library.get("method"), "library_algorithm": library.get("reason"),
        "library_error": library.get("relative_error")}


def read_tune(path, part):
    """-> {id: fields}, {id: provenance}, environment."""
    with open(path, encoding="utf-8") as file:
        answers = json.load(file)["problems"]
    fields, provenance, environment = {}, {}, {}
    for answer in answers:
        here = answer.get("environment") or {}
        environment.update(here)
        fields[answer["id"]] = of_tune(answer, part)
        provenance[answer["id"]] = {"sm_clock_mhz": here.get("sm_clock_mhz"),
                                    "throttle": here.get("throttle")}
    for name in ("sm_clock_mhz", "throttle"):
        environment.pop(name, None)  # of a row, not of all
    return fields, provenance, environment


def read_lines(path):
    """JSON lines; `environment` and `provenance` are taken out of each."""
    fields, provenance, environment = {}, {}, {}
    with open(path, encoding="utf-8") as file:
        for line in filter(str.strip, file):
            values = json.loads(line)
            one = values.pop("id")
            environment.update(values.pop("environment", {}))
            provenance[one] = values.pop("provenance", {})
            fields.setdefault(one, {}).update({k: rounded(v) for k, v in values.items()})
    return fields, provenance, environment


def read_paper_figures():
    with open(PAPER_FIGURES, encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("#")]
    return {r["id"]: float(r["flashfuser_h100_us"]) for r in csv.DictReader(lines)}


def complete(row):
    """What follows from other fields."""
    if row["hbm_bytes_analyzer"] is not None:
        written = bench_rows.output_bytes(row)
        if row["ours_exchange"] == "hbm":
            written += bench_rows.ELEMENT_BYTES * row["m"] * row["n"]
        row["hbm_read_bytes_analyzer"] = row["hbm_bytes_analyzer"] - written
    if row["library_source"] != "fuseplan" and row["torch_graph_us"] is not None:
        # fuseplan has no library plan for it: the pair as PyTorch calls it, in a CUDA graph.
        row.update(library_source="pytorch", library_method="graph",
                   library_cold_us=row["torch_graph_us"], library_hot_us=row["torch_graph_hot_us"])
        ours = row["ours_cold_us"]
        row["best_is_library"] = ours is None or row["library_cold_us"] < ours


def merge(data, section, workload, part, fields, provenance):
    old = {row["id"]: row for row in data.get(section, [])}
    paper = read_paper_figures()
    merged = []
    for problem in bench_rows.read_workload(workload):
        one = problem["id"]
        row = {name: old.get(one, {}).get(name) for name in FIELDS}
        row.update(problem)
        row.update(min_bytes=bench_rows.min_bytes(problem), flops=bench_rows.flops(problem),
                   floor_us=rounded(bench_rows.floor_us(problem), 4),
                   flashfuser_h100_us=paper.get(one))
        row["measured"] = row["measured"] or {}
        if one in fields:
            row.update(fields[one])
            row["measured"][part] = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                                     **provenance.get(one, {})}
        complete(row)
        merged.append(row)
    data[section] = merged


def main():
    if len(sys.argv) != 6 or sys.argv[2] not in ("rows", "sweep"):
        sys.exit(__doc__)
    path, section, workload, part, result = sys.argv[1:]
    try:
        with open(path, encoding="utf-8") as file:
            old = json.load(file)
    except FileNotFoundError:
        old = {}
    is_tune = part in ("cupti", "graph")
    fields, provenance, environment = read_tune(result, part) if is_tune else read_lines(result)
    data = {"environment": {**old.get("environment", {}), **environment}, "method": METHOD,
            "rows": old.get("rows", []), "sweep": old.get("sweep", [])}
    merge(data, section, workload, part, fields, provenance)
    text = json.dumps(data, indent=1, ensure_ascii=False)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text + "\n")
    os.replace(path + ".part", path)


if __name__ == "__main__":
    main()
