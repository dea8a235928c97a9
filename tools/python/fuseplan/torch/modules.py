"""patch(): the feed-forward modules of a model, run by the operators.

A module is recognised by its structure, never by its class: two or three Linear layers under the
names that Hugging Face's models use, an activation that computes what a kernel has, and a forward
that gives the formula's numbers on a few random rows. A replaced module keeps its class's
attributes, parameters and hooks: it becomes of a subclass with another forward."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Iterable, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import reference
from .checks import DTYPE_NAMES
from .operators import ffn, gated_ffn
from .packing import is_packed, pack_gate_up

GATED = ("gate_proj", "up_proj", "down_proj")
PLAIN = ("c_fc", "c_proj")
ACT_NAMES = ("act_fn", "act", "activation_fn", "gelu")
PROBE_ROWS = 3
# Large rows hide what is added to the formula, small ones do not: a gated product shrinks with their square.
PROBE_SCALES = (1.0, 2.0**-6)
# Of outputs in half precision, relative to the greatest: an activation that rounds between its steps.
PROBE_TOLERANCE = 2.0**-6


@dataclass(frozen=True)
class Finding:
    """A module that was looked at. reason: empty where it is replaced."""
    name: str
    type: str
    problem: str  # gated_ffn n=14336 k=4096 l=4096 dtype=bf16 act=silu; empty where refused
    reason: str


@dataclass
class Report:
    """What patch() replaced, and what not and why."""
    dry_run: bool
    replaced: list[Finding] = field(default_factory=list)
    refused: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.replaced and not self.refused:
            return "no feed-forward module was found (gate_proj, up_proj, down_proj; c_fc, c_proj)"
        verb = "would be replaced" if self.dry_run else "replaced"
        lines = [f"{len(self.replaced)} {verb}, {len(self.refused)} left as they are"]
        lines += _grouped((f"{one.type}: {one.problem}", one.name) for one in self.replaced)
        lines += _grouped((f"{one.type} left: {one.reason}", one.name) for one in self.refused)
        return "\n".join(lines)


def _grouped(lines: Iterable[tuple[str, str]]) -> list[str]:
    """One line for all modules of which the same is said."""
    groups: dict[str, list[str]] = {}
    for text, name in lines:
        groups.setdefault(text, []).append(name)
    return [f"  {len(names)} x {text}: {names[0]}" + (f" ... {names[-1]}" if len(names) > 1 else "")
            for text, names in groups.items()]


class _Reason(Exception):
    """Why a module is left as it is."""


def _is_transposed(layer: nn.Module) -> bool:
    """GPT-2's Conv1D: a Linear whose weight is [in, out]."""
    return type(layer).__name__ == "Conv1D"


def _check_layer(name: str, layer: object) -> nn.Module:
    if type(layer) is not nn.Linear and not (isinstance(layer, nn.Module) and _is_transposed(layer)):
        raise _Reason(f"{name} is a {type(layer).__name__}, not a plain Linear")
    if getattr(layer, "bias", None) is not None:
        raise _Reason(f"{name} has a bias, which the kernels lack")
    if layer._forward_hooks or layer._forward_pre_hooks or "forward" in layer.__dict__:
        raise _Reason(f"{name} has hooks or a forward of its own")
    weight = layer.weight
    if weight.device.type not in ("cuda", "cpu"):
        raise _Reason(f"{name} is on {weight.device}: load the weights first")
    if weight.dtype not in DTYPE_NAMES:
        raise _Reason(f"{name} is {weight.dtype}: the kernels take float16 and bfloat16")
    if not weight.is_contiguous():
        raise _Reason(f"{name}'s weight is not contiguous")
    return layer


def _find_act(module: nn.Module) -> str:
    """The name of what the module's activation computes, told by its values on a grid."""
    function = next((getattr(module, name) for name in ACT_NAMES if callable(getattr(module, name, None))), None)
    if function is None:
        raise _Reason(f"it has no activation under the names {', '.join(ACT_NAMES)}")
    grid = torch.linspace(-8, 8, 513)
    try:
        values = function(grid)
    except Exception as why:  # whatever a model's own code raises
        raise _Reason(f"its activation {type(function).__name__} cannot be tried: {why}") from None
    for act in ("silu", "gelu", "relu", "none"):
        if torch.allclose(values, reference.activate(grid, act), rtol=0, atol=1e-5):
            return act
    if torch.allclose(values, F.gelu(grid), rtol=0, atol=1e-5):
        raise _Reason("its activation is gelu's erf form: the kernels have the tanh form")
    raise _Reason(f"its activation {type(function).__name__} is none of silu, gelu (tanh), relu, none")


def _check_same(module: nn.Module, k: int, formula: Callable[[Tensor], Tensor]) -> None:
    """The module's own forward gives what the formula gives, so that there is nothing else in it."""
    weight = next(module.parameters())
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(PROBE_ROWS, k, generator=generator)
    for scale in PROBE_SCALES:
        x = (rows * scale).to(weight.device, weight.dtype)
        try:
            own = module.forward(x)
        except Exception as why:  # whatever a model's own code raises
            raise _Reason(f"its forward does not take x [m, {k}] alone: {type(why).__name__}: {why}") from None
        wanted = formula(x).float()
        if not isinstance(own, Tensor) or own.shape != wanted.shape:
            raise _Reason("its forward answers something else than one matrix [m, l]")
        if not torch.isfinite(wanted).all():
            raise _Reason("its weights give values that are not finite")
        if (own.float() - wanted).abs().max() > PROBE_TOLERANCE * wanted.abs().max():
            raise _Reason("its forward computes something else than its layers and activation alone")


def _check_module(module: nn.Module, layers: tuple[nn.Module, ...]) -> None:
    if "forward" in module.__dict__:
        raise _Reason("it has a forward of its own")
    if any(isinstance(child, nn.Dropout) and child.p > 0 for child in module.modules()):
        raise _Reason("it has a dropout")
    if len({(layer.weight.device, layer.weight.dtype) for layer in layers}) > 1:
        raise _Reason("its layers differ in device or dtype")


def _problem(kind: str, n: int, k: int, l: int, weight: Tensor, act: str) -> str:
    return f"{kind} n={n} k={k} l={l} dtype={DTYPE_NAMES[weight.dtype]} act={act}"


def _is_served(x: object, *weights: Tensor) -> bool:
    """Whether the operators take this call; else the module's own forward does."""
    return (isinstance(x, Tensor) and x.dtype == weights[0].dtype and x.device == weights[0].device
            and not torch.is_autocast_enabled(x.device.type)
            and not (torch.is_grad_enabled()
                     and (x.requires_grad or any(weight.requires_grad for weight in weights))))


def _gated_class(original: type, act: str) -> type:
    def forward(self, x, *arguments, **named):
        weights = self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight
        if arguments or named or not _is_served(x, *weights):
            return original.forward(self, x, *arguments, **named)
        return gated_ffn(x.contiguous(), *weights, act)

    return _subclass(original, forward)


def _plain_class(original: type, act: str) -> type:
    def forward(self, x, *arguments, **named):
        if arguments or named or not _is_served(x, self.c_fc.weight, self.c_proj.weight):
            return original.forward(self, x, *arguments, **named)
        return ffn(x.contiguous(), _rows(self, "c_fc"), _rows(self, "c_proj"), act)

    return _subclass(original, forward)


def _rows(module: nn.Module, name: str) -> Tensor:
    """A layer's weight as [out, in]: the transposed copy that patch() made, or the weight itself."""
    return module._fuseplan_copies.get(name, module._modules[name].weight)


_classes: dict[tuple, type] = {}


def _subclass(original: type, forward: Callable) -> type:
    return type(f"Fused{original.__name__}", (original,), {
        "forward": forward, "_fuseplan_original": original, "__module__": original.__module__})


def _make_class(original: type, act: str, make: Callable[[type, str], type]) -> type:
    key = (original, act, make)
    if key not in _classes:
        _classes[key] = make(original, act)
    return _classes[key]


def _examine_gated(module: nn.Module) -> tuple[str, Callable[[], None]]:
    """-> the problem's text, and what replaces the module."""
    gate, up, down = layers = tuple(_check_layer(name, getattr(module, name)) for name in GATED)
    if any(_is_transposed(layer) for layer in layers):
        raise _Reason("its layers are Conv1D, whose weights are [in, out]")
    _check_module(module, layers)
    act = _find_act(module)
    (n, k), l = gate.weight.shape, down.weight.shape[0]
    _check_same(module, k, lambda x: reference.gated_ffn(x, gate.weight, up.weight, down.weight, act))

    def replace() -> None:
        if not is_packed(gate.weight, up.weight) and not gate.weight.is_inference():
            gate.weight.data, up.weight.data = pack_gate_up(gate.weight, up.weight).chunk(2)
        module.__class__ = _make_class(type(module), act, _gated_class)

    return _problem("gated_ffn", n, k, l, gate.weight, act), replace


def _examine_plain(module: nn.Module) -> tuple[str, Callable[[], None]]:
    """-> the problem's text, and what replaces the module."""
    layers = tuple(_check_layer(name, getattr(module, name)) for name in PLAIN)
    _check_module(module, layers)
    act = _find_act(module)
    w1, w2 = (layer.weight.t() if _is_transposed(layer) else layer.weight for layer in layers)
    (n, k), l = w1.shape, w2.shape[0]
    _check_same(module, k, lambda x: reference.ffn(x, w1, w2, act))

    def replace() -> None:
        module._fuseplan_copies = {name: layer.weight.detach().t().contiguous()
                                   for name, layer in zip(PLAIN, layers) if _is_transposed(layer)}
        module.__class__ = _make_class(type(module), act, _plain_class)

    return _problem("gemm_chain", n, k, l, w1, act), replace


def _examiner(module: nn.Module) -> Optional[Callable[[nn.Module], tuple[str, Callable[[], None]]]]:
    if hasattr(type(module), "_fuseplan_original"):
        return None
    for names, examine in ((GATED, _examine_gated), (PLAIN, _examine_plain)):
        if all(hasattr(module, name) for name in names):
            return examine
    return None


@torch.no_grad()
def patch(model: nn.Module, dry_run: bool = False) -> Report:
    """Lets the operators run the feed-forward modules of a model; the report says which, and why not
    the others. dry_run: changes nothing.

    Call it on the device and in the dtype in which the model is to run: gate and up are packed, so
    that each keeps its own shape but both lie in one matrix. A call under autograd, under autocast
    or of another dtype is computed by the module's own forward."""
    report = Report(dry_run)
    for name, module in list(model.named_modules()):
        examine = _examiner(module)
        if examine is None:
            continue
        kind = type(module).__name__
        try:
            problem, replace = examine(module)
        except _Reason as why:
            report.refused.append(Finding(name, kind, "", str(why)))
            continue
        if not dry_run:
            replace()
        report.replaced.append(Finding(name, kind, problem, ""))
    return report


@torch.no_grad()
def unpatch(model: nn.Module) -> int:
    """Gives every replaced module its own class back, and gate and up memory of their own. The number
    of modules."""
    n_modules = 0
    for module in model.modules():
        original = getattr(type(module), "_fuseplan_original", None)
        if original is None:
            continue
        module.__class__ = original
        module.__dict__.pop("_fuseplan_copies", None)
        if all(hasattr(module, name) for name in GATED) and is_packed(module.gate_proj.weight,
                                                                      module.up_proj.weight):
            for layer in (module.gate_proj, module.up_proj):
                layer.weight.data = layer.weight.data.clone()
        n_modules += 1
    return n_modules
