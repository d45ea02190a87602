"""Text of agents is escaped: no control sequence and no hidden character reaches a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import msgspec
import pytest

from engrambus import Engram, Pointer, Provenance
from engrambus.core import age
from engrambus.edges.cli.screen import cells, json_line, safe, safe_line, table, wrap
from engrambus.edges.cli.show import renderer
from engrambus.evidence.pointers import DerefAnswer
from engrambus.gateway.ports import Finding
from engrambus.knowledge.engrams import Reader
from engrambus.operations import OPERATIONS
from engrambus.operations.admin import PolicyAnswer
from engrambus.operations.engram_about import EngramAbout
from engrambus.operations.engram_queries import QueryAnswer, ShownEngram
from engrambus.operations.engram_uses import UseAbout, UsesAbout
from engrambus.operations.pointers import LinkAnswer
from engrambus.operations.runs import AgentRow, AgentsAnswer, RunAnswer
from engrambus.operations.tokens import AgentAnswer
from engrambus.operations.verification import VerifyAnswer
from tests.cli.runner import Shell

HOSTILE = "\x1b[31mred\x1b[0m [red]markup[/red] \x07 \x9b2J \u202eevil\u2069 \x7f"


def test_control_characters_are_printed_as_escapes() -> None:
    printed = safe(HOSTILE)
    assert printed.isprintable()
    assert printed.startswith("\\x1b[31mred\\x1b[0m [red]markup[/red] \\x07 \\x9b2J \\u{202E}evil\\u{2069}")
    assert safe("a\nb\r\tc") == "a\\x0ab\\x0d\\x09c"
    assert safe("schön 日本 👩‍🚀 \u00a0") == "schön 日本 👩‍🚀 \u00a0"
    assert safe_line("\tx\x1b") == "\tx\\x1b"


def test_json_keeps_its_value_and_is_printable() -> None:
    line = json_line(json.dumps({"a": HOSTILE + "\U000e0001"}, ensure_ascii=False).encode())
    assert line.isprintable()
    assert json.loads(line) == {"a": HOSTILE + "\U000e0001"}


def test_hostile_lines_and_arguments_are_escaped(shell: Shell) -> None:
    (shell.path / "hostile.txt").write_text(f"{HOSTILE}\n\tindented\n", "utf-8")
    _commit(shell)
    results = [
        shell.ok("deref", "hostile.txt:1-2"),
        shell.ok("deref", "hostile.txt:1-2", "--json"),
        shell.run("show", HOSTILE),
        shell.run("show", HOSTILE, "--json"),
        shell.run("put", HOSTILE, "--at", "hostile.txt:1"),
        shell.run("put", HOSTILE * 30, "--at", HOSTILE),
        shell.run("deref", HOSTILE),
        shell.run("agent", "add", HOSTILE),
    ]
    for result in results:
        _check_plain(result.out + result.err)
    assert "2  \tindented" in results[0].out


def test_hostile_answers_of_a_server_are_escaped() -> None:
    pointer = Pointer(type="repo", ref=f"repo:a.py#L1-L2@{'a' * 40}", digest=HOSTILE)
    other = Pointer(type="sam", ref=f"sam:{HOSTILE}")
    provenance = Provenance(created_at="2026-01-08T10:00:00Z", created_by=f"r/{HOSTILE}", source="agent")
    engram = Engram(
        id=HOSTILE, kind="fact", claim=HOSTILE, pointers=(pointer, other), confidence=1.0, ttl=HOSTILE,
        scope="run", tags=(HOSTILE,), hash_keys=(HOSTILE,), embedding_ref=HOSTILE, provenance=provenance,
    )  # fmt: skip
    answers = [
        QueryAnswer(
            engrams=[engram, msgspec.structs.replace(engram, pointers=(other,))],
            as_of="2026-01-08T10:00:00Z",
            about={HOSTILE: EngramAbout(read_by=[Reader(agent=HOSTILE, pointer=1, lines=HOSTILE)])},
        ),
        AgentsAnswer(run_id=HOSTILE, goal=HOSTILE, agents=[AgentRow(agent_id=HOSTILE, role=HOSTILE, parent=HOSTILE)]),
        AgentAnswer(
            agent_id=HOSTILE, run_id=HOSTILE, role=HOSTILE, token=HOSTILE, token_id=HOSTILE, expires_at=HOSTILE
        ),
        LinkAnswer(ref=HOSTILE, editor=HOSTILE, github=HOSTILE, swhid=HOSTILE),
        PolicyAnswer(policy={HOSTILE: HOSTILE}),
        RunAnswer(run_id=HOSTILE),
        VerifyAnswer(sound=False, commits=1, findings=[Finding(what=HOSTILE, where=HOSTILE, hint=HOSTILE)]),
        DerefAnswer(excerpt=HOSTILE, pointer=pointer, content_digest=HOSTILE, truncated=True),
    ]
    names = ["query_engrams", "list_agents", "add_agent", "link_pointer", "apply_policy", "open_run", "verify"]
    for name, answer in [
        *zip([*names, "deref_pointer"], answers, strict=True),
        ("put_engram", engram),
        ("show_engram", _shown(engram)),
    ]:
        _check_plain(_unstyled(renderer(OPERATIONS[name])(answer)))


def _shown(engram: Engram) -> ShownEngram:
    """Return an engram with a hostile text in everything that is known about it."""
    use = UseAbout(kind="engram", id=HOSTILE, agent=HOSTILE, at="2026-01-08T10:00:00Z")
    about = EngramAbout(read_by=[Reader(agent=HOSTILE)], used=[HOSTILE], used_by=UsesAbout(count=2, newest=[use]))
    return ShownEngram(engrams=[engram], as_of="2026-01-08T10:00:00Z", about={engram.id: about})


def _unstyled(lines: Iterable[str]) -> str:
    """Return the lines without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(lines))


def _check_plain(text: str) -> None:
    for character in text:
        assert character.isprintable() or character in "\n\t", repr(character)


def _commit(shell: Shell) -> None:
    from tests.projects import git

    git(shell.path, "add", "-A")
    git(shell.path, "commit", "-q", "-m", "hostile")


def test_text_is_wrapped_by_columns() -> None:
    assert wrap("one two three", None) == ["one two three"]
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("abcdefghij kl", 4) == ["abcd", "efgh", "ij", "kl"]
    assert wrap("日本語 です", 6) == ["日本語", "です"]
    assert cells("日本") == 4
    assert cells("e\u0301") == 1


def test_tables_are_aligned() -> None:
    rows = table(["NAME", "X"], [["日本", "1"], ["abcdef", "2"]])
    assert rows[1:] == ["日本    1", "abcdef  2"]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-01-08T10:00:00.000000Z", "now"),
        ("2026-01-08T09:59:57.000000Z", "3s"),
        ("2026-01-08T09:55:00.000000Z", "5m"),
        ("2026-01-07T10:00:00.000000Z", "1d"),
        ("2024-01-08T10:00:00.000000Z", "2y"),
        ("2026-02-08T10:00:00.000000Z", "now"),
    ],
)
def test_ages_have_one_unit(time: str, expected: str) -> None:
    assert age(time, "2026-01-08T10:00:00.000000Z") == expected
