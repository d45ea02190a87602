"""What the cache knows a step by: the yool with its version, its arguments, the files it reads, the environment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from engrambus.core import canonical


def input_hash(
    yool: str,
    args: Mapping[str, Any],
    file_shas: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    salt: str = "",
) -> str:
    """The hash of everything that decides a result.

    Without environment and salt it is the published formula. They enter as one canonical JSON object, which no file's
    digest can be mistaken for.
    """
    running = hashlib.sha256(yool.encode())
    running.update(json.dumps(args, sort_keys=True).encode())
    for sha in sorted(file_shas):
        running.update(sha.encode())
    more = ({"env": dict(env)} if env else {}) | ({"salt": salt} if salt else {})
    if more:
        running.update(canonical(more))
    return running.hexdigest()


def cache_key(yool: str, hashed: str) -> str:
    """The name a result is found under."""
    return f"{yool}@{hashed}"
