#!/usr/bin/env python3
"""PyTorch's times for rows of a workload, as JSON lines that merge.py reads.

  torch_rows.py WORKLOAD.yaml --only ID,... --out FILE [--seconds N] [--compile]
  torch_rows.py WORKLOAD.yaml --only ID --profile

eager: a loop of launches, host included. torch_graph: the same calls in a CUDA graph. compile: what
torch.compile (max-autotune) makes of them, in a CUDA graph. Cold: weights rotate over 240 MB. A line
is written as soon as its row is done; after N seconds no row is begun. --profile runs the pair once
between the marks that `ncu --profile-from-start off` looks for.
"""
import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F

sys.dont_write_bytecode = True  # the tree stays as it is
import rows as bench_rows  # noqa: E402

ROTATED_BYTES = 240e6  # as the worker's: tuner/measure/rotation.c
MOST_SETS, MOST_INPUTS, HOT_LAUNCHES, REPLAYS = 400, 64, 32, 15
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
ACTS = {"none": lambda x: x, "relu": F.relu, "silu": F.silu,
        "gelu": lambda x: F.gelu(x, approximate="tanh")}


def make_pair(row):
    """-> make_input, make_weights, call(x, weights) of the unfused pair."""
    dtype, act = DTYPES[row["dtype"]], ACTS[row["act"]]
    m, n, k, l = (row[name] for name in "mnkl")

    def matrix(*shape):
        return torch.randn(*shape, device="cuda", dtype=dtype) * 0.05

    if row["family"] == "conv_chain":
        conv = row["conv"]
        image = (conv["batch"], conv["ic"], conv["h"], conv["w"])
        last = torch.channels_last
        return (lambda: matrix(*image).to(memory_format=last),
                lambda: (matrix(n, conv["ic"], conv["k1"], conv["k1"]).to(memory_format=last),
                         matrix(l, n, 1, 1).to(memory_format=last)),
                lambda x, w: F.conv2d(act(F.conv2d(x, w[0], padding=conv["k1"] // 2)), w[1]))
    if row["family"] == "gated_ffn":
        def gated(x, w):
            gate, up = F.linear(x, w[0]).chunk(2, -1)
            return F.linear(act(gate) * up, w[1])
        return lambda: matrix(m, k), lambda: (matrix(2 * n, k), matrix(l, n)), gated
    return (lambda: matrix(m, k), lambda: (matrix(n, k), matrix(l, n)),
            lambda x, w: F.linear(act(F.linear(x, w[0])), w[1]))


def median(values):
    return sorted(values)[len(values) // 2]


def capture(calls):
    """A graph of the calls, one after the other."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls[:2]:
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph


def replay_us(graph, n_calls):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) * 1e3 / n_calls


def time_graphs(named_calls):
    """{name: calls} -> {name: median us a call}; replays in turns."""
    graphs = {name: capture(calls) for name, calls in named_calls.items()}
    times = {name: [] for name in graphs}
    for _ in range(REPLAYS):
        for name, graph in graphs.items():
            times[name].append(replay_us(graph, len(named_calls[name])))
    return {name: median(values) for name, values in times.items()}


def time_eager(calls):
    """Wall clock a call of a loop over the calls, about 200 of them or 0.2 s."""
    for call in calls[:8]:
        call()
    torch.cuda.synchronize()
    times, began = [], time.perf_counter()
    while len(times) < 3 or (len(times) < 7 and time.perf_counter() - began < 0.5):
        n = 0
        start = time.perf_counter()
        while n < 200 and (n < 8 or time.perf_counter() - start < 0.2):
            calls[n % len(calls)]()
            n += 1
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e6 / n)
    return median(times)


def rotation(call, inputs, weights):
    """Calls over all weights, at least 8."""
    n = len(weights) * -(-8 // len(weights))
    return [lambda i=i: call(inputs[i % len(inputs)], weights[i % len(weights)]) for i in range(n)]


def compile_pair(call, x, weights):
    """-> compiled call, seconds. Every row from scratch: a second shape would be compiled dynamic."""
    torch._dynamo.reset()
    start = time.perf_counter()
    compiled = torch.compile(call, mode="max-autotune-no-cudagraphs", dynamic=False)
    compiled(x, weights)
    torch.cuda.synchronize()
    return compiled, time.perf_counter() - start


def measure(row, with_compile):
    make_input, make_weights, call = make_pair(row)
    n_sets = max(2, min(MOST_SETS, int(ROTATED_BYTES // bench_rows.min_bytes(row)) + 1))
    weights = [make_weights() for _ in range(n_sets)]
    inputs = [make_input() for _ in range(min(n_sets, MOST_INPUTS))]
    calls = {"torch_graph_us": rotation(call, inputs, weights),
             "torch_graph_hot_us": [lambda: call(inputs[0], weights[0])] * HOT_LAUNCHES}
    out = {"eager_us": time_eager(calls["torch_graph_us"])}
    if with_compile:
        try:
            compiled, out["compile_s"] = compile_pair(call, inputs[0], weights[0])
            calls["compile_cold_us"] = rotation(compiled, inputs, weights)
            calls["compile_hot_us"] = [lambda: compiled(inputs[0], weights[0])] * HOT_LAUNCHES
        except Exception as error:  # whatever the compiler throws is this row's outcome
            out["torch_note"] = f"compile: {error}"[:200]
    out.update(time_graphs(calls))
    return out


def provenance():
    try:
        return {"sm_clock_mhz": str(torch.cuda.clock_rate())}
    except Exception:  # needs NVML's python module
        return {}


def profile(row):
    make_input, make_weights, call = make_pair(row)
    x, weights = make_input(), make_weights()
    for _ in range(3):
        call(x, weights)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    call(x, weights)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def main():
    parser = argparse.ArgumentParser(description="PyTorch's times for rows of a workload.")
    parser.add_argument("workload")
    parser.add_argument("--only", required=True)
    parser.add_argument("--out")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    wanted = set(options.only.split(","))
    chosen = [r for r in bench_rows.read_workload(options.workload) if r["id"] in wanted]
    began = time.perf_counter()
    environment = {"torch": torch.__version__, "torch_cudnn": str(torch.backends.cudnn.version())}
    with torch.no_grad():
        if options.profile:
            return profile(chosen[0])
        with open(options.out, "a", encoding="utf-8") as file:
            for row in chosen:
                if time.perf_counter() - began > options.seconds:
                    print(f"bench: torch: time is up before {row['id']}", file=sys.stderr)
                    break
                try:
                    values = measure(row, options.compile)
                except torch.cuda.OutOfMemoryError as error:
                    values = {"torch_note": f"out of memory: {error}"[:200]}
                values.update(id=row["id"], environment=environment, provenance=provenance())
                file.write(json.dumps(values) + "\n")
                file.flush()
                print(f"{row['id']:<20}" + "  ".join(f"{k[:-3]} {v:.2f} us" for k, v in values.items()
                                                     if k.endswith("_us")), flush=True)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
