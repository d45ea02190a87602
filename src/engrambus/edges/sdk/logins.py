"""Logging in to a server: the checks before a login is stored, and its use by every command afterwards."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engrambus.core import files
from engrambus.edges.sdk.login_file import BadLogin, Login, find_login, login_path, logins_folder, repository_place
from engrambus.errors import EngramBusError, LoginInvalid, ProjectDiffers, ProjectNotFound
from engrambus.settings import Settings

if TYPE_CHECKING:
    from engrambus.edges.sdk.http_transport import HttpTransport
    from engrambus.operations.people import WhoamiAnswer

MAX_ROOTS = 20
GIT_SECONDS = 60.0
_LOG_IN = "Log in again: engrambus login URL."


def with_login(settings: Settings, folder: Path) -> Settings:
    """Return settings for the repository around a folder: those of the environment, else with its login."""
    if settings.url is not None:
        return settings
    login = read_login(settings, folder)
    if login is None:
        return settings
    # A token of the environment wins: an orchestrator gives its agents theirs.
    token = settings.token or login.token
    return msgspec.structs.replace(settings, url=login.url, token=token, ca_file=login.ca_file, login=str(login.path))


def open_server(settings: Settings, worktree: Path | None, *, timeout_seconds: float = 60.0) -> HttpTransport:
    """Open the server that settings name; with a login, commits that calls point at are pushed to it."""
    from engrambus.edges.sdk.commit_push import CommitPusher
    from engrambus.edges.sdk.http_transport import HttpTransport

    if settings.url is None:
        raise ValueError("the settings name no server")
    pusher = None
    if settings.login is not None and worktree is not None:
        pusher = CommitPusher(worktree, Path(settings.login).with_suffix(".pushed"))
    return HttpTransport(settings.url, timeout_seconds=timeout_seconds, ca_file=settings.ca_file, pusher=pusher)


def read_login(settings: Settings, folder: Path) -> Login | None:
    """Return the login of the repository around a folder; None if there is none."""
    try:
        return find_login(folder, logins_folder(settings.environment))
    except BadLogin as problem:
        raise LoginInvalid(f"{problem}.", field="login", hint=_LOG_IN) from None


def store_login(settings: Settings, folder: Path, url: str, token: str, project: str, ca: bytes | None) -> Login:
    """Store a login for the repository around a folder, readable by this account only."""
    logins = settings.state_home / "engrambus" / "logins"
    for made in (logins.parent.parent, logins.parent, logins):
        files.make_folder(made)
    place = repository_place(folder)
    path = login_path(logins, place)
    ca_file = path.with_suffix(".pem") if ca is not None else None
    if ca is not None and ca_file is not None:
        files.replace_file(ca_file, ca)
    value = {"url": url, "token": token, "project": project, "place": str(place), "ca_file": ca_file and str(ca_file)}
    files.replace_file(path, msgspec.json.encode(value))
    return Login(url, token, project, str(place), ca_file, path)


def forget_login(settings: Settings, folder: Path) -> str | None:
    """Delete the login of the repository around a folder; return the server's address, None if there was none."""
    path = login_path(settings.state_home / "engrambus" / "logins", repository_place(folder))
    url: str | None = None
    with suppress(LoginInvalid):  # it is deleted because it cannot be used
        login = read_login(settings, folder)
        if login is not None:
            path, url = login.path, login.url
    if not files.is_file(path):
        return None
    for file in (path, path.with_suffix(".pem"), path.with_suffix(".pushed")):
        with suppress(FileNotFoundError):
            files.remove(file)
    return url or "the server"


def check_same_project(answer: WhoamiAnswer, folder: Path, settings: Settings, roots: list[str]) -> None:
    """Refuse a server whose project is another one than that of the repository around a folder.

    `roots` are the first commits of the repository. Where the project's file is not committed, they tell.
    """
    from engrambus.policy import find_project

    try:
        project = find_project(folder, settings.private_home).project_id
    except ProjectNotFound:
        project = None
    if project is not None and project != answer.project:
        raise ProjectDiffers(
            f"This repository's project is {project}, and the server serves {answer.project}.",
            field="url",
            used=answer.project,
            limit=project,
            hint="Log in where the project of the server is cloned. A server for this one is made with: engrambus init "
            f"--mirror --id {project}",
        )
    if project is None and answer.repository and not answer.empty and not answer.commits:
        raise ProjectDiffers(
            "The server's repository has no first commit in common with this one.",
            field="url",
            used=answer.project,
            hint="Log in in a clone of the repository that the server mirrors." if roots else "Commit something first.",
        )


def first_commits(folder: Path) -> list[str]:
    """Return the commits of a repository that have no parent; none where there is no commit."""
    from engrambus.evidence.pointers.git_process import git_environment, run_git

    with suppress(EngramBusError):
        done = run_git(("-C", str(folder), "rev-list", "--max-parents=0", "HEAD"), git_environment(), GIT_SECONDS)
        if not done.returncode:
            return done.stdout.decode().split()[:MAX_ROOTS]
    return []


def read_pem(path: Path) -> bytes:
    """Return certificates to trust, after a check that they are some."""
    import ssl

    data = path.read_bytes()
    try:
        ssl.create_default_context(cadata=data.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as problem:
        raise LoginInvalid(f"{path} holds no certificates: {problem}.", field="ca_file", hint="It is PEM.") from None
    return data
