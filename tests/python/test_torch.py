"""fuseplan.torch: the operators on the CPU and what they refuse, packing, patched modules; on a GPU
also kernels, CUDA graphs and compiled code."""
import copy
import unittest
import warnings
from unittest import mock

from common import G1, Case, as_if_measured, predicted_database

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    raise unittest.SkipTest("python3 has no torch") from None

import fuseplan
import fuseplan.torch as ft
from fuseplan.torch import packing, runtime

ACTS = {"none": lambda x: x, "relu": F.relu, "silu": F.silu, "gelu": lambda x: F.gelu(x, approximate="tanh")}
HAS_GPU = torch.cuda.is_available()


def matrix(*shape, dtype=torch.bfloat16, device="cpu", seed=1):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) / shape[-1] ** 0.5).to(device, dtype)


def weights(n, k, l, **kind):
    """gate or first, up, down or second."""
    return matrix(n, k, seed=2, **kind), matrix(n, k, seed=3, **kind), matrix(l, n, seed=4, **kind)


class TorchCase(Case):
    def setUp(self):
        runtime._warned.clear()
        catching = warnings.catch_warnings()
        catching.__enter__()
        self.addCleanup(catching.__exit__, None, None, None)
        warnings.simplefilter("ignore", ft.FallbackWarning)

    def assertClose(self, got, wanted, tolerance=0.02):
        self.assertEqual(got.shape, wanted.shape)
        error = (got.float() - wanted.float()).abs().max().item()
        self.assertLessEqual(error, tolerance * max(wanted.float().abs().max().item(), 1e-3))


class Operators(TorchCase):
    def test_ffn_computes_the_formula(self):
        for act, function in ACTS.items():
            for shape in ((5, 32), (2, 3, 32), (32,), (0, 32)):
                x, (w1, _, w2) = matrix(*shape), weights(64, 32, 48)
                with torch.no_grad():
                    wanted = function(x.float() @ w1.float().T) @ w2.float().T
                    got = ft.ffn(x, w1, w2, act)
                self.assertEqual(got.shape, (*shape[:-1], 48))
                self.assertEqual(got.dtype, x.dtype)
                if got.numel():
                    self.assertClose(got, wanted)

    def test_gated_ffn_computes_the_formula(self):
        x, (gate, up, down) = matrix(5, 32), weights(64, 32, 48)
        for act, function in ACTS.items():
            wanted = (function(x.float() @ gate.float().T) * (x.float() @ up.float().T)) @ down.float().T
            self.assertClose(ft.gated_ffn(x, gate, up, down, act), wanted)
            packed = ft.pack_gate_up(gate, up)
            self.assertClose(ft.gated_ffn(x, packed, None, down, act), wanted)
        self.assertClose(ft.gated_ffn(x, gate, up, down), ft.gated_ffn(x, gate, up, down, "silu"), 0)
        self.assertClose(ft.ffn(x, gate, down), ft.ffn(x, gate, down, "gelu"), 0)

    def test_torch_finds_the_operators_sound(self):
        x, (gate, up, down) = matrix(5, 32), weights(64, 32, 48)
        tests = ("test_schema", "test_faketensor")
        torch.library.opcheck(torch.ops.fuseplan.ffn.default, (x, gate, down, "relu"), test_utils=tests)
        torch.library.opcheck(torch.ops.fuseplan.gated_ffn.default, (x, gate, up, down, "silu"), test_utils=tests)

    def test_compiled_code_calls_them_in_one_graph(self):
        gate, up, down = weights(64, 32, 48)

        @torch.no_grad()
        def layer(x):
            return ft.gated_ffn(x + 1, gate, up, down) + ft.ffn(x, gate, down, "relu")

        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        for rows in (5, 6, 7):
            x = matrix(rows, 32)
            self.assertClose(compiled(x), layer(x), 1e-6)

    def test_what_is_refused_is_said_in_words(self):
        x, (gate, up, down) = matrix(5, 32), weights(64, 32, 48)
        for call, words in (
                (lambda: ft.ffn(x, gate, down, "tanh"), "act is 'tanh': it must be one of none, relu"),
                (lambda: ft.ffn(x.float(), gate, down), "x is torch.float32: the kernels take"),
                (lambda: ft.ffn(x, gate.half(), down), "w1 is torch.float16 and x is torch.bfloat16"),
                (lambda: ft.ffn(x[:, :31], gate, down), r"w1 is \[64, 32\]: it must be \[n, 31\]"),
                (lambda: ft.ffn(x, gate, down.T), r"w2 is \[64, 48\]: it must be \[l, 64\]"),
                (lambda: ft.ffn(x, gate[0], down), r"w1 is \[32\]"),
                (lambda: ft.ffn(matrix(32, 5).T, gate, down), "x is not contiguous: pass x.contiguous"),
                (lambda: ft.ffn(x, matrix(32, 64).T, down), "w1 is not contiguous"),
                (lambda: ft.ffn(x, gate.to("meta"), down), "w1 is on meta and x on cpu"),
                (lambda: ft.ffn(torch.tensor(1.0), gate, down), "x is a number"),
                (lambda: ft.gated_ffn(x, gate, up[:63], down), r"w_up is \[63, 32\]: it must be \[64, 32\]"),
                (lambda: ft.gated_ffn(x, gate, up, down[:, :63]), r"w_down is \[48, 63\]"),
                (lambda: ft.gated_ffn(x, gate[:63], None, down), r"w_gate must be \[2n, k\]"),
                (lambda: ft.pack_gate_up(gate, up.half()), "they must be the same")):
            with self.assertRaisesRegex(ft.Refused, words):
                call()

    def test_gradients_are_refused_while_they_would_be_recorded(self):
        x, (gate, up, down) = matrix(5, 32), weights(64, 32, 48)
        gate.requires_grad_()
        with self.assertRaisesRegex(ft.Refused, "w1 requires a gradient.*no_grad"):
            ft.ffn(x, gate, down)
        with self.assertRaisesRegex(ft.Refused, "w_gate requires a gradient"):
            ft.gated_ffn(x, gate, up, down)
        with torch.no_grad():
            ft.ffn(x, gate, down)
        with torch.inference_mode():
            ft.gated_ffn(x, gate, up, down)

    def test_tensors_on_the_cpu_warn_once(self):
        x, (gate, _, down) = matrix(5, 32), weights(64, 32, 48)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                ft.ffn(x, gate, down)
        caught = [one for one in caught if issubclass(one.category, ft.FallbackWarning)]
        self.assertEqual(len(caught), 1)
        self.assertIn("on the CPU", str(caught[0].message))


class Packing(TorchCase):
    def test_halves_of_a_packed_weight_need_no_copy(self):
        gate, up, _ = weights(64, 32, 48)
        packed = ft.pack_gate_up(gate, up)
        self.assertEqual(packed.shape, (128, 32))
        views = packed.chunk(2)
        self.assertTrue(torch.equal(views[0], gate) and torch.equal(views[1], up))
        self.assertTrue(packing.is_packed(*views))
        self.assertFalse(packing.is_packed(*reversed(views)))
        self.assertFalse(packing.is_packed(gate, up))
        self.assertEqual(packing.packed_weight(*views, is_capturing=True).data_ptr(), packed.data_ptr())

    def copy_of(self, gate, up, is_capturing=False):
        with mock.patch.object(packing, "in_own_thread", lambda device, work: work()):
            return packing.packed_weight(gate, up, is_capturing)

    def test_a_copy_is_kept_and_follows_changes_in_place(self):
        gate, up, _ = weights(64, 32, 48)
        with self.assertRaisesRegex(ft.NotPrepared, "not packed, and a stream is capturing"):
            self.copy_of(gate, up, is_capturing=True)
        first = self.copy_of(gate, up)
        self.assertIs(self.copy_of(gate, up, is_capturing=True), first)
        self.assertIs(self.copy_of(gate.detach(), up.view(64, 32)), first)
        gate.mul_(2)
        self.assertIs(self.copy_of(gate, up), first)
        self.assertTrue(torch.equal(first, torch.cat((gate, up))))

    def test_a_copy_dies_with_its_weights(self):
        packing._copies.clear()
        gate, up, _ = weights(64, 32, 48)
        self.copy_of(gate, up)
        self.assertEqual(len(packing._copies), 1)
        del gate, up
        other = weights(32, 64, 48)
        self.copy_of(*other[:2])
        self.assertEqual([copy.packed.shape for copy in packing._copies.values()], [(64, 64)])


class Gated(nn.Module):
    def __init__(self, n=64, k=32, act=None, bias=False, dtype=torch.bfloat16):
        super().__init__()
        torch.manual_seed(5)
        self.gate_proj, self.up_proj = (nn.Linear(k, n, bias=bias, dtype=dtype) for _ in range(2))
        self.down_proj = nn.Linear(n, k, bias=bias, dtype=dtype)
        self.act_fn = act or nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Residual(Gated):
    def forward(self, x):
        return x + super().forward(x)


class Conv1D(nn.Module):
    def __init__(self, l, k, bias=False):
        super().__init__()
        self.weight = nn.Parameter(matrix(k, l))
        self.bias = nn.Parameter(torch.zeros(l, dtype=torch.bfloat16)) if bias else None

    def forward(self, x):
        return x @ self.weight if self.bias is None else x @ self.weight + self.bias


class Plain(nn.Module):
    def __init__(self, layer, act=None, dropout=0.0):
        super().__init__()
        self.c_fc, self.c_proj = layer(32, 64), layer(64, 32)
        self.act = act or nn.GELU(approximate="tanh")
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


def linear(k, n):
    return nn.Linear(k, n, bias=False, dtype=torch.bfloat16)


class Patching(TorchCase):
    def test_a_gated_module_is_replaced_and_given_back(self):
        model, x = nn.Sequential(Gated(), Gated(act=nn.GELU(approximate="tanh"))), matrix(3, 32)
        with torch.no_grad():
            wanted, state = model(x), copy.deepcopy(model.state_dict())
            report = ft.patch(model)
            self.assertEqual([one.name for one in report.replaced], ["0", "1"])
            self.assertEqual(report.replaced[0].problem, "gated_ffn n=64 k=32 l=32 dtype=bf16 act=silu")
            self.assertIn("2 replaced, 0 left as they are", str(report))
            self.assertTrue(packing.is_packed(model[0].gate_proj.weight, model[0].up_proj.weight))
            with mock.patch("fuseplan.torch.modules.gated_ffn", side_effect=ft.gated_ffn) as called:
                self.assertClose(model(x), wanted)
            self.assertEqual(called.call_count, 2)
            self.assertIsInstance(model[0], Gated)
            self.assertEqual(list(model.state_dict()), list(state))
            for name, tensor in model.state_dict().items():
                self.assertTrue(torch.equal(tensor, state[name]), name)
            self.assertEqual(ft.patch(model).replaced, [])
            self.assertEqual(ft.unpatch(model), 2)
            self.assertIs(type(model[0]), Gated)
            self.assertFalse(packing.is_packed(model[0].gate_proj.weight, model[0].up_proj.weight))
            self.assertClose(model(x), wanted, 0)

    def test_a_dry_run_changes_nothing(self):
        model = nn.Sequential(Gated())
        report = ft.patch(model, dry_run=True)
        self.assertEqual(len(report.replaced), 1)
        self.assertIn("1 would be replaced", str(report))
        self.assertIs(type(model[0]), Gated)
        self.assertFalse(packing.is_packed(model[0].gate_proj.weight, model[0].up_proj.weight))

    def test_what_is_left_has_its_reason(self):
        hooked = Gated()
        hooked.up_proj.register_forward_hook(lambda *_: None)
        own = Gated()
        own.forward = lambda x: x
        large = Residual()  # x is lost in the rounding of what is added to it
        with torch.no_grad():
            for weight in large.parameters():
                weight.mul_(16)
        other = Gated()
        other.up_proj = nn.Sequential(linear(32, 64))
        for module, words in (
                (Gated(bias=True), "gate_proj has a bias, which the kernels lack"),
                (Gated(dtype=torch.float32), "gate_proj is torch.float32"),
                (Gated(act=nn.GELU()), "gelu's erf form"),
                (Gated(act=nn.Tanh()), "activation Tanh is none of"),
                (Gated().to("meta"), "gate_proj is on meta"),
                (Residual(), "computes something else"),
                (large, "computes something else"),
                (hooked, "up_proj has hooks"),
                (own, "a forward of its own"),
                (other, "up_proj is a Sequential, not a plain Linear"),
                (Plain(lambda k, n: Conv1D(n, k, bias=True)), "c_fc has a bias"),
                (Plain(linear, dropout=0.1), "a dropout")):
            report = ft.patch(nn.Sequential(module))
            self.assertEqual(report.replaced, [], words)
            self.assertRegex(report.refused[0].reason, words)
            self.assertIn(report.refused[0].reason, str(report))
        self.assertIn("no feed-forward module", str(ft.patch(nn.Sequential(linear(32, 64)))))

    def test_plain_modules_of_linear_and_of_transposed_layers(self):
        x = matrix(3, 32)
        for layer in (linear, lambda k, n: Conv1D(n, k)):
            model = nn.Sequential(Plain(layer))
            with torch.no_grad():
                wanted = model(x)
                report = ft.patch(model)
                self.assertEqual([one.problem for one in report.replaced],
                                 ["gemm_chain n=64 k=32 l=32 dtype=bf16 act=gelu"], str(report))
                self.assertClose(model(x), wanted)
                ft.unpatch(model)
                self.assertClose(model(x), wanted, 0)

    def test_training_and_autocast_take_the_modules_own_forward(self):
        model, x = nn.Sequential(Gated()), matrix(3, 32)
        ft.patch(model)
        with mock.patch("fuseplan.torch.modules.gated_ffn") as called:
            model(x).sum().backward()
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                model(x.float())
            called.assert_not_called()
        self.assertIsNotNone(model[0].gate_proj.weight.grad)

    def test_a_patched_model_compiles_in_one_graph(self):
        model, x = nn.Sequential(Gated(), Gated()), matrix(3, 32)
        with torch.no_grad():
            wanted = model(x)
            ft.patch(model)
            self.assertClose(torch.compile(model, backend="aot_eager", fullgraph=True)(x), wanted)


class HuggingFace(TorchCase):
    def test_models_of_transformers(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("python3 has no transformers")
        small = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=4, head_dim=8, vocab_size=64, pad_token_id=0)
        for family in ("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma"):
            model = getattr(transformers, f"{family}Model")(
                getattr(transformers, f"{family}Config")(**small)).to(torch.bfloat16).eval()
            tokens = torch.arange(7)[None]
            with torch.no_grad():
                wanted = model(tokens).last_hidden_state
                report = ft.patch(model)
                self.assertEqual((len(report.replaced), report.refused), (2, []), f"{family}: {report}")
                self.assertClose(model(tokens).last_hidden_state, wanted, 0.05)
        gpt2 = transformers.GPT2Model(transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=64))
        report = ft.patch(gpt2.to(torch.bfloat16))
        self.assertEqual((report.replaced, len(report.refused)), ([], 2))
        self.assertRegex(report.refused[0].reason, "c_fc has a bias, which the kernels lack")


@unittest.skipUnless(HAS_GPU, "no GPU")
class Gpu(TorchCase):
    def setUp(self):
        super().setUp()
        self.store = fuseplan.Store(as_if_measured())
        ft.use_store(self.store)
        self.addCleanup(ft.use_store, None)
        try:
            is_runnable = self.store.lookup(**G1, device="h200", runnable=True)
            torch.zeros(1, device="cuda")
            self.store.current_device()
        except fuseplan.FuseplanError as why:
            self.skipTest(str(why))
        if not is_runnable:
            self.skipTest("no NVRTC: the plan has no machine code")
        kind = dict(dtype=torch.float16, device="cuda")
        self.x = matrix(G1["m"], G1["k"], **kind)
        self.w1, self.w2 = matrix(G1["n"], G1["k"], seed=2, **kind), matrix(G1["l"], G1["n"], seed=3, **kind)
        self.wanted = F.relu(self.x.float() @ self.w1.float().T) @ self.w2.float().T

    def run_once(self):
        return ft.ffn(self.x, self.w1, self.w2, "relu")

    def test_a_kernel_computes_the_formula_without_a_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertClose(self.run_once(), self.wanted)

    def test_a_capture_that_was_not_prepared_is_refused(self):
        with self.assertRaisesRegex(ft.NotPrepared, "was not prepared"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                self.run_once()

    def test_prepare_makes_a_capture_possible(self):
        answers = ft.prepare("gemm_chain", [G1["m"]], G1["n"], G1["k"], G1["l"], dtype=torch.float16, act="relu")
        self.assertEqual(list(answers), [G1["m"]])
        self.assertTrue(answers[G1["m"]].has_kernel)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            e = self.run_once()
        for _ in range(3):
            e.zero_()
            graph.replay()
            self.assertClose(e, self.wanted)

    def test_compiled_code_with_cuda_graphs(self):
        compiled = torch.compile(lambda x: self.run_once() + x.sum(), mode="reduce-overhead", fullgraph=True)
        zero = torch.zeros(4, device="cuda", dtype=torch.float16)
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            self.assertClose(compiled(zero), self.wanted)

    def test_a_predicted_plan_is_not_run(self):
        ft.use_store(fuseplan.Store(predicted_database()))
        with self.assertWarnsRegex(ft.FallbackWarning, "predicted"):
            self.assertClose(self.run_once(), self.wanted)

    def test_a_shape_without_a_plan_warns_once_and_falls_back(self):
        x = matrix(77, G1["k"], dtype=torch.float16, device="cuda")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                e = ft.ffn(x, self.w1, self.w2, "silu")
        self.assertClose(e, F.silu(x.float() @ self.w1.float().T) @ self.w2.float().T)
        caught = [one for one in caught if issubclass(one.category, ft.FallbackWarning)]
        self.assertEqual(len(caught), 1)
        self.assertIn("m=77", str(caught[0].message))
