"""What is sent instead of a message that was refused.  # EB-08"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.messages import (
    ChildMessage,
    Message,
    MessageKind,
    ParentMessage,
    Recognised,
    accept_message,
    read_message,
    resend_template,
)
from engrambus.policy import InlineBudget
from tests.messages.samples import LEAST, PUBLISHED_CHILD, PUBLISHED_PARENT, REF, SHA, YEAR, engram
from tests.messages.test_budget import code_chars

BUDGET = InlineBudget()
PASTED = Pointer(type="repo", ref=f"repo:src/ledger.py#L3-L40@{SHA}")


def resent(
    text: str, kind: MessageKind = "child", budget: InlineBudget = BUDGET, recognised: tuple[Recognised, ...] = ()
) -> tuple[str, Message]:
    """The template for a text, and what it reads as when it is sent unchanged."""
    reading = read_message(text, kind, max_ttl=YEAR, role="tool")
    template = resend_template(reading, budget, recognised, code_chars=code_chars)
    return template, accept_message(template, kind, budget, max_ttl=YEAR, role="tool", code_chars=code_chars).message


def child(
    text: str, budget: InlineBudget = BUDGET, recognised: tuple[Recognised, ...] = ()
) -> tuple[str, ChildMessage]:
    template, message = resent(text, "child", budget, recognised)
    assert isinstance(message, ChildMessage)
    return template, message


def parent(text: str, budget: InlineBudget = BUDGET) -> tuple[str, ParentMessage]:
    template, message = resent(text, "parent", budget)
    assert isinstance(message, ParentMessage)
    return template, message


class TestChild:
    def test_a_long_summary_has_to_be_written_again_and_the_rest_stays(self) -> None:
        template, message = child(PUBLISHED_CHILD.replace("Top risks", "x " * 2000))
        original = read_message(PUBLISHED_CHILD, "child", max_ttl=YEAR).message
        assert isinstance(original, ChildMessage)
        assert message.engrams == original.engrams
        assert message.pointer_pack == original.pointer_pack
        assert message.deref_requests == original.deref_requests
        assert (message.output.summary, message.output.next) == ("...", original.output.next)
        assert "# Say in one or two sentences" in template

    def test_pasted_text_becomes_pointers(self) -> None:
        text = PUBLISHED_CHILD.replace("Top risks", "`code` " * 700)
        start = text.index("`code`")
        template, message = child(text, recognised=((start, start + 4000, PASTED), (start, start + 4, PASTED)))
        assert message.pointer_pack[0] == PASTED
        assert len(message.pointer_pack) == 2
        assert "# These lead to what you pasted (line 18), in this order; then your own.\nPOINTER_PACK:" in template

    def test_the_good_engrams_stay_and_the_bad_ones_go(self) -> None:
        good = [engram(f"Number {number} holds.") for number in range(3)]
        bad = [engram(""), engram("x" * 501), engram("Say `code`."), engram("y" * 80)]
        text = f"{LEAST}ENGRAMS:\n" + "".join(one + other for one, other in zip(bad, [*good, ""], strict=True))
        template, message = child(text, InlineBudget(max_engram_chars=60))
        assert [engram.claim for engram in message.engrams] == ["Number 0 holds.", "Number 1 holds.", "Number 2 holds."]
        assert "# 2 more did not fit" in template

    def test_no_more_engrams_than_fit(self) -> None:
        text = f"{LEAST}ENGRAMS:\n" + "".join(engram(f"Number {number} holds.") for number in range(30))
        assert len(child(text)[1].engrams) == 12
        assert len(child(text, InlineBudget(max_engrams=4))[1].engrams) == 4
        few = len(child(text, InlineBudget(max_inline_tokens=200))[1].engrams)
        assert 2 <= few <= 6

    def test_only_the_engrams_handed_in_when_they_are(self) -> None:
        reading = read_message(f"{LEAST}ENGRAMS:\n{engram('One.')}{engram('Two.')}", "child", max_ttl=YEAR)
        template = resend_template(reading, BUDGET, kept=reading.parts["engrams"][1:])
        assert "Two." in template
        assert "One." not in template

    def test_defaults_are_left_out_to_make_room(self) -> None:
        assert "confidence" not in child(f"{LEAST}ENGRAMS:\n{engram()}")[0]

    @pytest.mark.parametrize("text", ["", "prose " * 900, "```python\nx = 1\n```\n" * 300, "x" * 1_000_000])
    def test_a_text_that_is_no_message_gets_the_form(self, text: str) -> None:
        template, message = child(text, recognised=((0, len(text), PASTED),))
        assert message.pointer_pack == (PASTED,)
        assert message.output.summary == "..."
        assert "# in_progress, blocked, done, failed\nTASK_STATUS: in_progress\n" in template


class TestParent:
    def test_a_brief_that_is_too_long_is_cut(self) -> None:
        text = PUBLISHED_PARENT.replace(
            "BUDGETS:", "".join(f'- "Line {number}."\n' for number in range(40)) + "BUDGETS:"
        )
        _, message = parent(text)
        original = read_message(PUBLISHED_PARENT, "parent", max_ttl=YEAR).message
        assert isinstance(original, ParentMessage)
        assert len(message.shared_brief_micro) == 30
        assert message.grants == original.grants
        assert message.budgets == original.budgets
        assert message.instructions == original.instructions

    def test_instructions_that_are_code_have_to_be_written_again(self) -> None:
        template, message = parent("ROLE: tool\nINSTRUCTIONS: 5")
        assert message.instructions == ("...",)
        assert "# Say what is to be done, a line each.\nINSTRUCTIONS:" in template
        _, message = parent("ROLE: tool\nINSTRUCTIONS: ['`code`']")
        assert message.instructions == ("...",)


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=120) | st.just("Say `code`.")


@given(
    st.lists(texts, max_size=20),
    texts,
    st.integers(25, 400),
    st.integers(0, 12),
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.just(PASTED)), max_size=4),
    st.booleans(),
)
def test_every_template_can_be_sent_as_it_is(
    claims: list[str], summary: str, tokens: int, engrams: int, recognised: list[Recognised], as_parent: bool
) -> None:
    budget = InlineBudget(max_inline_tokens=tokens, max_engrams=engrams, max_brief_lines=engrams)
    if as_parent:
        lines = "".join(f"  - {claim!r}\n" for claim in claims)
        text = f"ROLE: tool\nSHARED_BRIEF_MICRO:\n{lines}INSTRUCTIONS:\n{lines}TARGET_POINTER_PACK: ['{REF}']\n"
        resent(text, "parent", budget, tuple(recognised))
    else:
        items = "".join(engram(claim) for claim in claims)
        text = f"ROLE: tool\nTASK_STATUS: done\nOUTPUT: {summary!r}\nENGRAMS:\n{items}"
        resent(text, "child", budget, tuple(recognised))
