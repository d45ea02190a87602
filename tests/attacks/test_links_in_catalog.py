"""A cloned repository carries links in `.catalog`, in the places of the files and folders of Engram Bus."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.attacks.everyday_use import Account, contents, names_made_in, without_numbers
from tests.projects import git, make_repository

LINK_CODE = "LINK_IN_CATALOG"
HEX = [f"{number:02x}" for number in range(256)]
SECOND_LEVEL = {
    "sam": ["episodes.jsonl", ".written", ".lock", "episodes.jsonl.$$", ".written.$$"],
    "receipts": [".written", *HEX],
    "cas": HEX,
    "memory-cache": HEX,
    "wakeups": ["waiting"],
}
"""Names in the folders of `.catalog`; those of two digits are all planted at once."""
RARE_NAMES = {
    *("memory.000000000000000.jsonl", "tuples.000000000000000.jsonl", "tuples.000000000000000.jsonl.gz"),
    *("shared-cortex.log", "activity", "index.db", "index.db-wal", "work.db", "anchors.db", "memory-cache"),
}
"""Names that a project gets only in time, while somebody follows its events, or had in an older version."""


FOLDERS = {*SECOND_LEVEL, "activity"}
CREATED = {"gateway.json", "lock", "memory.jsonl", "tuples.jsonl", "capabilities.json", "sam", "receipts", "wakeups"}
"""Names that a first use creates: through a link to nothing, that would make a file outside."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Account:
    """A project of the attacker's, with its committed files."""
    folder = tmp_path_factory.mktemp("attacker")
    made = Account(make_repository(folder / "repository").path, folder / "home")
    made.run("init")
    git(made.checkout, "add", "-A")
    git(made.checkout, "commit", "-q", "-m", "A project")
    return made


class Victim:
    """A person who clones the attacker's repository and works in it."""

    def __init__(self, project: Account, folder: Path) -> None:
        self.repository = folder / "attacker"
        git(folder, "clone", "-q", str(project.checkout), str(self.repository))
        self.outside = folder / "outside"
        self.outside.mkdir(parents=True)
        (self.outside / "file").write_text("precious\n")
        (self.outside / "folder").mkdir()
        (self.outside / "folder" / "file").write_text("precious too\n")
        self._clone = folder / "clone"
        self.account = Account(self._clone, folder / "home")

    def clone_with_links(self, links: dict[str, str]) -> None:
        """Commit links, as names in `.catalog` with their targets outside, and clone the repository with git."""
        for name, target in links.items():
            link = self.repository / ".catalog" / name if name else self.repository / ".catalog"
            if link.is_dir():
                git(self.repository, "rm", "-rq", str(link))
            link.unlink(missing_ok=True)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(self.outside / target)
        git(self.repository, "add", "-fA")
        git(self.repository, "commit", "-q", "--allow-empty", "-m", "Links")
        git(self.repository.parent, "clone", "-q", str(self.repository), str(self._clone))


def place_of(account: Account, name: str) -> Path:
    """Return the path of a private file; indexes have a folder of their own."""
    catalog = account.checkout / ".catalog"
    return next(catalog.glob("derived-*")) / name if name.endswith(".db") else catalog / name


def names_of_a_used_project(tmp_path: Path) -> set[str]:
    """Return every name that Engram Bus makes in `.catalog`, with `$$` for a process id."""
    account = Account(make_repository(tmp_path / "used").path, tmp_path / "used-home")
    catalog = account.checkout / ".catalog"
    catalog.mkdir()
    with names_made_in(catalog) as names:
        printed = account.use_everything()
    assert "error" not in printed, printed
    return {without_numbers(name, "$$") for name in names}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every name that Engram Bus makes in `.catalog`."""
    return names_of_a_used_project(tmp_path_factory.mktemp("names"))


def test_the_attacks_below_try_every_name_that_is_made_in_a_catalog(names: set[str]) -> None:
    """A project that used everything has no file or folder whose name the attacker leaves out."""
    assert {"gateway.json", "memory.jsonl", "tuples.jsonl", "sam", "cas", "receipts", "lock", "wakeups"} <= names
    assert {".project.yaml.$$.new", "memory.jsonl.$$.new", "capabilities.json", ".gitignore"} <= names


def test_up_does_not_empty_a_file_outside(project: Account, tmp_path: Path) -> None:
    """The repository carries `.catalog/gateway.json` as a link to a file of the victim, who runs `up` and ends it."""
    victim = Victim(project, tmp_path)
    victim.clone_with_links({"gateway.json": "file"})
    before = contents(victim.outside)
    victim.account.run("init")
    printed = victim.account.serve()
    assert contents(victim.outside) == before
    assert f"error {LINK_CODE}" in printed
    assert f"{victim.account.checkout}/.catalog/gateway.json" in printed


@pytest.mark.parametrize("exists", [True, False])
def test_no_name_in_the_catalog_leads_outside(project: Account, names: set[str], tmp_path: Path, exists: bool) -> None:
    """The repository carries one name of `.catalog` as a link; the victim uses everything. So for every name."""
    for number, name in enumerate(sorted(names | RARE_NAMES if exists else CREATED)):
        kind = "folder" if name in FOLDERS or name.startswith("derived-") else "file"
        target = kind if exists else "absent"
        (tmp_path / str(number)).mkdir()
        victim = Victim(project, tmp_path / str(number))
        victim.clone_with_links({} if "$$" in name else {name: target})
        before = contents(victim.outside)
        link = victim.account.checkout / ".catalog" / name
        plant = f'ln -sfn "{victim.outside / target}" "{str(link).replace("$$", chr(34) + "$$" + chr(34))}"'
        printed = victim.account.use_everything(before=plant if "$$" in name else "")
        assert contents(victim.outside) == before, f"{name} was followed"
        assert "Traceback" not in printed, (name, printed)
        if "$$" not in name:
            assert LINK_CODE in printed, (name, printed)
            assert str(link) in printed, (name, printed)


@pytest.mark.parametrize("folder", sorted(SECOND_LEVEL))
def test_no_name_in_a_folder_of_the_catalog_leads_outside(project: Account, tmp_path: Path, folder: str) -> None:
    """The repository carries a folder of `.catalog` whose files and folders are links; the victim uses everything."""
    inner = SECOND_LEVEL[folder]
    for target in ("file", "folder", "absent"):
        (tmp_path / target).mkdir()
        victim = Victim(project, tmp_path / target)
        victim.clone_with_links({f"{folder}/{name}": target for name in inner if "$$" not in name})
        before = contents(victim.outside)
        printed = victim.account.use_everything()
        assert contents(victim.outside) == before
        assert "Traceback" not in printed, printed
        assert LINK_CODE in printed
        assert f"{victim.account.checkout}/.catalog/{folder}/" in printed


@pytest.mark.parametrize("command", ["init", "up"])
def test_a_catalog_that_is_a_link_is_not_followed(project: Account, tmp_path: Path, command: str) -> None:
    """The repository carries `.catalog` itself as a link to a folder of the victim."""
    victim = Victim(project, tmp_path)
    victim.clone_with_links({"": "folder"})
    before = contents(victim.outside)
    printed = victim.account.run("init").stderr if command == "init" else victim.account.serve()
    assert contents(victim.outside) == before
    assert f"error {LINK_CODE}" in printed
    assert f"{victim.account.checkout}/.catalog" in printed


@pytest.mark.parametrize("name", ["gateway.json", "index.db", "work.db", "anchors.db", "memory.jsonl", "lock"])
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_pipe_or_device_in_the_place_of_a_file_does_not_hang(tmp_path: Path, name: str, kind: str) -> None:
    """A FIFO or a device stands where a file of ours belongs; every command ends, and names it."""
    account = Account(make_repository(tmp_path / "repository").path, tmp_path / "home")
    account.run("init")
    path = place_of(account, name)
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    else:
        subprocess.run(["mknod", str(path), "c", "1", "5"], check=False, capture_output=True)
        if not path.exists():
            pytest.skip("Only root can make a device.")
    printed = account.use_everything()
    assert "FILE_NOT_OURS" in printed
    assert str(path) in printed
    assert "Traceback" not in printed, printed


@pytest.mark.parametrize("name", ["gateway.json", "index.db", "memory.jsonl", "lock"])
def test_a_file_with_a_second_name_outside_is_not_written(tmp_path: Path, name: str) -> None:
    """An unpacked archive carries a hard link: a file outside has a second name in `.catalog`."""
    account = Account(make_repository(tmp_path / "repository").path, tmp_path / "home")
    account.run("init")
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = place_of(account, name)
    if inside.exists():
        os.link(inside, outside / "file")
    else:
        (outside / "file").write_text("precious\n")
        os.link(outside / "file", inside)
    before = (outside / "file").read_bytes()
    printed = account.use_everything()
    assert (outside / "file").read_bytes() == before
    assert "FILE_NOT_OURS" in printed
    assert str(inside) in printed
