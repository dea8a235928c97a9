"""Plans for fused GPU kernels, looked up by shape.

    answer = fuseplan.lookup("gated_ffn", m=16, n=14336, k=4096, dtype="bf16")
    if answer: print(answer.tier, answer.schedule, answer.measured_us)

fuseplan.torch runs plans on tensors; it alone needs torch."""
from .errors import (DatabaseBusy, DatabaseCorrupt, DatabaseError, DatabaseSchemaError, DeviceError,
                     FileError, FuseplanError, InternalError, LibraryNotFound, NoPlan, OutOfMemory,
                     ParseError, UsageError)
from .store import Answer, Device, Kernel, Store, default_paths, default_store, lookup

__version__ = "0.1.0"

__all__ = ["Answer", "DatabaseBusy", "DatabaseCorrupt", "DatabaseError", "DatabaseSchemaError",
           "Device", "DeviceError", "FileError", "FuseplanError", "InternalError", "Kernel",
           "LibraryNotFound", "NoPlan", "OutOfMemory", "ParseError", "Store", "UsageError",
           "default_paths", "default_store", "lookup"]
