"""The inline budget of a message.  # EB-06 EB-07 EB-16"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus import Bus
from engrambus.core import estimate_tokens
from engrambus.errors import BudgetExceeded, EngramBusError
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.knowledge.messages import (
    ChildBudgets,
    MessageKind,
    MessageUsage,
    check_budget,
    measure,
    parse_message,
)
from engrambus.policy import DEFAULT_POLICY, InlineBudget
from tests.messages.samples import (
    LEAST,
    PUBLISHED_CHILD,
    PUBLISHED_PARENT,
    SHA,
    YEAR_US,
    engram,
    parse_child,
    parse_parent,
)
from tests.projects import Repository, commit_files, git
from tests.tokens.padding import pad

BUDGET = InlineBudget()


def count_backticks(text: str) -> int:
    """A stand-in for the detector: everything between backticks is code."""
    return sum(map(len, text.split("`")[1::2]))


def message_of(tokens: int) -> str:
    """A child's message of this many tokens."""
    start, end = LEAST.split("All is well.")
    length = next(length for length in range(10_000) if estimate_tokens(f"{start}{'x' * length}{end}") == tokens)
    return f"{start}{'x' * length}{end}"


def check(text: str, kind: MessageKind, budget: InlineBudget) -> tuple[MessageUsage, tuple[EngramBusError, ...]]:
    return check_budget(
        parse_message(text, kind, max_ttl_us=YEAR_US), budget, DEFAULT_POLICY.checks("programmer"), count_backticks
    )


def exceeded(text: str, kind: MessageKind = "child", budget: InlineBudget = BUDGET) -> BudgetExceeded:
    """The first problem of a message that is too large."""
    _, problems = check(text, kind, budget)
    assert isinstance(problems[0], BudgetExceeded)
    return problems[0]


def accepted(text: str, kind: MessageKind = "child", budget: InlineBudget = BUDGET) -> MessageUsage:
    """The size of a message without problems."""
    usage, problems = check(text, kind, budget)
    assert problems == ()
    return usage


class TestMatrix:
    """The budget tests of the specification's §11.1 that concern messages."""

    def test_1200_inline_tokens_are_refused(self) -> None:
        problem = exceeded(message_of(1200))
        assert (problem.code, problem.status, problem.limit, problem.used) == ("BUDGET_EXCEEDED", 413, 800, 1200)
        assert problem.exceeded == ({"what": "inline_tokens", "limit": 800, "used": 1200},)

    def test_800_inline_tokens_are_the_limit(self) -> None:
        assert accepted(message_of(800)).inline_tokens == 800
        assert exceeded(message_of(801)).used == 801

    def test_inline_code_without_a_grant_is_refused(self) -> None:
        text = LEAST.replace("All is well.", '"Call `reserve(budget)` twice."')
        problem = exceeded(text)
        assert (problem.field, problem.line, problem.limit, problem.used) == ("OUTPUT.summary", 3, 0, 15)
        assert accepted(text, budget=InlineBudget(max_inline_code_chars=15)).inline_code_chars == 15

    def test_1200_tokens_of_prose_are_refused(self) -> None:
        assert exceeded(pad("word " * 900, 1200)).used == 1200
        assert int(exceeded("x" * 10_000_000).used or 0) > 2_500_000


class TestLimits:
    @pytest.mark.parametrize("sent", [12, 13])
    def test_the_number_of_engrams_is_limited(self, sent: int) -> None:
        text = f"{LEAST}ENGRAMS:\n{engram() * sent}"
        budget = InlineBudget(max_inline_tokens=10_000)
        if sent <= 12:
            assert accepted(text, budget=budget).engrams == 12
            return
        problem = exceeded(text, budget=budget)
        assert (problem.field, problem.line, problem.limit, problem.used) == ("ENGRAMS", 4, 12, 13)

    def test_invalid_engrams_are_counted_too(self) -> None:
        text = f"{LEAST}ENGRAMS:\n{engram('') * 13}"
        assert exceeded(text, budget=InlineBudget(max_inline_tokens=10_000)).used == 13

    def test_the_length_of_a_claim_is_limited(self) -> None:
        text = f"{LEAST}ENGRAMS:\n{engram()}{engram('y' * 101)}{engram('y' * 90)}"
        assert accepted(text).engram_chars == 101
        problem = exceeded(text, budget=InlineBudget(max_engram_chars=100))
        assert (problem.field, problem.line, problem.limit, problem.used) == ("ENGRAMS[1].claim", 9, 100, 101)

    def test_the_lines_of_the_brief_are_limited(self) -> None:
        def text(lines: list[str]) -> str:
            return "ROLE: manager\nSHARED_BRIEF_MICRO:\n" + "".join(f'  - "{line}"\n' for line in lines)

        assert accepted(text(["x"] * 30), "parent").brief_lines == 30
        problem = exceeded(text(["x"] * 31), "parent")
        assert (problem.field, problem.line, problem.limit, problem.used) == ("SHARED_BRIEF_MICRO", 2, 30, 31)
        assert exceeded(text(["x"] * 29 + ["x\\ny"]), "parent").used == 31

    def test_all_exceeded_limits_are_reported_at_once(self) -> None:
        text = f"{LEAST}ENGRAMS:\n{engram('Say `x` now') * 13}"
        problem = exceeded(text, budget=InlineBudget(max_inline_tokens=10, max_engram_chars=5))
        assert [excess["what"] for excess in problem.exceeded] == [
            "inline_tokens", "engrams", "engram_chars", "inline_code_chars",
        ]  # fmt: skip
        assert problem.problem()["exceeded"][1] == {"what": "engrams", "limit": 12, "used": 13, "field": "ENGRAMS"}
        problem.resend = "ROLE: …"
        decoded = EngramBusError.from_problem(problem.problem())
        assert isinstance(decoded, BudgetExceeded)
        assert decoded.resend == problem.resend
        assert decoded.problem() == problem.problem()

    def test_code_is_counted_in_every_free_text(self) -> None:
        places = {
            "ENGRAMS[0].claim": f"ENGRAMS:\n{engram('Say `code`.')}",
            "ENGRAMS[0].tags[0]": f"ENGRAMS:\n{engram()}    tags: ['`code`']\n",
            "ENGRAMS[0].hash_keys[0]": f"ENGRAMS:\n{engram()}    hash_keys: ['`code`']\n",
        }
        for field, section in places.items():
            assert exceeded(LEAST + section).field == field
        assert exceeded(PUBLISHED_CHILD.replace("atomicity behavior.", "`code`")).field == "DEREF_REQUESTS[0].reason"
        assert exceeded(PUBLISHED_CHILD.replace("alternative", "`code`")).field == "OUTPUT.next"
        assert exceeded(PUBLISHED_PARENT.replace("atomicity", "`code`"), "parent").field == "INSTRUCTIONS"
        assert exceeded(PUBLISHED_PARENT.replace("pointer-first", "`code`"), "parent").field == "SHARED_BRIEF_MICRO"

    def test_without_a_detector_no_code_is_counted(self) -> None:
        text = LEAST.replace("All is well.", "'`x`'")
        assert measure(text, parse_child(text)).inline_code_chars == 0

    def test_tokens_are_estimated_even_of_text_that_is_not_valid(self) -> None:
        assert measure("€" * 40).inline_tokens == estimate_tokens("€" * 40)
        assert measure("\ud800" * 8).inline_tokens == estimate_tokens("?" * 8)


class TestLowering:
    def test_a_parents_limits_lower_the_budget(self) -> None:
        lowered = BUDGET.lowered_by(parse_parent(PUBLISHED_PARENT).budgets)
        assert lowered == InlineBudget(max_engrams=10)

    @given(
        st.builds(InlineBudget, **dict.fromkeys(InlineBudget.__struct_fields__, st.integers(0, 2000))),
        st.builds(ChildBudgets, **dict.fromkeys(ChildBudgets.__struct_fields__, st.none() | st.integers(0, 2000))),
    )
    def test_nothing_is_ever_raised(self, budget: InlineBudget, budgets: ChildBudgets) -> None:
        lowered = budget.lowered_by(budgets)
        for name in InlineBudget.__struct_fields__:
            limit: Any = getattr(budgets, name, None)
            original = getattr(budget, name)
            assert getattr(lowered, name) == (original if limit is None else min(original, limit))


class TestValidateMessage:
    @pytest.fixture
    def bus(self, gateway: Gateway) -> Bus:
        bus = Bus(gateway, LOCAL_ADMIN, owns_transport=False)
        bus.add_agent("mia", role="manager")
        return bus

    def test_a_valid_message_has_no_problems(self, bus: Bus, repository: Repository) -> None:
        commit_files(
            repository.path,
            {
                "docs/SPEC_Budget_Enforcement.md": "# Rules\n\nOne budget.\n",
                "services/gateway/vendor_client.py": "pass\n" * 400,
                "services/gateway/routes/completions.py": "pass\n" * 1100,
                "services/ledger/reservation.py": "pass\n" * 300,
            },
        )
        text = PUBLISHED_CHILD.replace(SHA, git(repository.path, "rev-parse", "HEAD"))
        answer = bus.validate_message(text)
        assert answer.ok
        assert answer.problems == []
        assert answer.usage == accepted(text)
        assert answer.budget == BUDGET

    def test_pointers_that_lead_nowhere_are_problems(self, bus: Bus) -> None:  # EB-04
        answer = bus.validate_message(PUBLISHED_CHILD)
        assert not answer.ok
        assert {problem["code"] for problem in answer.problems} == {"REVISION_NOT_FOUND"}
        assert [problem["field"] for problem in answer.problems] == [
            "ENGRAMS[0].pointers[0].ref",
            "ENGRAMS[0].pointers[1].ref",
            "POINTER_PACK[0].ref",
            "DEREF_REQUESTS[0].pointer.ref",
        ]

    def test_all_problems_are_listed_with_the_budget_first(self, bus: Bus) -> None:
        text = f"{LEAST}NOTES: x\nENGRAMS:\n{engram('') * 13}"
        answer = bus.speak_as("mia").validate_message(text)
        codes = [problem["code"] for problem in answer.problems]
        assert not answer.ok
        assert codes[:3] == ["BUDGET_EXCEEDED", "MESSAGE_SECTION_UNKNOWN", "CLAIM_EMPTY"]
        assert codes[-1] == "MESSAGE_ROLE"
        assert all("line" in problem for problem in answer.problems[1:])


@given(st.text(max_size=200), st.sampled_from(["child", "parent"]))
def test_checking_never_raises(text: str, kind: MessageKind) -> None:
    check(text, kind, BUDGET)
