"""A server that is in use is backed up and restored on another host, where its people go on working."""

from __future__ import annotations

import io
import json
import stat
import tarfile
import threading
from pathlib import Path

import pytest

from tests.projects import commit_files, git, make_repository
from tests.team_server.machines import Machine, TeamServer, make_clone
from tests.team_server.test_login import stored_login


def test_a_server_in_use_is_backed_up_and_restored_elsewhere(
    server: TeamServer, anna: Machine, tmp_path: Path
) -> None:  # YT-19
    head = commit_files(anna.folder, {"kept.txt": "kept\n"})
    engram = anna.ok("put", "The kept file is kept.", "--at", "kept.txt:1", "--json").json["id"]
    anna.ok("task", "add", "Keep the kept file")
    file = tmp_path / "backup.tar"
    writing = threading.Thread(
        target=lambda: [anna.run("put", f"Fact {n} of many.", "--at", "kept.txt:1") for n in range(3)]
    )
    writing.start()
    made = server.operator.ok("backup", str(file), "--json").json
    writing.join()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert made["project"] == server.project

    folder = tmp_path / "elsewhere.git"
    folder.mkdir()
    other = Machine(folder, tmp_path / "home-elsewhere")
    assert other.ok("restore", str(file), "--json").json["project"] == server.project
    assert "differ" not in other.ok("verify").out
    claims = {row["id"]: row["claim"] for row in other.ok("query", "kept", "--json").json["engrams"]}
    assert claims[engram] == "The kept file is kept."
    assert "kept" in other.ok("deref", f"repo:kept.txt#L1@{head}").out
    assert "Keep the kept file" in other.ok("task", "list").out
    # The keys came along: the token that was given out before is good there.
    token = json.loads(stored_login(anna).read_bytes())["token"]
    assert other.ok("whoami", "--json", env={"ENGRAMBUS_TOKEN": token}).json["role"] == "person"


@pytest.fixture
def backed_up(tmp_path: Path) -> tuple[Machine, Path]:
    """A small project and its backup."""
    machine = Machine(make_repository(tmp_path / "repository").path, tmp_path / "home")
    machine.ok("init")
    machine.ok("put", "The parser is small.", "--at", "src/parser.py:1-5")
    machine.ok("backup", str(tmp_path / "backup.tar"))
    return machine, tmp_path / "backup.tar"


def rewrite(source: Path, target: Path, change: object = None, add: tarfile.TarInfo | None = None) -> None:
    """Copy an archive, with the content of its first journal changed or another file added."""
    with tarfile.open(source) as old, tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as new:
        for info in old:
            file = old.extractfile(info)
            assert file is not None
            data = file.read()
            if change is not None and info.name == "state/memory.jsonl":
                data = data.replace(b"small", b"large")
            if add is not None and info.name == "manifest.json":
                new.addfile(add, io.BytesIO(b"x" * add.size))
            new.addfile(info, io.BytesIO(data))


def empty_machine(tmp_path: Path) -> Machine:
    folder = tmp_path / "empty"
    folder.mkdir()
    return Machine(folder, tmp_path / "other-home")


def test_a_damaged_backup_is_refused_before_anything_is_written(
    backed_up: tuple[Machine, Path], tmp_path: Path
) -> None:
    other = empty_machine(tmp_path)
    rewrite(backed_up[1], tmp_path / "changed.tar", change=True)
    assert other.run("restore", str(tmp_path / "changed.tar"), "--json").problem["code"] == "FORMAT_UNKNOWN"
    (tmp_path / "cut.tar").write_bytes(backed_up[1].read_bytes()[:-30_000])
    assert other.run("restore", str(tmp_path / "cut.tar"), "--json").problem["code"] == "FORMAT_UNKNOWN"
    (tmp_path / "text.tar").write_bytes(b"hello")
    assert other.run("restore", str(tmp_path / "text.tar"), "--json").problem["code"] == "FORMAT_UNKNOWN"
    assert not list(other.folder.iterdir())
    assert not (other.home / ".local").exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("state/../../evil", tarfile.REGTYPE), ("/etc/evil", tarfile.REGTYPE), ("state/cas/../../x", tarfile.REGTYPE),
        ("state/memory.jsonl.link", tarfile.SYMTYPE), ("state/cas/pipe", tarfile.FIFOTYPE), ("notes", tarfile.REGTYPE),
        ("catalog/hooks/x", tarfile.REGTYPE), ("state/gateway.json", tarfile.REGTYPE),
    ],
)  # fmt: skip
def test_a_backup_leads_nowhere_else(backed_up: tuple[Machine, Path], tmp_path: Path, name: str, kind: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    info.size = 1 if kind == tarfile.REGTYPE else 0
    rewrite(backed_up[1], tmp_path / "evil.tar", add=info)
    other = empty_machine(tmp_path)
    assert other.run("restore", str(tmp_path / "evil.tar"), "--json").problem["code"] == "FORMAT_UNKNOWN"
    assert not list(other.folder.iterdir())


def test_nothing_is_written_over(backed_up: tuple[Machine, Path], tmp_path: Path) -> None:
    machine, file = backed_up
    assert machine.run("backup", str(file), "--json").problem["field"] == "file"
    assert machine.run("restore", str(file), "--json").problem["code"] == "PROJECT_EXISTS"
    # A fresh clone that has the project's committed files is where a project without a mirror is restored.
    git(machine.folder, "add", "-A")
    git(machine.folder, "commit", "-qm", "the project")
    git(tmp_path, "clone", "-q", str(machine.folder), str(tmp_path / "clone"))
    clone = Machine(tmp_path / "clone", tmp_path / "clone-home")
    clone.ok("restore", str(file))
    assert "The parser is small." in clone.ok("query", "parser").out


def test_without_keys_the_journals_are_foreign_until_these_are_imported(tmp_path: Path) -> None:
    machine = make_clone(tmp_path / "repository", tmp_path / "home")
    machine.ok("init")
    machine.ok("backup", str(tmp_path / "backup.tar"), "--no-keys")
    machine.ok("keys", "export", str(tmp_path / "keys.json"))
    other = empty_machine(tmp_path)
    other.ok("restore", str(tmp_path / "backup.tar"))
    assert other.run("feed", "--json").problem["code"] == "JOURNAL_FOREIGN"
    other.ok("keys", "import", str(tmp_path / "keys.json"))
    other.ok("feed")
