"""Secrets kept in a folder that only its owner can read."""

from __future__ import annotations

import os
from pathlib import Path

from engrambus.errors import FormatUnknown

KEY_BYTES = 32


def kept_secret(folder: Path, name: str) -> bytes:
    """The 32 random bytes kept in a file of a folder; made on first use, and by one process only."""
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = folder / f"{name}.{os.getpid()}.{os.urandom(4).hex()}.new"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)  # whole or not at all: whoever comes second reads the first one's key
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    secret = path.read_bytes()
    if len(secret) != KEY_BYTES:
        raise FormatUnknown(f"The key file {path} is not {KEY_BYTES} bytes long.", hint="Remove it to make another.")
    return secret
