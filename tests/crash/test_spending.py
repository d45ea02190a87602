"""What an agent has read stays counted through `kill -9`: no reader gets more by dying."""  # EB-08, EB-09

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from engrambus.testing import GatewayClient
from tests.harness.ledger import Ledger

from .reader import Project
from .witness import new_project

LIMIT = 50
READERS = 2
MOST_ROUNDS = 50


def test_a_killed_reader_has_spent_what_it_read(tmp_path: Path) -> None:
    folder, diary = tmp_path / "project", tmp_path / "diary"
    new_project(folder)
    client = GatewayClient(Project(folder))
    client.call("apply_policy", policy={"deref": {"repo": LIMIT, "tokens": 100 * LIMIT}})
    client.add_agent("ada")
    diary.touch()
    killed = 0
    for _ in range(MOST_ROUNDS):
        before = diary.read_text().count("\n")
        readers = [_start(folder, diary) for _ in range(READERS)]
        while diary.read_text().count("\n") < before + 5 and any(reader.poll() is None for reader in readers):
            time.sleep(0.002)
        time.sleep(random.random() * 0.02)
        killed += sum(reader.poll() is None for reader in readers)
        for reader in readers:
            reader.kill()
            reader.wait()
        if "denied" in diary.read_text():
            break
    journal = (folder / "memory.jsonl").read_bytes()
    proofs, told = journal.count(b'"fact":"deref.proved"'), diary.read_text().count("read")
    assert proofs == LIMIT, "every dereference there was is in the journal, and not one more"
    assert told <= proofs <= told + killed, "what was answered was counted; a kill loses at most the answer"
    assert killed > 0
    Ledger().read(journal)


def _start(folder: Path, diary: Path) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("reader.py")
    return subprocess.Popen([sys.executable, str(script), str(folder), str(diary)])
