"""`engrambus up`: serve the project's page and HTTP API; a second call prints a link to the server that runs."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engrambus.core import files
from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.screen import dim, safe
from engrambus.edges.cli.session import INDEXING, Session

if TYPE_CHECKING:
    from msgspec import Struct

    from engrambus.edges.http import Exposure
    from engrambus.evidence.pointers.mirror import MirrorLimits
    from engrambus.gateway import Gateway

HOST = "127.0.0.1"
DEFAULT_PORT = 7171
PORTS_TRIED = 100
SERVER_RECORD = "gateway.json"
"""Process id and port of the server, in the folder of the journal: each checkout of a project has its own server."""
STARTING_SECONDS = 5.0
TOKEN_SECONDS = 60
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@local_command(
    "up",
    click.Option(
        ["--port", "port"],
        type=click.IntRange(1, 65_535),
        help=f"Listen on this port only [default: {DEFAULT_PORT}, or the next free one]",
    ),
    click.Option(
        ["--log", "log"],
        type=click.Choice(["json"]),
        help="Log every event, call and error to stderr, one JSON object a line.",
    ),
    click.Option(
        ["--no-learn", "no_learn"],
        is_flag=True,
        help="Do not fill an empty memory from what the repository says.",
    ),
    click.Option(
        ["--host", "host"],
        metavar="ADDRESS",
        help=f"Listen on this address, 0.0.0.0 for all: a server for a team [default: {HOST}]",
    ),
    click.Option(
        ["--allow-host", "names"],
        multiple=True,
        metavar="NAME",
        help="A name, with a port if it differs, that clients call the server by; it answers to no other (repeatable).",
    ),
    click.Option(
        ["--tls-cert", "certificate"], type=_FILE, help="The certificate, PEM, followed by those that signed it."
    ),
    click.Option(["--tls-key", "key"], type=_FILE, help="The key of the certificate, PEM, without a password."),
    click.Option(
        ["--behind-proxy", "proxy"],
        metavar="ADDRESS",
        help="TLS ends at a proxy that connects from this address or network; nobody else is answered.",
    ),
    click.Option(
        ["--calls-per-minute", "calls_per_minute"],
        type=click.IntRange(1, 1_000_000),
        help="Calls that one token may make in a minute, on a server for a team [default: 1200]",
    ),
    click.Option(
        ["--push-mb", "push_mb"],
        type=click.IntRange(1, 100_000),
        help="Megabytes that one push of commits to the server's mirror may have [default: 256]",
    ),
    click.Option(
        ["--mirror-mb", "mirror_mb"],
        type=click.IntRange(1, 10_000_000),
        help="Megabytes that the mirror may have in all [default: 8192]",
    ),
    section="start",
    example="engrambus up --port 7171",
    rank=20,
)
def up(session: Session, values: Values) -> None:
    """Serve the project's page and HTTP API on this machine, and print a link to the page.

    In a folder without a project, one is created first. An empty memory is filled from what the repository says, while
    the page is already there: see engrambus learn. Only this machine can reach the server.

    With --host or --allow-host it is a server for a team: people and agents log in with a token, and the connection is
    protected by a certificate or by a proxy in front. Nothing is served to others without.
    """
    from engrambus.errors import ProjectNotFound

    port = values.get("port")
    exposure = _exposure(values)
    with ExitStack() as stack:
        listening = None
        try:
            gateway = _open(session)
        except ProjectNotFound:
            # Before anything is created: a port that is taken must not leave a new project behind.
            listening = stack.enter_context(closing(_listen(session, port, exposure.host)))
            gateway = _create(session)
        stack.enter_context(closing(gateway))
        record = gateway.project_files.state_path(SERVER_RECORD)
        descriptor = stack.enter_context(_locked_record(record))
        if descriptor is None:
            _print_running(session, gateway, record)
            return
        stack.enter_context(_log(gateway, values.get("log")))
        stack.enter_context(telemetry_of(session, gateway))
        listening = listening or stack.enter_context(closing(_listen(session, port, exposure.host)))
        local = None
        if not exposure.is_local:
            # decision 120: commands of this account, as `session list` and a second `up`, do not go over the network
            local = stack.enter_context(closing(_listen_locally(listening.getsockname()[1])))
        _serve(session, gateway, descriptor, _Listening(exposure, listening, local), values)


class _Listening(NamedTuple):
    """The sockets of a server and how they are reached."""

    exposure: Exposure
    public: socket.socket
    local: socket.socket | None
    """For the commands of this account, if the other is a team's."""

    @property
    def local_port(self) -> int:
        """The port on which commands of this account reach the server."""
        return int((self.local or self.public).getsockname()[1])


def _exposure(values: Values) -> Exposure:
    from engrambus.edges.http import check_exposure

    return check_exposure(
        values.get("host", HOST),
        tuple(values.get("names", ())),
        values.get("certificate"),
        values.get("key"),
        values.get("proxy"),
    )


def _open(session: Session) -> Gateway:
    from engrambus.app import open_project
    from engrambus.edges.cli.progress import ProgressBar

    return open_project(session.folder, session.settings, progress=ProgressBar(INDEXING))


def _create(session: Session) -> Gateway:
    from engrambus.app import init_project

    project = init_project(session.folder, session.settings)
    session.note(f"Made a project in {safe(str(project.catalog))}")
    return _open(session)


def _log(gateway: Gateway, form: str | None) -> AbstractContextManager[None]:
    if form is None:
        return nullcontext()
    from engrambus.edges.cli.json_log import log_to_stderr

    return log_to_stderr(gateway)


def telemetry_of(session: Session, gateway: Gateway) -> AbstractContextManager[None]:
    """Send spans and metrics where the OTEL_* variables say; without them, load nothing."""
    if session.settings.exports is None:
        return nullcontext()
    from engrambus.edges.telemetry import export_telemetry

    return export_telemetry(gateway, session.settings.exports)


def _serve(session: Session, gateway: Gateway, record: int, listening: _Listening, values: Values) -> None:
    from engrambus.edges.cli.commands.first_learning import FirstLearning
    from engrambus.edges.http import DEFAULT_LIMITS, TEAM_CALLS_PER_MINUTE, SignInCodes, serve
    from engrambus.edges.integrations.hook_server import answer_hooks
    from engrambus.space.schedules import emit_schedules
    from engrambus.space.work import watch_unclaimed

    codes = SignInCodes()
    port, limits, exposure = listening.local_port, DEFAULT_LIMITS, listening.exposure
    if not exposure.is_local:
        limits = limits._replace(calls_per_minute=values.get("calls_per_minute", TEAM_CALLS_PER_MINUTE))
    os.pwrite(record, json.dumps({"pid": os.getpid(), "port": port}).encode(), 0)
    work = gateway.tuple_space
    with (
        FirstLearning(session, gateway) as learning,
        answer_hooks(gateway, session.settings),
        watch_unclaimed(lambda: work.space if work.has_journal() else None, gateway.project_files.catalog),
        emit_schedules(lambda: work.schedules if work.has_journal() else None),
    ):

        def ready() -> None:
            if exposure.is_local:
                _print_link(session, gateway, port, codes.new(), running=False)
            else:
                _print_team_server(session, gateway, listening, codes.new())
            if not values["no_learn"]:
                learning.start()

        serve(
            gateway,
            listening.public,
            ready,
            codes=codes,
            limits=limits,
            exposure=exposure,
            local=listening.local,
            mirror=None if exposure.is_local else _mirror_limits(values),
        )


def _mirror_limits(values: Values) -> MirrorLimits:
    from engrambus.evidence.pointers.mirror import MEBIBYTE, MirrorLimits

    defaults = MirrorLimits()
    return MirrorLimits(
        values["push_mb"] * MEBIBYTE if "push_mb" in values else defaults.push_bytes,
        values["mirror_mb"] * MEBIBYTE if "mirror_mb" in values else defaults.total_bytes,
    )


def _print_team_server(session: Session, gateway: Gateway, listening: _Listening, code: str) -> None:
    exposure, port = listening.exposure, listening.public.getsockname()[1]
    url, local_url = exposure.url(port), f"http://{HOST}:{listening.local_port}"
    if exposure.proxy is not None:
        protection = f"plain HTTP, answered only to the proxy at {exposure.proxy}"
    else:
        protection = "TLS 1.2 or later" if exposure.certificate is not None else "plain HTTP on this machine only"

    def render(_: Any) -> Iterator[str]:
        yield f"Serving project {gateway.store.project} to a team"
        yield click.style(safe(url), bold=True)
        yield f"  listens on   {exposure.host}:{port}, {protection}"
        yield f"  answers to   {safe(', '.join(exposure.names) or 'this machine')}, with a token only"
        yield "  add people   engrambus person add NAME"
        yield "  add agents   engrambus agent add NAME --token-only"
        yield f"  they run     engrambus login {safe(url)}"
        yield f"  page here    {local_url}/#code={code}"
        yield dim("The link to the page works once. Stop with Ctrl-C.")

    session.print(
        {
            "url": url,
            "listens": f"{exposure.host}:{port}",
            "names": list(exposure.names),
            "local_url": local_url,
            "link": f"{local_url}/#code={code}",
            "running": False,
        },
        render,
    )


def _print_link(session: Session, gateway: Gateway, port: int, code: str, *, running: bool) -> None:
    link = f"http://{HOST}:{port}/#code={code}"

    def render(_: Any) -> Iterator[str]:
        yield f"{'Already serving' if running else 'Serving'} project {gateway.store.project}"
        yield click.style(link, bold=True)
        yield dim("The link works once." + ("" if running else " Stop with Ctrl-C."))

    session.print({"url": f"http://{HOST}:{port}", "link": link, "running": running}, render)


def _print_running(session: Session, gateway: Gateway, record: Path) -> None:
    """Print a link to the server that already runs, with a new code from it."""
    from engrambus.errors import ListenerUnproven, Unreachable

    server = _wait_for_record(record)
    if server is None:
        raise Unreachable("Another engrambus process holds this project, and has not written where it serves it.")
    try:
        code = _request_code(gateway, server["port"])
    except (Unreachable, ListenerUnproven) as problem:
        problem.hint = f"Process {server['pid']} should be serving this project; stop it and try again."
        raise
    _print_link(session, gateway, server["port"], code, running=True)


def running_link(gateway: Gateway, query: str = "") -> str | None:
    """Return a link into the page of the server that serves this project; None if none does."""
    from engrambus.errors import EngramBusError

    try:
        server = read_record(files.read_file(gateway.project_files.state_path(SERVER_RECORD)))
        if server is None:
            return None
        return f"http://{HOST}:{server['port']}/{query}#code={_request_code(gateway, server['port'])}"
    except (OSError, EngramBusError):  # no server ever ran, or it was killed, or its port is in other use now
        return None


def _request_code(gateway: Gateway, port: int) -> str:
    """Ask the server for a code for its page, as the admin of the project's files."""
    from engrambus.edges.http.sessions import NewCode

    code: str = ask_server(gateway, port, "new_code", NewCode()).code
    return code


def ask_server(gateway: Gateway, port: int, operation: str, request: Struct) -> Any:
    """Call an operation on the server's own codes and sessions, as the admin of the project's files."""
    from engrambus.edges.http.sessions import BrowserSessions, SignInCodes, session_operations
    from engrambus.edges.sdk.http_transport import HttpTransport
    from engrambus.gateway import Credential

    declared = getattr(session_operations(SignInCodes(), BrowserSessions()), operation)
    with closing(HttpTransport(f"http://{HOST}:{port}")) as remote:
        return remote.call(declared, request, Credential(token=_admin_token(gateway)))


def _admin_token(gateway: Gateway) -> str:
    """Sign a short-lived admin token: a process that can read the project's key is the admin."""
    from engrambus.core import SECOND_US
    from engrambus.errors import RunNotFound
    from engrambus.policy import ADMIN, TokenClaims

    with gateway.store.read() as view:
        run = view.current_run()
        if run is None:
            raise RunNotFound(hint="Open one: engrambus run new GOAL.")
        expires_us = view.as_of + TOKEN_SECONDS * SECOND_US
    claims = TokenClaims(
        agent=ADMIN, role=ADMIN, parent=None, project=gateway.store.project, run=run.run_id, expires_us=expires_us
    )
    return gateway.key.sign(claims)


@contextmanager
def _locked_record(record: Path) -> Iterator[int | None]:
    """Lock the server record and yield its descriptor; yield None if another process holds the lock."""
    descriptor = files.open_file(record, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        os.ftruncate(descriptor, 0)  # the record of a server that was killed
        try:
            yield descriptor
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _wait_for_record(record: Path) -> dict[str, int] | None:
    """Return the record of the running server; wait a few seconds for one that is just starting."""
    deadline = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < deadline:
        server = read_record(files.read_file(record))
        if server is not None:
            return server
        time.sleep(0.05)
    return None


def read_record(record: bytes) -> dict[str, int] | None:
    """Return process id and port from a server record; None if no server has written it yet."""
    try:
        server = json.loads(record)
        return {"pid": int(server["pid"]), "port": int(server["port"])}
    except ValueError:
        return None


def _listen_locally(other_port: int) -> socket.socket:
    """Return a socket on a loopback address and another port than the one given."""
    while True:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.bind((HOST, 0))
        if listening.getsockname()[1] != other_port:
            listening.listen(128)
            return listening
        listening.close()


def _listen(session: Session, port: int | None, host: str = HOST) -> socket.socket:
    """Return a socket listening on the port; without one, on the first that is free from the default on."""
    from engrambus.errors import FieldValue, PortTaken

    ports = range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED) if port is None else [port]
    for candidate in ports:
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(128)  # with SO_REUSEADDR, only this shows whether the port is free
        except OSError as problem:
            listening.close()
            if problem.errno == errno.EADDRNOTAVAIL:
                raise FieldValue(
                    "This machine has no such address.", field="host", used=host, hint="All of its addresses: 0.0.0.0"
                ) from None
            if problem.errno != errno.EADDRINUSE:
                raise
            continue
        if port is None and candidate != DEFAULT_PORT:
            session.note(f"Port {DEFAULT_PORT} is taken; using {candidate}.")
        return listening
    raise PortTaken(
        f"Something else listens on port {port or DEFAULT_PORT}.",
        field="port",
        used=port,
        hint="Leave --port out to use the next free one.",
    )
