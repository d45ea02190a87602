"""Whole measurements through a real bus. BX-08"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from eval.__main__ import main
from eval.baselines import bm25_search, grep_search
from eval.commit_set import commit_dataset, read_history
from eval.context import replay
from eval.dataset import Question
from eval.git_history import GitHistory
from eval.measurement import Answer, MethodResult, join, measure
from eval.scratch_project import clone_at
from eval.token_count import count_tokens
from eval.vectors import find_model

from tests.eval.test_turn_set import LOCOMO


def test_grep_counts_different_words_and_breaks_ties_by_order() -> None:
    search = grep_search(["refund refund refund", "the Refunds of money", "money", "nothing"])
    assert search("refund the money", 10) == [1, 0, 2]
    assert search("refund the money", 1) == [1]
    assert search("of it", 10) == []  # stop words find nothing


def test_bm25_finds_stems_and_no_syntax() -> None:
    search = bm25_search(["refunding a customer", "a parcel", "weights"])
    assert search('refunds AND "weight" NOT (', 10) == [2, 0]
    assert search("", 10) == []


def test_tokens_count_for_each_correct_name_that_is_shown() -> None:
    questions = (Question("a", frozenset({"x", "y"})), Question("b", frozenset({"z"})))
    answers = (Answer(("x", "q"), ("f",), frozenset({"x", "q"}), 30), Answer(("q", "z"), ("f",), frozenset({"q"}), 10))
    result = MethodResult("m", questions, answers)
    assert result.recalls(1) == [0.5, 0.0]
    assert result.recalls(2) == [0.5, 1.0]
    assert result.reciprocal_ranks() == [1.0, 0.5]
    assert result.tokens_per_correct() == 40.0


def test_the_bus_is_measured_beside_the_baselines(history: Path, tmp_path: Path) -> None:
    repository = GitHistory(history)
    cut = read_history(repository, split=1 / 3, limit=None)
    measured = measure(commit_dataset(repository, cut), clone_at(history, cut.middle, tmp_path), by_kind="fact")
    results = {result.method: result for result in measured.results}
    assert list(results)[:2] == ["**bus**", "bus, kind fact only"]
    for method in ("**bus**", "bus, kind fact only", "BM25 over the claims"):
        assert results[method].recalls(10)[0] == 1, method  # refund and money are in the claim
    assert all(name.startswith("commit ") is False for name in results["bus, kind fact only"].answers[0].names)
    assert results["ranked grep over the pointed text"].answers[0].names[0] == "billing.py::refund"
    assert results["**bus**"].tokens_per_correct() is not None
    joined = join("twice", [measured, measured])
    assert joined.results[0].recalls(5) == measured.results[0].recalls(5) * 2


def test_a_replayed_task_counts_what_would_be_copied(history: Path, tmp_path: Path) -> None:
    repository = GitHistory(history)
    cut = read_history(repository, split=1 / 3, limit=None)
    replayed = replay(repository, cut, clone_at(history, cut.middle, tmp_path))
    cost = replayed.costs[0]
    assert cost.file_tokens == 4 * count_tokens(cut.texts["billing.py"])
    refund = "\n".join(cut.texts["billing.py"].splitlines()[17:20])
    assert cost.function_tokens == 4 * count_tokens(refund)
    assert (cost.hit, cost.read, cost.shown) == (1.0, 1.0, 1.0)
    assert cost.bus_tokens == cost.query_tokens + cost.read_tokens + cost.report_tokens + cost.brief_tokens
    assert min(cost[:4]) > 0
    assert all(len(hits) == len(cut.tasks) for hits in replayed.baseline_hits.values())


def test_a_vector_store_is_left_out_with_the_reason() -> None:
    assert find_model(requested=False) == "it was not asked for (--model)"


def test_with_the_model_the_bus_is_asked_by_meaning_beside_a_vector_store(history: Path, tmp_path: Path) -> None:
    model = find_model(requested=True)
    if isinstance(model, str):
        pytest.skip(model)
    repository = GitHistory(history)
    cut = read_history(repository, split=1 / 3, limit=None)
    measured = measure(commit_dataset(repository, cut), clone_at(history, cut.middle, tmp_path), model=model)
    results = {result.method: result for result in measured.results}
    for method in ("bus, by words and meaning", "vector store over the claims"):
        assert results[method].recalls(10)[0] == 1, method


@pytest.mark.parametrize("name", ["commits", "docstrings", "context", "turns"])
def test_a_run_prints_the_same_table_every_time(
    name: str, history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conversations = tmp_path / "conversations.json"
    conversations.write_text(json.dumps(LOCOMO * 2), "utf-8")
    arguments = [name, str(conversations if name == "turns" else history)]
    texts = []
    for _ in range(2):
        main(arguments)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0].startswith("### ")
    assert "ranked grep" in texts[0]
