"""libfuseplan.so.0 through ctypes: where it is, its structures, its functions.

The structures mirror tuner/lib/fuseplan.h; tests/python compares every size and offset with what
the C compiler makes of that header."""
from __future__ import annotations

import ctypes
import os
import sys
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint64, c_void_p
from pathlib import Path
from typing import Any, Iterator, Optional

from .errors import LibraryNotFound, raise_for

SONAME = "libfuseplan.so.0"

KINDS = ("gemm_chain", "gated_ffn", "conv_chain")
DTYPES = ("f16", "bf16")
ACTS = ("none", "relu", "gelu", "silu")
TIERS = ("exact", "envelope", "nearest", "model", "library")
PROVENANCES = ("measured", "predicted", "simulated")
MATCHES = ("same", "toolkit", "driver", "device", "unknown")


class Message(ctypes.Structure):
    _fields_ = [("text", c_char * 512)]


class Sized(ctypes.Structure):
    """A structure that begins with its size, set when it is made."""

    def __init__(self, **values: Any):
        super().__init__(size=ctypes.sizeof(self), **values)


class Problem(Sized):
    _fields_ = [("size", c_size_t),
                *((name, c_int32) for name in ("kind", "dtype", "act")),
                *((name, c_int64) for name in ("m", "n", "k", "l", "batch", "ic", "h", "w", "k1"))]


class DeviceClass(Sized):
    _fields_ = [("size", c_size_t), ("capability_major", c_int32), ("capability_minor", c_int32),
                ("sms", c_int64), ("l2_bytes", c_int64), ("hbm_bytes", c_int64),
                ("sm_clock_mhz", c_double), ("driver", c_int64)]


class Options(Sized):
    _fields_ = [("size", c_size_t), ("is_deterministic", c_int32), ("needs_kernel", c_int32),
                ("last_tier", c_int32)]


class AnswerRecord(Sized):
    _fields_ = [("size", c_size_t),
                *((name, c_int32) for name in ("tier", "provenance", "match", "is_library",
                                               "has_kernel", "is_deterministic", "layer")),
                *((name, c_int64) for name in ("plan", "m_low", "m_high")),
                *((name, c_double) for name in ("estimated_us", "measured_us", "measured_hot_us",
                                                "library_us", "library_hot_us", "regret",
                                                "regret_low", "regret_high")),
                *((name, c_int64) for name in ("created_unix", "candidates", "verified")),
                ("problem", c_char * 256), ("schedule", c_char * 256), ("kernel", c_char * 64),
                ("reason", c_char * 256)]


class Matrices(Sized):
    _fields_ = [("size", c_size_t),
                *((name, c_uint64) for name in ("a", "b", "d", "e", "workspace"))]


# The structures under their C names.
STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "fuseplan_message": Message, "fuseplan_problem": Problem, "fuseplan_device": DeviceClass,
    "fuseplan_options": Options, "fuseplan_answer": AnswerRecord, "fuseplan_matrices": Matrices}

# Functions that answer a status and take a message last.
_CHECKED = {
    "fuseplan_open": (POINTER(c_char_p), c_int, POINTER(c_void_p)),
    "fuseplan_device_named": (c_void_p, c_char_p, POINTER(DeviceClass)),
    "fuseplan_device_current": (c_void_p, POINTER(DeviceClass)),
    "fuseplan_lookup": (c_void_p, POINTER(Problem), POINTER(DeviceClass), POINTER(Options),
                        POINTER(AnswerRecord)),
    "fuseplan_kernel_load": (c_void_p, POINTER(Problem), POINTER(AnswerRecord), POINTER(c_void_p)),
    "fuseplan_kernel_launch": (c_void_p, c_int64, POINTER(Matrices), c_void_p),
}
# Name: result, arguments.
_PLAIN = {
    "fuseplan_version": (c_char_p, ()),
    "fuseplan_close": (None, (c_void_p,)),
    "fuseplan_kernel_release": (None, (c_void_p,)),
    "fuseplan_kernel_workspace_bytes": (c_int64, (c_void_p, c_int64)),
}


def places() -> Iterator[str]:
    """Where the library may be, best first; the last one is left to the system's loader."""
    chosen = os.environ.get("FUSEPLAN_LIBRARY")
    if chosen:
        yield chosen
        return
    here = Path(__file__).resolve()
    for folder in here.parents:
        if folder.name in ("lib", "lib64"):  # PREFIX/lib/python3/site-packages/fuseplan
            yield str(folder / SONAME)
    yield str(Path(sys.prefix) / "lib" / SONAME)
    root = here.parents[3]  # tools/python/fuseplan of a source tree
    if (root / "tuner" / "lib" / "fuseplan.h").exists():
        yield str(root / "build" / SONAME)
    yield SONAME


def _open() -> tuple[ctypes.CDLL, str]:
    tried = []
    for place in places():
        if place != SONAME and not os.path.exists(place):
            tried.append(place)
            continue
        try:
            return ctypes.CDLL(place), place
        except OSError as why:
            if place != SONAME:
                raise LibraryNotFound(f"{place}: cannot be loaded: {why}") from None
            tried.append("the system's loader")
    raise LibraryNotFound(f"no {SONAME}: not at {', '.join(tried)}: run 'make build' in the source "
                          "tree or 'make install', or set FUSEPLAN_LIBRARY to its path")


def _symbol(library: ctypes.CDLL, path: str, name: str) -> Any:
    try:
        return getattr(library, name)
    except AttributeError:
        raise LibraryNotFound(f"{path}: has no {name}: it is no fuseplan library of this "
                              "version") from None


class Library:
    """The loaded library. Its functions may be called from any thread; ctypes lets the others run
    meanwhile."""

    def __init__(self) -> None:
        library, self.path = _open()
        for name, arguments in _CHECKED.items():
            function = _symbol(library, self.path, name)
            function.restype, function.argtypes = c_int, (*arguments, POINTER(Message))
        for name, (result, arguments) in _PLAIN.items():
            function = _symbol(library, self.path, name)
            function.restype, function.argtypes = result, arguments
        self._library = library

    def ask(self, name: str, *arguments: Any) -> None:
        """Calls a function that answers a status; raises what the status stands for."""
        message = Message()
        status = getattr(self._library, name)(*arguments, byref(message))
        raise_for(status, message.text.decode("utf-8", "replace"))

    def plain(self, name: str, *arguments: Any) -> Any:
        return getattr(self._library, name)(*arguments)

    @property
    def version(self) -> str:
        return self.plain("fuseplan_version").decode()


_lock = threading.Lock()
_loaded: Optional[Library] = None


def library() -> Library:
    """The one library of the process, loaded at the first call."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = Library()
        return _loaded
