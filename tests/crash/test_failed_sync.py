"""A failed sync: what it refused is nowhere, no process writes after it, and `recover` or a restart ends it. # YT-13"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import files
from engrambus.core.journal import Journal
from engrambus.errors import StoreReadOnly
from engrambus.testing import GatewayClient
from engrambus.testing.harness import KEY
from engrambus.testing.work import PERSON, RUN
from tests.cli.runner import Shell
from tests.harness.stores import SqliteHarness, SqliteWorkHarness
from tests.projects import Repository

AT = "src/parser.py:1"


def fail_syncs(patch: pytest.MonkeyPatch, journal: Path, number: int = errno.EIO) -> None:
    """Make every sync of a journal fail, as a bad disk does."""
    real = os.fdatasync

    def fdatasync(descriptor: Any) -> None:
        if os.path.sameopenfile(descriptor, opened):
            raise OSError(number, os.strerror(number))
        real(descriptor)

    opened = os.open(journal, os.O_RDONLY)
    patch.setattr(os, "fdatasync", fdatasync)


@pytest.fixture
def shell(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    shell.ok("init")
    shell.ok("put", "Alpha is acknowledged.", "--at", AT)
    return shell


# B13: the line stayed, others read it, and another process's put was acknowledged behind it.
def test_what_a_failed_sync_refused_is_read_by_nobody_and_nobody_builds_on_it(shell: Shell) -> None:
    journal = shell.path / ".catalog" / "memory.jsonl"
    content = journal.read_bytes()
    with shell.monkeypatch.context() as patch:
        fail_syncs(patch, journal)
        refused = shell.run("put", "Alpha is refused.", "--at", "src/parser.py:2", "--json").problem
    assert refused["code"] == "STORE_READ_ONLY"
    assert journal.read_bytes() == content
    query = shell.process("query", "alpha", "--json")
    assert [engram["claim"] for engram in query.json["engrams"]] == ["Alpha is acknowledged."]
    other = shell.process("put", "Alpha is put behind it.", "--at", "src/parser.py:3", "--json").problem
    assert other["code"] == "STORE_READ_ONLY"
    assert f"process {os.getpid()}" in other["detail"]
    assert "Input/output error" in other["detail"]
    assert "engrambus recover" in other["hint"]
    assert journal.read_bytes() == content
    doctor = {check["check"]: check for check in shell.run("doctor", "--json").json["checks"]}
    assert "STORE_READ_ONLY" in doctor["journal"]["found"]

    inode = journal.stat().st_ino
    assert "takes writes again" in shell.process("recover", "--yes").out
    assert journal.read_bytes() == content
    assert journal.stat().st_ino != inode
    shell.ok("put", "Alpha is put after it.", "--at", "src/parser.py:3")
    assert shell.process("verify").code == 0
    assert "nothing to recover" in shell.ok("recover").out


def test_a_process_whose_sync_failed_goes_on_after_recover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = SqliteHarness(tmp_path / "catalog")
    client = GatewayClient(harness)
    with monkeypatch.context() as patch:
        fail_syncs(patch, harness.folder / "memory.jsonl")
        assert _put(client, "Alpha is refused")[0] == "STORE_READ_ONLY"
    assert _put(client, "Alpha is refused")[0] == "STORE_READ_ONLY"
    journal = Journal(harness.folder / "memory.jsonl", KEY, "memory")
    assert journal.renew() is not None
    journal.close()
    assert _put(client, "Alpha")[0] == "ok"
    assert client.query_claims("alpha") == ["Alpha"]
    assert harness.gateway.store.verify() == []
    harness.close()


def test_without_a_note_the_refused_line_is_still_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes no new file either: the process itself stays read-only."""
    harness = SqliteHarness(tmp_path / "catalog")
    client = GatewayClient(harness)
    content = harness.journal_bytes()
    with monkeypatch.context() as patch:
        fail_syncs(patch, harness.folder / "memory.jsonl")
        _fail_the_note(patch)
        assert _put(client, "Alpha is refused")[0] == "STORE_READ_ONLY"
    assert not list(harness.folder.glob("*.sync-failed"))
    assert harness.journal_bytes() == content
    assert _put(client, "Alpha is refused")[0] == "STORE_READ_ONLY"
    assert client.query_claims("alpha") == []
    harness.close()


def _fail_the_note(patch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, content: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    patch.setattr(files, "replace_file", fail)


def test_a_refused_line_that_could_not_be_cut_is_cut_by_recover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = SqliteHarness(tmp_path / "catalog")
    client = GatewayClient(harness)
    content = harness.journal_bytes()
    with monkeypatch.context() as patch:
        fail_syncs(patch, harness.folder / "memory.jsonl")
        patch.setattr(os, "ftruncate", _refuse)
        assert _put(client, "Alpha is refused")[0] == "STORE_READ_ONLY"
    assert len(harness.journal_bytes()) > len(content)
    harness.reopen()
    assert client.query_claims("alpha") == []
    assert _put(client, "Alpha is refused too")[0] == "STORE_READ_ONLY"
    journal = Journal(harness.folder / "memory.jsonl", KEY, "memory")
    assert journal.renew() is not None
    journal.close()
    assert harness.journal_bytes() == content
    assert _put(client, "Alpha")[0] == "ok"
    harness.close()


def _refuse(descriptor: int, length: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("cut", [True, False])
def test_a_restart_of_the_machine_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: bool) -> None:
    """Also if the cut did not reach the disk before the restart."""
    harness = SqliteHarness(tmp_path / "catalog")
    client = GatewayClient(harness)
    content = harness.journal_bytes()
    with monkeypatch.context() as patch:
        fail_syncs(patch, harness.folder / "memory.jsonl")
        if not cut:
            patch.setattr(os, "ftruncate", _refuse)
        assert _put(client, "Alpha is refused")[0] == "STORE_READ_ONLY"
    (note,) = harness.folder.glob("*.sync-failed")
    said = json.loads(note.read_bytes())
    note.write_bytes(json.dumps({**said, "boot": "an earlier one"}).encode())
    harness.reopen()
    assert _put(client, "Alpha")[0] == "ok"
    assert harness.journal_bytes().startswith(content)
    assert client.query_claims("alpha") == ["Alpha"]
    assert not note.exists()
    assert harness.gateway.store.verify() == []
    harness.close()


def test_an_unreadable_note_refuses_writes_too(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "catalog")
    (harness.folder / "memory.jsonl.sync-failed").write_bytes(b"\0" * 100)
    assert _put(GatewayClient(harness), "Alpha")[0] == "STORE_READ_ONLY"
    harness.close()


def test_acknowledged_claims_that_were_not_synced_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed sync refuses only the lines that waited for it (decision 22)."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    harness.space.out({"lane": "notes"}, authority=PERSON, run=RUN)
    assert harness.space.claim({"lane": "notes"}, worker="w", limit=1)
    content = harness.journal_bytes()
    with monkeypatch.context() as patch:
        fail_syncs(patch, harness.folder / "tuples.jsonl")
        with pytest.raises(StoreReadOnly):
            harness.space.out({"lane": "notes"}, authority=PERSON, run=RUN)
    assert harness.journal_bytes() == content
    harness.close()


def _put(client: GatewayClient, claim: str) -> tuple[str, Any]:
    return client.try_call(
        "put_engram", claim=claim, pointers=[{"type": "sam", "ref": f"sam:note:{claim.split()[-1].lower()}@2026-01-01"}]
    )
