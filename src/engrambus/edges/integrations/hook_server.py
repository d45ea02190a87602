"""Answers hooks inside a running gateway, on a socket that only the project's account reaches (decision 78)."""

from __future__ import annotations

import hmac
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

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
from engrambus.policy.key_files import PROJECT_KEY_FILE, read_secret

if TYPE_CHECKING:
    from engrambus.gateway import Gateway
    from engrambus.settings import Settings

MAX_CONNECTIONS = 16
"""Hooks that are answered at once; others wait, or answer by themselves."""
CONNECTION_SECONDS = 5.0
"""Time that a hook has to send its event: no client waits longer for a hook."""


@contextmanager
def answer_hooks(gateway: Gateway, settings: Settings) -> Iterator[None]:
    """Answer the hooks of this project until the block ends; where that is not possible, hooks answer by themselves."""
    state = gateway.project_files.state_path("")
    if state != gateway.project_files.root / ".catalog":
        yield  # hooks look for a gateway in the usual place only
        return
    key_folder = settings.key_folder(gateway.store.project)
    folder = open_private_folder(key_folder)
    if folder is None:
        yield
        return
    try:
        secret = read_secret(key_folder / PROJECT_KEY_FILE, "")
        listener = _listen(socket_path(key_folder, state), folder)
        if listener is None:
            yield
            return
        with closing(listener), _Server(gateway, settings, listener, secret).running():
            try:
                yield
            finally:
                with suppress(OSError):
                    os.unlink(socket_path(key_folder, state).name, dir_fd=folder)
    finally:
        os.close(folder)


def _listen(path: Path, folder: int) -> socket.socket | None:
    """Return a socket at a path that only its account can connect to; None if it cannot be made."""
    address = socket_address(path, folder)
    if address is None:
        return None
    with suppress(FileNotFoundError):  # of a gateway that was killed: `up` holds the lock of this checkout
        os.unlink(path.name, dir_fd=folder)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address)  # in a folder that is closed to others, before the mode is set
        os.chmod(path.name, 0o600, dir_fd=folder)
        listener.listen(MAX_CONNECTIONS)
    except OSError:
        listener.close()
        return None
    return listener


class _Server:
    """Accepts connections in a thread, and answers each in a thread of its own."""

    def __init__(self, gateway: Gateway, settings: Settings, listener: socket.socket, secret: bytes) -> None:
        self._gateway, self._settings, self._listener, self._secret = gateway, settings, listener, secret
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._threads: set[threading.Thread] = set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Accept connections until the block ends, then let those that are open end."""
        accepting = threading.Thread(target=self._accept, name="hooks", daemon=True)
        accepting.start()
        try:
            yield
        finally:
            # Closing alone does not wake a thread that waits in `accept`.
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            accepting.join(1)
            for thread in list(self._threads):
                thread.join(1)

    def _accept(self) -> None:
        while True:
            self._room.acquire()
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            thread = threading.Thread(target=self._serve, args=(connection,), name="hook", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with closing(connection):
                connection.settimeout(CONNECTION_SECONDS)
                if _is_our_account(connection):
                    self._exchange(connection)
        except (OSError, ValueError):  # the hook is gone, or is none
            pass
        finally:
            self._threads.discard(threading.current_thread())
            self._room.release()

    def _exchange(self, connection: socket.socket) -> None:
        secret, nonce = self._secret, os.urandom(NONCE_CHARS // 2).hex()
        connection.sendall(f"{GREETING}{nonce}\n".encode())
        with connection.makefile("rb") as stream:
            hook_nonce, mac, size = stream.readline(MAX_HEAD_BYTES).decode("ascii").split()
            if len(hook_nonce) != NONCE_CHARS or int(size) > MAX_BODY_BYTES:
                return
            body = stream.read(int(size))
        if not hmac.compare_digest(mac, proof(secret, "hook", nonce, body)):
            return
        answer = json.dumps(self._answer(body)).encode()
        connection.sendall(f"{proof(secret, 'gateway', hook_nonce, answer)} {len(answer)}\n".encode() + answer)

    def _answer(self, body: bytes) -> dict[str, Any]:
        """Answer an event as the hook's own process would."""
        from engrambus.edges.integrations.client_hook import answer_data, collect_problems

        head, _, data = body.partition(b"\n")
        fields = json.loads(head)
        token, run = fields.get("ENGRAMBUS_TOKEN"), fields.get("ENGRAMBUS_RUN")
        settings = replace(self._settings, url=None, token=token, run=run)
        with collect_problems() as problems:
            status, output = answer_data(data, settings, Path(fields["folder"]), self._gateway)
        return {"status": status, "output": output.decode(), "problems": "".join(problems)}


def _is_our_account(connection: socket.socket) -> bool:
    """True if the other end is a process of the same account, where the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    size = 3 * 4
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int.from_bytes(credentials[4:8], "little") == os.geteuid()
