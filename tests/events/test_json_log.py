"""`engrambus up --log json` writes one line of JSON for every event, call and refusal."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from engrambus.edges.cli.json_log import JsonFormatter
from tests.cli.runner import COMMAND
from tests.projects import make_repository


def _run_and_read_log(folder: Path, *words: str) -> tuple[list[dict[str, Any]], bytes]:
    """Serve a new project, put an engram, get three calls refused; return the log as objects and as bytes."""
    repository = make_repository(folder / "repository")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMBUS_")}
    environment["HOME"] = str(folder / "home")
    for command in (["init"], ["agent", "add", "coder", "--json"]):
        done = subprocess.run(
            [COMMAND, *command], cwd=repository.path, env=environment, capture_output=True, check=True
        )
    token = json.loads(done.stdout)["token"]
    with subprocess.Popen(
        [COMMAND, "up", "--no-learn", "--json", *words],
        cwd=repository.path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        try:
            link = json.loads(process.stdout.readline())["link"]
            host = link.partition("/#code=")[0].removeprefix("http://")
            engram = _call(host, "POST", "/engram", {"claim": CLAIM, "at": ["src/parser.py:1-2"]}, token)
            assert "id" in engram, engram
            _call(host, "POST", "/engram", {"claim": "", "at": ["src/parser.py:1-2"], "\nx": "forged line"}, token)
            _call(host, "GET", "/engram/unknown", None, token)
            _call(host, "GET", "/stats", None, "not\u00a0one")
        finally:
            process.send_signal(signal.SIGINT)
            _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    lines = [json.loads(line) for line in log.splitlines()]
    return [line for line in lines if "log" in line], log  # without the note that a port is taken


CLAIM = "The lexer gives up on a byte it does not know."


def _call(host: str, method: str, target: str, body: Any, token: str | None = None) -> Any:
    connection = HTTPConnection(host, timeout=60)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        connection.request(method, target, None if body is None else json.dumps(body), headers)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def test_events_calls_and_refusals_are_logged_with_the_option(tmp_path: Path) -> None:  # EB-26
    lines, log = _run_and_read_log(tmp_path, "--log", "json")
    events = [line for line in lines if line["log"] == "engrambus.events"]
    assert [line["type"] for line in events] == ["less.engram.put"]
    assert events[0]["data"]["kind"] == "fact"
    refused = [line for line in lines if line["log"] == "engrambus.refusals"]
    logged = [(line["code"], line["operation"], line.get("agent", "").rpartition("/")[2]) for line in refused]
    assert logged == [
        ("FIELD_UNKNOWN", "put_engram", "coder"),
        ("ENGRAM_NOT_FOUND", "get_engram", "coder"),
        ("TOKEN_INVALID", "stats", ""),
    ]
    answered = [line for line in lines if line["log"] == "engrambus.calls"]
    assert [(line["operation"], line["agent"].rpartition("/")[2]) for line in answered] == [("put_engram", "coder")]
    assert all(line["microseconds"] > 0 for line in answered)
    assert len(lines) == 5
    for text in (CLAIM[:12], "forged line", 'unknown"', "src/parser"):
        assert text.encode() not in log


def test_nothing_is_logged_without_the_option(tmp_path: Path) -> None:
    lines, log = _run_and_read_log(tmp_path)
    assert lines == []
    assert b"less." not in log


def test_a_record_is_one_printable_line_for_any_content() -> None:
    try:
        raise ValueError("what was sent")
    except ValueError:
        record = logging.LogRecord(
            "a", logging.ERROR, __file__, 1, "%s failed", ("a\nb\u2028\x1b[31m",), sys.exc_info()
        )
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == "a\nb\u2028\x1b[31m failed"
    assert json.loads(line)["error"] == "ValueError"
    assert "what was sent" not in line


@pytest.mark.parametrize("form", ["text", "JSON"])
def test_other_formats_are_refused(form: str) -> None:
    done = subprocess.run([COMMAND, "up", "--log", form], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
