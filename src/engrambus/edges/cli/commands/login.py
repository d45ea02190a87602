"""`engrambus login`, `logout` and `push`: use a team's server from a clone of its repository."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Argument, Values, local_command
from engrambus.edges.cli.screen import dim, safe
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.operations.people import WhoamiAnswer

MAX_TOKEN_FILE_BYTES = 4096
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@local_command(
    "login",
    Argument("url", "URL", "The server's address, as https://bus.example:7171", required=True),
    click.Option(
        ["--token-file", "token_file"],
        metavar="FILE",
        help="Read the token from a file, - for stdin; by default it is asked for.",
    ),
    click.Option(
        ["--ca-file", "ca_file"], type=_FILE, help="Certificates of a private authority to check the server's against."
    ),
    section="start",
    example="engrambus login https://bus.example:7171",
    rank=24,
)
def login(session: Session, values: Values) -> None:
    """Use a team's server for this repository: every command, hook, MCP server and program from now on.

    The token is of `engrambus person add` or `engrambus agent add`. It is kept in this account's private state, not in
    the repository. Commits that you point at are pushed to the server, so that others can read the lines.
    """
    from engrambus.edges.sdk.logins import check_same_project, first_commits, read_pem, store_login

    url = values["url"].rstrip("/")
    token = _read_token(values.get("token_file"))
    ca_file: Path | None = values.get("ca_file")
    certificates = read_pem(ca_file) if ca_file is not None else None
    roots = first_commits(session.folder)
    answer = _ask(url, token, ca_file, roots)
    check_same_project(answer, session.folder, session.environment_settings, roots)
    store_login(session.environment_settings, session.folder, url, token, answer.project, certificates)

    def render(_: Any) -> Iterator[str]:
        yield f"Logged in to {safe(url)} as {click.style(safe(answer.name), bold=True)} ({safe(answer.role)})."
        yield f"  project  {safe(answer.project)}"
        if answer.expires_at is not None:
            yield f"  token    good until {safe(answer.expires_at)}"
        yield dim("Every command in this repository uses it from now on; engrambus logout ends that.")

    session.print({"url": url, "name": answer.name, "role": answer.role, "project": answer.project}, render)


def _ask(url: str, token: str, ca_file: Path | None, roots: list[str]) -> WhoamiAnswer:
    """Ask a server who the token's bearer is, and which of these commits it has."""
    from contextlib import closing

    from engrambus.edges.sdk.http_transport import HttpTransport
    from engrambus.gateway import Credential
    from engrambus.operations import OPERATIONS

    whoami = OPERATIONS["whoami"]
    with closing(HttpTransport(url, timeout_seconds=20, ca_file=ca_file)) as server:
        answer: WhoamiAnswer = server.call(whoami, whoami.request(commits=roots), Credential(token=token))
    return answer


def _read_token(file: str | None) -> str:
    from engrambus.edges.cli.inputs import STDIN, read_text_file
    from engrambus.errors import TokenMissing

    if file is None and sys.stdin.isatty():
        token = click.prompt("Token", hide_input=True, err=True)
    else:
        token = read_text_file(file or STDIN, "--token-file", MAX_TOKEN_FILE_BYTES)
    token = token.strip().removeprefix("export ENGRAMBUS_TOKEN=").strip()
    if not token:
        raise TokenMissing(hint="Ask an administrator for one: engrambus person add NAME.")
    return token


@local_command("logout", section="start", example="engrambus logout", rank=25)
def logout(session: Session, values: Values) -> None:
    """Stop using a team's server for this repository, and delete the token here. It stays good until it is revoked."""
    from engrambus.edges.sdk.logins import forget_login

    url = forget_login(session.environment_settings, session.folder)

    def render(_: Any) -> Iterator[str]:
        yield f"Logged out of {safe(url)}." if url is not None else "This repository is not logged in to a server."

    session.print({"url": url}, render)


@local_command(
    "push",
    Argument(
        "revisions", "REVISION", "What to push; by default the commit that is checked out", required=False, many=True
    ),
    section="knowledge",
    example="engrambus push HEAD~3",
    rank=90,
)
def push(session: Session, values: Values) -> None:
    """Push commits to the server's mirror, so that it can read what points at them.

    Commands do that by themselves for what they point at. This is for claims that stayed unresolved.
    """
    from contextlib import closing

    from engrambus.edges.sdk.logins import open_server
    from engrambus.evidence.pointers import GitRepository

    if session.settings.login is None or session.worktree is None:
        raise click.UsageError("Only a repository that is logged in to a server has something to push to.")
    token = session.credential().token or ""
    with closing(GitRepository(session.worktree)) as repository:
        commits = [repository.expand(text, session.worktree) for text in values.get("revisions") or ("HEAD",)]
    with closing(open_server(session.settings, session.worktree)) as server:
        pushed = server.push(commits, token)

    def render(_: Any) -> Iterator[str]:
        yield f"Pushed {safe(', '.join(pushed))}." if pushed else "The server has it already."

    session.print({"commits": commits, "pushed": pushed}, render)
