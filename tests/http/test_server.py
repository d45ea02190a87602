"""Starting and stopping the server: it finishes open requests and stops without errors."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from engrambus.gateway import Gateway
from tests.http.running_server import run_new_project
from tests.projects import make_repository

PROGRAM = """
import socket, sys
from pathlib import Path
from engrambus.app import init_project, open_project
from engrambus.edges.http import SignInCodes, serve
from engrambus.settings import Settings

folder = Path(sys.argv[1])
settings = Settings.from_environment({"HOME": str(folder / "home")})
init_project(folder / "repository", settings)
gateway = open_project(folder / "repository", settings)
sock = socket.socket()
sock.bind(("127.0.0.1", 0))
codes = SignInCodes()
serve(gateway, sock, lambda: print(sock.getsockname()[1], codes.new(), flush=True), codes=codes)
gateway.close()
print("ended")
"""


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server_cleanly(tmp_path: Path, stop_signal: signal.Signals) -> None:
    make_repository(tmp_path / "repository")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port, code = process.stdout.readline().split()
        connection = HTTPConnection("127.0.0.1", int(port), timeout=60)
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{port}"}
        connection.request("POST", "/page/open", f"code={code}", form)
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
        process.send_signal(stop_signal)
        out, err = process.communicate(timeout=60)  # the open connection does not delay it
        connection.close()
    assert (process.returncode, out, err) == (0, "ended\n", "")


def test_open_requests_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Gateway.call
    has_started = threading.Event()

    def call_slowly(*arguments: Any) -> Any:
        has_started.set()
        time.sleep(0.6)
        return call(*arguments)

    with run_new_project(tmp_path) as bus:
        monkeypatch.setattr(Gateway, "call", call_slowly)
        connection = HTTPConnection("127.0.0.1", bus.port, timeout=60)
        connection.request("GET", "/agent", headers={"Authorization": f"Bearer {bus.token}"})
        assert has_started.wait(60)
    answer = connection.getresponse()
    assert answer.status == 200
    answer.read()
    connection.close()
