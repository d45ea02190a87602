"""Attacks by a listener that is not the gateway: it waits on a port where clients look for one, and collects tokens."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from use_cases.post_office import make_repository as make_post_office

from engrambus import Bus
from engrambus.errors import EngramBusError
from tests.attacks.strangers import Stranger, relay_to, stranger
from tests.cli.runner import COMMAND
from tests.http.running_server import RunningServer, run_new_project, run_server
from tests.projects import Repository, make_gateway, make_repository, make_settings

SECRET = re.compile(rb"engrambus1\.[\w-]+\.[\w-]+|[Aa]uthorization")
"""A whole token, or the header that would carry one. A token without its last part is no secret."""


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The real gateway."""
    with run_new_project(tmp_path_factory.mktemp("bus")) as bus:
        yield bus


class Killed(NamedTuple):
    """A project whose gateway was killed, and the stranger on its port."""

    repository: Repository
    environment: dict[str, str]
    token: str
    thief: Stranger

    def run(self, *words: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the project, in a process of its own."""
        command = [COMMAND, *words]
        env = self.environment | environment
        return subprocess.run(command, cwd=self.repository.path, env=env, input=stdin, capture_output=True, timeout=60)

    def run_remote(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a command that is told to use the gateway at the old address."""
        return self.run(*words, stdin=stdin, ENGRAMBUS_URL=self.thief.url, ENGRAMBUS_TOKEN=self.token)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """Kill a gateway, so that gateway.json names a port that anybody can have, and let a stranger have it."""
    folder = tmp_path_factory.mktemp("killed")
    make_post_office(folder / "repository")  # the demo has something to review there
    repository = Repository(folder / "repository", "")
    make_gateway(repository.path, make_settings(folder / "home")).close()
    names = ("ENGRAMBUS_URL", "ENGRAMBUS_TOKEN", "ENGRAMBUS_RUN", "XDG_STATE_HOME", "XDG_DATA_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment["HOME"] = str(folder / "home")
    token = _run_json(repository.path, environment, "agent", "add", "lead", "--role", "architect")["token"]
    command = [COMMAND, "up", "--json"]
    with subprocess.Popen(command, cwd=repository.path, env=environment, stdout=subprocess.PIPE) as serving:
        assert serving.stdout is not None
        url = json.loads(serving.stdout.readline())["url"]
        serving.send_signal(signal.SIGKILL)
    with stranger(port=int(url.rpartition(":")[2])) as thief:
        yield Killed(repository, environment, token, thief)


def _run_json(folder: Path, environment: dict[str, str], *words: str) -> Any:
    done = subprocess.run([COMMAND, *words, "--json"], cwd=folder, env=environment, capture_output=True, timeout=60)
    return json.loads(done.stdout)


def test_a_stranger_on_the_port_of_a_killed_gateway_gets_nothing_from_the_demo(killed: Killed) -> None:
    """Binds the port that gateway.json still names; `engrambus demo` asks it for a link to the page."""
    done = killed.run("demo", "--pace", "0")
    assert done.returncode == 0, done.stderr
    assert not SECRET.search(killed.thief.received)
    assert b"stolen-code" not in done.stdout
    assert str(killed.thief.port).encode() not in done.stdout
    assert b"See it on the page:         engrambus up" in done.stdout


def test_a_stranger_gets_nothing_from_a_command(killed: Killed) -> None:
    """Answers commands whose ENGRAMBUS_URL is the old address."""
    done = killed.run_remote("query", "parser", "--json")
    problem = json.loads(done.stderr)
    assert (done.returncode, problem["code"]) == (1, "LISTENER_UNPROVEN")
    assert "engrambus up" in problem["hint"]
    assert not SECRET.search(killed.thief.received)


def test_a_stranger_gets_nothing_from_an_mcp_server(killed: Killed) -> None:
    """Answers an `engrambus mcp` that a coding agent starts with the old address."""
    client = {"name": "test", "version": "1"}
    started = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    calls: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": started},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "less_query_engrams", "arguments": {}}},
    ]
    environment = {**killed.environment, "ENGRAMBUS_URL": killed.thief.url, "ENGRAMBUS_TOKEN": killed.token}
    command = [COMMAND, "mcp"]
    with subprocess.Popen(
        command, cwd=killed.repository.path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as serving:
        assert serving.stdin is not None
        assert serving.stdout is not None
        serving.stdin.write(b"".join(json.dumps(call).encode() + b"\n" for call in calls))
        serving.stdin.flush()
        answers = [serving.stdout.readline() for call in calls if "id" in call]
        serving.stdin.close()
    assert b"LISTENER_UNPROVEN" in answers[-1]
    assert not SECRET.search(killed.thief.received)


def test_a_stranger_gets_nothing_from_a_hook(killed: Killed) -> None:
    """Answers the hooks of a coding agent that has the old address."""
    event = {"hook_event_name": "SessionStart", "session_id": "s1", "cwd": str(killed.repository.path)}
    done = killed.run_remote("hook", stdin=json.dumps(event).encode())
    assert not SECRET.search(killed.thief.received)
    assert b"LISTENER_UNPROVEN" in done.stderr


def test_a_stranger_gets_nothing_from_a_worker(killed: Killed) -> None:
    """Answers a program that runs steps for the gateway at the old address."""
    program = "import sys; from engrambus import Bus; Bus.connect(sys.argv[1], token=sys.argv[2]).claim(lane='build')"
    words = [sys.executable, "-c", program, killed.thief.url, killed.token]
    done = subprocess.run(words, env=killed.environment, capture_output=True, timeout=60)
    assert not SECRET.search(killed.thief.received)
    assert done.returncode == 1


def test_a_stranger_does_not_stop_the_next_gateway(killed: Killed) -> None:
    """Stays on the old port when the user starts the gateway again."""
    command = [COMMAND, "up", "--json"]
    with subprocess.Popen(
        command, cwd=killed.repository.path, env=killed.environment, stdout=subprocess.PIPE
    ) as serving:
        assert serving.stdout is not None
        started = json.loads(serving.stdout.readline())
        again = json.loads(killed.run("up", "--json").stdout)
        serving.send_signal(signal.SIGINT)
    assert (started["running"], again["running"], again["url"]) == (False, True, started["url"])
    assert str(killed.thief.port) not in started["url"]
    assert not SECRET.search(killed.thief.received)


def test_a_relay_on_another_port_gets_no_token(bus: RunningServer) -> None:
    """Passes the challenge on to the real gateway and hands its answer back."""
    with stranger(reply=relay_to("127.0.0.1", bus.port)) as thief:
        assert _refusal(thief.url, bus.token) == "LISTENER_UNPROVEN"
        assert not SECRET.search(thief.received)


def test_a_relay_on_another_loopback_address_gets_no_token(bus: RunningServer) -> None:
    """Listens on the gateway's own port at 127.0.0.2, where a name of this machine may lead, and relays."""
    with stranger("127.0.0.2", bus.port, relay_to("127.0.0.1", bus.port)) as thief:
        assert _refusal(thief.url, bus.token) == "LISTENER_UNPROVEN"
        assert not SECRET.search(thief.received)


def test_a_gateway_of_another_project_gets_no_token(bus: RunningServer, tmp_path: Path) -> None:
    """Is a real gateway, of a project that the attacker made."""
    with run_new_project(tmp_path) as other, stranger(reply=relay_to("127.0.0.1", other.port)) as thief:
        for url in (thief.url, f"http://127.0.0.1:{other.port}"):
            assert _refusal(url, bus.token) == "LISTENER_UNPROVEN"
        assert not SECRET.search(thief.received)


def test_a_stranger_that_takes_the_port_later_gets_no_token(tmp_path: Path) -> None:
    """Takes the port while a client that has spoken with the real gateway is still running."""
    repository = make_repository(tmp_path / "repository")
    gateway = make_gateway(repository.path, make_settings(tmp_path / "home"))
    with run_server(gateway, repository) as bus:
        port, client = bus.port, Bus.connect(f"http://127.0.0.1:{bus.port}", token=bus.token)
        assert client.list_agents().agents == []
    gateway.close()
    with stranger(port=port) as thief, client:
        with pytest.raises(EngramBusError) as caught:
            client.list_agents()
        assert caught.value.code == "LISTENER_UNPROVEN"
        assert not SECRET.search(thief.received)


@pytest.mark.parametrize("host", ["0.0.0.0", "gateway.example.org", "192.0.2.7", "[2001:db8::7]", "127.0.0.1.nip.io"])
def test_nothing_is_sent_to_another_host_without_encryption(bus: RunningServer, host: str) -> None:
    """Reads along between the client and a gateway that was configured with http on another host."""
    with stranger("0.0.0.0") as thief:
        assert _refusal(f"http://{host}:{thief.port}", bus.token) == "ADDRESS_INSECURE"
        assert thief.received == b""


def test_a_certificate_that_nobody_vouches_for_gets_no_token(bus: RunningServer, tmp_path: Path) -> None:
    """Serves https with a certificate it made itself, in the place of a gateway on another host."""
    names = {"-keyout": "key.pem", "-out": "cert.pem"}
    files = [word for option, name in names.items() for word in (option, str(tmp_path / name))]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*made, *files, *subject], check=True, capture_output=True, timeout=60)
    program = (
        "import ssl, sys, http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler); "
        "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[1], sys.argv[2]); "
        "s.socket = c.wrap_socket(s.socket, server_side=True); print(s.server_port, flush=True); s.serve_forever()"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as serving:
        assert serving.stdout is not None
        port = int(serving.stdout.readline())
        try:
            assert _refusal(f"https://localhost:{port}", bus.token) == "LISTENER_UNPROVEN"
        finally:
            serving.kill()


def test_the_challenge_gives_a_stranger_nothing_to_reuse(bus: RunningServer) -> None:
    """Asks the gateway to prove itself for heads of its own making, to learn a token or the key behind hooks' marks."""
    heads = ["engrambus mark", "engrambus1", "engrambus1.", "engrambus1.a.b", f"{bus.token}", "engrambus1.é", ""]
    for head in heads:
        answer = bus.call("POST", "/proof", {"head": head, "nonce": "0" * 43}, token=None)
        assert (answer.status, answer.code) == (422, "FIELD_VALUE"), head
    head, _, mac = bus.token.rpartition(".")
    proofs = set()
    for nonce in ("0" * 43, "1" * 43):
        answer = bus.call("POST", "/proof", {"head": head, "nonce": nonce}, token=None)
        assert mac not in answer.body.decode()
        proofs.add(answer.json["proof"])
    assert len(proofs) == 2


def _refusal(url: str, token: str) -> str:
    """Return the code with which a client gives up."""
    try:
        with Bus.connect(url, token=token, timeout_seconds=10) as client:
            client.list_agents()
    except EngramBusError as refusal:
        return refusal.code
    return "ANSWERED"
