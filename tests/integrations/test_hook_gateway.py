"""Hooks that a running gateway answers: as the hook itself would, and for no one else."""  # BX-10

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engrambus.edges.integrations import hook_process
from engrambus.edges.integrations.hook_client import ask_gateway
from engrambus.edges.integrations.hook_server import answer_hooks
from engrambus.edges.integrations.hook_socket import GREETING, proof, socket_path
from engrambus.gateway import Gateway
from engrambus.settings import Settings
from tests.cli.runner import COMMAND
from tests.integrations.told import recorded_event
from tests.projects import Repository

LIMIT_SECONDS = 20.0
RUN = "import sys; from engrambus.edges.cli import _run; _run(['hook']); print(*sys.modules, file=sys.stderr)"


class Place:
    """A project, and the environment that a client starts hooks in."""

    def __init__(self, gateway: Gateway, repository: Repository, settings: Settings) -> None:
        self.gateway, self.folder, self.settings = gateway, repository.path, settings
        self.key_folder = settings.key_folder(gateway.store.project)
        self.opened: list[int] = []
        self.environment = {"HOME": str(settings.home), "PATH": os.environ["PATH"]}

    @property
    def socket(self) -> Path:
        return socket_path(self.key_folder, self.folder / ".catalog")

    @property
    def address(self) -> str:
        """Where the socket is reached; a path in a test's folder is too long for a socket."""
        folder = os.open(self.key_folder, os.O_RDONLY)
        self.opened.append(folder)
        return f"/proc/self/fd/{folder}/{self.socket.name}"

    def journal(self) -> bytes:
        return (self.folder / ".catalog" / "memory.jsonl").read_bytes()

    def event(self, name: str, **more: Any) -> bytes:
        return recorded_event("claude-code", name, self.folder, **more)

    def ask(self, name: str, **more: Any) -> dict[str, Any] | None:
        """What the running gateway answers; none if there is none."""
        reply = ask_gateway(self.event(name, **more), self.environment, LIMIT_SECONDS)
        return None if reply is None else dict(json.loads(reply.output))

    def run(self, data: bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
        """`engrambus hook` as a client runs it."""
        env = {**self.environment, **environment}
        return subprocess.run([COMMAND, "hook"], input=data, env=env, cwd="/", capture_output=True, check=False)


@pytest.fixture
def place(gateway: Gateway, repository: Repository, settings: Settings) -> Iterator[Place]:
    place = Place(gateway, repository, settings)
    yield place
    for descriptor in place.opened:
        os.close(descriptor)


@pytest.fixture
def served(place: Place) -> Iterator[Place]:
    """A project that a gateway serves."""
    with answer_hooks(place.gateway, place.settings):
        yield place


def test_a_gateway_answers_as_the_hook_itself_does(place: Place) -> None:
    here = place.run(place.event("SessionStart"))
    assert place.ask("SessionStart") is None
    with answer_hooks(place.gateway, place.settings):
        there = place.ask("SessionStart")
        assert there == json.loads(here.stdout)
        asked = place.run(place.event("SessionStart"))
        assert (asked.stdout, asked.stderr, asked.returncode) == (here.stdout, b"", 0)
        wrong = place.run(b'{"hook_event_name": "Stop"}' + b" " * 9)
        assert (wrong.returncode, wrong.stdout) == (1, b"")
    assert not place.socket.exists()
    assert place.ask("SessionStart") is None


def test_a_hook_with_a_gateway_loads_next_to_nothing(served: Place) -> None:
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(
        command,
        input=served.event("UserPromptSubmit"),
        env=served.environment,
        cwd="/",
        capture_output=True,
        check=True,
    )
    modules = set(done.stderr.decode().split())
    assert json.loads(done.stdout) == {}
    assert not modules & {"msgspec", "apsw", "engrambus.errors", "engrambus.core", "engrambus.settings", "subprocess"}


def test_it_acts_by_the_token_of_the_hooks_own_environment(served: Place) -> None:
    served.environment["ENGRAMBUS_TOKEN"] = "eb1.nonsense.nonsense"
    reply = ask_gateway(served.event("SessionStart"), served.environment, LIMIT_SECONDS)
    assert reply is not None
    assert json.loads(reply.output) == {}
    assert reply.problems.startswith("engrambus hook: TOKEN_")
    here = served.run(served.event("SessionStart"), ENGRAMBUS_TOKEN="eb1.nonsense.nonsense")
    assert here.stderr.decode() == reply.problems


def test_only_its_account_reaches_the_socket(served: Place) -> None:
    assert stat.S_IMODE(served.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(served.key_folder.stat().st_mode) == 0o700
    assert served.folder not in served.socket.parents
    if os.geteuid() == 0:
        listed = subprocess.run(["/bin/ls", served.key_folder], user=65534, cwd="/", capture_output=True, check=False)
        assert b"Permission denied" in listed.stderr


def test_a_folder_that_others_can_enter_is_not_used(place: Place) -> None:
    place.key_folder.chmod(0o750)
    with answer_hooks(place.gateway, place.settings):
        assert not place.socket.exists()
    place.key_folder.chmod(0o700)
    with answer_hooks(place.gateway, place.settings):
        assert place.ask("UserPromptSubmit") == {}
        place.key_folder.chmod(0o750)
        assert place.ask("UserPromptSubmit") is None
    place.key_folder.chmod(0o700)


def exchange(place: Place, forge: Callable[[str], bytes]) -> bytes:
    """Connect as a process of the same account, answer the greeting, and return what comes back."""
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.settimeout(LIMIT_SECONDS)
        connection.connect(place.address)
        nonce = connection.recv(200).decode().strip().removeprefix(GREETING)
        connection.sendall(forge(nonce))
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(1 << 20)


def test_who_cannot_read_the_key_gets_nothing_and_changes_nothing(served: Place) -> None:
    """A sandboxed process of the same account may reach a socket, and not a key."""
    journal = served.journal()
    body = b'{"folder": "/"}\n' + served.event("SubagentStart", session_id="forged")
    sent: list[bytes] = []

    def signed(secret: bytes, sender: str = "hook") -> Callable[[str], bytes]:
        def forge(nonce: str) -> bytes:
            sent.append(f"{'0' * 32} {proof(secret, sender, nonce, body)} {len(body)}\n".encode() + body)
            return sent[-1]

        return forge

    attempts = [
        signed(b"\0" * 32),
        lambda nonce: b"x" * 5000,
        lambda nonce: b"\n",
        lambda nonce: f"{'0' * 32} {'0' * 64} {1 << 40}\n".encode(),
        lambda nonce: f"{'0' * 32} {'é' * 64} 2\n{{}}".encode(),
        lambda nonce: f"{'0' * 32} {'0' * 64} -1\n".encode(),
        lambda nonce: b"",
    ]
    for forge in attempts:
        assert exchange(served, forge) == b""
    assert served.journal() == journal
    secret = (served.key_folder / "token.key").read_bytes()
    assert exchange(served, signed(secret)) != b""
    journal = served.journal()
    assert b"forged" not in journal, "a session is known by a digest"
    assert exchange(served, lambda nonce: sent[-1]) == b"", "a recorded exchange is of no use"
    assert exchange(served, signed(secret, "gateway")) == b""
    assert served.journal() == journal


@contextmanager
def impostor(place: Place, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Something else that listens at the socket."""
    with ExitStack() as stack:
        listener = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
        listener.bind(place.address)
        stack.callback(place.socket.unlink)
        listener.listen(4)

        def accept() -> None:
            with closing(listener.accept()[0]) as connection:
                serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield
        thread.join(LIMIT_SECONDS)


def _pretend(connection: socket.socket) -> None:
    connection.sendall(f"{GREETING}{'0' * 32}\n".encode())
    connection.recv(1 << 20)
    answer = b'{"status": 0, "output": "{\\"systemMessage\\": \\"forged\\"}", "problems": ""}'
    connection.sendall(f"{'0' * 64} {len(answer)}\n".encode() + answer)


def _older(connection: socket.socket) -> None:
    connection.sendall(b"engrambus-hook/1 0.0.9 " + b"0" * 32 + b"\n")


def _killed(connection: socket.socket) -> None:
    connection.sendall(f"{GREETING}{'0' * 32}\n".encode())
    connection.recv(1 << 20)


@pytest.mark.parametrize("serve", [_pretend, _older, _killed])
def test_without_a_gateway_that_proves_itself_the_hook_answers(
    place: Place, serve: Callable[[socket.socket], None]
) -> None:
    """A stranger's program, a gateway of another version, and one that is killed before it has answered."""
    with impostor(place, serve):
        done = place.run(place.event("SessionStart"))
    assert done.returncode == 0
    assert "Shared Brief v" in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]


def test_a_socket_that_a_killed_gateway_left_is_passed_over_and_replaced(place: Place) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(place.address)
    assert place.ask("SessionStart") is None
    with answer_hooks(place.gateway, place.settings):
        assert place.ask("UserPromptSubmit") == {}


def test_a_gateway_that_hangs_lets_a_stop_pass_and_denies_a_spawn(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:  # decision 31
    monkeypatch.setattr(hook_process, "TIME_LIMIT_SECONDS", 0.2)
    monkeypatch.setenv("HOME", place.environment["HOME"])
    for name in ("XDG_STATE_HOME", "ENGRAMBUS_HOME", "ENGRAMBUS_URL"):
        monkeypatch.delenv(name, raising=False)
    outputs = []
    for event in ("Stop", "PreToolUse"):
        done = threading.Event()
        with impostor(place, lambda connection, done=done: done.wait(LIMIT_SECONDS) and None):  # type: ignore[misc]
            assert hook_process._answer_event(place.event(event)) == 0
            done.set()
        outputs.append(capfd.readouterr())
    assert json.loads(outputs[0].out) == {}
    assert "no answer within" in outputs[0].err
    assert json.loads(outputs[1].out)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_many_hooks_at_once_are_all_answered(served: Place) -> None:
    answers: list[dict[str, Any] | None] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(served.ask("SubagentStart", agent_id=f"a{n}")))
        for n in range(24)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
    names = {
        answer["hookSpecificOutput"]["additionalContext"].partition("Your name there is ")[2].partition(";")[0]
        for answer in answers
        if answer is not None
    }
    assert len(names) == 24
