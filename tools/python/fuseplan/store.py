"""Stores of plans: lookups, and kernels on raw device addresses. Nothing here needs torch or a GPU,
but Store.current_device, Store.load and Kernel."""
from __future__ import annotations

import os
import threading
import weakref
from ctypes import byref, c_char_p, c_void_p
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Optional, Sequence, Union

from . import _library as c
from .errors import FileError, NoPlan, UsageError

_NAMED = {"tier": c.TIERS, "provenance": c.PROVENANCES, "match": c.MATCHES}
_FLAGS = ("is_library", "has_kernel", "is_deterministic")


@dataclass(frozen=True)
class Device:
    """A device class: what decides which plans are for a GPU. driver: 13000 for CUDA 13.0; 0: not
    known, environments are not compared."""
    capability_major: int
    capability_minor: int
    sms: int
    l2_bytes: int
    hbm_bytes: int
    sm_clock_mhz: float
    driver: int = 0


@dataclass(frozen=True)
class Answer:
    """What is stored for a problem, and how well it fits. Times are microseconds a launch of the
    stored problem, 0 where not measured; regrets are fractions (0.05 is 5 %)."""
    tier: str  # exact, envelope, nearest, model, library
    provenance: str  # measured, predicted, simulated
    match: str  # same, toolkit, driver, device, unknown: this machine against the one that measured
    is_library: bool  # the library's pair of products is the plan: nothing to load
    has_kernel: bool  # Store.load finds machine code for this problem
    is_deterministic: bool  # the same bits every time
    layer: int  # index of the path that answered
    plan: int  # number of the plan in that layer
    m_low: int
    m_high: int  # rows m_low..m_high for which the plan is the best one known
    estimated_us: float
    measured_us: float  # weights from memory
    measured_hot_us: float  # weights in L2
    library_us: float
    library_hot_us: float
    regret: float
    regret_low: float
    regret_high: float
    created_unix: int
    candidates: int
    verified: int
    problem: str  # the problem it is stored for
    schedule: str  # empty for the library
    kernel: str
    reason: str
    _problem: c.Problem = field(repr=False, compare=False)
    _record: c.AnswerRecord = field(repr=False, compare=False)

    @property
    def is_hit(self) -> bool:
        """Stored for this problem, or for an m whose interval holds this one."""
        return self.tier in ("exact", "envelope")


def _answer(problem: c.Problem, record: c.AnswerRecord) -> Answer:
    values = {}
    for name, _ in record._fields_[1:]:
        value = getattr(record, name)
        if name in _NAMED:
            value = _NAMED[name][value]
        elif name in _FLAGS:
            value = bool(value)
        elif isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        values[name] = value
    return Answer(**values, _problem=problem, _record=record)


def _number(what: str, name: str, names: Sequence[str]) -> int:
    try:
        return names.index(name)
    except ValueError:
        raise UsageError(f"{what} is {name!r}: it must be one of {', '.join(names)}", 10) from None


def _extents(**values: int) -> dict[str, int]:
    """The values, refused where ctypes would cut them off or round them."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{name} is {value!r}: it must be a whole number", 10)
        if not -2**63 <= value < 2**63:
            raise UsageError(f"{name} is {value}: it must fit into 64 bits", 10)
    return values


def _make_problem(kind: str, m: int, n: int, k: int, l: Optional[int], dtype: str,
                  act: Optional[str], **conv: int) -> c.Problem:
    kind_number = _number("kind", kind, c.KINDS)
    if l is None:
        if kind == "conv_chain":
            raise UsageError("l is missing: of a conv_chain it is oc2, the channels of E", 10)
        l = k
    if act is None:
        act = "silu" if kind == "gated_ffn" else "relu"
    return c.Problem(kind=kind_number, dtype=_number("dtype", dtype, c.DTYPES),
                     act=_number("act", act, c.ACTS), **_extents(m=m, n=n, k=k, l=l, **conv))


class _Handle:
    """An open fuseplan_store. It is closed when the last one that uses it lets go, so that closing
    a Store cannot pull it from under a lookup of another thread."""

    def __init__(self, library: c.Library, paths: Sequence[str]):
        self.library = library
        self.process = os.getpid()
        self.pointer = c_void_p()
        library.ask("fuseplan_open", (c_char_p * len(paths))(*map(os.fsencode, paths)), len(paths),
                    byref(self.pointer))
        weakref.finalize(self, _close, library, self.pointer, self.process).atexit = False


def _close(library: c.Library, pointer: c_void_p, process: int) -> None:
    if os.getpid() == process:
        library.plain("fuseplan_close", pointer)


class Store:
    """Plan databases or snapshots, the first path above the others. Lookups answer from what was
    stored when it was opened. Any number of threads may use one store; a process that was forked
    opens its own.

    paths: None for the default layers, see default_paths()."""

    def __init__(self, paths: Union[None, str, os.PathLike, Sequence[Union[str, os.PathLike]]] = None):
        library = c.library()
        if paths is None:
            paths = default_paths()
        elif isinstance(paths, (str, os.PathLike)):
            paths = [paths]
        self.paths: tuple[str, ...] = tuple(os.fspath(path) for path in paths)
        self._open: Optional[_Handle] = _Handle(library, self.paths)
        self._devices: dict[str, c.DeviceClass] = {}

    def close(self) -> None:
        """Lets the files go once no lookup and no loaded kernel uses them. May be called again."""
        self._open = None

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"fuseplan.Store({list(self.paths)!r})"

    def _handle(self) -> _Handle:
        handle = self._open
        if handle is None:
            raise UsageError("the store is closed: open another", 10)
        if handle.process != os.getpid():
            raise UsageError("the store was opened before this process was forked: open one here", 10)
        return handle

    def _device_class(self, device: Union[str, Device], handle: _Handle) -> c.DeviceClass:
        if isinstance(device, Device):
            return c.DeviceClass(**asdict(device))
        found = self._devices.get(device)
        if found is None:
            found = c.DeviceClass()
            handle.library.ask("fuseplan_device_named", handle.pointer, device.encode(), byref(found))
            self._devices[device] = found
        return found

    def device(self, name: str) -> Device:
        """The device class stored under a profile's name; NoPlan when there is none."""
        return _device(self._device_class(name, self._handle()))

    def current_device(self) -> Device:
        """The stored device class of the GPU of this thread's CUDA context, with its driver."""
        handle, found = self._handle(), c.DeviceClass()
        handle.library.ask("fuseplan_device_current", handle.pointer, byref(found))
        return _device(found)

    def lookup(self, kind: str, m: int, n: int, k: int, l: Optional[int] = None, *,
               dtype: str = "f16", act: Optional[str] = None, device: Union[str, Device] = "h200",
               deterministic: bool = False, runnable: bool = False, last_tier: str = "library",
               require_hit: bool = False, batch: int = 0, ic: int = 0, h: int = 0, w: int = 0,
               k1: int = 0) -> Optional[Answer]:
        """The plan for a problem, or None where nothing stored answers, also for want of the device.

        gemm_chain  C[m,n] = act(A[m,k] B[n,k]^T)                    E[m,l] = C D[l,n]^T
        gated_ffn   C[m,n] = act(A Bgate[n,k]^T) * (A Bup[n,k]^T)    E[m,l] = C D[l,n]^T
        conv_chain  n = oc1, l = oc2, with batch, ic, h, w and k1; pass m = k = 0

        l: k where not given. dtype: f16, bf16. act: none, relu, gelu (the tanh form), silu; relu
        where not given, silu for a gated_ffn. device: a profile's name, or a Device.
        deterministic: plans that give the same bits every time, alone. runnable: plans whose
        kernel can be launched for this problem, alone. last_tier: no answer beyond it.
        require_hit: raises NoPlan, with the reason, unless the tier is exact or envelope."""
        handle = self._handle()
        problem = _make_problem(kind, m, n, k, l, dtype, act, batch=batch, ic=ic, h=h, w=w, k1=k1)
        last = _number("last_tier", last_tier, c.TIERS)
        if require_hit:
            last = min(last, c.TIERS.index("envelope"))
        options = c.Options(is_deterministic=bool(deterministic), needs_kernel=bool(runnable),
                            last_tier=last)
        record = c.AnswerRecord()
        try:
            handle.library.ask("fuseplan_lookup", handle.pointer, byref(problem),
                               byref(self._device_class(device, handle)), byref(options),
                               byref(record))
        except NoPlan:
            if require_hit:
                raise
            return None
        return _answer(problem, record)

    def load(self, answer: Answer) -> "Kernel":
        """The kernel of an answer of this store, in this thread's CUDA context. Not while a stream
        is capturing. UsageError where the answer has no kernel."""
        handle, pointer = self._handle(), c_void_p()
        handle.library.ask("fuseplan_kernel_load", handle.pointer, byref(answer._problem),
                           byref(answer._record), byref(pointer))
        return Kernel(handle, pointer)


def _device(record: c.DeviceClass) -> Device:
    return Device(**{name: getattr(record, name) for name, _ in record._fields_[1:]})


# Kernels that were not released: their store stays open.
_kernels: set["Kernel"] = set()


class Kernel:
    """A plan's kernel in one CUDA context. Launches need no lock. It stays loaded until release()."""

    def __init__(self, handle: _Handle, pointer: c_void_p):
        self._handle = handle
        self._pointer = pointer
        _kernels.add(self)

    def workspace_bytes(self, m: int) -> int:
        """Device memory that a launch over m rows needs besides its matrices."""
        wanted = self._handle.library.plain("fuseplan_kernel_workspace_bytes", self._pointer,
                                            _extents(m=m)["m"])
        if wanted < 0:
            raise UsageError(f"m is {m}: out of this kernel's range", 10)
        return wanted

    def launch(self, m: int, a: int, b: int, d: int, e: int, workspace: int = 0,
               stream: int = 0) -> None:
        """Enqueues one launch on a stream (a CUstream's number), which may be capturing.

        a [m,k], b [n,k] (gated_ffn: [2n,k], gate above up), d [l,n], e [m,l]: device addresses,
        16-byte aligned. workspace: 256-byte aligned, zero before the first launch; launches that
        share it must run one after the other."""
        matrices = c.Matrices(a=a, b=b, d=d, e=e, workspace=workspace)
        self._handle.library.ask("fuseplan_kernel_launch", self._pointer, m, byref(matrices),
                                 stream or None)

    def release(self) -> None:
        """Unloads it; its launches must have ended, its context must live. May be called again."""
        if self in _kernels:
            _kernels.discard(self)
            self._handle.library.plain("fuseplan_kernel_release", self._pointer)
            self._pointer = c_void_p()


def _user_database() -> str:
    chosen = os.environ.get("FUSEPLAN_DB")
    if chosen is not None:
        return chosen
    for variable, rest in (("XDG_DATA_HOME", ""), ("HOME", ".local/share")):
        base = os.environ.get(variable, "")
        if base.startswith("/"):
            return os.path.join(base, rest, "fuseplan", "plans.db")
    return ""


def _system_database(library_path: str) -> str:
    chosen = os.environ.get("FUSEPLAN_SYSTEM_DB")
    if chosen is not None:
        return chosen
    if os.sep not in library_path:  # found by the system's loader
        return ""
    folder = Path(os.path.abspath(library_path)).parent
    for place in (folder / "plans.db", folder.parent / "share" / "fuseplan" / "plans.db"):
        if place.exists():
            return str(place)
    return ""


def default_paths() -> list[str]:
    """The layers that the command line looks in: the user's database over the program's own.

    The user's: $FUSEPLAN_DB (empty: none), else $XDG_DATA_HOME/fuseplan/plans.db, below
    ~/.local/share; left out where it does not exist. The program's: $FUSEPLAN_SYSTEM_DB (empty:
    none), else plans.db beside the library, else PREFIX/share/fuseplan/plans.db. FileError where
    there is neither."""
    user, system = _user_database(), _system_database(c.library().path)
    layers = [path for path in (user,) if path and os.path.exists(path)]
    layers += [system] if system else []
    if not layers:
        where = f"{user} does not exist" if user else "FUSEPLAN_DB is empty"
        raise FileError(f"no plan database: {where}: tune or import one, or set FUSEPLAN_DB", 30)
    return layers


_lock = threading.Lock()
_default: Optional[tuple[int, Store]] = None


def default_store() -> Store:
    """The store of the default layers, opened at the first call in this process."""
    global _default
    with _lock:
        if _default is None or _default[0] != os.getpid():
            _default = os.getpid(), Store()
        return _default[1]


def lookup(kind: str, m: int, n: int, k: int, l: Optional[int] = None, *, dtype: str = "f16",
           act: Optional[str] = None, device: Union[str, Device] = "h200",
           deterministic: bool = False, runnable: bool = False, last_tier: str = "library",
           require_hit: bool = False, batch: int = 0, ic: int = 0, h: int = 0, w: int = 0,
           k1: int = 0) -> Optional[Answer]:
    """Store.lookup in the store of the default layers."""
    return default_store().lookup(kind, m, n, k, l, dtype=dtype, act=act, device=device,
                                  deterministic=deterministic, runnable=runnable,
                                  last_tier=last_tier, require_hit=require_hit, batch=batch, ic=ic,
                                  h=h, w=w, k1=k1)
