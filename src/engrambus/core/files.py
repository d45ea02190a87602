"""The one way to open, create, rename and list what Engram Bus keeps on disk (decision 65).

A cloned repository may carry anything in `.catalog`: links, and anything else an archive can hold. So no component of a
path is followed if it is a symbolic link: each folder is opened relative to the one before it. Paths are absolute, and
the folders above `.catalog` were resolved when the project was found. What is created is private under any umask.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Literal

from engrambus.errors import FileNotOurs, FolderNotOurs, LinkInCatalog

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
COMMITTED_FILE = 0o666
COMMITTED_FOLDER = 0o777
"""Modes of what users commit; the umask lowers them."""
DATABASE_PARTS = ("", "-wal", "-shm", "-journal")

# A folder that may be searched but not listed can be walked through; where there is no O_PATH it must be readable.
_WALK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, so that a FIFO in the place of a file cannot block us; regular files take no notice.
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_LINK_ERRORS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK, getattr(errno, "EFTYPE", errno.ELOOP)})
_WRITER_FLAGS = {
    "wb": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "xb": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "ab": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
}


def open_file(path: Path | str, flags: int, mode: int = PRIVATE_FILE) -> int:
    """Open a regular file and return its descriptor; refuse a link, and anything that is not a file."""
    with _parent(path) as (folder, name):
        return _open_in(folder, name, flags, mode, str(path))


def open_reader(path: Path | str) -> BufferedReader:
    """Open a regular file to read its bytes."""
    return os.fdopen(open_file(path, os.O_RDONLY), "rb")


def open_writer(path: Path | str, kind: Literal["wb", "xb", "ab"], mode: int = PRIVATE_FILE) -> BufferedWriter:
    """Open a regular file to write bytes: an emptied file, one that must not exist, or one to append to."""
    return os.fdopen(open_file(path, _WRITER_FLAGS[kind], mode), "ab" if kind == "ab" else "wb")


def read_file(path: Path | str) -> bytes:
    """Return the content of a regular file."""
    with open_reader(path) as file:
        return file.read()


def replace_file(path: Path, content: bytes, mode: int = PRIVATE_FILE, *, synced: bool = False) -> None:
    """Write a file under a name of its own and rename it into place: a reader sees the old or the new one, whole."""
    draft = f".{path.name}.{os.urandom(8).hex()}.new"
    with _parent(path) as (folder, name):
        descriptor = _open_in(folder, draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, str(path.with_name(draft)))
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                if synced:
                    os.fsync(file.fileno())
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise
    if synced:
        sync_folder(path.parent)


def is_file(path: Path | str) -> bool:
    """True if there is a regular file; refuse a link, and anything else in its place."""
    try:
        _check_status(status_of(path), str(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def status_of(path: Path | str) -> os.stat_result:
    """Return the status of a file or folder; refuse a link."""
    with _parent(path) as (folder, name):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise _link(str(path))
    return status


def open_folder(path: Path | str) -> int:
    """Open a folder, to list it or to open files relative to it."""
    with _parent(path) as (folder, name):
        try:
            return os.open(name, _LIST, dir_fd=folder)
        except OSError as problem:
            raise _explain(problem, folder, name, str(path)) from None


def folder_names(path: Path | str) -> list[str]:
    """Return the names in a folder."""
    folder = open_folder(path)
    try:
        return os.listdir(folder)
    finally:
        os.close(folder)


def make_folder(path: Path | str, mode: int = PRIVATE_FOLDER) -> bool:
    """Create a folder, and private ones above it where they are missing; return True if it was not there."""
    missing: list[str] = []
    above = str(path)
    while True:
        try:
            folder = open_folder(above)
            break
        except FileNotFoundError:
            above, _, name = above.rstrip("/").rpartition("/")
            missing.append(name)
    created = False
    try:
        while missing:
            name = missing.pop()
            try:
                os.mkdir(name, PRIVATE_FOLDER if missing else mode, dir_fd=folder)
                created = True
            except FileExistsError:  # another process was first
                created = False
            above = f"{above}/{name}"
            try:
                inner = os.open(name, _LIST, dir_fd=folder)
            except OSError as problem:
                raise _explain(problem, folder, name, above) from None
            os.close(folder)
            folder = inner
    finally:
        os.close(folder)
    return created


def sync_folder(path: Path | str) -> None:
    """Force a folder's entries to the disk, so that new and renamed files survive a power cut."""
    folder = open_folder(path)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def rename(source: Path | str, target: Path | str) -> None:
    """Rename a file or folder, replacing the target."""
    with _parent(source) as (folder, name), _parent(target) as (new_folder, new_name):
        os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)


def link(source: Path | str, target: Path | str) -> None:
    """Give a file a second name; fail if that is taken."""
    with _parent(source) as (folder, name), _parent(target) as (new_folder, new_name):
        os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)


def remove(path: Path | str) -> None:
    """Delete a file, if it is there; a link is deleted itself."""
    with suppress(FileNotFoundError), _parent(path) as (folder, name):
        os.unlink(name, dir_fd=folder)


def make_fifo(path: Path | str) -> None:
    """Create a FIFO that only this account can open."""
    with _parent(path) as (folder, name):
        os.mkfifo(name, PRIVATE_FILE, dir_fd=folder)


def open_fifo(path: Path | str, flags: int) -> int:
    """Open a FIFO without waiting for its other end."""
    with _parent(path) as (folder, name):
        try:
            descriptor = os.open(name, flags | _OPEN, dir_fd=folder)
        except OSError as problem:
            if problem.errno in _LINK_ERRORS:
                raise _explain(problem, folder, name, str(path)) from None
            raise
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotOurs(f"{path} is not a FIFO.", field=str(path), hint=f"Remove it: rm {_quote(path)}")
    return descriptor


def check_database(path: Path, *, create: bool) -> str:
    """Return the path for SQLite to open with SQLITE_OPEN_NOFOLLOW; a file that SQLite creates would not be private."""
    with _parent(path) as (folder, name):
        # SQLite gives the files beside it the same mode.
        os.close(_open_in(folder, name, os.O_RDWR | (os.O_CREAT if create else 0), PRIVATE_FILE, str(path)))
        for part in DATABASE_PARTS[1:]:
            with suppress(FileNotFoundError):
                _check_status(os.stat(name + part, dir_fd=folder, follow_symlinks=False), f"{path}{part}")
    return str(path)


def check_folder(path: Path) -> None:
    """Refuse a folder of private files that belongs to another account or holds links; close it to others."""
    folder = open_folder(path)
    try:
        status = os.fstat(folder)
        if status.st_uid != os.geteuid():
            raise _of_another_account(str(path))
        if status.st_mode & 0o077:
            os.fchmod(folder, PRIVATE_FOLDER)
        _refuse_links(folder, str(path), depth=2)
    finally:
        os.close(folder)


def _refuse_links(folder: int, path: str, depth: int) -> None:
    """Refuse links in a folder and its folders: by name, before anything is read or written."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise _link(f"{path}/{entry.name}")
            if depth > 1 and entry.is_dir(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    inner = os.open(entry.name, _LIST, dir_fd=folder)
                    try:
                        _refuse_links(inner, f"{path}/{entry.name}", depth - 1)
                    finally:
                        os.close(inner)


@contextmanager
def _parent(path: Path | str) -> Iterator[tuple[int, str]]:
    """Open the folder of a path without following a link, and yield it with the last component."""
    text = str(path)
    first, *folders, name = text.rstrip("/").split("/")
    if first or not name:
        raise ValueError(f"{text!r} is not an absolute path")
    descriptor = os.open("/", _WALK)
    try:
        for number, part in enumerate(folders):
            try:
                inner = os.open(part, _WALK, dir_fd=descriptor)
            except OSError as problem:
                raise _explain(problem, descriptor, part, "/".join(["", *folders[: number + 1]])) from None
            os.close(descriptor)
            descriptor = inner
        try:
            yield descriptor, name
        except PermissionError:
            if os.fstat(descriptor).st_uid != os.geteuid():
                raise _of_another_account("/".join(["", *folders])) from None
            raise
    finally:
        os.close(descriptor)


def _open_in(folder: int, name: str, flags: int, mode: int, path: str) -> int:
    try:
        descriptor = os.open(name, flags & ~os.O_TRUNC | _OPEN, mode, dir_fd=folder)
    except OSError as problem:
        raise _explain(problem, folder, name, path) from None
    try:
        status = os.fstat(descriptor)
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        if not stat.S_ISREG(status.st_mode) or (writes and status.st_nlink > 1):
            _check_status(status, path)
            _check_names(descriptor, folder, path)
        if flags & os.O_TRUNC:  # not by `open`: the file of another would be empty before it is refused
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_status(status: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _link(path)
    if not stat.S_ISREG(status.st_mode):
        raise FileNotOurs(f"{path} is not a regular file.", field=path, hint=f"Remove it: rm {_quote(path)}")


def _check_names(descriptor: int, folder: int, path: str) -> None:
    """Refuse a file with a name outside its folder: writing to it would change that file too."""
    # A journal has two names for a moment, both here: when it is created, and when a new segment begins.
    for _ in range(3):
        status = os.fstat(descriptor)
        names = 0
        listed = os.open(".", _LIST, dir_fd=folder)
        try:
            with os.scandir(listed) as entries:
                names = sum(entry.inode() == status.st_ino and not entry.is_symlink() for entry in entries)
        finally:
            os.close(listed)
        if os.fstat(descriptor).st_nlink <= names:
            return
    raise FileNotOurs(
        f"{path} has a second name in another folder (a hard link).",
        field=path,
        hint=f"Replace it by a copy: cp {_quote(path)} copy && mv copy {_quote(path)}",
    )


def _explain(problem: OSError, folder: int, name: str, path: str) -> Exception:
    """Return the error to raise in place of `problem`: one that names the link or the file that is none."""
    if problem.errno in _LINK_ERRORS or problem.errno in (errno.ENXIO, errno.EACCES):
        with suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if problem.errno == errno.EACCES and status.st_uid != os.geteuid():
                return _of_another_account(path)
            if stat.S_ISLNK(status.st_mode):
                return _link(path)
            if problem.errno == errno.ENXIO:
                return FileNotOurs(f"{path} is not a regular file.", field=path, hint=f"Remove it: rm {_quote(path)}")
    return OSError(problem.errno, problem.strerror, path)


def _of_another_account(path: str) -> FolderNotOurs:
    return FolderNotOurs(
        f"{path} belongs to another account.",
        field=path,
        hint="Let your account read it, and set ENGRAMBUS_HOME to a folder of your own: private files are kept there.",
    )


def _quote(path: Path | str) -> str:
    """Return a path as a shell reads it: a repository chooses the names of its links."""
    import shlex  # only for errors

    return shlex.quote(str(path))


def _link(path: str) -> LinkInCatalog:
    return LinkInCatalog(
        f"{path} is a symbolic link; no file of a project is opened through one.",
        field=path,
        hint=f"If you did not make it, do not trust this repository. Remove it: rm {_quote(path)}. "
        "To keep private files elsewhere, set ENGRAMBUS_HOME.",
    )
