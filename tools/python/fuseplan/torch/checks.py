"""What the operators refuse, in words. Reads metadata alone, so that it serves fake tensors too."""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from .._library import ACTS

DTYPE_NAMES = {torch.float16: "f16", torch.bfloat16: "bf16"}


class Refused(ValueError):
    """Arguments that no kernel can take; the message names the argument and the remedy."""


class NotPrepared(RuntimeError):
    """A stream is capturing, and the kernel or the packed weights are not there yet."""


def shape_text(tensor: Tensor) -> str:
    return "[" + ", ".join(str(extent) for extent in tensor.shape) + "]"


def refuse_gradients(**tensors: Optional[Tensor]) -> None:
    """The kernels have no backward pass."""
    if not torch.is_grad_enabled():
        return
    for name, tensor in tensors.items():
        if tensor is not None and tensor.requires_grad:
            raise Refused(f"{name} requires a gradient, and the kernels have no backward pass: call "
                          "under torch.no_grad() or torch.inference_mode()")


def _check_alike(x: Tensor, tensors: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPE_NAMES:
            raise Refused(f"{name} is {tensor.dtype}: the kernels take float16 and bfloat16")
        if tensor.dtype != x.dtype:
            raise Refused(f"{name} is {tensor.dtype} and x is {x.dtype}: they must be the same")
        if tensor.device != x.device:
            raise Refused(f"{name} is on {tensor.device} and x on {x.device}: they must be the same")
        if tensor.device.type not in ("cuda", "cpu", "meta"):
            raise Refused(f"{name} is on {tensor.device}: the kernels run on CUDA devices")
        if not tensor.is_contiguous():
            raise Refused(f"{name} is not contiguous: pass {name}.contiguous(), made once for a weight")


def _check_matrix(name: str, tensor: Tensor, rows: Optional[int], cols: int, meaning: str) -> None:
    if tensor.dim() != 2 or tensor.shape[1] != cols or (rows is not None and tensor.shape[0] != rows):
        wanted = f"[{'n' if rows is None else rows}, {cols}]"
        raise Refused(f"{name} is {shape_text(tensor)}: it must be {wanted}, {meaning}")


def _check_act(act: str) -> None:
    if act not in ACTS:
        raise Refused(f"act is {act!r}: it must be one of {', '.join(ACTS)}")


def check_ffn(x: Tensor, w1: Tensor, w2: Tensor, act: str) -> None:
    """x [..., k], w1 [n, k], w2 [l, n]."""
    _check_act(act)
    if x.dim() < 1:
        raise Refused("x is a number: it must be [..., k]")
    _check_matrix("w1", w1, None, x.shape[-1], "[n, k] with k the last extent of x")
    if w2.dim() != 2 or w2.shape[1] != w1.shape[0]:
        raise Refused(f"w2 is {shape_text(w2)}: it must be [l, {w1.shape[0]}], [l, n] with n the rows of w1")
    _check_alike(x, {"x": x, "w1": w1, "w2": w2})


def check_gated_ffn(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, act: str) -> None:
    """x [..., k], w_gate and w_up [n, k], w_down [l, n]."""
    _check_act(act)
    if x.dim() < 1:
        raise Refused("x is a number: it must be [..., k]")
    _check_matrix("w_gate", w_gate, None, x.shape[-1], "[n, k] with k the last extent of x")
    _check_matrix("w_up", w_up, w_gate.shape[0], x.shape[-1], "the shape of w_gate")
    if w_down.dim() != 2 or w_down.shape[1] != w_gate.shape[0]:
        raise Refused(f"w_down is {shape_text(w_down)}: it must be [l, {w_gate.shape[0]}], [l, n] with n "
                      "the rows of w_gate")
    _check_alike(x, {"x": x, "w_gate": w_gate, "w_up": w_up, "w_down": w_down})
