"""The login of a repository: which server its commands use, and as whom. It loads nothing else of the product.

decision 120: it lies in the account's private state and not in the repository, under a name made from the repository's
place, so that another repository cannot claim it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

LOGINS = "logins"
MAX_BYTES = 64 * 1024


class Login(NamedTuple):
    """A server to use for one repository."""

    url: str
    token: str
    project: str
    place: str
    """The repository's git folder, or the folder itself without git."""
    ca_file: Path | None
    """Certificates that the server's is checked against, instead of those that the machine trusts."""
    path: Path
    """The file that holds it."""


class BadLogin(Exception):
    """A login that may not be used, with the reason."""


def logins_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder of the account's logins; None in an environment without a home folder."""
    state, home = environment.get("XDG_STATE_HOME", ""), environment.get("HOME")
    if state.startswith("/"):
        return Path(state, "engrambus", LOGINS)
    return Path(home, ".local", "state", "engrambus", LOGINS) if home else None


def find_login(folder: Path, logins: Path | None) -> Login | None:
    """Return the login of the repository that a folder belongs to; None if there is none."""
    if logins is None or not logins.is_dir():
        return None
    for place in _places(Path(os.path.realpath(folder))):
        login = _read(login_path(logins, place), str(place))
        if login is not None:
            return login
    return None


def repository_place(folder: Path) -> Path:
    """Return the place that stands for the repository around a folder; the folder itself without git."""
    return next(_places(Path(os.path.realpath(folder))))


def login_path(logins: Path, place: Path) -> Path:
    """Return the file of the login of a place."""
    return logins / f"{hashlib.sha256(os.fsencode(place)).hexdigest()[:32]}.json"


def _places(folder: Path) -> Iterator[Path]:
    """Yield what stands for the repository around a folder; without git, the folder and those above it."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        if git.is_dir():
            yield Path(os.path.realpath(_common(git)))
            return
        if git.is_file():
            try:
                named = git.read_text("utf-8").strip().removeprefix("gitdir: ")
                yield Path(os.path.realpath(_common(Path(os.path.normpath(place / named)))))
            except (OSError, UnicodeDecodeError, ValueError):
                yield place
            return
        if (place / "HEAD").is_file() and (place / "objects").is_dir():  # a bare repository
            yield place
            return
    yield from (folder, *folder.parents)


def _common(directory: Path) -> Path:
    """Return the git folder that all worktrees share."""
    try:
        return directory / (directory / "commondir").read_text("utf-8").strip()
    except OSError:
        return directory


def _read(path: Path, place: str) -> Login | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise BadLogin(f"{path} cannot be opened: {problem.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise BadLogin(f"{path} belongs to another account or is open to others")
        data = os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)
    try:
        value = json.loads(data)
        login = Login(
            str(value["url"]),
            str(value["token"]),
            str(value["project"]),
            str(value["place"]),
            Path(value["ca_file"]) if value.get("ca_file") else None,
            path,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadLogin(f"{path} cannot be read") from None
    return login if login.place == place else None
