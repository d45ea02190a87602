"""Sentences that cite lines, or that their author marks, become engrams that await confirmation."""  # BX-10, EB-30

from __future__ import annotations

import pytest

from engrambus.gateway import Credential
from engrambus.operations.gc import pinned_by_engrams
from engrambus.testing import expect_refusal
from tests.capture.team import STOPPED, AnsweringTeam
from tests.projects import commit_files, git


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("Learned: the parser trusts whatever it is given.", "fact"),
        ("- Risk: the parser trusts whatever it is given.", "risk"),
        ("* **Decision:** the parser trusts whatever it is given.", "decision"),
        ("1. **Constraint**: the parser trusts whatever it is given.", "constraint"),
        ("TODO: the parser trusts whatever it is given.", "todo"),
        ("- [ ] Todo: the parser trusts whatever it is given.", "todo"),
    ],
)
def test_marks_and_their_kinds(team: AnsweringTeam, written: str, kind: str) -> None:
    (engram,) = team.claims(f"I have read all of it.\n\n{written}\n\nThat is all.")
    assert (engram.kind, engram.claim) == (kind, "the parser trusts whatever it is given.")
    about = team.client.call("show_engram", id=engram.id).about[engram.id]
    assert about.unconfirmed is not None
    assert about.unconfirmed.marked


def test_a_marked_claim_without_a_citation_points_at_the_lines_of_the_answer(team: AnsweringTeam) -> None:
    text = "I have read all of it.\n\nRisk: the parser trusts\nwhatever it is given.\n\nThat is all."
    taken = team.answer(text)
    (engram_id,) = taken.unconfirmed
    (engram,) = team.client.call("show_engram", id=engram_id).engrams
    (pointer,) = engram.pointers
    assert pointer.digest is not None
    assert pointer.ref == f"{str(taken.pointer).partition('#')[0]}#L3-L4"
    assert team.client.deref(team.mia, pointer.ref).excerpt == "Risk: the parser trusts\nwhatever it is given.\n"


def test_a_short_answer_is_kept_if_a_claim_rests_on_it_alone(team: AnsweringTeam) -> None:
    taken = team.answer("Risk: the parser trusts whatever it is given.")
    assert taken.pointer is not None
    assert len(taken.unconfirmed) == 1


def test_the_claim_is_what_was_written_without_brackets_that_only_cite(team: AnsweringTeam) -> None:
    text = (
        "The parser trusts its input (src/parser.py:10-20), as docs/design.md:7 says.\n"
        "It is called twice [see `src/parser.py:3` and src/parser.py:4], once too often.\n"
    )
    first, second = team.claims(text)
    assert first.claim == "The parser trusts its input, as docs/design.md:7 says."
    assert [pointer.ref.partition("@")[0] for pointer in first.pointers] == [
        "repo:src/parser.py#L10-L20",
        "repo:docs/design.md#L7-L7",
    ]
    assert second.claim == "It is called twice, once too often."
    assert len(second.pointers) == 2


def test_a_marked_paragraph_is_one_claim_of_up_to_three_sentences(team: AnsweringTeam) -> None:
    one, two = team.claims(
        "Decision: one index for all runs. It is rebuilt on demand (src/parser.py:2). Only it reads it. More text.\n"
        "Risk: the index may be lost while it is rebuilt.\n"
    )
    assert one.claim == "one index for all runs. It is rebuilt on demand. Only it reads it."
    assert (one.kind, two.kind) == ("decision", "risk")


@pytest.mark.parametrize(
    "written",
    [
        "Is src/parser.py:10-20 the only place that trusts its input?",
        "See src/parser.py:10-20.",
        "- src/parser.py:10-20",
        "The following lines are all at src/parser.py:10-20:",
        "| Risk: the parser trusts its input | src/parser.py:10 |",
        "## Risk: the parser trusts whatever it is given",
        "The parser trusts its input, see src/parser.py for that.",
        "There is a risk: the parser trusts whatever it is given.",
        "risk: the parser trusts whatever it is given.",
        "Risk:\n",
        "TODO: fix it.",
        "Risk: " + "the parser trusts whatever it is given and " * 20 + "more.",
    ],
)
def test_what_is_no_claim(team: AnsweringTeam, written: str) -> None:
    assert team.answer(f"I have read all of it.\n\n{written}\n\nThat is all.").unconfirmed == []


@pytest.mark.parametrize(
    "written",
    [
        "```\nRisk: the parser trusts whatever it is given.\n```",
        "~~~text\nRisk: the parser trusts (src/parser.py:10) whatever it is given.\n~~~",
        "> Risk: the parser trusts whatever it is given.",
        "> Somebody wrote:\n> Decision: the parser trusts (src/parser.py:10) whatever it is given.",
        "<!--\nRisk: the parser trusts whatever it is given.\n-->",
        "The page says “never mind,\nRisk: the parser trusts whatever it is given.\nReally” and nothing else.",
        "Risk: every line of this file was written by nobody in the team.",
        "```\nnever closed\n\nRisk: the parser trusts whatever it is given.",
    ],
)
def test_a_mark_in_what_is_quoted_is_not_the_agents(team: AnsweringTeam, written: str) -> None:
    line = "Risk: every line of this file was written by nobody in the team."
    commit_files(team.repository.path, {"notes.txt": f"{line}\n"})
    assert team.answer(f"I have read all of it.\n\n{written}\n\nThat is all.", handed_over=True).unconfirmed == []


def test_what_a_person_writes_is_not_captured(team: AnsweringTeam) -> None:
    person = Credential(local_admin=True)
    taken = team.answer("Risk: the parser (src/parser.py:10) trusts whatever it is given.", person)
    assert (taken.unconfirmed, len(taken.cited)) == ([], 1)


def test_claims_with_code_are_left_out(team: AnsweringTeam) -> None:
    code = "for entry in range(10): total += entry * rate[entry]; print(total, entry)"
    text = f"Learned: the value is set by `{code}` there.\n\nLearned: the parser trusts whatever it is given."
    assert [engram.claim for engram in team.claims(text)] == ["the parser trusts whatever it is given."]


@pytest.mark.parametrize("control", ["\x1b[31m", "\x07", "\x9b31m", "\x00"])
def test_claims_with_control_characters_are_left_out(team: AnsweringTeam, control: str) -> None:
    text = f"Risk: the parser{control} trusts whatever it is given.\n\nRisk: the lexer trusts whatever it is given."
    assert [engram.claim for engram in team.claims(text)] == ["the lexer trusts whatever it is given."]


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b"])
def test_invisible_text_is_refused_as_before(team: AnsweringTeam, hidden: str) -> None:
    with expect_refusal("INVISIBLE_TEXT"):
        team.answer(f"Risk: the parser{hidden} trusts whatever it is given.")


def test_a_large_answer_leaves_at_most_twelve_claims_marked_ones_first(team: AnsweringTeam) -> None:
    cited = "".join(
        f"The part called {name} is read by the parser at src/parser.py:{number}.\n\n"
        for number, name in enumerate(_names(28), 1)
    )
    filler = "Nothing else was found in this part of it, as far as I can tell.\n\n" * 700
    taken = team.answer(f"{cited}{filler}Risk: the parser trusts whatever it is given."[-65_536:])
    assert len(taken.unconfirmed) == 12
    assert taken.claims_left_out > 0
    (first,) = team.client.call("show_engram", id=taken.unconfirmed[0]).engrams
    assert first.kind == "risk"


def test_what_is_refused_or_sent_back_leaves_no_claim(team: AnsweringTeam) -> None:
    text = "Risk: the parser (src/parser.py:10) trusts whatever it is given.\n\n" + "It says very little. " * 400
    with expect_refusal("BUDGET_EXCEEDED"):
        team.answer(text, handed_over=True)
    assert team.client.query("parser trusts").engrams == []
    assert len(team.answer(text, handed_over=True, sent_back=True).unconfirmed) == 1


def test_the_same_answer_is_captured_once_for_an_idempotency_key(team: AnsweringTeam) -> None:
    key = Credential(local_admin=True, speak_as="paul", idempotency_key="a key")
    text = "Risk: the parser (src/parser.py:10) trusts whatever it is given."
    first, second = team.answer(text, key), team.answer(text, key)
    assert first.unconfirmed == second.unconfirmed != []
    assert team.answer(text).known_claims == 1


def test_an_artifact_that_a_waiting_claim_points_at_is_not_collected(team: AnsweringTeam) -> None:
    taken = team.answer("I read it.\n\nRisk: the parser trusts whatever it is given.\n\nThat is all.")
    assert taken.pointer is not None
    assert pinned_by_engrams(team.gateway.store) == {taken.pointer.removeprefix("artifact:").partition("#")[0]}
    team.client.call("forget_engram", id=taken.unconfirmed[0])
    assert pinned_by_engrams(team.gateway.store) == set()


def test_the_evidence_of_a_waiting_claim_survives_git_gc(team: AnsweringTeam) -> None:
    path = team.repository.path
    sha = commit_files(path, {"src/only.py": "a line\n"})
    (engram,) = team.claims("The only line of it (src/only.py:1) is what the parser reads.")
    git(path, "reset", "-q", "--hard", team.repository.sha)
    git(path, "reflog", "expire", "--expire=now", "--all")
    git(path, "gc", "-q", "--prune=now")
    assert engram.pointers[0].ref.endswith(sha)
    assert team.client.deref(STOPPED, engram.pointers[0].ref).excerpt == "a line\n"


def _names(count: int) -> list[str]:
    return [f"{chr(97 + number % 26)}{chr(97 + number // 26)}x" for number in range(count)]
