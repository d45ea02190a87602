"""Part 5: a gateway, HTTP writers, writers, workers, readers and garbage collection at once, killed at random."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from engrambus.app import open_project
from engrambus.core import new_ulid
from engrambus.testing import GatewayClient
from tests.torture.kills import check
from tests.torture.notes import Notes, Problem
from tests.torture.outcome import Outcome
from tests.torture.workload import Actions, OpenProject, TortureProject, Writer, create_torture_project

ROLES: dict[str, Actions] = {
    "writer": (Writer.put, Writer.put_many, Writer.promote, Writer.forget, Writer.store),
    "worker": (Writer.out, Writer.complete, Writer.out, Writer.complete, Writer.take, Writer.spend, Writer.reuse),
    "reader": (Writer.read, Writer.read, Writer.verify),
    "keeper": (Writer.rotate, Writer.collect),
}
PROCESSES = ("writer", "writer", "worker", "worker", "reader", "keeper", "http", "server")
PAUSE_SECONDS = {"reader": 0.5, "keeper": 2.0}
"""How long some wait between two actions; the others go on at once."""
SECONDS_BETWEEN_CHECKS = 20.0
GROWTH_ALLOWED_MB = 64
DESCRIPTORS_ALLOWED = 200


class MixedLoad:
    """The processes that work on one project, and their notes."""

    def __init__(self, project: TortureProject, seed: int) -> None:
        self._project = project
        self._dice = random.Random(seed)
        self._logs: list[Path] = []
        self._running: dict[int, str] = {}
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        with closing(open_project(project.root, project.settings)) as gateway:
            client = GatewayClient(OpenProject(gateway))
            self._token = str(client.call("add_agent", name="remote", role="programmer").token)

    def run(self, seconds: float, outcome: Outcome) -> None:
        """Start everything, kill at random, and check now and then with everything stopped."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                for role in PROCESSES:
                    self._start(role)
                stop = min(end, time.monotonic() + SECONDS_BETWEEN_CHECKS)
                while time.monotonic() < stop:
                    time.sleep(self._dice.random() * 0.6)
                    self._kill_one(outcome)
                problems = [*self._sizes()]
            finally:
                for pid in list(self._running):
                    self._end(pid)
            notes = self._notes()
            outcome.add(f"after {len(self._logs)} processes", 0, [*problems, *check(self._project, notes)])
        outcome.acknowledged = self._notes().acknowledged

    def _notes(self) -> Notes:
        return Notes(line for log in self._logs if log.exists() for line in log.read_text().split("\n")[:-1])

    def _kill_one(self, outcome: Outcome) -> None:
        pid = self._dice.choice(list(self._running))
        role = self._running[pid]
        self._end(pid)
        outcome.states += 1
        self._start(role)

    def _end(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        del self._running[pid]

    def _start(self, role: str) -> None:
        log = self._project.folder / f"notes-{len(self._logs)}"
        self._logs.append(log)
        seed = self._dice.randrange(1 << 30)
        pid = os.fork()
        if pid == 0:
            try:
                self._play(role, log, seed)
            except BaseException:
                with log.open("a") as notes:
                    notes.write(f"traceback {role} {traceback.format_exc()!r}\n")
            os._exit(1)
        self._running[pid] = role

    def _play(self, role: str, log: Path, seed: int) -> None:
        """Do what a role does until killed."""
        if role == "server":
            command = str(Path(sys.executable).with_name("engrambus"))
            quiet = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(quiet, descriptor)
            os.chdir(self._project.root)
            environment = {"PATH": os.environ["PATH"], "HOME": str(self._project.folder / "home")}
            os.execve(command, [command, "up", "--port", str(self._port), "--no-learn"], environment)
        notes = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if role == "http":
            self._write_over_http(notes)
        dice = random.Random(seed)
        with closing(open_project(self._project.root, self._project.settings)) as gateway:
            writer = Writer(gateway, self._project.pointer, notes)
            while True:
                action: Callable[[Writer], None] = dice.choice(ROLES[role])
                action(writer)
                time.sleep(PAUSE_SECONDS.get(role, 0.005))

    def _write_over_http(self, notes: int) -> None:
        """Put engrams over the loopback; a gateway that is being started again is tried again."""
        line = 0
        while True:
            line = line % 100 + 1
            engram_id = new_ulid(time.time_ns() // 1000)
            pointer = {"type": "artifact", "ref": f"{self._project.pointer}#L{line}-L{line}"}
            body = {"id": engram_id, "claim": f"Remote matter {engram_id} is written down", "pointers": [pointer]}
            os.write(notes, f"put? {engram_id}\n".encode())
            with suppress(OSError, HTTPException), closing(HTTPConnection("127.0.0.1", self._port, timeout=20)) as link:
                headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
                link.request("POST", "/engram", json.dumps(body), headers)
                answer = link.getresponse()
                text = answer.read()
                if answer.status < 300:
                    os.write(notes, f"put {engram_id}\n".encode())
                elif b'"INTERNAL"' in text:
                    os.write(notes, f"traceback http {text!r}\n".encode())
            time.sleep(0.05)

    def _sizes(self) -> list[Problem]:
        """Return the processes that hold too much memory or too many descriptors for so little data."""
        problems = []
        for pid, role in self._running.items():
            with suppress(OSError):
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                descriptors = len(os.listdir(f"/proc/{pid}/fd"))
                if descriptors > DESCRIPTORS_ALLOWED or pages * 4096 > (200 + GROWTH_ALLOWED_MB) << 20:
                    problems.append(Problem("wrong", f"{role} holds {pages * 4 >> 10} MB, {descriptors} descriptors"))
        return problems


def run_mixed_load(folder: Path, outcome: Outcome, *, minutes: float, seed: int) -> None:
    """Run the mixed load on a project for some minutes."""
    project = create_torture_project(folder / "project")
    MixedLoad(project, seed).run(minutes * 60, outcome)
