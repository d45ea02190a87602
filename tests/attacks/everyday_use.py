"""A project that used everything: real commands, and the names of all files and folders they made in a folder."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGRAMBUS = (sys.executable, "-c", "from engrambus.edges.cli import main; main()")
SEVERAL = (
    sys.executable,
    "-c",
    "import json, sys\n"
    "from engrambus.edges.cli.root import engrambus\n"
    "for words in json.loads(sys.argv[1]): engrambus.main(words, prog_name='engrambus', standalone_mode=False)\n",
)
"""Runs several commands in one process: loading the program for each of them would take longer than they do."""
YOOLS = "tests.space.yools"
_IN_CREATE, _IN_MOVED_TO = 0x100, 0x80
_PIDS_AND_RANDOM = re.compile(r"(?<=\.)(\d{2,}|[0-9a-f]{12,})(?=\.|$)|^[0-9a-f]{16,64}$")

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("init",),
    ("put", "The parser trusts its input.", "--at", "src/parser.py:1-5"),
    ("query", "parser"),
    ("brief",),
    ("anchor", "line 7 of the parser"),
    ("memory", "keep", "The parser is generated.", "--pinned"),
    ("memory", "read", "--query", "parser", "--store", "big.jsonl", "--max-excerpt-tokens", "100"),
    ("memory", "read", "--query", "parser", "--store", ".catalog/sam/episodes.jsonl", "--max-excerpt-tokens", "100"),
    ("catalog", "build", "--import", YOOLS),
    ("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2"),
    ("worker", "--lane", "build", "--until-empty", "--import", YOOLS),
    ("policy", "apply"),
    ("policy", "show"),
    ("gc",),
    ("verify",),
    ("recover", "--yes"),
    ("doctor",),
)
"""What a team does in a project, in this order. `up` follows."""


class Account:
    """One account's commands in one checkout, with a home folder of its own."""

    def __init__(self, checkout: Path, home: Path, **variables: str) -> None:
        self.checkout = checkout
        self.home = home
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {**inherited, "HOME": str(home), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **variables}

    def run(self, *words: str, umask: int = -1) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return self._start([*ENGRAMBUS, *words], umask)

    def _start(self, arguments: list[str], umask: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments, cwd=self.checkout, env=self.environment, capture_output=True, text=True, timeout=90, umask=umask
        )

    def serve(self, *, umask: int = -1) -> str:
        """Run `engrambus up`, follow its events for a moment, end it; return what it printed to stderr."""
        with subprocess.Popen(
            [*ENGRAMBUS, "up"],
            cwd=self.checkout,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            umask=umask,
        ) as server:
            assert server.stdout is not None
            link = next((line for line in server.stdout if "http://" in line), "")
            if link:
                with suppress(OSError):
                    urllib.request.urlopen(link.partition("#")[0], timeout=10).read()
            server.send_signal(signal.SIGTERM)
            return server.communicate(timeout=60)[1]

    def use_everything(self, *, before: str = "", umask: int = -1) -> str:
        """Run every command, then `up`; return everything they printed to stderr.

        `before` is what a shell does first, under the process id of the commands.
        """
        (self.checkout / "big.jsonl").write_text(_big_store())
        (self.checkout / "AGENTS.md").write_text("# Agents\n\n## Agents\n")
        arguments = ["sh", "-c", f'{before or ":"}; exec "$@"', "sh", *SEVERAL, json.dumps(COMMANDS)]
        printed = self._start(arguments, umask).stderr
        return printed + self.serve(umask=umask)


def _big_store() -> str:
    """Return a memory store that is large enough to be cached."""
    record = '{"memory_id":"m%06d","ts_utc":"2026-01-01T00:00:00Z","text":"The parser%s","tags":[],"refs":[]}\n'
    return "".join(record % (number, " and one more" * 70) for number in range(1_300))


@contextmanager
def names_made_in(folder: Path) -> Iterator[set[str]]:
    """Collect the names of all files and folders that anybody makes in a folder during a block, drafts too."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_CLOEXEC)
    assert watch >= 0
    assert libc.inotify_add_watch(watch, os.fsencode(folder), _IN_CREATE | _IN_MOVED_TO) >= 0
    names: set[str] = set()

    def collect() -> None:
        while True:
            events = os.read(watch, 1 << 16)
            while events:
                _, _, _, length = struct.unpack_from("iIII", events)
                name = os.fsdecode(events[16 : 16 + length].rstrip(b"\0"))
                if name == ".end":
                    return
                names.add(name)
                events = events[16 + length :]

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        yield names
    finally:
        (folder / ".end").mkdir()
        collector.join(timeout=10)
        (folder / ".end").rmdir()
        os.close(watch)


def without_numbers(name: str, number: str) -> str:
    """Return a name with its process id or random part replaced."""
    return _PIDS_AND_RANDOM.sub(number, name)


def contents(folder: Path) -> Mapping[str, object]:
    """Return every file, folder and link below a folder with all that an attack could change."""
    found: dict[str, object] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path)] = (status.st_mode, status.st_nlink, status.st_size, content)
    return found
