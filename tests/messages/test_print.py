"""Printing a message and parsing the text gives an equal message.  # EB-16 EB-17"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.engrams import KINDS
from engrambus.knowledge.messages import (
    ChildBudgets,
    MessageKind,
    message_sections,
    print_message,
)
from engrambus.knowledge.messages.values import STATUSES
from engrambus.policy import ROLES
from tests.messages.samples import PUBLISHED_CHILD, PUBLISHED_PARENT, SHA, parse

texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029")
    | st.sampled_from("\n\t \"'\\#:-|>{}"),
    min_size=1,
    max_size=60,
).filter(lambda text: text.replace(".", " ").strip())  # dots alone are a template that was not filled in
claims = st.text(
    st.characters(categories=["L", "N"]) | st.sampled_from(" ,:#'\"\\-&*!|>%@`{}[]\ufeff"), min_size=1, max_size=60
).map(lambda text: f"x{text}")
paths = st.text("abcé%20 -_/[]{},'\"&*!", min_size=1, max_size=20).map(lambda text: "p" + text.replace("/", "_"))
refs = st.builds(
    f"repo:{{}}{{}}@{SHA}".format, paths.map(lambda path: path.replace("%", "%25")), st.sampled_from(["", "#L1-L2"])
) | st.just("sam:decision:publish-domain@2026-01-08")
pointers: st.SearchStrategy[Any] = st.one_of(
    refs,
    refs.map(lambda ref: {"ref": ref}),
    refs.map(lambda ref: {"type": ref.partition(":")[0], "ref": ref, "digest": "sha256:" + "0" * 64}),
)


def lists_of(item: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    return st.lists(item, min_size=least, max_size=3)


engrams = st.fixed_dictionaries(
    {"kind": st.sampled_from(KINDS), "claim": claims, "pointers": lists_of(pointers, 1) | pointers},
    optional={
        "confidence": st.floats(0, 1),
        "ttl": st.sampled_from(["PT6H", "P7D", "PT0.5S"]),
        "scope": st.sampled_from(["run", "project", "org"]),
        "tags": lists_of(claims.map(lambda text: text[:40])),
        "hash_keys": lists_of(claims.map(lambda text: text[:40])),
        "embedding_ref": claims,
        "id": st.just("01JH000000000000000000000A"),
    },
)
requests = st.fixed_dictionaries({"pointer": pointers, "reason": texts}, optional={"intended_use": texts})
children = st.fixed_dictionaries(
    {
        "ROLE": st.sampled_from(ROLES),
        "TASK_STATUS": st.sampled_from(STATUSES),
        "OUTPUT": texts | st.fixed_dictionaries({"summary": texts}, optional={"next": st.none() | texts}),
    },
    optional={"ENGRAMS": lists_of(engrams), "POINTER_PACK": lists_of(pointers), "DEREF_REQUESTS": lists_of(requests)},
)
grants = st.fixed_dictionaries(
    {"budget_token": texts, "pointer": pointers, "cap_tokens": st.integers(1, 2**53)},
)
budgets = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(ChildBudgets.__struct_fields__, st.none() | st.integers(0, 2**53))
)
parents = st.fixed_dictionaries(
    {"ROLE": st.sampled_from(ROLES), "INSTRUCTIONS": texts | lists_of(texts, 1)},
    optional={
        "SHARED_BRIEF_MICRO": texts | lists_of(texts),
        "BUDGETS": budgets,
        "GRANTS": lists_of(grants),
        "TARGET_POINTER_PACK": lists_of(pointers),
    },
)


def check_round_trip(sent: dict[str, Any], kind: MessageKind) -> None:
    """Check that JSON, printed YAML and printed JSON give equal messages, and that printing is stable."""
    message = parse(json.dumps(sent, ensure_ascii=len(sent) % 2 == 0), kind)
    printed = print_message(message)
    assert parse(printed, kind) == message
    assert parse(f"```yaml\n{printed}```", kind) == message
    assert parse(json.dumps(message_sections(message)), kind) == message
    assert parse(print_message(message), kind) == message
    assert print_message(parse(printed, kind)) == printed


@given(children)
def test_a_childs_message_survives_printing(sent: dict[str, Any]) -> None:
    check_round_trip(sent, "child")


@given(parents)
def test_a_parents_message_survives_printing(sent: dict[str, Any]) -> None:
    check_round_trip(sent, "parent")


def test_the_printed_form_is_the_published_one() -> None:
    """Except for indentation and the case of the role, which the specification leaves open."""
    kinds: tuple[tuple[str, MessageKind], ...] = ((PUBLISHED_CHILD, "child"), (PUBLISHED_PARENT, "parent"))
    for text, kind in kinds:
        printed = print_message(parse(text, kind))
        assert [line.strip() for line in printed.splitlines()][1:] == [line.strip() for line in text.splitlines()][1:]
