"""Commits as questions, on a history whose answers are known by hand. BX-08"""

from __future__ import annotations

from pathlib import Path

import pytest
from eval.claims import definition_claim
from eval.commit_set import CommitHistory, commit_dataset, is_usable, read_history
from eval.definitions import Definition
from eval.docstring_set import docstring_dataset
from eval.git_history import GitHistory

from tests.projects import git


@pytest.fixture(scope="module")
def cut(history: Path) -> CommitHistory:
    return read_history(GitHistory(history), split=1 / 3, limit=None)


def test_the_middle_commit_has_a_share_of_the_commits_before_it(history: Path, cut: CommitHistory) -> None:
    assert cut.middle == git(history, "rev-parse", "HEAD~4")
    assert [commit.subject for commit in cut.earlier] == [
        "Add the ledger and refunds",
        "Ship parcels with printed labels",
    ]
    newest = GitHistory(history).middle_commit(0.5, limit=2)
    assert newest == git(history, "rev-parse", "HEAD~1")


def test_a_task_names_the_functions_of_the_middle_commit_that_change(cut: CommitHistory) -> None:
    changed = {task.text: sorted(definition.name for definition in task.changed) for task in cut.tasks}
    # a moved file is followed, and neither the move nor the trivial subject is a task
    assert changed == {
        "Refuse a negative refund of money": ["refund"],
        "Count invoices with six digits and raise the limit": ["Ledger", "invoice_number"],
    }
    assert {definition.path for task in cut.tasks for definition in task.changed} == {"billing.py"}


def test_an_item_points_at_the_lines_of_its_definition(history: Path, cut: CommitHistory) -> None:
    items = {item.name: item for item in commit_dataset(GitHistory(history), cut).items}
    refund = items["billing.py::refund"]
    assert refund.refs == (f"repo:billing.py#L18-L20@{cut.middle}",)
    assert refund.claim == "function refund in billing.py: Give money back to a customer."
    assert refund.body.startswith("def refund(")
    assert items["billing.py::Ledger.balance"].claim == "method Ledger.balance in billing.py calls sum"
    commit = items[f"commit {cut.earlier[1].sha}"]
    assert (commit.kind, commit.file, commit.body) == ("diff", "shipping.py", "")


def test_the_docstring_is_in_neither_claim_nor_pointed_lines(history: Path) -> None:
    head = git(history, "rev-parse", "HEAD")
    dataset = docstring_dataset(GitHistory(history), head)
    items = {item.name: item for item in dataset.items}
    refund = items["bills.py::refund"]
    assert refund.refs == (f"repo:bills.py#L18@{head}", f"repo:bills.py#L20-L22@{head}")
    assert "money" not in refund.claim + refund.body
    questions = {question.text: question.names for question in dataset.questions}
    assert questions["Give money back to a customer."] == {"bills.py::refund"}
    assert "bills.py::Ledger" not in items


@pytest.mark.parametrize(
    ("subject", "usable"),
    [
        ("Fix redirect loops in the session", True),
        ("Release the lock before the callback runs", False),
        ("Bump ruff from 1 to 2", False),
        ("fix typo in docs of the parser", False),
        ("Small fixes", False),
        ("v2.31.0", False),
        ("Version 3 of the protocol", False),
    ],
)
def test_subjects_that_describe_no_change_are_skipped(subject: str, usable: bool) -> None:
    assert is_usable(subject) == usable


def test_a_claim_about_a_definition_is_within_the_limits() -> None:
    long = Definition("a.py", "f", "function", 1, 2, "Do this and that, " + "and that, " * 100 + "at once.")
    claim = definition_claim(long)
    assert claim.startswith("function f in a.py: Do this and that")
    assert len(claim) <= 500
    assert definition_claim(Definition("a.py", "f", "function", 1, 2)) == "function f in a.py"
