"""Another account on the same machine: what it can read, take or stop of a project that is not its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attacks.everyday_use import ROOT, Account
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


GATEWAY_UID, AGENT_UID = 54_321, 54_322
"""Two accounts of the test, which need no entry in /etc/passwd."""


class Containment:
    """A repository of the agent's account, served by a gateway under another one, as docs/containment.md says."""

    def __init__(self, folder: Path, python: str) -> None:
        folder.chmod(0o755)
        self.repository = make_repository(folder / "app").path
        self.gateway_home, self.agent_home = folder / "gateway", folder / "agent"
        for home in (self.gateway_home, self.agent_home):
            home.mkdir()
            home.chmod(0o755)  # what is private is closed by itself
        self._own(self.repository, AGENT_UID)
        self._own(self.agent_home, AGENT_UID)
        self._own(self.gateway_home, GATEWAY_UID)
        program = folder / "bin" / "engrambus"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\nexec {python} -c 'from engrambus.edges.cli import main; main()' \"$@\"\n")
        program.chmod(0o755)
        self._variables = {"PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
        page = (ROOT / "docs" / "containment.md").read_text()
        self._steps: list[str] = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
        self.url = self.token = ""

    def _own(self, folder: Path, uid: int) -> None:
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, uid, uid)

    def shell(self, uid: int, script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the shell under an account."""
        with self._start(uid, script, *words, **variables) as process:
            out, err = process.communicate(timeout=90)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def _start(self, uid: int, script: str, *words: str, **variables: str) -> subprocess.Popen[str]:
        home = self.gateway_home if uid == GATEWAY_UID else self.agent_home
        return subprocess.Popen(
            ["sh", "-e", "-c", script, "sh", *words],
            cwd="/",
            env={**self._variables, "HOME": str(home), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=uid,
            group=uid,
            extra_groups=[],
            umask=0o022,
        )

    def step(self, number: int) -> str:
        """Return the commands of a step of the documentation, for this repository."""
        return self._steps[number - 1].replace("/srv/app", str(self.repository))

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Follow the documentation up to `engrambus up`; the server runs during the block."""
        made = self.shell(AGENT_UID, self.step(1))
        assert made.returncode == 0, made.stderr
        with self._start(GATEWAY_UID, self.step(2).replace("engrambus up", "exec engrambus up")) as server:
            assert server.stdout is not None
            for line in server.stdout:
                if found := re.search(r"engrambus1\.\S+", line):
                    self.token = found[0]
                if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                    self.url = found[0]
                    break
            try:
                assert self.url, server.communicate(timeout=30)
                yield
            finally:
                server.send_signal(signal.SIGTERM)
                server.communicate(timeout=30)

    def as_agent(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the agent, with its URL and token."""
        script = f'cd "{self.repository}" && engrambus "$@"'
        return self.shell(AGENT_UID, script, *words, ENGRAMBUS_URL=self.url, ENGRAMBUS_TOKEN=self.token)


def find_python() -> str | None:
    """Return a Python of this version that other accounts can start."""
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        try:
            subprocess.run(
                [python, "-c", "import msgspec, apsw"],
                check=True,
                capture_output=True,
                user=AGENT_UID,
                group=AGENT_UID,
                extra_groups=[],
                env={"PYTHONPATH": ":".join(sys.path)},
                cwd="/",
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    return None


@pytest.fixture
def containment() -> Iterator[Containment]:
    """A repository and two accounts, if this process can become another account."""
    python = find_python() if os.geteuid() == 0 else None
    if python is None:
        reason = "Only root can become another account, and that account must be able to start Python."
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="engrambus-accounts-") as folder:  # not below pytest's, which is closed
        yield Containment(Path(folder), python)


def test_an_agent_under_another_account_works_and_reads_nothing_private(containment: Containment) -> None:
    """The agent follows docs/containment.md, then tries to open every private file of the gateway."""
    with containment.serving():
        used = containment.step(3).replace("http://127.0.0.1:7171", containment.url)
        used = re.sub(r"engrambus1\.\S+", containment.token, used)
        done = containment.shell(AGENT_UID, used)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("The parser trusts its input.") >= 2
        assert "line 3 of the parser" in containment.as_agent("deref", "src/parser.py:1-5").stdout
        private = [path for path in containment.gateway_home.rglob("*") if not path.is_symlink()]
        names = {path.name for path in private}
        assert {"memory.jsonl", "gateway.json", "lock", "token.key", "index.db"} <= names
        script = 'for path in "$@"; do cat "$path" || ls "$path" || flock -n "$path" true || continue; echo GOT; done'
        tried = containment.shell(AGENT_UID, script, *map(str, private))
        assert "GOT" not in tried.stdout
        assert tried.stderr.count("Permission denied") >= len(private)
    committed = {path.name for path in (containment.repository / ".catalog").iterdir()}
    assert committed <= COMMITTED
    owners = {path.lstat().st_uid for path in containment.repository.rglob("*")}
    assert owners == {AGENT_UID}, "the gateway writes nothing into the repository"


def test_the_agent_cannot_have_its_own_journal_served(containment: Containment) -> None:
    """The agent puts a journal, an index and links into `.catalog` of its repository; the gateway looks at none."""
    with containment.serving():
        catalog = containment.repository / ".catalog"
        forged = f'cd "{catalog}" && echo "{{}}" > memory.jsonl && ln -s /etc/passwd tuples.jsonl && mkdir cas'
        assert containment.shell(AGENT_UID, forged).returncode == 0
        assert containment.as_agent("query", "parser").returncode == 0
        assert containment.as_agent("put", "It goes on.", "--at", "src/parser.py:2").returncode == 0
        assert (catalog / "memory.jsonl").read_text() == "{}\n"


def test_a_gateway_without_a_home_of_its_own_refuses_the_repository_of_another(containment: Containment) -> None:
    """The agent's repository holds a whole project; the gateway is started there without ENGRAMBUS_HOME."""
    made = containment.shell(AGENT_UID, f'cd "{containment.repository}" && engrambus init')
    assert made.returncode == 0, made.stderr
    refused = containment.shell(GATEWAY_UID, f'cd "{containment.repository}" && engrambus brief')
    assert "FOLDER_NOT_OURS" in refused.stderr
    assert "ENGRAMBUS_HOME" in refused.stderr


@pytest.mark.parametrize("fault", ["open", "link", "foreign"])
def test_a_home_that_others_can_change_is_refused(containment: Containment, fault: str) -> None:
    """ENGRAMBUS_HOME is open to others, is a link, or belongs to the agent."""
    assert containment.shell(AGENT_UID, containment.step(1)).returncode == 0
    home = containment.gateway_home / "engrambus"
    if fault == "link":
        (containment.gateway_home / "elsewhere").mkdir(mode=0o700)
        home.symlink_to(containment.gateway_home / "elsewhere")
    else:
        home.mkdir()
        home.chmod(0o755 if fault == "open" else 0o700)
    owner = AGENT_UID if fault == "foreign" else GATEWAY_UID
    for path in containment.gateway_home.iterdir():
        os.lchown(path, owner, owner)
    refused = containment.shell(GATEWAY_UID, containment.step(2))
    assert refused.returncode == 1
    assert ("LINK_IN_CATALOG" if fault == "link" else "FOLDER_NOT_OURS") in refused.stderr, refused.stderr
    assert str(home) in refused.stderr


def test_a_repository_that_claims_the_id_of_another_is_refused(containment: Containment, tmp_path: Path) -> None:
    """The agent writes the id of the gateway's other project into project.yaml, to be served its knowledge."""
    with containment.serving():
        pass
    other = containment.repository.with_name("other")
    copied = containment.shell(AGENT_UID, f'git clone -q "{containment.repository}" "{containment.agent_home}/other"')
    assert copied.returncode == 0, copied.stderr
    (containment.agent_home / "other").rename(other)
    shutil.copytree(containment.repository / ".catalog", other / ".catalog", dirs_exist_ok=True)
    script = f'export ENGRAMBUS_HOME="$HOME/engrambus"; cd "{other}"; engrambus brief'
    refused = containment.shell(GATEWAY_UID, script)
    assert "PROJECT_ELSEWHERE" in refused.stderr, refused.stderr
