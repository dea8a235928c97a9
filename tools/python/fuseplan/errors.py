"""One exception a status of the C library, by enum fuseplan_status of fuseplan.h."""
from __future__ import annotations


class FuseplanError(Exception):
    """What the library refused or could not do, in one line with the remedy.

    status: the number of enum fuseplan_status; 0 where the library was not asked."""

    def __init__(self, message: str, status: int = 0):
        super().__init__(message)
        self.status = status


class LibraryNotFound(FuseplanError, ImportError):
    """libfuseplan.so.0 is nowhere, or cannot be loaded."""


class NoPlan(FuseplanError, LookupError):
    """Nothing stored answers; the message says why."""


class UsageError(FuseplanError, ValueError):
    """An argument is out of range."""


class ParseError(FuseplanError, ValueError):
    """A file's text is malformed."""


class FileError(FuseplanError, OSError):
    """A file could not be read."""

    def __str__(self) -> str:  # OSError's own would read the status as an errno
        return str(self.args[0])


class DatabaseError(FuseplanError):
    """The database answered an error."""


class DatabaseBusy(DatabaseError):
    """The database was locked too long."""


class DatabaseSchemaError(DatabaseError):
    """Not a plan database or snapshot, or one of a newer fuseplan."""


class DatabaseCorrupt(DatabaseError):
    """The database is damaged."""


class DeviceError(FuseplanError):
    """No usable GPU or context, or the driver failed."""


class InternalError(FuseplanError):
    """A bug of the library."""


class OutOfMemory(FuseplanError, MemoryError):
    """The library found no memory."""


BY_STATUS: dict[int, type[FuseplanError]] = {
    1: NoPlan,
    10: UsageError,
    20: ParseError,
    30: FileError,
    40: DatabaseError,
    41: DatabaseBusy,
    42: DatabaseSchemaError,
    43: DatabaseCorrupt,
    60: DeviceError,
    90: InternalError,
    91: OutOfMemory,
}


def raise_for(status: int, message: str) -> None:
    """Raises what a status stands for; 0: nothing."""
    if status != 0:
        raise BY_STATUS.get(status, FuseplanError)(message, status)
