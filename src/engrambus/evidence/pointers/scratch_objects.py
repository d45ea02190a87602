"""Git objects of ours in a temporary folder, which a git process reads as if they were in the repository."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
import zlib
from pathlib import Path

_WHO = "Engram Bus <scratch@engrambus.invalid> 0 +0000"


class ScratchObjects:
    """Objects that exist as long as this process needs them; nothing is written to the repository."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        """The folder of the objects; None while there are none."""
        self._lock = threading.Lock()
        self._finalizer: weakref.finalize[..., ScratchObjects] | None = None

    def commit(self, tree: str, parent: str) -> str:
        """Write a commit and return its id, which depends on the tree and the parent alone."""
        text = f"tree {tree}\nparent {parent}\nauthor {_WHO}\ncommitter {_WHO}\n\nscratch\n"
        return self.write("commit", text.encode(), len(tree))

    def write(self, kind: str, data: bytes, id_width: int) -> str:
        """Write an object and return its id; 64 digits of it mean a repository with SHA-256."""
        framed = b"%s %d\0" % (kind.encode(), len(data)) + data
        hashed = hashlib.new("sha256" if id_width == 64 else "sha1", framed, usedforsecurity=False)
        object_id = hashed.hexdigest()
        file = self._open_folder() / object_id[:2] / object_id[2:]
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            # Another thread may write the same object: each writes a file of its own, and the last one gets the name.
            unfinished = file.with_name(f"tmp_{threading.get_ident()}_{object_id[2:]}")
            unfinished.write_bytes(zlib.compress(framed, 1))
            os.replace(unfinished, file)
        return object_id

    def close(self) -> None:
        """Delete every object."""
        with self._lock:
            if self._finalizer is not None:
                self._finalizer()
            self.folder = self._finalizer = None

    def _open_folder(self) -> Path:
        with self._lock:
            if self.folder is None:
                import tempfile  # slow to import, and most calls need no scratch objects

                self.folder = Path(tempfile.mkdtemp(prefix="engrambus-objects-"))
                self._finalizer = weakref.finalize(self, _delete, self.folder, os.getpid())
            return self.folder


def _delete(folder: Path, owner: int) -> None:
    """Delete a folder, unless this is a forked child of the process that made it."""
    if owner == os.getpid():
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
