"""Files with a secret key: 32 random bytes that only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path

KEY_BYTES = 32
PROJECT_KEY_FILE = "token.key"


def load_secret(folder: Path, name: str) -> bytes:
    """Return the 32 random bytes stored in a file; the first process that needs them creates it."""
    path = folder / name
    if not path.exists():
        create_secret(folder, name)
    return read_secret(path, "Delete it: the next command creates another, and every agent needs a new token.")


def create_secret(folder: Path, name: str) -> None:
    """Create a file with 32 random bytes; leave an existing one alone."""
    if not (folder / name).exists():
        write_secret(folder, name, os.urandom(KEY_BYTES))


def write_secret(folder: Path, name: str, secret: bytes) -> None:
    """Create a file with a secret; leave an existing one alone."""
    from engrambus.core.files import make_folder  # decision 44: only where a key is created

    make_folder(folder.resolve())  # those above it are private too, or another account could replace it
    draft = folder / f"{name}.{os.getpid()}.{os.urandom(4).hex()}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        # A link appears complete or not at all, and fails if another process was first: then its key is read.
        os.link(draft, folder / name)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def read_secret(path: Path, hint: str) -> bytes:
    """Return the 32 random bytes stored in a file; `hint` says what to do if it holds anything else."""
    secret = path.read_bytes()
    if len(secret) != KEY_BYTES:
        # decision 44: a hook that rewrites a tool call loads this module and none of the product's others
        from engrambus.errors import FormatUnknown

        raise FormatUnknown(f"The key file {path} is not {KEY_BYTES} bytes long.", hint=hint)
    return secret
