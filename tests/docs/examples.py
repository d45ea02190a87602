"""Reads examples from Markdown pages and runs them as a reader would."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

# Values that differ from run to run, and their placeholders in comparisons.
_VARYING = (
    (re.compile(r"sha256:[0-9a-f]{64}"), "<digest>"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "<sha>"),
    (re.compile(r"@[0-9a-f]{7,12}\b"), "@<short>"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "<short>"),
    (re.compile(r"\b(?:g_)?[0-7][0-9A-HJKMNP-TV-Z]{25}\b"), "<ulid>"),
    (re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{11}\b"), "<short>"),
    (re.compile(r"\b[\d,]+ ms\b"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?Z| \d\d:\d\d)"), "<time>"),
    (re.compile(r"\b\d\d:\d\dZ"), "<time>"),
    (re.compile(r"\b(now|[\d.]+ ?(s|min|h|d))\b"), "<age>"),
    (re.compile(r"/\S*/engrambus-demo-\w+"), "<folder>"),
    (re.compile(r"ed25519:[\w-]{43}"), "<key>"),
    (re.compile(r"engrambus1\.[\w-]+\.[\w-]+"), "<token>"),
)


class Example(NamedTuple):
    """A command with its expected output, or a piece of Python."""

    line: int
    command: str
    expected: str
    language: str


def examples(page: Path) -> Iterator[Example]:
    """Yield every example of a page, in order."""
    language = ""
    block: list[tuple[int, str]] = []
    for number, text in enumerate(page.read_text("utf-8").splitlines(), 1):
        if text.startswith("```"):
            if language:
                yield from _examples_in(language, block)
                language, block = "", []
            else:
                language = text[3:].strip() or "text"
        elif language:
            block.append((number, text))


def _examples_in(language: str, block: list[tuple[int, str]]) -> Iterator[Example]:
    if language == "python":
        yield Example(block[0][0], "\n".join(text for _, text in block), "", "python")
    if language != "console":
        return
    current: Example | None = None
    for number, text in block:
        if text.startswith("$ "):
            if current is not None:
                yield current
            current = Example(number, text[2:], "", "console")
        elif current is not None:
            current = current._replace(expected=f"{current.expected}{text}\n")
    if current is not None:
        yield current


def plain(text: str) -> str:
    """Return a text with varying values replaced by placeholders."""
    for pattern, stands_for in _VARYING:
        text = pattern.sub(stands_for, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


_NUMBER = re.compile(r"( *)(\d[\d,]*)")
LEAST_VARYING = 20


def settle(text: str, expected: str) -> str:
    """Return a text with those of its figures that are within 10 % of the expected ones replaced by these.

    Texts of other ids and commits have a few tokens more or less (decision 53).
    """
    numbers = [digits for _, digits in _NUMBER.findall(expected)]
    if len(_NUMBER.findall(text)) != len(numbers):
        return text
    remaining = iter(numbers)

    def settled(match: re.Match[str]) -> str:
        number = next(remaining)
        actual, wanted = (int(digits.replace(",", "")) for digits in (match[2], number))
        is_near = wanted >= LEAST_VARYING and abs(actual - wanted) <= max(1, 0.1 * wanted)
        if not is_near:
            return match[0]
        is_in_column = len(match[1]) > 1
        return number.rjust(len(match[0])) if is_in_column else f"{match[1]}{number}"

    return _NUMBER.sub(settled, text)


@cache
def _clone() -> Path:
    """Clone this repository, once for all pages; return the folder."""
    folder = tempfile.mkdtemp(prefix="engrambus-clone-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    clone = Path(folder) / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    _overlay_working_tree(clone)
    return clone


def _overlay_working_tree(clone: Path) -> None:
    """Commit the current pages and examples in the clone, so that an edit can be tested before its commit."""
    for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md"):
        (clone / name).write_bytes((ROOT / name).read_bytes())
    unmade = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples", clone / "examples", ignore=unmade, dirs_exist_ok=True)
    subprocess.run(["git", "add", "examples"], cwd=clone, check=True)
    author = ["-c", "user.name=reader", "-c", "user.email=reader@example.invalid"]
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-am", "as it is now"], cwd=clone, check=True)


class Reader:
    """A fresh clone with a shell and an empty home folder."""

    def __init__(self, home: Path) -> None:
        self.clone = home / "clone"
        shutil.copytree(_clone(), self.clone, symlinks=True)
        subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=self.clone, check=True)
        self.port = _free_port()
        binaries = str(Path(sys.executable).parent)
        self.environment = {
            "HOME": str(home),
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),  # this tree, whichever one is installed
            "COLUMNS": "160",
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
        }
        self._server: subprocess.Popen[bytes] | None = None

    def start_bus(self) -> None:
        """Start the bus, as `make up` does."""
        self._server = subprocess.Popen(
            ["engrambus", "up", "--no-learn", "--port", str(self.port)],  # the examples begin with an empty memory
            cwd=self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None
        first = self._server.stdout.readline()
        while first and b"http://" not in first:
            first = self._server.stdout.readline()
        assert b"#code=" in first, first
        for _ in range(1200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("the bus did not start")

    def run(self, example: Example) -> str:
        """What a command prints, on both streams, as a terminal would show it."""
        text = example.command.replace(":7171", f":{self.port}")
        command = [sys.executable, "-W", "error", "-c", text] if example.language == "python" else ["bash", "-c", text]
        done = subprocess.run(
            command, cwd=self.clone, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if example.language == "python" and done.returncode:
            raise AssertionError(done.stdout.decode())
        return done.stdout.decode()

    def leave(self) -> None:
        """Stop what was started."""
        if self._server is not None:
            self._server.terminate()
            self._server.communicate(timeout=60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
