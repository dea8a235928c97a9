"""Gate and up as one matrix: B of a gated_ffn is the gate's n rows, then the up projection's."""
from __future__ import annotations

import threading
from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from .checks import NotPrepared, Refused, shape_text
from .runtime import in_own_thread


def pack_gate_up(w_gate: Tensor, w_up: Tensor) -> Tensor:
    """w_gate [n, k] above w_up [n, k] as one new matrix [2n, k]. `w_gate, w_up = packed.chunk(2)` are
    views of it, with which gated_ffn needs no copy."""
    if w_gate.dim() != 2 or w_gate.shape != w_up.shape:
        raise Refused(f"w_gate is {shape_text(w_gate)} and w_up {shape_text(w_up)}: both must be [n, k]")
    if w_gate.dtype != w_up.dtype or w_gate.device != w_up.device:
        raise Refused(f"w_gate is {w_gate.dtype} on {w_gate.device} and w_up {w_up.dtype} on {w_up.device}: "
                      "they must be the same")
    with torch.no_grad():
        return torch.cat((w_gate.detach(), w_up.detach()))


def is_packed(w_gate: Tensor, w_up: Tensor) -> bool:
    """Both lie in one storage, w_up right behind w_gate: their address is B's."""
    return (w_gate.untyped_storage().data_ptr() == w_up.untyped_storage().data_ptr()
            and w_gate.data_ptr() + w_gate.numel() * w_gate.element_size() == w_up.data_ptr())


def _version(tensor: Tensor) -> int:
    """Counts changes in place; tensors made in inference mode do not count them."""
    return -1 if tensor.is_inference() else tensor._version


class _Copy(NamedTuple):
    storages: tuple[StorageWeakRef, StorageWeakRef]
    versions: tuple[int, int]
    packed: Tensor


_lock = threading.RLock()
# By address, shape and type. Not by tensor: compiled code passes other tensors of the same storage.
_copies: dict[tuple, _Copy] = {}


def _drop_dead() -> None:
    for key, copy in list(_copies.items()):
        if any(storage.expired() for storage in copy.storages):
            del _copies[key]


def _find(key: tuple, w_gate: Tensor, w_up: Tensor) -> Optional[_Copy]:
    """The copy made from the storages that these tensors have now."""
    copy = _copies.get(key)
    if copy is None:
        return None
    for storage, tensor in zip(copy.storages, (w_gate, w_up)):
        if storage.expired() or storage.cdata != StorageWeakRef(tensor.untyped_storage()).cdata:
            return None
    return copy


def packed_weight(w_gate: Tensor, w_up: Tensor, is_capturing: bool) -> Tensor:
    """A tensor at whose address B lies: w_gate where the two are packed, else a copy of both that
    lives as long as they. Weights that were changed in place since are copied again, to the same
    address, so that CUDA graphs see the change too."""
    if is_packed(w_gate, w_up):
        return w_gate
    key = (w_gate.data_ptr(), w_up.data_ptr(), tuple(w_gate.shape), w_gate.dtype, w_gate.device)
    versions = (_version(w_gate), _version(w_up))
    with _lock:
        copy = _find(key, w_gate, w_up)
        if copy is not None and copy.versions == versions:
            return copy.packed
        if is_capturing:
            raise NotPrepared("w_gate and w_up are not packed, and a stream is capturing: run it once "
                              "before the capture, or keep them as pack_gate_up packs them")
        if copy is None:
            _drop_dead()
            packed = in_own_thread(w_gate.device.index, lambda: pack_gate_up(w_gate, w_up))
            storages = StorageWeakRef(w_gate.untyped_storage()), StorageWeakRef(w_up.untyped_storage())
        else:
            storages, packed = copy.storages, copy.packed
            with torch.no_grad():
                gate, up = packed.chunk(2)
                gate.copy_(w_gate)
                up.copy_(w_up)
        _copies[key] = _Copy(storages, versions, packed)
        return packed
