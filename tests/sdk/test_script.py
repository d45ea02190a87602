"""Yools that stand in the very script that works on them. # YT-03 # YT-06"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engrambus.evidence.receipts import BodyFolder
from engrambus.settings import Settings
from tests.projects import Repository
from tests.space.terminal import Terminal, open_terminal

YOOLS = """
import dataclasses, functools
from engrambus import Bus, Worker, yool

PUT = [{"yool": "agent.count.words", "args": {"text": "two words"}}, {"yool": "agent.say.more"}]

@dataclasses.dataclass
class Words:
    text: str

def traced(run):
    @functools.wraps(run)
    def traced(**args):
        return run(**args)
    return traced

@yool("agent.count.words", lane="own", cached=False)
@traced
def count(text: str) -> int:
    return len(Words(text).text.split())

yool("agent.say.more", lane="own", cached=False)(["echo", "more"])
"""
WORK = """
def work(modules=()):
    with Bus.open(".") as bus, Worker.open(".", lane="own", modules=modules) as worker:
        put = bus.tuple_out("own", payload=PUT).id
        worker.run(until_empty=True)
        print(bus.tuple_observe(put).state)
"""


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """A project whose catalog has the yools of a pipeline in one file; it is not on Python's path."""
    (repository.path / "declared.py").write_text(YOOLS)
    terminal = open_terminal(repository, settings, tmp_path, "declared")
    (repository.path / "declared.py").unlink()
    terminal.environment["YOOL_TUPLE_MAX_RETRIES"] = "0"
    return terminal


def run(terminal: Terminal, *words: str, code: int = 0) -> str:
    """What a program of the project prints; if it fails as expected, its standard error."""
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=terminal.path,
        env=terminal.environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == code, ended.stderr
    return ended.stderr if code else ended.stdout.strip()


def write(terminal: Terminal, name: str, text: str) -> None:
    """A file of the project."""
    (terminal.path / name).parent.mkdir(exist_ok=True)
    (terminal.path / name).write_text(text)


GUARDED = YOOLS + WORK + '\nif __name__ == "__main__":\n    work()\n'


def test_a_script_can_run_yools_it_defines(terminal: Terminal) -> None:
    write(terminal, "tools/pipeline.py", GUARDED)
    assert run(terminal, "tools/pipeline.py") == "done"


def test_a_module_run_with_m_can_run_yools_it_defines(terminal: Terminal) -> None:
    write(terminal, "tools/sentences.py", "PLAIN = True\n")
    write(terminal, "tools/pipeline.py", "from .sentences import PLAIN\n" + GUARDED)
    assert run(terminal, "-m", "tools.pipeline") == "done"


def test_a_script_is_the_module_of_its_name(terminal: Terminal) -> None:
    """It may name itself among the modules, or be imported by one that knows it by its name."""
    write(terminal, "pipeline.py", YOOLS + WORK + '\nif __name__ == "__main__":\n    work(["pipeline", "other"])\n')
    write(terminal, "other.py", "import pipeline\n")
    assert run(terminal, "pipeline.py") == "done"


def result(terminal: Terminal, tuple_id: str) -> str:
    """What the first step of a tuple said."""
    (first, *_) = terminal.json("observe", tuple_id)["receipts"]
    sha = terminal.json("receipt", "get", first)["receipt"]["stderr_sha"]
    return BodyFolder(terminal.path / ".catalog" / "cas").get(sha).decode()


PUT_FIRST = """
def work():
    with Bus.open(".") as bus:
        bus.tuple_out("own", payload=PUT)
        with Worker.open(".", lane="own", concurrency=1) as worker:
            worker.run(until_empty=True)
            print("dead")
"""


@pytest.mark.parametrize(("how", "put"), [(WORK, 1), (PUT_FIRST, 2)])
def test_a_script_that_would_start_a_worker_in_every_process_is_refused(terminal: Terminal, how: str, put: int) -> None:
    """What it does before that is done once more in the process, and not with every step."""
    write(terminal, "pipeline.py", f"{YOOLS}{how}\nwork()\n")
    assert run(terminal, "pipeline.py") == "dead"
    dead = terminal.json("dead")["dead"]
    assert len(dead) == put
    for item in dead:
        assert 'if __name__ == "__main__":' in result(terminal, item["id"])


def test_yools_defined_in_an_interactive_session_are_refused_with_advice(terminal: Terminal) -> None:
    err = run(terminal, "-c", f"{YOOLS}{WORK}\nwork()\n", code=1)
    assert "YoolNotFound: 'agent.count.words.v1' is defined in an interactive session" in err
    assert terminal.json("dead")["dead"] == []
