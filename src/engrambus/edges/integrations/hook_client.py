"""Lets a running gateway answer a hook's event; None where there is none, so that the hook answers by itself.

A client waits for this at every event, so nothing of the product's own is loaded but the files it needs (decision 44).
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from engrambus.edges.integrations.hook_socket import (
    GREETING,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    NONCE_CHARS,
    open_private_folder,
    proof,
    socket_address,
    socket_path,
)
from engrambus.edges.integrations.usual_project import find_usual_project
from engrambus.edges.sdk.login_file import BadLogin, find_login, logins_folder
from engrambus.policy.key_files import PROJECT_KEY_FILE, read_secret

PASSED_ON = ("ENGRAMBUS_TOKEN", "ENGRAMBUS_RUN")
"""Variables by which the hook's own process would act; the gateway acts by them in its place."""


class HookReply(NamedTuple):
    """The gateway's answer to an event."""

    status: int
    output: str
    problems: str
    """Lines for stderr."""


class _Unusable(Exception):
    """The gateway cannot answer: it is gone, of another version, or not ours."""


def ask_gateway(data: bytes, environment: Mapping[str, str], time_limit_seconds: float) -> HookReply | None:
    """Return the answer of the gateway that serves the project; None if the hook has to answer by itself.

    Raises TimeoutError once the time is up.
    """
    if environment.get("ENGRAMBUS_URL") or environment.get("ENGRAMBUS_HOME") or len(data) > MAX_BODY_BYTES // 2:
        return None
    try:
        if find_login(_folder(data), logins_folder(environment)) is not None:
            return None
    except BadLogin:  # the hook's own process says what is wrong with it
        return None
    project = find_usual_project(_folder(data), environment)
    if project is None:
        return None
    path = socket_path(project.key_folder, project.state)
    if not path.exists():
        return None
    folder = open_private_folder(project.key_folder)
    if folder is None:
        return None
    try:
        address = socket_address(path, folder)
        secret = read_secret(project.key_folder / PROJECT_KEY_FILE, "")
        return _ask(address, secret, _body(data, environment), time_limit_seconds) if address else None
    except TimeoutError:
        raise
    except (OSError, ValueError, _Unusable):
        return None
    finally:
        os.close(folder)


def _ask(address: str, secret: bytes, body: bytes, time_limit_seconds: float) -> HookReply:
    deadline = time.monotonic() + time_limit_seconds
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
        connection.settimeout(time_limit_seconds)
        connection.connect(address)
        greeting = _read_line(connection, b"", deadline)[0]
        if not greeting.startswith(GREETING):
            raise _Unusable
        own_nonce = os.urandom(NONCE_CHARS // 2).hex()
        mac = proof(secret, "hook", greeting.removeprefix(GREETING), body)
        connection.sendall(f"{own_nonce} {mac} {len(body)}\n".encode() + body)
        head, rest = _read_line(connection, b"", deadline)
        given, _, size = head.partition(" ")
        answer = _read_body(connection, rest, int(size), deadline)
    if not hmac.compare_digest(given, proof(secret, "gateway", own_nonce, answer)):
        raise _Unusable
    reply: dict[str, Any] = json.loads(answer)
    return HookReply(reply["status"], reply["output"], reply["problems"])


def _read_line(connection: socket.socket, data: bytes, deadline: float) -> tuple[str, bytes]:
    while b"\n" not in data and len(data) < MAX_HEAD_BYTES:
        data += _receive(connection, deadline)
    line, _, rest = data.partition(b"\n")
    return line.decode("ascii"), rest


def _read_body(connection: socket.socket, data: bytes, size: int, deadline: float) -> bytes:
    if size > MAX_BODY_BYTES:
        raise _Unusable
    while len(data) < size:
        data += _receive(connection, deadline)
    return data


def _receive(connection: socket.socket, deadline: float) -> bytes:
    seconds_left = deadline - time.monotonic()
    if seconds_left <= 0:
        raise TimeoutError
    connection.settimeout(seconds_left)
    part = connection.recv(65_536)
    if not part:
        raise _Unusable
    return part


def _body(data: bytes, environment: Mapping[str, str]) -> bytes:
    """Return what the gateway needs: how to act, the hook's own folder, and the event."""
    head = {name: environment[name] for name in PASSED_ON if environment.get(name)}
    return json.dumps({**head, "folder": str(Path.cwd())}).encode() + b"\n" + data


def _folder(data: bytes) -> Path:
    """Return the folder that the client works in."""
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return Path.cwd()
    folder = event.get("cwd") if isinstance(event, dict) else None
    return Path(folder) if isinstance(folder, str) and folder.startswith("/") else Path.cwd()
