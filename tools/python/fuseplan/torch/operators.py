"""The operators fuseplan::ffn and fuseplan::gated_ffn, and the functions that call them.

The operators are opaque to torch.compile, which calls them as they stand; what depends on tensors'
data, streams and captures is decided inside. Annotations are read by torch.library: no strings."""
from typing import Dict, Optional, Sequence, Union

import torch
from torch import Tensor

from ..store import Answer
from . import reference
from .checks import DTYPE_NAMES, Refused, check_ffn, check_gated_ffn, refuse_gradients, shape_text
from .packing import packed_weight
from .runtime import Wanted, launch, warn_once
from .runtime import prepare as prepare_wanted

# Compiled code must pass matrices as the trace saw them: contiguous.
_TAG = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)


def _warn_cpu() -> None:
    warn_once("cpu", "fuseplan: tensors on the CPU: torch's own operators compute them")


def _ffn(x: Tensor, w1: Tensor, w2: Tensor, act: str) -> Tensor:
    check_ffn(x, w1, w2, act)
    e = None
    if x.is_cuda:
        e = launch("gemm_chain", DTYPE_NAMES[x.dtype], act, x, lambda is_capturing: w1, w2)
    else:
        _warn_cpu()
    return reference.ffn(x, w1, w2, act) if e is None else e


def _gated_ffn(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, act: str) -> Tensor:
    check_gated_ffn(x, w_gate, w_up, w_down, act)
    e = None
    if x.is_cuda:
        e = launch("gated_ffn", DTYPE_NAMES[x.dtype], act, x,
                   lambda is_capturing: packed_weight(w_gate, w_up, is_capturing), w_down)
    else:
        _warn_cpu()
    return reference.gated_ffn(x, w_gate, w_up, w_down, act) if e is None else e


def _ffn_shape(x: Tensor, w1: Tensor, w2: Tensor, act: str) -> Tensor:
    check_ffn(x, w1, w2, act)
    return x.new_empty((*x.shape[:-1], w2.shape[0]))


def _gated_ffn_shape(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, act: str) -> Tensor:
    check_gated_ffn(x, w_gate, w_up, w_down, act)
    return x.new_empty((*x.shape[:-1], w_down.shape[0]))


_ffn_operator = torch.library.custom_op("fuseplan::ffn", _ffn, mutates_args=(), tags=(_TAG,))
_ffn_operator.register_fake(_ffn_shape)
_gated_ffn_operator = torch.library.custom_op("fuseplan::gated_ffn", _gated_ffn, mutates_args=(), tags=(_TAG,))
_gated_ffn_operator.register_fake(_gated_ffn_shape)


def ffn(x: Tensor, w1: Tensor, w2: Tensor, act: str = "gelu") -> Tensor:
    """act(x w1^T) w2^T in one kernel.

    x [..., k], w1 [n, k], w2 [l, n] as torch.nn.Linear stores them -> [..., l]. float16 or bfloat16,
    contiguous, of one device. act: none, relu, gelu (the tanh form), silu. No gradients: Refused."""
    refuse_gradients(x=x, w1=w1, w2=w2)
    return torch.ops.fuseplan.ffn(x, w1, w2, act)


def gated_ffn(x: Tensor, w_gate: Tensor, w_up: Optional[Tensor], w_down: Tensor, act: str = "silu") -> Tensor:
    """(act(x w_gate^T) * x w_up^T) w_down^T in one kernel.

    x [..., k], w_gate and w_up [n, k], w_down [l, n] as torch.nn.Linear stores them -> [..., l].
    w_gate may be what pack_gate_up made, [2n, k], with None for w_up. Weights that are not packed
    are copied into one matrix, which is kept as long as they live. Else as ffn()."""
    refuse_gradients(x=x, w_gate=w_gate, w_up=w_up, w_down=w_down)
    if w_up is None:
        if w_gate.dim() != 2 or w_gate.shape[0] % 2:
            raise Refused(f"w_gate is {shape_text(w_gate)} and w_up None: w_gate must be [2n, k]")
        w_gate, w_up = w_gate.chunk(2)
    return torch.ops.fuseplan.gated_ffn(x, w_gate, w_up, w_down, act)


def prepare(kind: str, m: Union[int, Sequence[int]], n: int, k: int, l: Optional[int] = None, *,
            dtype: torch.dtype = torch.bfloat16, act: Optional[str] = None,
            device: Union[None, int, str, torch.device] = None) -> Dict[int, Optional[Answer]]:
    """Looks kernels up, loads them and makes their workspaces, for launches on the current stream and
    for captures on any: what the first call outside of a capture does by itself.

    kind: gemm_chain (ffn) or gated_ffn. m: rows of x, one number or several. l: k where not given.
    act: gelu where not given, silu for a gated_ffn. device: the current CUDA device where not given.
    The answer for each m; None where torch's own operators compute it."""
    if kind not in ("gemm_chain", "gated_ffn"):
        raise Refused(f"kind is {kind!r}: it must be gemm_chain or gated_ffn")
    if dtype not in DTYPE_NAMES:
        raise Refused(f"dtype is {dtype}: the kernels take float16 and bfloat16")
    chosen = torch.device("cuda", device) if isinstance(device, int) else torch.device(device or "cuda")
    if chosen.type != "cuda":
        raise Refused(f"device is {chosen}: the kernels run on CUDA devices")
    index = torch.cuda.current_device() if chosen.index is None else chosen.index
    if act is None:
        act = "silu" if kind == "gated_ffn" else "gelu"
    stream = torch.cuda.current_stream(index).cuda_stream
    deterministic = torch.are_deterministic_algorithms_enabled()
    return {rows: prepare_wanted(Wanted(index, kind, DTYPE_NAMES[dtype], act, rows, n, k, k if l is None else l,
                                        deterministic), stream).answer
            for rows in ([m] if isinstance(m, int) else m)}
