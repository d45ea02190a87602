"""`engrambus up`: serve the project on this machine, once."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.screen import dim, safe
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.gateway import Gateway

HOST = "127.0.0.1"
DEFAULT_PORT = 7171
PORTS_TRIED = 100
RUNNING = "gateway.json"
"""Who serves the project, beside its journal: two checkouts of one project are served on their own."""
STARTING_SECONDS = 5.0
TOKEN_SECONDS = 60


@local_command(
    "up",
    click.Option(
        ["--port", "port"],
        type=click.IntRange(1, 65_535),
        help=f"Listen on this port and no other; {DEFAULT_PORT} or the next free one unless said.",
    ),
    click.Option(
        ["--log", "log"],
        type=click.Choice(["json"]),
        help="Write every event, call and refusal to stderr, one JSON object a line.",
    ),
    section="start",
    example="engrambus up --port 7171",
    rank=20,
)
def up(session: Session, values: Values) -> None:
    """Serve the project's page and HTTP API on this machine, and print a link to the page."""
    with closing(_opened(session)) as gateway:
        record = gateway.project_files.catalog_path(RUNNING)
        with _alone(record) as mine:
            if mine is None:
                _show_running(session, gateway, record)
            else:
                with _logged(gateway, values.get("log")), exporting(session, gateway):
                    _serve(session, gateway, mine, values.get("port"))


def _logged(gateway: Gateway, form: str | None) -> AbstractContextManager[None]:
    if form is None:
        return nullcontext()
    from engrambus.edges.cli.log import logging_events

    return logging_events(gateway)


def exporting(session: Session, gateway: Gateway) -> AbstractContextManager[None]:
    """Send spans and metrics where the environment says, for as long as this lasts; nothing is loaded otherwise."""
    if session.settings.exports is None:
        return nullcontext()
    from engrambus.edges.telemetry import export_telemetry

    return export_telemetry(gateway, session.settings.exports)


def _opened(session: Session) -> Gateway:
    """The project here; one is made where there is none."""
    from engrambus.app import init_project, open_project
    from engrambus.edges.cli.progress import Bytes
    from engrambus.errors import ProjectNotFound

    progress = Bytes("Building the index")
    try:
        return open_project(session.folder, session.settings, progress=progress)
    except ProjectNotFound:
        project = init_project(session.folder, session.settings)
        session.say(f"Made a project in {safe(str(project.catalog))}")
        return open_project(session.folder, session.settings, progress=progress)


def _serve(session: Session, gateway: Gateway, record: int, port: int | None) -> None:
    from engrambus.edges.http import Codes, serve

    codes = Codes()
    with closing(_bind(session, port)) as listening:
        bound = listening.getsockname()[1]
        os.pwrite(record, json.dumps({"pid": os.getpid(), "port": bound}).encode(), 0)
        serve(gateway, listening, lambda: _show(session, gateway, bound, codes.new(), running=False), codes=codes)


def _show(session: Session, gateway: Gateway, port: int, code: str, *, running: bool) -> None:
    link = f"http://{HOST}:{port}/#code={code}"

    def show(_: Any) -> Iterator[str]:
        yield f"{'Already serving' if running else 'Serving'} project {gateway.store.project}"
        yield click.style(link, bold=True)
        yield dim("The link works once." + ("" if running else " Stop with Ctrl-C."))

    session.answer({"url": f"http://{HOST}:{port}", "link": link, "running": running}, show)


def _show_running(session: Session, gateway: Gateway, record: Path) -> None:
    """Ask the server that is running for a fresh code, as the admin of its files."""
    from engrambus.errors import Unreachable

    found = _read_running(record)
    if found is None:
        raise Unreachable("Another engrambus holds this project and does not say where it serves it.")
    try:
        code = _fresh_code(gateway, found["port"])
    except Unreachable as problem:
        problem.hint = f"Process {found['pid']} should be serving this project; stop it and try again."
        raise
    _show(session, gateway, found["port"], code, running=True)


def running_link(gateway: Gateway, query: str = "") -> str | None:
    """A link into the page of the server that serves this project, if one does."""
    from engrambus.errors import EngramBusError

    try:
        found = said_in(gateway.project_files.catalog_path(RUNNING).read_bytes())
        if found is None:
            return None
        return f"http://{HOST}:{found['port']}/{query}#code={_fresh_code(gateway, found['port'])}"
    except (OSError, EngramBusError):  # it never ran, or ended without saying so, or its port is another's now
        return None


def _fresh_code(gateway: Gateway, port: int) -> str:
    """A code for the page, asked for as the admin of the project's files."""
    from engrambus.edges.http.sessions import Codes, NewCode, session_operations
    from engrambus.edges.sdk.http_transport import HttpTransport
    from engrambus.gateway import Credential

    _, new_code = session_operations(Codes())
    with closing(HttpTransport(f"http://{HOST}:{port}")) as remote:
        code: str = remote.call(new_code, NewCode(), Credential(token=_admin_token(gateway))).code
    return code


def _admin_token(gateway: Gateway) -> str:
    """A token for whoever may read the project's key, good for a moment."""
    from engrambus.core import SECOND
    from engrambus.errors import RunNotFound
    from engrambus.policy import ADMIN, Claims

    with gateway.store.read() as view:
        run = view.current_run()
        if run is None:
            raise RunNotFound(hint="Open one: engrambus run new GOAL.")
        expires_at = view.as_of + TOKEN_SECONDS * SECOND
    claims = Claims(
        agent=ADMIN, role=ADMIN, parent=None, project=gateway.store.project, run=run.run_id, expires_at=expires_at
    )
    return gateway.key.sign(claims)


@contextmanager
def _alone(record: Path) -> Iterator[int | None]:
    """The record of who serves the project, held while serving; none when another process holds it."""
    descriptor = os.open(record, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        os.ftruncate(descriptor, 0)
        try:
            yield descriptor
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _read_running(record: Path) -> dict[str, int] | None:
    """Who serves the project; one that is only just starting is waited for."""
    deadline = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < deadline:
        found = said_in(record.read_bytes())
        if found is not None:
            return found
        time.sleep(0.05)
    return None


def said_in(record: bytes) -> dict[str, int] | None:
    """Who serves, by the record; nobody, or nobody yet, when it says nothing."""
    try:
        found = json.loads(record)
        return {"pid": int(found["pid"]), "port": int(found["port"])}
    except ValueError:
        return None


def _bind(session: Session, wanted: int | None) -> socket.socket:
    """A listening socket on the wanted port, or on the first free one from the default."""
    from engrambus.errors import PortTaken

    ports = range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED) if wanted is None else [wanted]
    for port in ports:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
            listening.listen(128)  # only then is the port surely ours
        except OSError as problem:
            listening.close()
            if problem.errno != errno.EADDRINUSE:
                raise
            continue
        if wanted is None and port != DEFAULT_PORT:
            session.say(f"Port {DEFAULT_PORT} is taken; {port} is free.")
        return listening
    raise PortTaken(
        f"Something else listens on port {wanted or DEFAULT_PORT}.",
        field="port",
        used=wanted,
        hint="Leave --port out to take the next free one.",
    )
