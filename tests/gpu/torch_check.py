#!/usr/bin/env python3
"""On a GPU with torch: the operators of fuseplan.torch against torch, and a model's MLPs end to end.

  torch_check.py --library build/libfuseplan.so --db plans.db --json OUT
                 [--problems 10] [--seconds 500] [--layers 32] [--skip-stack]

Operators: problems of the database whose plan has a kernel (at least --problems of them, or as many
as there are): E on the current stream, on another one, in a CUDA graph over changing inputs, and
under torch.compile(fullgraph=True), against the formula in f32. The error may be twice that of
torch's own operators of the same type, or the rounding of the result.

Stack: Llama-3.1-8B's MLPs (n 14336, k 4096, bf16, a residual, weights of their own in each layer)
for m = 1 to 256, each m as CUDA graphs of the operators, of torch with three products and of torch
with gate and up in one; replayed in turns, in random order. Times are microseconds a replay.

Exit code: 0; 1: an error was too large, or no problem could be run; 77: no torch or no GPU."""
import argparse
import json
import os
import random
import sqlite3
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "python"))
sys.dont_write_bytecode = True

ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
STACK_N, STACK_K = 14336, 4096
ROUNDS, WARM_ROUNDS = 25, 3
ROUNDING = {"f16": 2.0**-9, "bf16": 2.0**-6}  # of the greatest element: C and E are rounded once each


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--db", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--problems", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--skip-stack", action="store_true")
    return parser.parse_args()


def stored_problems(path):
    """The chains and gated products that have a plan with machine code, spread over the families."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        rows = db.execute("SELECT DISTINCT q.kind, q.dtype, q.act, q.m, q.n, q.k, q.l FROM problems q"
                          " JOIN plans p ON p.problem_id = q.id JOIN kernels s ON s.id = p.kernel_id"
                          " WHERE s.cubin IS NOT NULL AND q.kind IN ('gemm_chain', 'gated_ffn')"
                          " ORDER BY q.kind, q.n, q.k, q.m").fetchall()
    random.Random(1).shuffle(rows)
    return [dict(zip(("kind", "dtype", "act", "m", "n", "k", "l"), row)) for row in rows]


class Check:
    """Everything that needs torch, which is imported once the arguments are read."""

    def __init__(self, arguments):
        import torch
        import fuseplan
        import fuseplan.torch
        from fuseplan.torch import reference
        self.torch, self.ops, self.reference = torch, fuseplan.torch, reference
        self.arguments = arguments
        self.ends = time.monotonic() + arguments.seconds
        self.dtypes = {"f16": torch.float16, "bf16": torch.bfloat16}
        self.store = fuseplan.Store(arguments.db)
        self.ops.use_store(self.store)
        torch.backends.cuda.matmul.allow_tf32 = False

    def left(self):
        return self.ends - time.monotonic()

    def matrix(self, dtype, *shape):
        return (self.torch.randn(*shape, device="cuda") / shape[-1] ** 0.5).to(self.dtypes[dtype])

    def make_calls(self, p):
        """-> the operator on x, torch's operators on x, the formula in f32 on x."""
        dtype, act = p["dtype"], p["act"]
        down = self.matrix(dtype, p["l"], p["n"])
        if p["kind"] == "gemm_chain":
            weights = (self.matrix(dtype, p["n"], p["k"]), down)
            operator, formula = self.ops.ffn, self.reference.ffn
        else:
            packed = self.ops.pack_gate_up(*(self.matrix(dtype, p["n"], p["k"]) for _ in range(2)))
            weights = (*packed.chunk(2), down)
            operator, formula = self.ops.gated_ffn, self.reference.gated_ffn
        exact = [weight.float() for weight in weights]
        return (lambda x: operator(x, *weights, act), lambda x: formula(x, *weights, act),
                lambda x: formula(x.float(), *exact, act))

    def capture(self, call):
        """A graph of call(), and what it returns."""
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            result = call()
        return graph, result

    def run_on_stream(self, call, x):
        stream = self.torch.cuda.Stream()
        stream.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(stream):
            e = call(x)
        self.torch.cuda.current_stream().wait_stream(stream)
        return e

    def check_problem(self, p):
        """-> the greatest error of each way to run it, over the greatest element; the bound."""
        torch = self.torch
        operator, own, formula = self.make_calls(p)
        xs = [self.matrix(p["dtype"], p["m"], p["k"]) for _ in range(3)]
        wanted = [formula(x) for x in xs]

        def error(e, at):
            return ((e.float() - wanted[at]).abs().max() / wanted[at].abs().max()).item()

        errors = {"torch": error(own(xs[0]), 0), "stream": error(operator(xs[0]), 0),
                  "other_stream": error(self.run_on_stream(operator, xs[1]), 1)}
        x = xs[0].clone()
        graph, e = self.capture(lambda: operator(x))
        errors["graph"] = 0.0
        for at in (1, 2, 0, 1):
            x.copy_(xs[at])
            e.fill_(float("nan"))
            graph.replay()
            errors["graph"] = max(errors["graph"], error(e, at))
        if self.left() > 60:
            torch._dynamo.reset()
            compiled = torch.compile(lambda x: operator(x * 1) + 0, fullgraph=True)
            errors["compiled"] = max(error(compiled(xs[at]), at) for at in range(3))
        bound = max(2 * errors["torch"], ROUNDING[p["dtype"]])
        is_ok = all(value <= bound for value in errors.values())  # false for nan too
        return {**p, "errors": errors, "bound": bound, "ok": is_ok}

    def check_problems(self):
        rows, n_without = [], 0
        for p in stored_problems(self.arguments.db):
            if len(rows) >= self.arguments.problems or self.left() < 30:
                break
            answer = self.ops.prepare(p["kind"], p["m"], p["n"], p["k"], p["l"], dtype=self.dtypes[p["dtype"]],
                                      act=p["act"])[p["m"]]
            if answer is None:
                n_without += 1
                continue
            row = {**self.check_problem(p), "kernel": answer.kernel, "schedule": answer.schedule}
            rows.append(row)
            print(f"{'ok' if row['ok'] else 'NOT OK'}  {p['kind']} m={p['m']} n={p['n']} k={p['k']} l={p['l']} "
                  f"{p['dtype']} {p['act']}  bound {row['bound']:.2e}  "
                  + "  ".join(f"{name} {value:.2e}" for name, value in row["errors"].items()), flush=True)
        return {"problems": rows, "without_kernel": n_without}

    def make_stack(self):
        """-> a function on x for each of the three, and their weights."""
        F, ops = self.torch.nn.functional, self.ops
        layers = []
        for _ in range(self.arguments.layers):
            packed = self.matrix("bf16", 2 * STACK_N, STACK_K)
            layers.append((packed, *packed.chunk(2), self.matrix("bf16", STACK_K, STACK_N)))

        def fused(x):
            for _, gate, up, down in layers:
                x = x + ops.gated_ffn(x, gate, up, down)
            return x

        def three(x):
            for _, gate, up, down in layers:
                x = x + F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)
            return x

        def two(x):
            for packed, _, _, down in layers:
                gate, up = F.linear(x, packed).chunk(2, -1)
                x = x + F.linear(F.silu(gate) * up, down)
            return x

        return {"fuseplan": fused, "torch": three, "torch_packed": two}

    def time_graphs(self, graphs):
        """Microseconds of each replay, by name; the graphs in turns, in random order."""
        torch, order = self.torch, random.Random(2)
        times = {name: [] for name in graphs}
        for round_number in range(WARM_ROUNDS + ROUNDS):
            events = {}
            for name in order.sample(list(graphs), len(graphs)):
                events[name] = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                events[name][0].record()
                graphs[name].replay()
                events[name][1].record()
            torch.cuda.synchronize()
            if round_number >= WARM_ROUNDS:
                for name, (start, stop) in events.items():
                    times[name].append(start.elapsed_time(stop) * 1000)
        return times

    def run_stack(self):
        stack, rows = self.make_stack(), []
        for m in ROWS:
            if self.left() < 15:
                print(f"the time is over before m={m}", flush=True)
                break
            answer = self.ops.prepare("gated_ffn", m, STACK_N, STACK_K)[m]
            x = self.matrix("bf16", m, STACK_K)
            for call in stack.values():
                call(x)  # cuBLAS chooses and allocates before the capture
            self.torch.cuda.synchronize()
            captured = {name: self.capture(lambda call=call: call(x)) for name, call in stack.items()}
            times = self.time_graphs({name: graph for name, (graph, _) in captured.items()})
            own, mine = captured["torch"][1].float(), captured["fuseplan"][1].float()
            difference = ((mine - own).abs().max() / own.abs().max()).item()
            row = {"m": m, "kernel": answer.kernel if answer else None, "difference": difference,
                   "ok": difference <= 0.05, "us": {name: median(values) for name, values in times.items()}}
            for name in ("torch", "torch_packed"):
                row[f"{name}_over_fuseplan"] = median(
                    [theirs / ours for theirs, ours in zip(times[name], times["fuseplan"])])
            row["samples_us"] = times
            rows.append(row)
            print(f"{'ok' if row['ok'] else 'NOT OK'}  stack m={m}  "
                  + "  ".join(f"{name} {value:.1f} us" for name, value in row["us"].items())
                  + f"  torch/fuseplan {row['torch_over_fuseplan']:.3f}"
                  f"  packed/fuseplan {row['torch_packed_over_fuseplan']:.3f}  difference {difference:.1e}  "
                  + (answer.kernel if answer else "no plan: torch's operators"), flush=True)
        return {"n": STACK_N, "k": STACK_K, "dtype": "bf16", "layers": self.arguments.layers, "rows": rows}


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def main():
    arguments = read_arguments()
    os.environ["FUSEPLAN_LIBRARY"] = os.path.abspath(arguments.library)
    try:
        import torch
    except ImportError:
        print("torch_check: python3 has no torch")
        return 77
    if not torch.cuda.is_available():
        print("torch_check: torch sees no GPU")
        return 77
    warnings.simplefilter("default")
    torch.manual_seed(1)
    result = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "db": arguments.db}
    with torch.no_grad():
        check = Check(arguments)
        result["operators"] = check.check_problems()
        write(arguments.json, result)  # what is known is kept, whatever comes
        if not arguments.skip_stack:
            result["stack"] = check.run_stack()
    rows = result["operators"]["problems"] + result.get("stack", {}).get("rows", [])
    result["ok"] = bool(result["operators"]["problems"]) and all(row["ok"] for row in rows)
    write(arguments.json, result)
    n_ok = sum(row["ok"] for row in rows)
    print(f"{n_ok} passed, {len(rows) - n_ok} failed")
    if not result["operators"]["problems"]:
        print(f"torch_check: {arguments.db} has no plan with a kernel for this GPU")
    return 0 if result["ok"] else 1


def write(path, result):
    part = f"{path}.part"
    with open(part, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    os.replace(part, path)


if __name__ == "__main__":
    sys.exit(main())
