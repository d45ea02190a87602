"""Failures of the disk: a code that names the disk instead of a traceback (decision 98)."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from engrambus.errors import DiskError, DiskPressure, Trouble

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FAILING = frozenset(
    number
    for name in ("EIO", "EROFS", "ENODEV", "EUCLEAN", "EREMOTEIO", "ESTALE", "EMEDIUMTYPE")
    if (number := getattr(errno, name, None)) is not None
)
_ROOM_HINT = "Free some space; reading goes on, and writing will too."
_DISK_HINT = "Check the disk: `dmesg` names its errors."


def disk_problem(problem: BaseException) -> Trouble | None:
    """Return the refusal that names the disk as the cause of a problem; None if the disk is not at fault."""
    if isinstance(problem, OSError):
        where = f": {problem.filename}" if isinstance(problem.filename, str) else ""
        if problem.errno in _FULL:
            return DiskPressure(f"The disk is full{where}.", hint=_ROOM_HINT)
        if problem.errno in _FAILING:
            return DiskError(f"{problem.strerror}{where}.", hint=_DISK_HINT)
        return None
    apsw = sys.modules.get("apsw")  # decision 39: who has no database open need not load it
    if apsw is None:
        return None
    code = getattr(problem, "extendedresult", 0)
    if isinstance(problem, apsw.FullError) or code == apsw.SQLITE_IOERR_SHMSIZE:  # no room for the `-shm` file
        return DiskPressure("The disk has no room for the index.", hint=_ROOM_HINT)
    if isinstance(problem, (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError)):
        return DiskError(f"A database could not be read or written: {problem}.", hint=_DISK_HINT)
    return None


@contextmanager
def naming_the_disk() -> Iterator[None]:
    """Raise failures of the disk inside the block as DiskPressure or DiskError."""
    try:
        yield
    except Exception as problem:
        refusal = disk_problem(problem)
        if refusal is None:
            raise
        raise refusal from problem
