"""The step cache: the key a result is stored under, and whether a cached result is still complete."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from engrambus.core import canonical, digest_of
from engrambus.errors import LinkRefused, YoolArguments
from engrambus.evidence.receipts import BodyStore, Receipt, bodies_of
from engrambus.space.catalog import CatalogEntry

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CHUNK_BYTES = 1 << 20
EXCLUDED = frozenset({".git", ".catalog"})
"""Folders that are no step's input unless its pattern names them: both change with every step."""


def step_key(
    entry: CatalogEntry, args: Mapping[str, Any], *, root: Path, env: Mapping[str, str], salt: str = ""
) -> str | None:
    """Return the key of a step's result; None if its yool must not be answered from the cache."""
    contract = entry.contract
    if not contract.cached:
        return None
    shas = [sha for pattern in contract.inputs for sha in file_shas(pattern, args, root)]
    visible_env = {name: env[name] for name in contract.env if name in env}
    return f"{entry.full_name}@{input_hash(entry.full_name, args, shas, visible_env, salt)}"


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


def file_shas(pattern: str, args: Mapping[str, Any], root: Path) -> list[str]:
    """Return a digest over path and content for each file a pattern names.

    A folder stands for every file in it; a link to a folder, for its target's path and every file in it.
    """
    # decision 24: the path is part of the digest, because two files that swap their contents are another input.
    real_root = os.path.realpath(root)
    contents = _contents(real_root, _expand(real_root, _fill_in(pattern, args)))
    return [digest_of([_path_text(path), contents[path]]) for path in sorted(contents)]


def _expand(root: str, pattern: str) -> set[str]:
    """Return the paths a pattern names. `**` follows no links: packages that link to each other would never end."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    excluded = EXCLUDED.difference(parts)
    paths = {"."}
    for part in parts:
        if part == "**":
            paths = {folder for path in paths for folder in _subfolders(root, path, excluded)}
        elif glob.has_magic(part):
            matches = ((path, fnmatch.filter(_names_in(root, path), part)) for path in paths)
            paths = {os.path.normpath(os.path.join(path, name)) for path, names in matches for name in names}
        else:
            paths = {os.path.normpath(os.path.join(path, part)) for path in paths}
    return {path for path in paths if excluded.isdisjoint(path.split("/"))}


def _subfolders(root: str, path: str, excluded: frozenset[str]) -> Iterator[str]:
    """Yield a folder and all below it."""
    for folder, names, _ in os.walk(os.path.join(root, path)):
        names[:] = [name for name in names if name not in excluded]
        yield os.path.relpath(folder, root)


def _names_in(root: str, path: str) -> list[str]:
    try:
        return os.listdir(os.path.join(root, path))
    except OSError:  # missing, or not a folder
        return []


def _contents(root: str, paths: set[str]) -> dict[str, str]:
    """Map each file under the paths to its content's hash, and each link to a folder to its target."""
    contents: dict[str, str] = {}
    visited: set[str] = set()
    queue = list(paths)
    while queue:
        name = queue.pop()
        path = os.path.join(root, name)
        real_path = os.path.realpath(path)
        if os.path.commonpath([root, real_path]) != root:
            raise LinkRefused("A file a step reads lies outside the project.", field="inputs", used=ascii(name)[:200])
        with suppress(FileNotFoundError):  # it was deleted while we looked
            if os.path.isfile(path):
                contents[name] = _file_sha(path)
            elif os.path.isdir(path):
                target = os.path.relpath(real_path, root)
                if target != name:
                    contents[name] = _path_text(target)
                if target not in visited:
                    visited.add(target)
                    children = (child for child in os.listdir(real_path) if child not in EXCLUDED)
                    queue.extend(os.path.normpath(os.path.join(target, child)) for child in children)
    return contents


def _path_text(path: str) -> str:
    """Return a path as text; one that is not UTF-8 as hex after a NUL, which no path contains."""
    raw = os.fsencode(path)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"\0{raw.hex()}"


def _fill_in(pattern: str, args: Mapping[str, Any]) -> str:
    def replace(placeholder: re.Match[str]) -> str:
        value = args.get(placeholder[1])
        if not isinstance(value, str) or value.startswith("/") or ".." in value.split("/"):
            raise YoolArguments("The argument is not a path inside the project.", field=f"args.{placeholder[1]}")
        return glob.escape(value)

    return _PLACEHOLDER.sub(replace, pattern)


def _file_sha(path: str) -> str:
    running = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            running.update(chunk)
    return running.hexdigest()


def damaged_body(receipt: Receipt, bodies: BodyStore) -> str | None:
    """Return the digest of the first body that is missing or damaged."""
    return next((sha for sha in bodies_of(receipt) if not bodies.is_intact(sha)), None)
