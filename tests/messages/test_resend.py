"""The template to send instead of a rejected message.  # EB-08"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.evidence.anchoring import Recognised
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.messages import (
    ChildMessage,
    Message,
    MessageKind,
    ParentMessage,
    check_budget,
    parse_message,
    resend_template,
)
from engrambus.policy import DEFAULT_POLICY, InlineBudget
from tests.messages.samples import (
    LEAST,
    PUBLISHED_CHILD,
    PUBLISHED_PARENT,
    REF,
    SHA,
    YEAR_US,
    completer,
    engram,
    parse_child,
)
from tests.messages.test_budget import count_backticks

BUDGET = InlineBudget()
FILLED = "abc"
REJECTION = "01K7Z3V5QX0000000000000000"
PASTED = Pointer(type="repo", ref=f"repo:src/ledger.py#L3-L40@{SHA}")


def resend(
    text: str, kind: MessageKind = "child", budget: InlineBudget = BUDGET, pastes: tuple[Recognised, ...] = ()
) -> tuple[str, Message]:
    """The template for a text, and the message it parses to when it is filled in."""
    parsed = parse_message(text, kind, max_ttl_us=YEAR_US, role="tool")
    template = resend_template(parsed, budget, pastes, rejection_id=REJECTION, count_code=count_backticks)
    filled = template.replace('"..."', f'"{FILLED}"')
    commits = f"{text} {PASTED.ref}"
    resent = parse_message(filled, kind, max_ttl_us=YEAR_US, role="tool", completer=completer(commits))
    _, problems = check_budget(resent, budget, DEFAULT_POLICY.checks("tool"), count_backticks)
    assert problems == ()
    assert resent.message is not None
    return template, resent.message


def child(text: str, budget: InlineBudget = BUDGET, pastes: tuple[Recognised, ...] = ()) -> tuple[str, ChildMessage]:
    template, message = resend(text, "child", budget, pastes)
    assert isinstance(message, ChildMessage)
    return template, message


def parent(text: str, budget: InlineBudget = BUDGET) -> tuple[str, ParentMessage]:
    template, message = resend(text, "parent", budget)
    assert isinstance(message, ParentMessage)
    return template, message


class TestChild:
    def test_a_long_summary_becomes_a_placeholder_and_everything_else_stays(self) -> None:
        template, message = child(PUBLISHED_CHILD.replace("Top risks", "x " * 2000))
        original = parse_message(PUBLISHED_CHILD, "child", max_ttl_us=YEAR_US).message
        assert isinstance(original, ChildMessage)
        assert message.engrams == original.engrams
        assert message.pointer_pack == original.pointer_pack
        assert message.deref_requests == original.deref_requests
        assert (message.output.summary, message.output.next) == (FILLED, original.output.next)
        assert "# Write the result in one or two sentences" in template

    def test_pasted_text_becomes_pointers(self) -> None:
        text = PUBLISHED_CHILD.replace("Top risks", "`code` " * 700)
        start = text.index("`code`")
        template, message = child(
            text, pastes=(Recognised(start, start + 4000, PASTED), Recognised(start, start + 4, PASTED))
        )
        assert message.pointer_pack[0] == PASTED
        assert len(message.pointer_pack) == 2
        assert "# Pointers to the text you pasted (line 18), in this order; then your own.\nPOINTER_PACK:" in template

    def test_valid_engrams_stay_and_invalid_ones_are_omitted(self) -> None:
        good = [engram(f"Number {number} holds.") for number in range(3)]
        bad = [engram(""), engram("x" * 501), engram("Say `code`."), engram("y" * 80)]
        text = f"{LEAST}ENGRAMS:\n" + "".join(map("".join, zip(bad, [*good, ""], strict=True)))
        template, message = child(text, InlineBudget(max_engram_chars=60))
        assert [engram.claim for engram in message.engrams] == ["Number 0 holds.", "Number 1 holds.", "Number 2 holds."]
        assert "# 2 more did not fit" in template

    def test_no_more_engrams_than_fit(self) -> None:
        text = f"{LEAST}ENGRAMS:\n" + "".join(engram(f"Number {number} holds.") for number in range(30))
        assert len(child(text, InlineBudget(max_inline_tokens=2000))[1].engrams) == 12
        assert len(child(text, InlineBudget(max_engrams=4))[1].engrams) == 4
        few = len(child(text, InlineBudget(max_inline_tokens=400))[1].engrams)
        assert 2 <= few <= 6

    def test_default_values_are_omitted(self) -> None:
        assert "confidence" not in child(f"{LEAST}ENGRAMS:\n{engram()}")[0]

    @pytest.mark.parametrize("text", ["", "prose " * 900, "```python\nx = 1\n```\n" * 300, "x" * 1_000_000])
    def test_a_text_that_is_not_a_message_gets_an_empty_form(self, text: str) -> None:
        template, message = child(text, pastes=(Recognised(0, len(text), PASTED),))
        assert message.pointer_pack == (PASTED,)
        assert message.output.summary == FILLED
        assert "# in_progress, blocked, done, failed\nTASK_STATUS: in_progress\n" in template

    def test_pointers_are_short_where_they_stand_for_the_same(self) -> None:  # EB-16
        digest = f'{{type: repo, ref: "{REF}", digest: "sha256:{"0" * 64}"}}'
        text = f"{LEAST}POINTER_PACK:\n  - {REF}\n  - {digest}\n  - artifact:a.md@v1\n  - repo:a%23b.py@{SHA}\n"
        template, message = child(text.replace("All is well.", "x " * 2000))
        assert f'- "services/gateway/vendor_client.py:280-360@{SHA[:12]}"\n' in template
        assert template.count(SHA) == 2
        assert message.pointer_pack == parse_child(text).pointer_pack

    def test_the_template_names_the_rejection(self) -> None:  # EB-10
        template, message = child(PUBLISHED_CHILD.replace("Top risks", "x " * 2000))
        assert template.endswith(f'RESENDS: "{REJECTION}"\n')
        assert message.resends == REJECTION

    @pytest.mark.parametrize("dots", ["...", "…", ". . .", " ... "])
    def test_a_template_that_was_not_filled_in_is_refused(self, dots: str) -> None:  # EB-10
        template, _ = child(PUBLISHED_CHILD.replace("Top risks", "x " * 2000))
        text = template.replace("...", dots)
        problems = parse_message(text, "child", max_ttl_us=YEAR_US, role="tool", completer=completer()).problems
        assert [(problem.code, problem.field) for problem in problems] == [("MESSAGE_UNFILLED", "OUTPUT.summary")]


class TestParent:
    def test_a_brief_that_is_too_long_is_shortened(self) -> None:
        text = PUBLISHED_PARENT.replace(
            "BUDGETS:", "".join(f'- "Line {number}."\n' for number in range(40)) + "BUDGETS:"
        )
        _, message = parent(text)
        original = parse_message(PUBLISHED_PARENT, "parent", max_ttl_us=YEAR_US).message
        assert isinstance(original, ParentMessage)
        assert len(message.shared_brief_micro) == 30
        assert message.grants == original.grants
        assert message.budgets == original.budgets
        assert message.instructions == original.instructions

    def test_instructions_with_code_become_a_placeholder(self) -> None:
        template, message = parent("ROLE: tool\nINSTRUCTIONS: 5")
        assert message.instructions == (FILLED,)
        assert "# Write what is to be done, one line for each instruction.\nINSTRUCTIONS:" in template
        _, message = parent("ROLE: tool\nINSTRUCTIONS: ['`code`']")
        assert message.instructions == (FILLED,)


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=120) | st.just("Say `code`.")


@given(
    st.lists(texts, max_size=20),
    texts,
    st.integers(40, 400),
    st.integers(0, 12),
    st.lists(st.builds(Recognised, st.integers(0, 500), st.integers(0, 500), st.just(PASTED)), max_size=4),
    st.booleans(),
)
def test_every_template_is_accepted_when_it_is_filled_in(
    claims: list[str], summary: str, tokens: int, engrams: int, pastes: list[Recognised], as_parent: bool
) -> None:
    budget = InlineBudget(max_inline_tokens=tokens, max_engrams=engrams, max_brief_lines=engrams)
    if as_parent:
        lines = "".join(f"  - {claim!r}\n" for claim in claims)
        text = f"ROLE: tool\nSHARED_BRIEF_MICRO:\n{lines}INSTRUCTIONS:\n{lines}TARGET_POINTER_PACK: ['{REF}']\n"
        resend(text, "parent", budget, tuple(pastes))
    else:
        items = "".join(engram(claim) for claim in claims)
        text = f"ROLE: tool\nTASK_STATUS: done\nOUTPUT: {summary!r}\nENGRAMS:\n{items}"
        resend(text, "child", budget, tuple(pastes))
