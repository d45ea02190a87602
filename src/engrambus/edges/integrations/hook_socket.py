"""Where hooks reach a running gateway, and how both ends prove themselves (decision 78).

The socket lies in the folder of the project's keys, which only its account can enter. Each end also proves that it can
read the project's key, by a MAC over what it sends and over random bytes of the other end: a process that may connect
but may not read the key, such as a sandboxed one, gets nothing and can pretend nothing.

A hook loads this module at every event, so it imports next to nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sys
from pathlib import Path

from engrambus.version import __version__

GREETING = f"engrambus-hook/1 {__version__} "
"""The first words of the gateway; a hook of another version answers by itself."""
NONCE_CHARS = 32
MAC_CHARS = 64
MAX_HEAD_BYTES = 256
MAX_BODY_BYTES = 16 << 20
_LABEL = b"engrambus hook socket"
_MAX_ADDRESS_BYTES = 100
"""An address of a socket has 104 to 108 bytes."""


def socket_path(key_folder: Path, state: Path) -> Path:
    """Return where the gateway of a checkout listens; several checkouts of a project have a gateway each."""
    place = hashlib.sha256(os.fsencode(os.path.realpath(state))).hexdigest()[:16]
    return key_folder / f"hook-{place}.sock"


def socket_address(path: Path, folder: int) -> str | None:
    """Return the address of a socket in an open folder; None if there is none that is short enough."""
    address = str(path)
    if len(os.fsencode(address)) <= _MAX_ADDRESS_BYTES:
        return address
    # Linux names the open folder in few characters.
    return f"/proc/self/fd/{folder}/{path.name}" if sys.platform == "linux" else None


def open_private_folder(path: Path) -> int | None:
    """Open the folder of the keys; None if it is not there or another account could enter it."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(folder)
    if status.st_uid == os.geteuid() and not status.st_mode & 0o077:
        return folder
    os.close(folder)
    return None


def proof(secret: bytes, sender: str, nonce: str, body: bytes) -> str:
    """Return the MAC that shows that the sender of a body knows the project's key and answers this connection."""
    key = hmac.digest(secret, _LABEL, "sha256")
    return hmac.digest(key, f"{sender} {nonce} ".encode() + body, "sha256").hex()
