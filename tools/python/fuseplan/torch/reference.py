"""The same problems by torch's own operators."""
from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def activate(x: Tensor, act: str) -> Tensor:
    if act == "relu":
        return F.relu(x)
    if act == "gelu":
        return F.gelu(x, approximate="tanh")
    if act == "silu":
        return F.silu(x)
    return x


def ffn(x: Tensor, w1: Tensor, w2: Tensor, act: str) -> Tensor:
    """act(x w1^T) w2^T: x [..., k], w1 [n, k], w2 [l, n] -> [..., l]."""
    return F.linear(activate(F.linear(x, w1), act), w2)


def gated_ffn(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, act: str) -> Tensor:
    """(act(x w_gate^T) * x w_up^T) w_down^T: x [..., k], w_gate and w_up [n, k], w_down [l, n] ->
    [..., l]."""
    return F.linear(activate(F.linear(x, w_gate), act) * F.linear(x, w_up), w_down)
