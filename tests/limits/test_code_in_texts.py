"""Code in the texts of a request: refused in every field that is for words, whatever the operation."""  # EB-07

from __future__ import annotations

from typing import Any

import pytest

from engrambus.core import digest
from engrambus.errors import BudgetExceeded
from engrambus.gateway import LOCAL_ADMIN
from engrambus.operations import OPERATIONS
from engrambus.testing import expect_refusal
from engrambus.testing.client import same_changes
from tests.limits.team import PASTED, Team
from tests.projects import commit_files

CODE = "def login(user, password): token = make_token(user); return token"
POINTER = {"type": "repo", "ref": "repo:src/parser.py#L1-L2@" + "0" * 40}
ENGRAM = {"claim": "The parser trusts its input.", "at": ["src/parser.py:1-2"]}
ULID = "01K7Z3V5QX0000000000000000"

REQUESTS: dict[str, dict[str, Any]] = {
    "put_engram": ENGRAM,
    "put_found": {**ENGRAM, "source": "rag"},
    "put_engrams": {"engrams": [ENGRAM, ENGRAM]},
    "put_text": {"text": ENGRAM["claim"], "at": ENGRAM["at"]},
    "request_deref": {"pointer": POINTER, "reason": "To see how input is read."},
    "issue_grant": {"child_id": "paul", "pointer": POINTER},
    "narrow_grant": {"budget_token": "x", "child_id": "paul"},
    "keep_episode": {"text": "We deploy on Thursdays."},
    "contribute": {"content": "The parser trusts its input."},
    "accept_contribution": {"id": ULID},
    "reject_contribution": {"id": ULID, "reason": "Measured wrongly."},
    "open_run": {"goal": "Make the parser distrust its input."},
    "add_agent": {"name": "kim", "role": "programmer"},
    "decide_contradiction": {"id": ULID, "keep": "both", "reason": "Both hold, of other versions."},
    "override_gate": {"id": ULID, "reason": "The caller checks it.", "base": "a" * 40},
    "reserve": {"paths": ["src/parser.py"]},
    "tuple_out": {"lane": "build"},
    "tuple_dispatch": {"lane": "build"},
    "spawn_batch": {"lane": "build", "depth": 1, "branching": 2},
    "add_schedule": {"name": "nightly", "cron": "0 2 * * *", "lane": "build"},
    "limit_set": {"lane": "build", "running": 2},
    "limit_remove": {"lane": "build"},
    "work_pause": {"lane": "build"},
    "work_unpause": {"lane": "build"},
    "add_task": {"title": "Make the parser distrust its input."},
    "finish_task": {"id": ULID},
    "block_task": {"id": ULID, "note": "The grammar is missing."},
    "give_task": {"id": ULID, "agent": "paul"},
    "release_tasks": {"id": ULID},
    "store_artifact": {"text": CODE},
    "record_tests": {"report": "<testsuite/>"},
}
"""A request without code for each operation that takes words."""

FIELDS = [(name, field) for name, operation in OPERATIONS.items() for field in operation.prose]


def with_code(request: dict[str, Any], names: list[str], code: str) -> tuple[dict[str, Any], str]:
    """Return the request with code in one field, in the last item of a list, and the field as an error names it."""
    name = names[0]
    if len(names) > 1:
        items = list(request[name])
        items[-1], inner = with_code(items[-1], names[1:], code)
        return {**request, name: items}, f"{name}[{len(items) - 1}].{inner}"
    if name in ("tags", "hash_keys", "categories", "proposed_categories"):
        return {**request, name: ["parser", code]}, f"{name}[1]"
    return {**request, name: code}, name


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=[f"{name}-{field}" for name, field in FIELDS])
def test_code_is_refused_in_every_field_for_words_and_nothing_is_stored(team: Team, name: str, field: str) -> None:
    request, named = with_code(REQUESTS[name], field.split("."), "if (x > limit) { return y; }")
    before = team.journal()
    refusal = team.refusal(name, LOCAL_ADMIN, **request)
    assert (refusal.code, refusal.status, refusal.field) == ("BUDGET_EXCEEDED", 413, named)
    assert (refusal.limit, refusal.used) == (0, 28)
    assert same_changes(team.journal(), before)


def test_the_example_of_the_audit_is_refused_in_a_put_as_in_a_message(team: Team) -> None:
    for field, fields in (
        ("claim", {"claim": CODE}),
        ("tags[0]", {"claim": "Fine.", "tags": ["if(x){return y;}"]}),
    ):
        refusal = team.refusal("put_engram", team.paul, at=["src/parser.py:1-2"], **fields)
        assert (refusal.code, refusal.field) == ("BUDGET_EXCEEDED", field)
    with expect_refusal("BUDGET_EXCEEDED", "reason"):
        team.client.call("request_deref", team.paul, pointer=team.lines(), reason=PASTED)


def test_the_refusal_names_the_pointer_that_new_code_will_have(team: Team) -> None:
    refusal = team.refusal("put_engram", team.paul, claim=CODE, at=["src/parser.py:1-2"])
    assert isinstance(refusal, BudgetExceeded)
    stored_as = digest(f"{CODE}\n".encode())
    ref = f"artifact:{stored_as}#L1-L1"
    assert refusal.pointers == ({"field": "claim", "ref": ref, "stored": False},)
    assert refusal.hint is not None
    assert f"`less.store_artifact`; its pointer will be {ref}." in refusal.hint


def test_a_message_names_the_same_pointer_as_a_put_and_validation_as_sending(team: Team) -> None:
    text = f"ROLE: programmer\nTASK_STATUS: done\nOUTPUT:\n  summary: '{CODE}'\n"
    refusal = team.refusal("send_message", team.paul, text=text)
    put = team.refusal("put_engram", team.paul, claim=CODE, at=["src/parser.py:1-2"])
    assert isinstance(refusal, BudgetExceeded)
    assert isinstance(put, BudgetExceeded)
    assert [(pointer["field"], pointer["ref"]) for pointer in refusal.pointers] == [
        ("OUTPUT.summary", put.pointers[0]["ref"])
    ]
    assert f"`less.store_artifact`; its pointer will be {put.pointers[0]['ref']}." in str(refusal.hint)
    (problem,) = team.client.call("validate_message", team.paul, text=text).problems
    assert problem["pointers"] == list(refusal.pointers)
    assert problem["hint"] == refusal.hint


def test_code_that_stands_in_the_repository_is_refused_with_its_pointer(team: Team) -> None:
    text = "def login(user):\n    return user + '-tok'\n"
    sha = commit_files(team.repository.path, {"src/auth.py": text})
    refusal = team.refusal("put_engram", team.paul, claim="return user + '-tok'", at=["src/auth.py:1-2"])
    assert isinstance(refusal, BudgetExceeded)
    ref = f"repo:src/auth.py#L2-L2@{sha}"
    assert refusal.pointers == ({"field": "claim", "ref": ref, "stored": True},)
    assert refusal.hint is not None
    assert f"It stands in the repository: {ref}." in refusal.hint


@pytest.mark.parametrize(
    "claim",
    [
        "Calling `login(user)` twice makes two tokens.",
        "The token is the user's name plus -tok.",
        "Sessions live in src/auth.py; `max_age` limits them.",
    ],
)
def test_names_in_a_sentence_are_no_code(team: Team, claim: str) -> None:
    assert team.client.put(claim, team.paul, refs=[team.lines()]).claim == claim


def test_a_claim_may_say_what_a_document_says(team: Team) -> None:
    sentence = "Refunds over 500 need a second approval by somebody of the finance team."
    commit_files(team.repository.path, {"docs/refunds.md": f"# Refunds\n\n{sentence}\n"})
    assert team.client.put(sentence, team.paul, refs=[team.lines()]).claim == sentence


@pytest.mark.parametrize("key", ["kind=risk", "parse(text)", "--max-age=60", "{id}", "service:gateway", "c++"])
def test_one_word_is_a_key_and_no_code(team: Team, key: str) -> None:
    fields = {"tags": [key], "hash_keys": [key]}
    assert team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()], **fields).tags == (key,)


def test_a_project_may_allow_some_code_and_a_parent_may_take_it_away(team: Team) -> None:
    team.client.call("apply_policy", policy={"inline": {"max_inline_code_chars": len(CODE)}})
    assert team.client.put(CODE, team.paul, refs=[team.lines()]).claim == CODE
    with expect_refusal("BUDGET_EXCEEDED", "claim"):
        team.client.put(f"{CODE} or None", team.paul, refs=[team.lines()])
    team.client.broadcast(team.mia, "Go on.", BUDGETS={"max_inline_code_chars": 10})
    with expect_refusal("BUDGET_EXCEEDED", "claim"):
        team.client.put(CODE, team.paul, refs=[team.lines()])


def test_the_limit_can_be_turned_off_for_a_role(team: Team) -> None:
    team.client.call("apply_policy", policy={"limits": {"inline_code": {"programmer": "off"}}})
    assert team.client.put(CODE, team.paul, refs=[team.lines()]).claim == CODE
    with expect_refusal("BUDGET_EXCEEDED", "claim"):
        team.client.put(CODE, team.mia, refs=[team.lines()])


def test_an_ordinary_claim_is_not_looked_up_in_the_repository(team: Team) -> None:
    team.client.put("Refunds over 500 need a second approval.", team.paul, refs=[team.lines()], tags=["refunds"])
    assert not [*team.gateway.project_files.state_path("").rglob("anchors.db")]
