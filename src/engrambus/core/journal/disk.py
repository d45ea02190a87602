"""Having on the disk what was written, not only in its cache."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def sync(descriptor: int) -> None:
    """Have the file's data on the disk, not only in its cache."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(descriptor, full)
    else:
        os.fdatasync(descriptor)


def sync_folder(folder: Path) -> None:
    """Have a folder's entries on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
