"""`engrambus adopt --own`: journals of an older version, which had no key, become one's own."""  # EB-29

from __future__ import annotations

import pytest

from engrambus.core.journal import read_header
from tests.cli.runner import Shell
from tests.harness.old_journals import make_unmarked

JOURNALS = ("memory.jsonl", "tuples.jsonl")


@pytest.fixture
def old_shell(shell: Shell) -> Shell:
    """A project as an older version left it: with knowledge, work and indexes, and without a key for its journals."""
    shell.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1-3", "--kind", "constraint")
    shell.ok("pin", shell.ok("query", "parser", "--json").json["engrams"][0]["id"])
    shell.ok("out", "--lane", "notes")
    for name in JOURNALS:
        make_unmarked(shell.path / ".catalog" / name)
    for key in shell.home.rglob("journal.key"):
        key.unlink()
    for folder in shell.path.glob(".catalog/derived-*"):
        for file in folder.iterdir():
            file.rename(shell.path / ".catalog" / file.name)
        folder.rmdir()
    return shell


def test_an_older_journal_is_refused_and_then_adopted(old_shell: Shell) -> None:
    refused = old_shell.run("brief")
    assert refused.code == 1
    assert "error JOURNAL_FOREIGN" in refused.err
    assert "engrambus adopt --own" in refused.err
    adopted = old_shell.run("adopt", "--own", stdin="y\n")
    assert adopted.code == 0, adopted
    assert "memory.jsonl: 3 commits, from 20" in adopted.err
    assert "The parser trusts its input." in adopted.err
    assert "The parser trusts its input." in old_shell.ok("brief").out
    assert old_shell.ok("verify").out.startswith("sound")
    assert "notes" in old_shell.ok("rd", "--lane", "notes").out
    old_shell.ok("put", "The lexer is small.", "--at", "docs/design.md:9")
    assert old_shell.ok("verify").out.startswith("sound")
    assert not (old_shell.path / ".catalog" / "index.db").exists(), "the index of the older version is deleted"


def test_nothing_is_adopted_without_an_answer(old_shell: Shell) -> None:
    before = {name: (old_shell.path / ".catalog" / name).read_bytes() for name in JOURNALS}
    assert old_shell.run("adopt", "--own").code != 0
    assert old_shell.run("adopt", "--own", stdin="n\n").code == 1
    assert {name: (old_shell.path / ".catalog" / name).read_bytes() for name in JOURNALS} == before
    assert not [*old_shell.home.rglob("journal.key")]


def test_adopting_twice_changes_nothing(old_shell: Shell) -> None:
    assert [item["commits"] for item in old_shell.ok("adopt", "--own", "--yes", "--json").json["adopted"]] == [3, 1]
    before = {name: (old_shell.path / ".catalog" / name).read_bytes() for name in JOURNALS}
    assert old_shell.ok("adopt", "--own", "--yes", "--json").json == {"adopted": []}
    assert {name: (old_shell.path / ".catalog" / name).read_bytes() for name in JOURNALS} == before


def test_a_torn_last_line_is_cut_before_adopting(old_shell: Shell) -> None:
    journal = old_shell.path / ".catalog" / "memory.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole.splitlines()[-1][:40])
    old_shell.ok("adopt", "--own", "--yes")
    assert old_shell.ok("verify").out.startswith("sound")


def test_a_damaged_journal_is_not_adopted(old_shell: Shell) -> None:
    journal = old_shell.path / ".catalog" / "memory.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], lines[1].replace(b'"at"', b'"At"', 1), *lines[2:]]))
    assert "JOURNAL_DAMAGED" in old_shell.run("adopt", "--own", "--yes").err


def test_an_agent_cannot_adopt(old_shell: Shell) -> None:
    for environment in ({"ENGRAMBUS_TOKEN": "x"}, {"ENGRAMBUS_URL": "http://127.0.0.1:1"}):
        assert old_shell.run("adopt", "--own", "--yes", env=environment).code == 2


def test_journals_whose_keys_were_lost_can_be_vouched_for(shell: Shell) -> None:
    shell.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1-3")
    for key in shell.home.rglob("journal.key"):
        key.unlink()
    refused = shell.run("query", "parser")
    assert "engrambus keys import" in refused.err
    shell.ok("adopt", "--own", "--yes")
    assert "The parser trusts its input." in shell.ok("query", "parser").out


def test_the_shared_stores_of_an_older_version_are_taken_over_silently(shell: Shell) -> None:
    """They lie in the account's own folder, where no repository can put anything."""
    (shell.path / ".catalog" / "policy.yaml").write_text("scopes: [run, project, org]\n")
    shell.ok("policy", "apply")
    put = shell.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1-3", "--json")
    shell.ok("promote", put.json["id"], "--scope", "org")
    folder = shell.home / ".local" / "share" / "engrambus" / "org"
    make_unmarked(folder / "memory.jsonl")
    (key,) = shell.home.rglob(f"{read_header(folder / 'memory.jsonl').project}/journal.key")
    key.unlink()
    assert "The parser trusts its input." in shell.ok("query", "parser", "--scope", "org").out
