"""Kernels and their workspaces: looked up and loaded once for each (device, problem), kept.

A launch reads two dictionaries. What must be made anew is made by prepare() or by the first launch
outside of a capture, in a thread of its own: the memory pools of CUDA graphs take in what the
capturing (or warming) thread allocates, and would hand it out again."""
from __future__ import annotations

import threading
import warnings
from typing import Callable, NamedTuple, Optional, TypeVar

import torch
from torch import Tensor

from ..errors import NoPlan
from ..store import Answer, Kernel, Store, default_store
from .checks import NotPrepared, Refused

T = TypeVar("T")


class FallbackWarning(UserWarning):
    """torch's own operators compute what no plan can."""


class Wanted(NamedTuple):
    """A problem on a device: what a kernel is looked up by."""
    device: int
    kind: str
    dtype: str  # f16, bf16
    act: str
    m: int
    n: int
    k: int
    l: int
    deterministic: bool

    def __str__(self) -> str:
        return (f"{self.kind} m={self.m} n={self.n} k={self.k} l={self.l} dtype={self.dtype} act={self.act}")


# The workspace of launches that are captured: a graph may be replayed beside any stream.
CAPTURED = -1


class Prepared:
    """A kernel with its workspaces by stream. Without a kernel: torch's operators, and why."""

    def __init__(self, kernel: Optional[Kernel], answer: Optional[Answer], reason: str, workspace_bytes: int):
        self.kernel, self.answer, self.reason = kernel, answer, reason
        self.workspace_bytes = workspace_bytes
        self.workspaces: dict[int, Tensor] = {}


_lock = threading.RLock()
_prepared: dict[Wanted, Prepared] = {}
_warned: set[object] = set()
_store: Optional[Store] = None


def use_store(store: Optional[Store]) -> None:
    """Looks plans up in `store` from now on; None: in the store of the default layers. Kernels that
    were loaded stay so, for the CUDA graphs that hold them."""
    global _store
    with _lock:
        _store = store
        _prepared.clear()


def warn_once(about: object, text: str) -> None:
    with _lock:
        if about in _warned:
            return
        _warned.add(about)
    warnings.warn(text, FallbackWarning, stacklevel=2)


def in_own_thread(device: int, work: Callable[[], T]) -> T:
    """work() on the device, after all that was enqueued there, done when this returns."""
    result: list[T] = []
    error: list[BaseException] = []

    def run() -> None:
        try:
            with torch.cuda.device(device), torch.no_grad():
                torch.cuda.synchronize()  # also makes the device's context this thread's
                result.append(work())
                torch.cuda.synchronize()
        except BaseException as caught:
            error.append(caught)

    thread = threading.Thread(target=run, name="fuseplan-prepare")
    thread.start()
    thread.join()
    if error:
        raise error[0]
    return result[0]


def _find(store: Store, wanted: Wanted) -> tuple[Optional[Answer], str]:
    """The answer with a kernel, or None and the reason."""
    arguments = dict(dtype=wanted.dtype, act=wanted.act, device=store.current_device(),
                     deterministic=wanted.deterministic, last_tier="envelope", require_hit=True)
    problem = (wanted.kind, wanted.m, wanted.n, wanted.k, wanted.l)
    answer = store.lookup(*problem, **arguments)
    if answer.is_library:
        return None, "the library's pair of products is the plan"
    if not answer.has_kernel:
        answer = store.lookup(*problem, runnable=True, **arguments)
    if answer.provenance != "measured":
        return None, "the plan is predicted: nobody has measured that it beats torch's own operators"
    return answer, answer.reason


def _load(wanted: Wanted) -> Prepared:
    store = _store or default_store()
    try:
        answer, reason = _find(store, wanted)
    except NoPlan as why:
        return Prepared(None, None, str(why), 0)
    if answer is None:
        return Prepared(None, None, reason, 0)
    kernel = store.load(answer)
    return Prepared(kernel, answer, reason, kernel.workspace_bytes(wanted.m))


def prepare(wanted: Wanted, stream: int) -> Prepared:
    """The kernel for a problem, loaded, with the workspaces of a stream and of captures."""
    with _lock:
        ready = _prepared.get(wanted)
        if ready is None:
            ready = _prepared[wanted] = in_own_thread(wanted.device, lambda: _load(wanted))
        missing = [key for key in (stream, CAPTURED) if key not in ready.workspaces]
        if ready.workspace_bytes and missing:
            # torch's allocations are 512-byte aligned, a workspace is to be 256-byte aligned
            ready.workspaces.update(in_own_thread(wanted.device, lambda: {
                key: torch.zeros(ready.workspace_bytes, dtype=torch.uint8, device="cuda")
                for key in missing}))
        return ready


def find_prepared(wanted: Wanted, stream: int, is_capturing: bool) -> tuple[Prepared, int]:
    """The kernel for a launch, and the address of its workspace."""
    key = CAPTURED if is_capturing else stream
    ready = _prepared.get(wanted)
    if ready is None or (ready.workspace_bytes and key not in ready.workspaces):
        if is_capturing:
            raise NotPrepared(f"{wanted} on cuda:{wanted.device} is being captured and was not prepared: "
                              "run it once before the capture, or call fuseplan.torch.prepare")
        ready = prepare(wanted, stream)
    return ready, ready.workspaces[key].data_ptr() if ready.workspace_bytes else 0


def launch(kind: str, dtype: str, act: str, x: Tensor, make_b: Callable[[bool], Tensor],
           d: Tensor) -> Optional[Tensor]:
    """E of one launch on the current stream, or None where torch's operators are to compute it.
    x [..., k], d [l, n]. make_b(is_capturing): a tensor at whose address B lies; asked for where
    there is a kernel alone."""
    device = x.device.index
    k, (l, n) = x.shape[-1], d.shape
    m = x.numel() // k if k else 0
    if 0 in (m, n, k, l):
        return None
    wanted = Wanted(device, kind, dtype, act, m, n, k, l, torch.are_deterministic_algorithms_enabled())
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream().cuda_stream
        is_capturing = torch.cuda.is_current_stream_capturing()
        ready, workspace = find_prepared(wanted, stream, is_capturing)
        if ready.kernel is None:
            warn_once(wanted, f"fuseplan: {wanted}: torch's own operators compute it: {ready.reason}")
            return None
        b = make_b(is_capturing)
        for name, tensor in (("x", x), ("the first weight", b), ("the last weight", d)):
            if tensor.data_ptr() % 16:
                raise Refused(f"{name} does not begin at a multiple of 16 bytes: pass a copy")
        e = torch.empty((*x.shape[:-1], l), dtype=x.dtype, device=x.device)
        ready.kernel.launch(m, x.data_ptr(), b.data_ptr(), d.data_ptr(), e.data_ptr(), workspace, stream)
        return e
