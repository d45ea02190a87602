"""A backup of a project that is in use: one archive with its journals, bodies, committed files, keys and mirror.

decision 120: the journals are opened under their locks and read afterwards up to where they ended then, so that writers
wait for a moment only. Bodies are read after the journals: each was on disk before the line that names it.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from engrambus.backends.sqlite.lock import WriteLock
from engrambus.backends.sqlite.store import LOCK
from engrambus.backends.sqlite.work_files import WORK_LOCK
from engrambus.core import files, print_time
from engrambus.errors import FieldValue, FormatUnknown
from engrambus.policy import POLICY_FILE

VERSION = 1
MANIFEST, KEYS, BUNDLE = "manifest.json", "keys.json", "mirror.bundle"
CATALOG, STATE = "catalog", "state"
COMMITTED = ("project.yaml", POLICY_FILE, "capabilities.json", ".gitignore")
FOLDERS = ("cas", "receipts", "sam")
"""Folders of private state that no journal makes again as it is."""
LOGS = ("shared-cortex.log", "catalog.path")
JOURNALS = ("memory.", "tuples.")
"""Beginnings of the names of the journals, of their finished segments and of the notes on how far they are synced."""
LOCK_SECONDS = 30.0
MAX_MANIFEST_BYTES = 256 * 1024 * 1024
_CHUNK = 1024 * 1024


class BackupFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a backup."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, tag="backup", tag_field="engrambus"):
    """What a backup holds; it is the last file of the archive."""

    version: int = VERSION
    project: str
    made_at: str
    files: list[BackupFile]


class OpenFile(NamedTuple):
    """A journal as it was at one moment."""

    name: str
    file: IO[bytes]
    size: int


class Archive:
    """An archive that is being written, and what is in it."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.entries: list[BackupFile] = []

    def add(self, name: str, file: IO[bytes], size: int) -> None:
        """Add the first `size` bytes of a file."""
        reader = _HashingReader(file, size)
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, files.PRIVATE_FILE
        self._tar.addfile(info, reader)
        self.entries.append(BackupFile(name=name, size=size, sha256=reader.digest.hexdigest()))

    def add_bytes(self, name: str, data: bytes) -> None:
        """Add a file with this content."""
        self.add(name, io.BytesIO(data), len(data))


class _HashingReader:
    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        self.digest.update(data)
        return data


def write_backup(
    target: Path, *, project: str, state: Path, catalog: Path, now_us: int, keys: bytes | None, bundle: Path | None
) -> Manifest:
    """Write the backup of a project to a new file that only this account can read."""
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise FieldValue(
            f"{target} is there already; a backup is never written over a file.",
            field="file",
            hint="Choose another name.",
        ) from None
    with os.fdopen(descriptor, "wb") as out:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar, ExitStack() as stack:
            archive = Archive(tar)
            for journal in _open_journals(state, stack):
                archive.add(f"{STATE}/{journal.name}", journal.file, journal.size)
            for name in COMMITTED:
                if files.is_file(catalog / name):
                    archive.add_bytes(f"{CATALOG}/{name}", files.read_file(catalog / name))
            for relative in _other_files(state):
                with files.open_reader(state / relative) as file:
                    archive.add(f"{STATE}/{relative}", file, os.fstat(file.fileno()).st_size)
            if keys is not None:
                archive.add_bytes(KEYS, keys)
            if bundle is not None:
                with bundle.open("rb") as file:
                    archive.add(BUNDLE, file, os.fstat(file.fileno()).st_size)
            manifest = Manifest(project=project, made_at=print_time(now_us), files=archive.entries)
            Archive(tar).add_bytes(MANIFEST, msgspec.json.encode(manifest))
        out.flush()
        os.fsync(out.fileno())
    return manifest


def _open_journals(state: Path, stack: ExitStack) -> list[OpenFile]:
    """Open the journals and their segments as they are at one moment, when no commit is under way."""

    def open_all() -> list[OpenFile]:
        names = [name for name in files.folder_names(state) if name.startswith(JOURNALS)]
        opened = [(name, stack.enter_context(files.open_reader(state / name))) for name in sorted(names)]
        return [OpenFile(name, file, os.fstat(file.fileno()).st_size) for name, file in opened]

    knowledge, work = (WriteLock(state / lock, LOCK_SECONDS) for lock in (LOCK, WORK_LOCK))
    try:
        return knowledge.run(lambda: work.run(open_all))
    finally:
        knowledge.close()
        work.close()


def _other_files(state: Path) -> Iterator[str]:
    """Yield the paths of further files of private state, from its folder."""
    yield from (name for name in LOGS if files.is_file(state / name))
    folders = [name for name in FOLDERS if (state / name).is_dir()]
    while folders:
        folder = folders.pop()
        for name in sorted(files.folder_names(state / folder)):
            path = f"{folder}/{name}"
            if files.is_file(state / path):
                yield path
            elif (state / path).is_dir() and not (state / path).is_symlink():
                folders.append(path)


def read_manifest(source: Path) -> Manifest:
    """Return what a backup holds, after a check of every file in it."""
    entries: dict[str, BackupFile] = {}
    manifest: Manifest | None = None
    with _open_archive(source) as tar:
        for info in tar:
            file = tar.extractfile(info) if info.isreg() else None
            if file is None or not _is_ours(info.name) or info.name in entries or manifest is not None:
                raise FormatUnknown(f"{source} is no backup of a project: it holds '{info.name[:120]}'.", field="file")
            if info.name == MANIFEST:
                manifest = _decode_manifest(file.read(MAX_MANIFEST_BYTES), source)
            else:
                digest = hashlib.sha256()
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
                entries[info.name] = BackupFile(name=info.name, size=info.size, sha256=digest.hexdigest())
    if manifest is None or manifest.files != list(entries.values()):
        raise FormatUnknown(
            f"{source} is damaged or not complete: its files are not those that its list names.",
            field="file",
            hint="Use another backup; nothing was written.",
        )
    return manifest


def restore_files(source: Path, *, catalog: Path, names: Sequence[str] = (CATALOG,), state: Path | None = None) -> None:
    """Write the files of a checked backup to the folders of a project."""
    places = {CATALOG: catalog} | ({STATE: state} if state is not None else {})
    with _open_archive(source) as tar:
        for info in tar:
            top, _, relative = info.name.partition("/")
            place, file = places.get(top) if top in names else None, tar.extractfile(info)
            if place is None or file is None:
                continue
            path = place / relative
            mode = files.COMMITTED_FOLDER if top == CATALOG else files.PRIVATE_FOLDER
            for folder in [*reversed(path.relative_to(place).parents)][1:]:
                files.make_folder(place / folder, mode)
            with files.open_writer(path, "xb", files.COMMITTED_FILE if top == CATALOG else files.PRIVATE_FILE) as out:
                while chunk := file.read(_CHUNK):
                    out.write(chunk)
                out.flush()
                os.fsync(out.fileno())


def extract_file(source: Path, name: str, folder: Path) -> Path | None:
    """Write one file of a checked backup to a new file in a folder; None if the backup has none of this name."""
    with _open_archive(source) as tar:
        for info in tar:
            file = tar.extractfile(info) if info.name == name else None
            if file is not None:
                descriptor, path = tempfile.mkstemp(dir=folder)
                with os.fdopen(descriptor, "wb") as out:
                    while chunk := file.read(_CHUNK):
                        out.write(chunk)
                return Path(path)
    return None


def _open_archive(source: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(source, mode="r:")
    except (tarfile.TarError, OSError) as problem:
        raise FormatUnknown(f"{source} is no backup of a project: {problem}.", field="file") from None


def _decode_manifest(data: bytes, source: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError:
        raise FormatUnknown(f"{source} has no list of its files that can be read.", field="file") from None
    if manifest.version != VERSION:
        raise FormatUnknown(
            f"{source} was made by another version.", field="file", limit=VERSION, used=manifest.version
        )
    return manifest


def _is_ours(name: str) -> bool:
    """True if a name is one that backups have, and leads nowhere else."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or not part.isprintable() for part in parts):
        return False
    if len(parts) == 1:
        return name in (MANIFEST, KEYS, BUNDLE)
    if parts[0] == CATALOG:
        return len(parts) == 2 and parts[1] in COMMITTED
    return parts[0] == STATE and (
        (len(parts) == 2 and (parts[1].startswith(JOURNALS) or parts[1] in LOGS)) or parts[1] in FOLDERS
    )
