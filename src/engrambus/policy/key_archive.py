"""A file with the keys of projects: for a backup, and to bring a project to another machine (decision 67).

{"engrambus": "keys", "version": 1, "keys": {"<project id>": {"journal.key": "<64 hex>", "token.key": …}}}
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from engrambus.core import is_ulid
from engrambus.errors import FieldValue, FormatUnknown, KeyFileReadable, KeysExist
from engrambus.policy.journal_key import JOURNAL_KEY_FILE
from engrambus.policy.key_files import KEY_BYTES, read_secret, write_secret

VERSION = 1
MAX_FILE_BYTES = 1 << 16
_NAME = re.compile(r"[a-z]{1,32}\.key")


class _Archive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    engrambus: str = "keys"
    version: int
    keys: dict[str, dict[str, str]]


_decoder = msgspec.json.Decoder(_Archive)


class ImportedKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of one project, after an import."""

    project: str
    folder: Path
    written: tuple[str, ...]
    """Names of the files that were written; those with the same key before are left out."""


def export_keys(path: Path, folders: Iterable[Path]) -> list[str]:
    """Write the keys in these folders, each named by a project's id, to a new file; return the ids."""
    keys = {folder.name: found for folder in folders if JOURNAL_KEY_FILE in (found := _read_folder(folder))}
    if not keys:
        raise FieldValue("This machine has no keys of the project: there is nothing to export.", field="file")
    text = msgspec.json.format(msgspec.json.encode(_Archive(version=VERSION, keys=keys)), indent=2) + b"\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise FieldValue(
            f"{path} is there already; keys are never written over a file.", field="file", hint="Choose another name."
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    return sorted(keys)


def import_keys(path: Path, folder_of: Callable[[str], Path], *, replace: bool) -> list[ImportedKeys]:
    """Write the keys of a file into the folders of their projects; nothing is written if one would be replaced.

    With `replace`, the key that was there before stays in the same folder, under a name that ends with `.replaced`.
    """
    archive = _read(path)
    different = [
        f"{project}/{name}"
        for project, keys in archive.items()
        for name, key in keys.items()
        if _existing(folder_of(project) / name) not in (None, key)
    ]
    if different and not replace:
        raise KeysExist(
            f"This machine has other keys than the file: {', '.join(different)}. Nothing was imported.",
            field="file",
            hint="With --replace they take the place of this machine's, whose own journal is foreign from then on.",
        )
    return [
        ImportedKeys(project=project, folder=folder_of(project), written=tuple(_write(folder_of(project), keys)))
        for project, keys in archive.items()
    ]


def _write(folder: Path, keys: dict[str, bytes]) -> Iterable[str]:
    for name, key in sorted(keys.items()):
        before = _existing(folder / name)
        if before == key:
            continue
        if before is not None:
            (folder / name).rename(folder / f"{name}.{os.urandom(4).hex()}.replaced")
        write_secret(folder, name, key)
        yield name


def _existing(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _read_folder(folder: Path) -> dict[str, str]:
    hint = "Put it back from a backup: engrambus keys import FILE."
    return {path.name: read_secret(path, hint).hex() for path in sorted(folder.glob("*.key"))}


def _read(path: Path) -> dict[str, dict[str, bytes]]:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FormatUnknown(f"{path} is not a file with keys.", field="file")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise KeyFileReadable(
                f"Other accounts can read {path}. Nothing was imported.", field="file", hint=f"chmod 600 {path}"
            )
        text = file.read(MAX_FILE_BYTES + 1)
    try:
        archive = _decoder.decode(text)
        if len(text) > MAX_FILE_BYTES or archive.engrambus != "keys" or archive.version != VERSION:
            raise ValueError
        return {_checked_id(project): _checked_keys(keys) for project, keys in archive.keys.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        raise FormatUnknown(f"{path} is not a file that `engrambus keys export` wrote.", field="file") from None


def _checked_id(project: str) -> str:
    """Return a project's id; anything else would name a folder that is not one of keys."""
    if not is_ulid(project):
        raise ValueError
    return project


def _checked_keys(keys: dict[str, str]) -> dict[str, bytes]:
    secrets = {name: bytes.fromhex(text) for name, text in keys.items()}
    if JOURNAL_KEY_FILE not in secrets:
        raise ValueError
    if not all(_NAME.fullmatch(name) and len(secret) == KEY_BYTES for name, secret in secrets.items()):
        raise ValueError
    return secrets
