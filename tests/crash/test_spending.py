"""Reads stay counted after `kill -9`: no agent reads more by being killed."""  # EB-08, EB-09

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from engrambus.testing import GatewayClient
from tests.harness.ledger import Ledger

from .acknowledged import new_project
from .reader import ReaderProject

LIMIT = int(os.environ.get("ENGRAMBUS_CRASH_ROUNDS", "10")) + 10
"""Reads that are allowed: five more for every round of kills."""
READERS = 2
MOST_ROUNDS = 50


def test_the_reads_of_a_killed_reader_are_counted(tmp_path: Path) -> None:
    folder, log = tmp_path / "project", tmp_path / "log"
    new_project(folder)
    client = GatewayClient(ReaderProject(folder))
    client.call("apply_policy", policy={"deref": {"repo": LIMIT, "tokens": 200 * LIMIT}})
    client.add_agent("ada")
    log.touch()
    killed = 0
    for _ in range(MOST_ROUNDS):
        reads = log.read_text().count("\n")
        readers = [_start(folder, log) for _ in range(READERS)]
        while log.read_text().count("\n") < reads + 5 and any(reader.poll() is None for reader in readers):
            time.sleep(0.002)
        time.sleep(random.random() * 0.02)
        killed += sum(reader.poll() is None for reader in readers)
        for reader in readers:
            reader.kill()
            reader.wait()
        if "denied" in log.read_text():
            break
    journal = (folder / "memory.jsonl").read_bytes()
    proofs, noted = journal.count(b'"fact":"deref.proved"'), log.read_text().count("read")
    assert proofs == LIMIT, "every dereference there was is in the journal, and not one more"
    assert noted <= proofs <= noted + killed, "what was answered was counted; a kill loses at most the answer"
    assert killed > 0
    Ledger().read(journal)


def _start(folder: Path, log: Path) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("reader.py")
    return subprocess.Popen([sys.executable, str(script), str(folder), str(log)])
