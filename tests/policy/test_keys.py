"""`engrambus keys export` and `keys import`: a project restored on another machine is one's own again."""  # EB-29

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from engrambus.testing.harness import PROJECT
from tests.attacks.foreign_state import HONEST, Machine, make_victim
from tests.projects import Repository


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with a project."""
    return make_victim(tmp_path, monkeypatch)


def restored(source: Machine, folder: Path) -> Machine:
    """Return another machine with a copy of the project's folder, journals included, and without its keys."""
    shutil.copytree(source.path, folder / "restored")
    repository = Repository(folder / "restored", source.repository.sha)
    return Machine(repository, folder / "another-home", source.monkeypatch)


def test_a_restored_project_is_ones_own_once_its_keys_are_imported(home: Machine, tmp_path: Path) -> None:
    token = home.ok("agent", "add", "mia", "--role", "manager", "--json").json["token"]
    home.ok("out", "--lane", "notes")
    exported = home.ok("keys", "export", str(tmp_path / "keys.json"), "--json").json
    assert exported["projects"] == [home.ok("stats", "--json").json["project"]]
    other = restored(home, tmp_path)
    refused = other.run("brief")
    assert "JOURNAL_FOREIGN" in refused.err
    assert "engrambus keys import FILE" in refused.err
    assert "journal.key" in other.ok("keys", "import", str(tmp_path / "keys.json")).out
    assert HONEST in other.ok("brief").out
    assert other.ok("verify").out.startswith("sound")
    assert other.ok("rd", "--lane", "notes").out
    other.ok("put", "The lexer is small.", "--at", "docs/design.md:9", env={"ENGRAMBUS_TOKEN": token})
    for key in other.home.rglob("*.key"):
        assert key.stat().st_mode & 0o777 == 0o600


def test_the_file_is_private_and_never_written_over_another(home: Machine, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    before = os.umask(0)
    try:
        home.ok("keys", "export", str(path))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    content = path.read_bytes()
    assert "FIELD_VALUE" in home.run("keys", "export", str(path)).err
    (tmp_path / "link.json").symlink_to(tmp_path / "elsewhere")
    assert home.run("keys", "export", str(tmp_path / "link.json")).code == 1
    assert not (tmp_path / "elsewhere").exists()
    assert path.read_bytes() == content
    assert "do not commit it" in home.ok("keys", "export", "keys.json").err


def test_a_file_that_others_can_read_is_refused(home: Machine, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    home.ok("keys", "export", str(path))
    path.chmod(0o640)
    other = restored(home, tmp_path)
    refused = other.run("keys", "import", str(path))
    assert "KEY_FILE_READABLE" in refused.err
    assert "chmod 600" in refused.err
    assert not [*other.home.rglob("*.key")]


def test_other_keys_of_the_same_project_are_replaced_only_when_asked(home: Machine, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    home.ok("keys", "export", str(path))
    other = restored(home, tmp_path)
    other.ok("adopt", "--own", "--yes")
    refused = other.run("keys", "import", str(path))
    assert "KEYS_EXIST" in refused.err
    assert other.ok("brief").out, "nothing was replaced"
    other.ok("keys", "import", str(path), "--replace")
    assert "JOURNAL_FOREIGN" in other.run("brief").err, "its own segment was written with the key that was replaced"
    assert len([*other.home.rglob("journal.key.*.replaced")]) == 1


def test_importing_the_same_keys_again_changes_nothing(home: Machine, tmp_path: Path) -> None:
    home.ok("keys", "export", str(tmp_path / "keys.json"))
    keys = {path: path.stat().st_mtime_ns for path in home.home.rglob("*.key")}
    assert "already" in home.ok("keys", "import", str(tmp_path / "keys.json")).out
    assert {path: path.stat().st_mtime_ns for path in home.home.rglob("*.key")} == keys


def archive(project: str, keys: dict[str, str]) -> str:
    """Return the text of a file with keys."""
    return json.dumps({"engrambus": "keys", "version": 1, "keys": {project: keys}})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"engrambus": "keys", "version": 2, "keys": {}}',
        archive("../../../.ssh", {"journal.key": "00" * 32}),
        archive(PROJECT, {"journal.key": "00" * 32, "../x.key": "00" * 32}),
        archive(PROJECT, {"journal.key": "00"}),
        archive(PROJECT, {"token.key": "00" * 32}),
    ],
)
def test_a_file_that_is_none_of_keys_is_refused(home: Machine, tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    path.chmod(0o600)
    before = sorted(home.home.rglob("*"))
    assert "FORMAT_UNKNOWN" in home.run("keys", "import", str(path)).err
    assert sorted(home.home.rglob("*")) == before


def test_only_the_admin_at_the_machine_handles_keys(home: Machine, tmp_path: Path) -> None:
    for environment in ({"ENGRAMBUS_TOKEN": "x"}, {"ENGRAMBUS_URL": "http://127.0.0.1:1"}):
        for word in ("export", "import"):
            assert home.run("keys", word, str(tmp_path / "keys.json"), env=environment).code == 2
    assert home.run("keys", "export", str(tmp_path / "keys.json"), "--as", "mia").code == 2
    assert not (tmp_path / "keys.json").exists()


def test_keys_of_shared_stores_are_exported_when_asked(home: Machine, tmp_path: Path) -> None:
    (home.catalog / "policy.yaml").write_text("scopes: [run, project, org]\n")
    home.ok("policy", "apply")
    home.ok("promote", home.ok("query", "parser", "--json").json["engrams"][0]["id"], "--scope", "org")
    home.ok("keys", "export", str(tmp_path / "project.json"))
    home.ok("keys", "export", str(tmp_path / "all.json"), "--shared")
    counts = [len(json.loads((tmp_path / name).read_text())["keys"]) for name in ("project.json", "all.json")]
    assert counts == [1, 2]
