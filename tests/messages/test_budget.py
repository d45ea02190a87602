"""How much a message may hold.  # EB-06 EB-07 EB-16"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import BudgetExceeded, EngramBusError
from engrambus.knowledge.messages import (
    Budgets,
    MessageKind,
    Usage,
    accept_message,
    measure,
    validate_message,
)
from engrambus.policy import InlineBudget
from tests.messages.samples import LEAST, PUBLISHED_CHILD, PUBLISHED_PARENT, YEAR, child, engram, parent

BUDGET = InlineBudget()


def code_chars(text: str) -> int:
    """A stand-in for the detector: what stands between backticks is code."""
    return sum(map(len, text.split("`")[1::2]))


def said(count: int) -> str:
    """A child's message of this many tokens."""
    text = LEAST.replace("All is well.", "")
    return LEAST.replace("All is well.", "x" * (4 * count - len(text)))


def exceeded(text: str, kind: MessageKind = "child", budget: InlineBudget = BUDGET) -> BudgetExceeded:
    """The refusal of a message that is too large."""
    with pytest.raises(BudgetExceeded) as caught:
        accept_message(text, kind, budget, max_ttl=YEAR, code_chars=code_chars)
    return caught.value


def accepted(text: str, kind: MessageKind = "child", budget: InlineBudget = BUDGET) -> Usage:
    """What an accepted message holds."""
    return accept_message(text, kind, budget, max_ttl=YEAR, code_chars=code_chars).usage


class TestMatrix:
    """The budget tests of the specification's §11.1 that concern messages."""

    def test_1200_inline_tokens(self) -> None:
        problem = exceeded(said(1200))
        assert (problem.code, problem.status, problem.limit, problem.used) == ("BUDGET_EXCEEDED", 413, 800, 1200)
        assert problem.exceeded == ({"what": "inline_tokens", "limit": 800, "used": 1200},)

    def test_800_inline_tokens_are_the_most(self) -> None:
        assert accepted(said(800)).inline_tokens == 800
        assert exceeded(said(800) + "\n").used == 801

    def test_inline_code_without_a_grant(self) -> None:
        text = LEAST.replace("All is well.", '"Call `reserve(budget)` twice."')
        problem = exceeded(text)
        assert (problem.field, problem.line, problem.limit, problem.used) == ("OUTPUT.summary", 3, 0, 15)
        assert accepted(text, budget=InlineBudget(max_inline_code_chars=15)).inline_code_chars == 15

    def test_1200_tokens_that_are_no_message_at_all(self) -> None:
        assert exceeded("word " * 960).used == 1200
        assert exceeded("x" * 10_000_000).used == 2_500_000


class TestLimits:
    @pytest.mark.parametrize("sent", [12, 13])
    def test_engrams(self, sent: int) -> None:
        text = f"{LEAST}ENGRAMS:\n{engram() * sent}"
        budget = InlineBudget(max_inline_tokens=10_000)
        if sent <= 12:
            assert accepted(text, budget=budget).engrams == 12
            return
        problem = exceeded(text, budget=budget)
        assert (problem.field, problem.line, problem.limit, problem.used) == ("ENGRAMS", 4, 12, 13)

    def test_engrams_are_counted_when_some_are_bad(self) -> None:
        text = f"{LEAST}ENGRAMS:\n{engram('') * 13}"
        assert exceeded(text, budget=InlineBudget(max_inline_tokens=10_000)).used == 13

    def test_characters_of_a_claim(self) -> None:
        text = f"{LEAST}ENGRAMS:\n{engram()}{engram('y' * 101)}{engram('y' * 90)}"
        assert accepted(text).engram_chars == 101
        problem = exceeded(text, budget=InlineBudget(max_engram_chars=100))
        assert (problem.field, problem.line, problem.limit, problem.used) == ("ENGRAMS[1].claim", 9, 100, 101)

    def test_lines_of_the_brief(self) -> None:
        def text(lines: list[str]) -> str:
            return "ROLE: manager\nSHARED_BRIEF_MICRO:\n" + "".join(f'  - "{line}"\n' for line in lines)

        assert accepted(text(["x"] * 30), "parent").brief_lines == 30
        problem = exceeded(text(["x"] * 31), "parent")
        assert (problem.field, problem.line, problem.limit, problem.used) == ("SHARED_BRIEF_MICRO", 2, 30, 31)
        assert exceeded(text(["x"] * 29 + ["x\\ny"]), "parent").used == 31

    def test_everything_exceeded_is_told_at_once(self) -> None:
        text = f"{LEAST}ENGRAMS:\n{engram('Say `x` now') * 13}"
        problem = exceeded(text, budget=InlineBudget(max_inline_tokens=10, max_engram_chars=5))
        assert [each["what"] for each in problem.exceeded] == [
            "inline_tokens", "engrams", "engram_chars", "inline_code_chars",
        ]  # fmt: skip
        shown = problem.problem()
        assert shown["exceeded"][1] == {"what": "engrams", "limit": 12, "used": 13, "field": "ENGRAMS"}
        problem.resend = "ROLE: …"
        back = EngramBusError.from_problem(problem.problem())
        assert isinstance(back, BudgetExceeded)
        assert back.resend == problem.resend
        assert back.problem() == problem.problem()

    def test_code_is_looked_for_in_every_free_text(self) -> None:
        places = {
            "ENGRAMS[0].claim": f"ENGRAMS:\n{engram('Say `code`.')}",
            "ENGRAMS[0].tags[0]": f"ENGRAMS:\n{engram()}    tags: ['`code`']\n",
            "ENGRAMS[0].hash_keys[0]": f"ENGRAMS:\n{engram()}    hash_keys: ['`code`']\n",
        }
        for field, section in places.items():
            assert exceeded(LEAST + section).field == field
        asked = PUBLISHED_CHILD.replace("atomicity behavior.", "`code`")
        assert exceeded(asked).field == "DEREF_REQUESTS[0].reason"
        assert exceeded(PUBLISHED_CHILD.replace("alternative", "`code`")).field == "OUTPUT.next"
        assert exceeded(PUBLISHED_PARENT.replace("atomicity", "`code`"), "parent").field == "INSTRUCTIONS"
        assert exceeded(PUBLISHED_PARENT.replace("pointer-first", "`code`"), "parent").field == "SHARED_BRIEF_MICRO"

    def test_without_a_detector_no_code_is_counted(self) -> None:
        text = LEAST.replace("All is well.", "'`x`'")
        assert measure(text, child(text)).inline_code_chars == 0

    def test_bytes_not_characters(self) -> None:
        assert measure("€" * 4).inline_tokens == 3
        assert measure("\ud800" * 8).inline_tokens == 2


class TestLowering:
    def test_a_child_gets_what_its_parent_leaves_it(self) -> None:
        lowered = BUDGET.lowered_by(parent(PUBLISHED_PARENT).budgets)
        assert lowered == InlineBudget(max_engrams=10)

    @given(
        st.builds(InlineBudget, **dict.fromkeys(InlineBudget.__struct_fields__, st.integers(0, 2000))),
        st.builds(Budgets, **dict.fromkeys(Budgets.__struct_fields__, st.none() | st.integers(0, 2000))),
    )
    def test_nothing_is_ever_raised(self, budget: InlineBudget, budgets: Budgets) -> None:
        lowered = budget.lowered_by(budgets)
        for name in InlineBudget.__struct_fields__:
            asked: Any = getattr(budgets, name, None)
            mine = getattr(budget, name)
            assert getattr(lowered, name) == (mine if asked is None else min(mine, asked))


class TestDryRun:
    def test_a_good_message(self) -> None:
        verdict = validate_message(PUBLISHED_CHILD, "child", BUDGET, max_ttl=YEAR)
        assert verdict.ok
        assert verdict.problems == ()
        assert verdict.usage == accepted(PUBLISHED_CHILD)
        assert verdict.budget == BUDGET

    def test_all_that_is_wrong_the_budget_first(self) -> None:
        text = f"{LEAST}NOTES: x\nENGRAMS:\n{engram('') * 13}"
        verdict = validate_message(text, "child", BUDGET, max_ttl=YEAR, role="manager")
        codes = [problem["code"] for problem in verdict.problems]
        assert not verdict.ok
        assert codes[:3] == ["BUDGET_EXCEEDED", "MESSAGE_SECTION_UNKNOWN", "CLAIM_EMPTY"]
        assert codes[-1] == "MESSAGE_ROLE"
        assert all("line" in problem for problem in verdict.problems)

    @given(st.text(max_size=200), st.sampled_from(["child", "parent"]))
    def test_it_never_raises(self, text: str, kind: MessageKind) -> None:
        verdict = validate_message(text, kind, BUDGET, max_ttl=YEAR, code_chars=code_chars)
        assert verdict.ok == (not verdict.problems)
