"""What was learned from the repository is shown unasked by its words only, and after what was stated."""  # BX-09 BX-10

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runner import Shell
from tests.projects import Repository, commit_files

ADR = "# 1. Lengths\n\n## Decision\n\nWe trust lengths in the parser because clients send them signed.\n"


@pytest.fixture
def shell(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A project that has learned a decision record."""
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    commit_files(repository.path, {"docs/adr/0001-lengths.md": ADR})
    shell.ok("init")
    shell.ok("learn")
    return shell


def recalled(shell: Shell, *words: str) -> list[str]:
    return shell.ok("recall", *words).out.splitlines()[1:]


def test_a_learned_claim_is_shown_for_its_words_and_not_for_its_file(shell: Shell) -> None:
    (line,) = recalled(shell, "Why do we trust signed lengths of clients in the parser?")
    assert "learned decision" in line
    assert recalled(shell, "Tidy up docs/adr/0001-lengths.md, please.") == []


def test_a_stated_claim_comes_first_even_if_it_is_stale(shell: Shell) -> None:
    claim = "Signed lengths are checked by the parser."
    shell.ok("put", claim, "--at", "src/parser.py:10-12", "--kind", "decision")
    text = (shell.path / "src/parser.py").read_text()
    (shell.path / "src/parser.py").write_text(text.replace("line 11", "line eleven"))
    first, second = recalled(shell, "Does src/parser.py trust signed lengths that clients send?")
    assert claim in first
    assert "changed since" in first
    assert "learned decision" in second
