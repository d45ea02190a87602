"""Connections that read an index, kept for the next who reads."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import apsw

from engrambus.backends.sqlite.index import connect

Identity = tuple[int, int]
"""What tells one file from another that was put in its place: its device and its number there."""


def identity(path: str) -> Identity | None:
    """Which file lies there now, if one does."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


class Readers:
    """The idle ones. Those of an index that is no more are closed when they are come across."""

    def __init__(self, index: Path) -> None:
        self._index = index
        self._idle: list[tuple[Identity, apsw.Connection]] = []
        self._lock = threading.Lock()

    def take(self, file: Identity) -> apsw.Connection:
        """A connection to the index of that identity."""
        with self._lock:
            while self._idle:
                of, connection = self._idle.pop()
                if of == file:
                    return connection
                connection.close()
        return connect(self._index)

    def give(self, file: Identity, connection: apsw.Connection) -> None:
        """Keep a connection, with no transaction open, for the next."""
        with self._lock:
            self._idle.append((file, connection))

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            for _, connection in self._idle:
                connection.close()
            self._idle.clear()
