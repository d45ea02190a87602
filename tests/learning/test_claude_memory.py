"""What Claude noted about a project, outside of the repository: learned only if the user asks for it (BX-09)."""

from __future__ import annotations

import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from engrambus.gateway.claude_memory import MAX_FILE_BYTES, memory_folder, read_claude_memory
from engrambus.settings import Settings
from tests.cli.runner import COMMAND, Shell
from tests.learning.repositories import FILES, commit

INDEX = "\n\n# Memory\n\n- [Deploys](deploys.md): never deploy on a Friday, because nobody is there to look after it.\n"
TOPIC = (
    "---\nname: deploys\ndescription: how we deploy\n---\n\nThe staging server is restored from a backup every night.\n"
)
FRIDAY = "Deploys: never deploy on a Friday, because nobody is there to look after it."
STAGING = "The staging server is restored from a backup every night."


@pytest.fixture
def shell(bare_shell: Shell) -> Shell:
    """A project with something to learn, of which Claude keeps a memory."""
    commit(bare_shell.path, FILES, "Use a lock around the ledger, because two writers lost a booking")
    bare_shell.ok("init")
    folder = memory_of(bare_shell)
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text(INDEX)
    (folder / "deploys.md").write_text(TOPIC)
    return bare_shell


def memory_of(shell: Shell) -> Path:
    """Return the folder of Claude's memory of the project."""
    name = "".join(character if character.isalnum() else "-" for character in str(shell.path.resolve()))
    return shell.home.resolve() / ".claude" / "projects" / name / "memory"


def noted(shell: Shell) -> dict[str, dict[str, object]]:
    """Return what was learned from Claude's memory: by claim, its pointer and what is said about it."""
    answer = shell.ok("query", "deploy friday staging server backup", "--k", "20", "--json").json
    about = {
        engram["claim"]: (engram, answer["about"][engram["id"]].get("learned", {})) for engram in answer["engrams"]
    }
    return {
        claim: {"ref": engram["pointers"][0]["ref"], "at": learned["at"]}
        for claim, (engram, learned) in about.items()
        if learned.get("from") == "claude-memory"
    }


def on_terminal(shell: Shell, *words: str, answers: str) -> str:
    """Run a command on a terminal on which a person has already typed the answers; return what it shows."""
    master, slave = pty.openpty()
    process = subprocess.Popen([COMMAND, *words], cwd=shell.path, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    os.write(master, answers.encode())
    shown = b""
    with suppress(OSError):
        while data := os.read(master, 65_536):
            shown += data
    os.close(master)
    assert process.wait(60) == 0, shown
    return shown.decode()


def test_on_a_terminal_the_first_learning_asks_for_it(shell: Shell) -> None:  # BX-09
    question = "Also learn from Claude's memory of this project (2 files in "
    assert question in on_terminal(shell, "learn", "--dry-run", answers="n\n")
    assert question in on_terminal(shell, "learn", answers="y\n")
    assert noted(shell).keys() == {FRIDAY, STAGING}
    assert question not in on_terminal(shell, "learn", answers="")


def test_it_is_read_only_if_asked_and_its_claims_point_at_what_was_stored(shell: Shell) -> None:  # BX-09
    shell.ok("learn")
    assert noted(shell) == {}
    report = shell.ok("learn", "--claude-memory")
    assert "2  Claude's memory of this project" in report.out
    learned = noted(shell)
    assert {claim: row["at"] for claim, row in learned.items()} == {FRIDAY: "MEMORY.md", STAGING: "deploys.md"}
    ref = str(learned[FRIDAY]["ref"])
    assert ref.startswith("artifact:sha256:")
    assert "never deploy on a Friday" in shell.ok("deref", ref).out
    assert "learned from CLAUDE memory MEMORY.md" in shell.ok("query", "deploy on a friday", "--k", "1").out


def test_a_second_run_adds_nothing_and_what_is_gone_is_withdrawn(shell: Shell) -> None:  # BX-09
    shell.ok("learn", "--claude-memory")
    assert shell.ok("learn", "--claude-memory").out.splitlines()[-1].startswith("0 learned, ")
    (memory_of(shell) / "deploys.md").unlink()
    shell.ok("learn")  # not asked: nobody looked there
    assert noted(shell).keys() == {FRIDAY, STAGING}
    assert "1 withdrawn" in shell.ok("learn", "--claude-memory").out
    assert noted(shell).keys() == {FRIDAY}
    (memory_of(shell) / "MEMORY.md").unlink()
    gone = shell.ok("learn", "--claude-memory")
    assert "Claude has no memory of this project" in gone.err
    assert noted(shell) == {}


def test_a_preview_stores_nothing(shell: Shell) -> None:  # BX-09
    assert FRIDAY in shell.ok("learn", "--claude-memory", "--dry-run").out
    assert noted(shell) == {}


def test_the_memory_of_another_project_is_not_read(shell: Shell) -> None:  # BX-09
    other = memory_of(shell).parent.with_name("-another-project") / "memory"
    other.mkdir(parents=True)
    (other / "MEMORY.md").write_text("The other server must never be restarted, because it loses its state.\n")
    shell.ok("learn", "--claude-memory")
    assert "other server" not in str(shell.ok("feed", "--agent", "learn", "--json").out)


def test_links_secrets_and_large_files_are_counted_and_not_read(shell: Shell, tmp_path: Path) -> None:  # BX-09
    folder = memory_of(shell)
    outside = tmp_path / "outside.md"
    outside.write_text("The outside must never be read, because it is not ours.\n")
    (folder / "linked.md").symlink_to(outside)
    (folder / "large.md").write_text(
        "The large file must never be read, because it is large.\n" * (MAX_FILE_BYTES // 40)
    )
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    (folder / "token.md").write_text(f"Deploys must always use the token {token} of the robot.\n")
    memory = read_claude_memory(folder)
    assert memory is not None
    assert [file.name for file in memory.files] == ["MEMORY.md", "deploys.md"]
    assert memory.unread == {"link": 1, "secret": 1, "too large": 1}
    shell.ok("learn", "--claude-memory")
    stored = b"".join(path.read_bytes() for path in shell.path.rglob("*") if path.is_file())
    assert token.encode() not in stored


def test_a_folder_that_is_a_link_is_not_followed(shell: Shell, tmp_path: Path) -> None:  # BX-09
    folder = memory_of(shell)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert read_claude_memory(folder) is None


def test_claude_may_keep_its_state_elsewhere(tmp_path: Path) -> None:  # BX-09
    settings = Settings.from_environment({"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude state")})
    folder = memory_folder(settings.claude_home, tmp_path / "my_project.git")
    name = str(tmp_path.resolve() / "my-project-git").replace("/", "-").replace("_", "-")
    assert folder == tmp_path.resolve() / "claude state" / "projects" / name / "memory"
