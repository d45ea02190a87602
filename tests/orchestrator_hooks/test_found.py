"""What comes of looking something up for an agent: pointers first, content only under its budget."""  # EB-18, EB-23

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus import Found, Hooks, Pointer, Refused, Retrieved
from engrambus.core import digest, estimate_tokens
from engrambus.edges.sdk.hooks import confidences
from engrambus.errors import ProvenanceStamped, RoleForbidden
from tests.orchestrator_hooks.conftest import Team
from tests.projects import commit_files


def matches(team: Team, *results: Retrieved, max_tokens: int = 0) -> list[Found]:
    """What retrieval gave ada, all of it found."""
    outcomes = team.hooks.on_rag_result("ada", results, max_tokens=max_tokens)
    assert all(isinstance(outcome, Found) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, Found)]


def test_a_result_becomes_an_engram_of_the_run_whose_source_is_rag(team: Team) -> None:
    (one,) = matches(team, Retrieved(text="The parser trusts\n its input.", pointer=team.ref(), score=0.7))
    assert one.engram.claim == "The parser trusts its input."
    assert one.engram.provenance.source == "rag"
    assert one.engram.provenance.created_by.endswith("/ada")
    assert one.engram.scope == "run"
    assert one.engram.pointers[0].ref == team.ref()
    assert one.engram.pointers[0].digest is not None
    assert (one.excerpt, one.withheld) == (None, None)
    assert team.bus.query_engrams("parser trusts").engrams[0].id == one.engram.id


def test_a_location_may_be_given_in_any_form(team: Team) -> None:
    path, sha = "src/parser.py", team.repository.sha
    results = matches(
        team,
        Retrieved(text="A.", pointer=Pointer(type="repo", ref=team.ref())),
        Retrieved(text="B.", path=path, lines=(10, 20), sha=sha),
        Retrieved(text="C.", path=path, lines=(10, 20)),
        Retrieved(text="D.", path=path, sha=sha),
        Retrieved(text="E.", path=path),
    )
    refs = [one.engram.pointers[0].ref for one in results]
    assert refs == [team.ref()] * 3 + [f"repo:{path}@{sha}"] * 2


def test_a_result_may_rest_on_several_places(team: Team) -> None:
    more = (team.ref(lines="L1-L3"), Pointer(type="repo", ref=team.ref("docs/design.md", "L5-L7"), digest=None))
    (found,) = matches(team, Retrieved(text="The parser trusts.", pointer=team.ref(), more_pointers=more))
    assert [pointer.ref for pointer in found.engram.pointers] == [
        team.ref(),
        more[0],
        team.ref("docs/design.md", "L5-L7"),
    ]
    assert all(pointer.digest is not None for pointer in found.engram.pointers)


CHUNK = """\
## Refunds

Refunds over 500 euros need a second approval. They are posted once for each order. Nobody may approve their own.
A clerk asks the lead in the channel.

| amount | approvals |
|---|---|
| 500 | 2 |
"""
CODE_CHUNK = """\
class Session(Base):
    \"\"\"A login session. It ends after thirty days.\"\"\"

    async def refresh(self, token: str) -> None:
        self.token = token
"""


def test_a_chunk_is_found_by_what_it_says(team: Team) -> None:
    """The claim is its own first sentences, within the limits of a claim."""
    (item,) = matches(team, Retrieved(text=CHUNK, path="src/parser.py", lines=(1, 9), score=0.7))
    assert item.engram.claim == (
        "Refunds: Refunds over 500 euros need a second approval. They are posted once for each order. "
        "Nobody may approve their own."
    )
    for words in ("who needs a second approval", "refunds posted once"):
        assert team.bus.query_engrams(words).engrams[0].id == item.engram.id


def test_a_chunk_of_code_is_found_by_its_names_and_comments(team: Team) -> None:
    by_path, by_pointer = matches(
        team,
        Retrieved(text=CODE_CHUNK, path="src/parser.py", lines=(1, 5)),
        Retrieved(text="def parse(text):\n    return [line for line in text if line]\n", pointer=team.ref()),
    )
    assert by_path.engram.claim == (
        "src/parser.py, lines 1 to 5, defines Session, refresh. A login session. It ends after thirty days."
    )
    assert by_pointer.engram.claim == "src/parser.py, lines 10 to 20, defines parse."
    assert team.bus.query_engrams("how long is a login session").engrams[0].id == by_path.engram.id
    assert team.bus.query_engrams("refresh").engrams[0].id == by_path.engram.id


def test_lines_of_the_repository_are_named_and_not_copied(team: Team) -> None:
    """Only the gateway knows that this line, which hardly looks like code, stands in a file."""
    commit_files(team.repository.path, {"src/limits.py": "limit = max(LIMITS)\nretries = len(LIMITS)\n"})
    text = "limit = max(LIMITS)"
    (item,) = matches(team, Retrieved(text=text, path="src/limits.py", lines=(1, 1)))
    assert "max(" not in item.engram.claim
    assert "src/limits.py, line" in item.engram.claim


def test_a_chunk_without_text_says_only_where_it_is(team: Team) -> None:
    (item,) = matches(team, Retrieved(text="", path="src/parser.py"))
    assert item.engram.claim == "src/parser.py was retrieved without its text."


def test_a_secret_in_a_chunk_is_left_out(team: Team) -> None:
    secret = "AKIA" + "Q3EGRVVQ7Y2PXH4M"
    text = f"The key is {secret}. Keys are rotated every night by the robot of the platform team. " * 3
    (item,) = matches(team, Retrieved(text=text, path="src/parser.py"))
    assert secret not in item.engram.claim
    assert item.engram.claim.startswith("Keys are rotated every night")


def test_confidence_follows_the_score(team: Team) -> None:
    texts = [f"Place {n} is quiet." for n in range(4)]
    places = [team.ref(lines=f"L{n}-L{n}") for n in range(1, 5)]
    scores = (0.9, 0.31, None, 0.0)
    results = [Retrieved(text=t, pointer=p, score=s) for t, p, s in zip(texts, places, scores, strict=True)]
    assert [item.engram.confidence for item in matches(team, *results)] == [0.9, 0.31, 0.5, 0.05]


@given(st.lists(st.one_of(st.none(), st.floats())))
def test_a_higher_score_never_has_less_confidence(scores: list[float | None]) -> None:
    given_scores = [(score, value) for score, value in zip(scores, confidences(scores), strict=True)]
    known = sorted((score, value) for score, value in given_scores if value is not None and score is not None)
    assert all(value is None for score, value in given_scores if score is None or not math.isfinite(score))
    assert [value for _, value in known] == sorted(value for _, value in known)
    assert all(0.05 <= value <= 0.95 for _, value in known)


def test_scores_of_another_scale_are_compared_with_the_best() -> None:
    assert confidences([14.0, 7.0, -3.0, None]) == (0.95, 0.5, 0.05, None)


def test_memory_lives_longer_than_retrieval(team: Team) -> None:
    ref = team.admin.keep_episode(ENTRY, kind="decision", slug="journal-first").ref
    remembered = team.hooks.on_sam_read("ada", ref, "The journal is the truth.")
    (retrieved,) = matches(team, Retrieved(text="The parser trusts its input.", pointer=team.ref(), score=0.4))
    assert isinstance(remembered, Found)
    assert (remembered.engram.ttl, remembered.engram.confidence, remembered.engram.scope) == ("P180D", 0.8, "run")
    assert (retrieved.engram.ttl, retrieved.engram.confidence, retrieved.engram.scope) == ("P14D", 0.4, "run")


def test_what_was_found_lives_no_longer_than_the_project_allows(team: Team) -> None:
    team.admin.apply_policy({"max_ttl": "P7D"})
    (retrieved,) = matches(team, Retrieved(text="The parser trusts its input.", pointer=team.ref()))
    assert retrieved.engram.ttl == "P7D"


def test_a_long_memory_entry_gives_its_first_sentences(team: Team) -> None:
    ref = team.admin.keep_episode(ENTRY, kind="decision", slug="journal-first").ref
    outcome = team.hooks.on_sam_read("ada", ref, ENTRY, score=0.66)
    assert isinstance(outcome, Found)
    assert outcome.engram.claim == " ".join(["The journal is the truth, and the index a projection of it."] * 3)
    assert outcome.engram.confidence == 0.66


def test_excerpts_go_to_the_best_scores_within_the_limit(team: Team) -> None:
    places = [Retrieved(text=f"Place {n}.", pointer=team.ref(lines=f"L{n}-L{n}"), score=n / 10) for n in (1, 3, 2)]
    results = matches(team, *places, max_tokens=290)
    worst, best, middle = results
    assert best.excerpt is not None
    assert best.excerpt.excerpt == "line 3 of the parser\n"
    assert middle.excerpt is not None
    assert worst.excerpt is None
    assert worst.withheld is not None
    assert worst.withheld.code == "BUDGET_TOO_SMALL"
    spent = [estimate_tokens(msgspec.json.encode(item.excerpt)) for item in results if item.excerpt]
    assert sum(spent) <= 290


def test_excerpts_are_charged_to_the_agents_turn(team: Team) -> None:
    places = [Retrieved(text=f"Place {n}.", pointer=team.ref(lines=f"L{n}-L{n}"), score=-n) for n in range(1, 5)]
    results = matches(team, *places, max_tokens=1000)
    assert [item.excerpt is not None for item in results] == [True, True, True, False]
    assert results[3].withheld is not None
    assert results[3].withheld.code == "DEREF_DENIED"
    assert "0 repo" in team.bus.speak_as("ada").brief().lines[-1]
    assert "3 repo" in team.bus.speak_as("ben").brief().lines[-1]


def test_one_stale_result_does_not_lose_the_others(team: Team) -> None:
    outcomes = team.hooks.on_rag_result(
        "ada",
        [
            Retrieved(text="It was here.", path="gone.py", lines=(1, 2)),
            Retrieved(text="Nobody knows where."),
            Retrieved(text="The parser trusts its input.", pointer=team.ref()),
        ],
    )
    codes = [outcome.code if isinstance(outcome, Refused) else "" for outcome in outcomes]
    assert codes == ["FILE_NOT_FOUND", "NO_POINTER", ""]
    assert team.hooks.on_rag_result("ada", []) == ()


def test_an_unknown_agent_gets_no_results(team: Team) -> None:
    for name, code in (("stranger", "NOT_YOUR_DESCENDANT"), ("nobody", "AGENT_NOT_FOUND")):
        (outcome,) = team.hooks.on_rag_result(name, [Retrieved(text="A.", pointer=team.ref())])
        assert isinstance(outcome, Refused)
        assert outcome.code == code


def test_a_repeated_result_confirms_and_keeps_its_source(team: Team) -> None:
    result = Retrieved(text="The parser trusts its input.", pointer=team.ref())
    (first,), (second,) = matches(team, result), matches(team, result)
    assert first.engram.id == second.engram.id
    assert second.engram.provenance.source == "rag"


ENTRY = "The journal is the truth, and the index a projection of it. " * 12


def test_the_memory_gives_a_statement_and_a_pointer(team: Team) -> None:  # EB-18, EB-23
    ref = team.admin.keep_episode(ENTRY, kind="decision", slug="journal-first").ref
    outcome = team.hooks.on_sam_read("ada", ref, "The journal is the truth.")
    assert isinstance(outcome, Found)
    assert outcome.engram.provenance.source == "sam"
    assert outcome.engram.claim == "The journal is the truth."
    assert outcome.engram.pointers[0] == Pointer(type="sam", ref=ref, digest=digest(ENTRY.encode()))
    assert (outcome.excerpt, outcome.withheld) == (None, None)


def test_the_whole_memory_entry_is_returned_only_under_a_budget(team: Team) -> None:  # EB-18, EB-23
    pointer = Pointer(type="sam", ref=team.admin.keep_episode(ENTRY, kind="decision", slug="journal-first").ref)
    outcome = team.hooks.on_sam_read("ada", pointer, "The journal is the truth.", max_tokens=400)
    assert isinstance(outcome, Found)
    assert outcome.excerpt is not None
    assert (outcome.excerpt.excerpt, outcome.excerpt.content_digest) == (ENTRY, digest(ENTRY.encode()))
    short = team.hooks.on_sam_read("ada", pointer, "The journal is the truth.", max_tokens=130)
    assert isinstance(short, Found)
    assert short.excerpt is not None
    assert short.excerpt.truncated
    assert ENTRY.startswith(short.excerpt.excerpt)
    assert estimate_tokens(msgspec.json.encode(short.excerpt)) <= 130
    third = team.hooks.on_sam_read("ada", pointer, "The journal is the truth.", max_tokens=150)
    assert isinstance(third, Found)
    assert third.withheld is not None
    assert third.withheld.code == "DEREF_DENIED"  # a turn has two dereferences of the memory


def test_an_entry_that_the_memory_does_not_have_is_refused(team: Team) -> None:  # EB-04
    ref = "sam:decision:theirs@2026-01-01"
    outcome = team.hooks.on_sam_read("ada", ref, "The journal is the truth.", max_tokens=200)
    assert isinstance(outcome, Refused)
    assert outcome.code == "EPISODE_NOT_FOUND"
    assert team.bus.query_engrams().engrams == []


@pytest.mark.parametrize(
    ("ref", "statement", "code"),
    [
        ("sam:nothing", "The journal is the truth.", "POINTER_NOT_PINNED"),
        ("sam:decision:x@2026-01-01", "", "CLAIM_EMPTY"),
    ],
)
def test_a_memory_that_cannot_be_put_is_refused(team: Team, ref: str, statement: str, code: str) -> None:
    outcome = team.hooks.on_sam_read("ada", ref, statement)
    assert isinstance(outcome, Refused)
    assert outcome.code == code


def test_an_agent_cannot_mark_its_own_engram_as_retrieved(team: Team) -> None:
    place = [Pointer(type="repo", ref=team.ref())]
    token = team.admin.agent_token("ada").token
    with team.open(token) as ada, pytest.raises(RoleForbidden):
        ada.put_found("The parser trusts its input.", "rag", pointers=place)
    with pytest.raises(ProvenanceStamped):
        team.bus.put_found("A.", "rag", pointers=place, provenance={"source": "sam"})
    assert team.bus.put_found("A.", "rag", pointers=place).provenance.source == "rag"


def test_a_tool_may_put_retrieved_knowledge_in_its_own_name(team: Team) -> None:
    team.admin.add_agent("search", role="tool")
    with team.open(team.admin.agent_token("search").token) as tool:
        (outcome,) = Hooks(tool).on_rag_result("search", [Retrieved(text="A.", pointer=team.ref())])
    assert isinstance(outcome, Found)
    assert outcome.engram.provenance.source == "rag"
