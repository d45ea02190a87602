"""`engrambus session link`, `list` and `end`: the browsers that are signed in to the page of the running server."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from engrambus.core import files
from engrambus.edges.cli.command import Argument, Values, local_command
from engrambus.edges.cli.commands.up import SERVER_RECORD, ask_server, read_record, running_link
from engrambus.edges.cli.screen import counted, dim, safe
from engrambus.edges.cli.session import INDEXING, Session

if TYPE_CHECKING:
    from msgspec import Struct

    from engrambus.gateway import Gateway

_NO_SERVER = "No server runs for this project, so no browser is signed in."
_NO_LINK = "No server runs for this project: engrambus up."


@local_command("session list", section="team", example="engrambus session list")
def session_list(session: Session, values: Values) -> None:
    """List the browsers that are signed in to the page of the running server.

    They are signed out by `session end`, by the page's own button, after twelve hours, and when the server stops.
    """
    from engrambus.edges.http.sessions import ListSessions

    answer = _ask(session, "list_sessions", ListSessions())

    def render(_: Any) -> Iterator[str]:
        from engrambus.core import age

        if answer is None:
            yield _NO_SERVER
        elif not answer.sessions:
            yield "No browser is signed in."
        for row in answer.sessions if answer else ():
            opened, used = (_ago(age(moment, answer.as_of)) for moment in (row.opened_at, row.used_at))
            left = dim(f"ends in {age(answer.as_of, row.expires_at)}")
            yield f"{safe(row.id)}  signed in {opened}, last used {used}  {left}"

    session.print(answer or {"sessions": []}, render)


@local_command(
    "session end",
    Argument("id", None, "The session, as `engrambus session list` shows it", required=False),
    click.Option(["--all", "all"], is_flag=True, help="Sign all browsers out."),
    section="team",
    example="engrambus session end --all",
)
def session_end(session: Session, values: Values) -> None:
    """Sign a browser out of the page, or all browsers; what they have open ends at once."""
    from engrambus.edges.http.sessions import EndSession

    if bool(values.get("id")) == bool(values.get("all")):
        raise click.UsageError("Name one session, as `engrambus session list` shows it, or give --all.")
    answer = _ask(session, "end_session", EndSession(id=values.get("id"), all=bool(values.get("all"))))

    def render(_: Any) -> Iterator[str]:
        yield _NO_SERVER if answer is None else f"Signed out: {counted(answer.ended, 'browser')}."

    session.print(answer or {"ended": 0}, render)


@local_command("session link", section="team", example="engrambus session link")
def session_link(session: Session, values: Values) -> None:
    """Print a link to the page of the server that this repository is logged in to, or of the one that runs here.

    It works once, within ten minutes, and is for administrators. The session ends with the token of the login.
    """
    from engrambus.edges.http.sessions import NewCode

    if session.remote:
        link: str | None = f"{session.settings.url}/#code={_ask(session, 'new_code', NewCode()).code}"
    else:
        session.require_admin("session link")
        with closing(_open(session)) as gateway:
            link = running_link(gateway)

    def render(_: Any) -> Iterator[str]:
        yield _NO_LINK if link is None else click.style(safe(link), bold=True)

    session.print({"link": link}, render)


def _ask(session: Session, operation: str, request: Struct) -> Any:
    """Return the running server's answer; None if no server runs."""
    if session.remote:
        from engrambus.edges.http.sessions import BrowserSessions, SignInCodes, session_operations

        with session.bus() as bus:
            return bus.call(getattr(session_operations(SignInCodes(), BrowserSessions()), operation), request)
    session.require_admin("session")
    with closing(_open(session)) as gateway:
        port = _running_port(gateway)
        return None if port is None else ask_server(gateway, port, operation, request)


def _open(session: Session) -> Gateway:
    from engrambus.app import open_project
    from engrambus.edges.cli.progress import ProgressBar

    return open_project(session.folder, session.settings, progress=ProgressBar(INDEXING))


def _running_port(gateway: Gateway) -> int | None:
    """Return the port of the server that serves this project; None if none does."""
    try:
        record = files.open_reader(gateway.project_files.state_path(SERVER_RECORD))
    except FileNotFoundError:
        return None
    with record:
        try:
            # A server holds the lock as long as it runs; the record of one that was killed may name a stranger's port.
            fcntl.flock(record, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            server = read_record(record.read())
            return server["port"] if server else None
    return None


def _ago(text: str) -> str:
    return text if text == "now" else f"{text} ago"
