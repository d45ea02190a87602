"""Asking every question of a data set: the bus and the baselines, in one run over the same items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from eval.baselines import Search, bm25_search, grep_search, item_search
from eval.dataset import Dataset, Item, Question
from eval.metrics import recall_at, reciprocal_rank
from eval.scratch_project import Filled, filled_bus, open_bus
from eval.token_count import answer_tokens, count_tokens
from eval.vectors import NOT_REQUESTED, vector_search

if TYPE_CHECKING:
    from engrambus.adapters.semantic import MiniLm

DEPTH = 50
"""Engrams asked for: several may lead to one name."""
SHOWN = 10
"""Entries of an answer whose tokens are counted."""
MAX_QUESTION_CHARS = 2000
BUS = "**bus**"


class Answer(NamedTuple):
    """What one method found for one question."""

    names: tuple[str, ...]
    files: tuple[str, ...]
    shown: frozenset[str]
    """Names of the first `SHOWN` entries."""
    tokens: int
    """Tokens of the first `SHOWN` entries."""


class MethodResult(NamedTuple):
    """The answers of one method to all questions, in their order."""

    method: str
    questions: tuple[Question, ...]
    answers: tuple[Answer, ...]

    def recalls(self, k: int) -> list[float]:
        """Return the share of the correct names among the first k, for each question."""
        return [recall_at(answer.names, question.names, k) for question, answer in self._pairs()]

    def reciprocal_ranks(self) -> list[float]:
        return [reciprocal_rank(answer.names, question.names) for question, answer in self._pairs()]

    def file_recalls(self, k: int) -> list[float]:
        """Return the share of the correct files among the first k distinct ones, for each question with files."""
        return [recall_at(answer.files, question.files, k) for question, answer in self._pairs() if question.files]

    def tokens_per_correct(self) -> float | None:
        """Return the tokens of all answers for each correct name in their first `SHOWN` entries."""
        correct = sum(len(answer.shown & question.names) for question, answer in self._pairs())
        return sum(answer.tokens for answer in self.answers) / correct if correct else None

    def _pairs(self) -> list[tuple[Question, Answer]]:
        return list(zip(self.questions, self.answers, strict=True))


class Measured(NamedTuple):
    """One data set with the results of every method; the bus is the first."""

    dataset: Dataset
    results: tuple[MethodResult, ...]
    notes: tuple[str, ...]


def measure(
    dataset: Dataset, repository: Path, *, by_kind: str | None = None, model: MiniLm | str = NOT_REQUESTED
) -> Measured:
    """Put a data set on a new project in the repository and ask everything there and of the baselines.

    With `by_kind` the bus is asked again, for engrams of that kind only. With a model it is asked once more, by meaning
    as well as by words, and a vector store joins the baselines; without one, `model` says why.
    """
    with filled_bus(repository, dataset.items) as filled:
        results = [bus_result(filled, dataset)]
        if by_kind is not None:
            results.append(bus_result(filled, dataset, f"bus, kind {by_kind} only", kind=by_kind))
        refused = ", ".join(f"{count} × {code}" for code, count in sorted(filled.refused.items()))
    if not isinstance(model, str):
        with open_bus(repository, semantic=True) as bus:
            results.append(bus_result(filled._replace(bus=bus), dataset, "bus, by words and meaning"))
    searches, notes = baseline_searches(dataset.items, model)
    results += [baseline_result(method, search, dataset) for method, search in searches.items()]
    if refused:
        notes.append(f"Items that the bus refused, and that only the baselines have: {refused}.")
    return Measured(dataset, tuple(results), tuple(notes))


def join(title: str, parts: Sequence[Measured]) -> Measured:
    """Return measurements of separate projects as one, over all their questions."""
    dataset = Dataset(
        title,
        tuple(item for part in parts for item in part.dataset.items),
        tuple(question for part in parts for question in part.dataset.questions),
    )
    results = [
        MethodResult(same[0].method, dataset.questions, tuple(answer for result in same for answer in result.answers))
        for same in zip(*(part.results for part in parts), strict=True)
    ]
    return Measured(dataset, tuple(results), tuple(dict.fromkeys(note for part in parts for note in part.notes)))


def baseline_searches(
    items: Sequence[Item], model: MiniLm | str = NOT_REQUESTED
) -> tuple[dict[str, Search], list[str]]:
    """Return the baselines by name, and notes on those that are left out."""
    searches = {
        "BM25 over the claims": item_search(items, bm25_search, lambda item: item.claim),
        "BM25 over the pointed text": item_search(items, bm25_search, lambda item: item.body),
        "ranked grep over the pointed text": item_search(items, grep_search, lambda item: item.body),
    }
    notes: list[str] = []
    if isinstance(model, str):
        notes.append(f"No vector store: {model}.")
    else:
        searches["vector store over the claims"] = item_search(items, vector_search(model), lambda item: item.claim)
    return searches, notes


def bus_result(filled: Filled, dataset: Dataset, method: str = BUS, *, kind: str | None = None) -> MethodResult:
    """Ask the bus every question."""
    ask = _bus_search(filled, kind)
    answers = []
    for question in dataset.questions:
        positions, tokens = ask(question.text[:MAX_QUESTION_CHARS])
        answers.append(_answer(dataset.items, positions, tokens))
    return MethodResult(method, dataset.questions, tuple(answers))


def baseline_result(method: str, search: Search, dataset: Dataset) -> MethodResult:
    """Ask a baseline every question."""
    answers = []
    for question in dataset.questions:
        positions = search(question.text, DEPTH)
        shown = "\n".join(
            f"{dataset.items[position].refs[0]} {dataset.items[position].claim}" for position in positions[:SHOWN]
        )
        answers.append(_answer(dataset.items, positions, count_tokens(shown)))
    return MethodResult(method, dataset.questions, tuple(answers))


def _bus_search(filled: Filled, kind: str | None) -> Callable[[str], tuple[list[int], int]]:
    """Return a function that gives the positions of the items found, and the tokens of the first `SHOWN` engrams."""

    def search(question: str) -> tuple[list[int], int]:
        answer = filled.bus.query_engrams(question, k=DEPTH, kind=kind)  # type: ignore[arg-type]
        shown = msgspec.structs.replace(
            answer,
            engrams=answer.engrams[:SHOWN],
            about={
                engram.id: answer.about[engram.id] for engram in answer.engrams[:SHOWN] if engram.id in answer.about
            },
        )
        positions = [filled.positions[engram.id] for engram in answer.engrams]
        return positions, answer_tokens("query_engrams", shown)

    return search


def _answer(items: Sequence[Item], positions: Sequence[int], tokens: int) -> Answer:
    names = dict.fromkeys(items[position].name for position in positions)
    files = dict.fromkeys(items[position].file for position in positions)
    shown = frozenset(items[position].name for position in positions[:SHOWN])
    return Answer(tuple(names), tuple(files), shown, tokens)
