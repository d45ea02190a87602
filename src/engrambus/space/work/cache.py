"""The step cache: the key a result is stored under, and whether a cached result is still complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from engrambus.core import canonical, digest_of
from engrambus.evidence.receipts import BodyStore, Receipt, bodies_of
from engrambus.space.catalog import CatalogEntry
from engrambus.space.work.input_files import InputFiles


class StepInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The files a step reads, as they were at one moment, and the key its result is stored under."""

    key: str | None
    """None if its yool must not be answered from the cache."""
    digests: Mapping[str, str] = {}
    """Digest of each file's path and content, by its path relative to the project."""

    def changed_since(self, earlier: StepInputs) -> tuple[str, ...]:
        """Return the files that were written, added or deleted since."""
        paths = self.digests.keys() | earlier.digests.keys()
        return tuple(sorted(path for path in paths if self.digests.get(path) != earlier.digests.get(path)))


def step_inputs(
    entry: CatalogEntry,
    args: Mapping[str, Any],
    *,
    root: Path,
    files: InputFiles,
    env: Mapping[str, str],
    salt: str = "",
) -> StepInputs:
    """Read the files that a step depends on, and make the key of its result from them."""
    contract = entry.contract
    if contract.inputs is None or not contract.is_reusable:
        return StepInputs(key=None)
    digests = files.digests(root, contract.inputs, args)
    # decision 104: without a file, what is declared stands in its place. The bare hash is the key of results that were
    # made when nothing had to be declared; they may depend on any file, so they answer no step any more.
    shas = list(digests.values()) or [digest_of(["inputs", list(contract.inputs)])]
    visible_env = {name: env[name] for name in contract.env if name in env}
    key = f"{entry.full_name}@{input_hash(entry.full_name, args, shas, visible_env, salt)}"
    return StepInputs(key=key, digests=digests)


def input_hash(
    yool: str,
    args: Mapping[str, Any],
    file_shas: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    salt: str = "",
) -> str:
    """Return the hash of everything that decides a result; without environment and salt, the specified formula.

    Environment and salt are added as one canonical JSON object, which cannot be mistaken for a file's digest.
    """
    running = hashlib.sha256(yool.encode())
    running.update(json.dumps(args, sort_keys=True).encode())
    for sha in sorted(file_shas):
        running.update(sha.encode())
    additions = ({"env": dict(env)} if env else {}) | ({"salt": salt} if salt else {})
    if additions:
        running.update(canonical(additions))
    return running.hexdigest()


def damaged_body(receipt: Receipt, bodies: BodyStore) -> str | None:
    """Return the digest of the first body that is missing or damaged."""
    return next((sha for sha in bodies_of(receipt) if not bodies.is_intact(sha)), None)
