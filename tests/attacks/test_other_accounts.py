"""Another account on the same machine: what it can read, take or stop of a project that is not its own."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.attacks.everyday_use import Account
from tests.projects import make_repository

COMMITTED = {".gitignore", "project.yaml", "policy.yaml", "capabilities.json"}


def used_project(folder: Path, umask: int) -> Account:
    """Make a project that used everything, under a umask."""
    account = Account(make_repository(folder / "repository").path, folder / "home")
    account.home.mkdir()
    account.run("init", umask=umask)
    (account.checkout / ".catalog" / "policy.yaml").write_text("scopes: [run, project, org]\n")
    account.run("policy", "apply", umask=umask)
    put = account.run(
        "put", "Everybody reads this.", "--at", "src/parser.py:1", "--confidence", "0.9", "--json", umask=umask
    )
    promoted = account.run("promote", json.loads(put.stdout)["id"], "--scope", "org", umask=umask)
    assert promoted.returncode == 0, promoted.stderr
    printed = account.use_everything(umask=umask)
    assert "Traceback" not in printed, printed
    return account


def open_to_others(folder: Path) -> dict[str, str]:
    """Return what other accounts have rights to below a folder, and itself, with its mode."""
    return {
        str(path.relative_to(folder)): stat.filemode(path.lstat().st_mode)
        for path in (folder, *folder.rglob("*"))
        if path.lstat().st_mode & 0o077
    }


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_private_files_are_closed_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """Another account walks through a project that used everything, its keys and the stores that projects share."""
    account = used_project(tmp_path, umask)
    catalog = account.checkout / ".catalog"
    assert open_to_others(catalog).keys() <= COMMITTED
    assert stat.S_IMODE(catalog.stat().st_mode) == 0o700
    assert stat.S_IMODE((catalog / "project.yaml").stat().st_mode) == 0o666 & ~umask
    for folder in (account.home / ".local" / "state", account.home / ".local" / "share"):
        assert (folder / "engrambus").exists()
        assert open_to_others(folder) == {}


def test_doctor_finds_and_closes_what_an_older_version_left_open(tmp_path: Path) -> None:
    """Journals, indexes and receipts were written under umask 022 by an older version."""
    account = used_project(tmp_path, 0o022)
    catalog = account.checkout / ".catalog"
    for path in (catalog, *catalog.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    account.run("query", "parser")
    assert stat.S_IMODE(catalog.stat().st_mode) == 0o700, "whoever opens the project closes its folder"
    before = account.run("doctor")
    assert "other accounts can open" in before.stdout
    assert "engrambus doctor --fix" in before.stdout
    assert "closed to other accounts now" in account.run("doctor", "--fix").stdout
    assert open_to_others(catalog).keys() == COMMITTED
    assert "yours alone" in account.run("doctor").stdout
