"""Results as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from eval.measurement import Measured, MethodResult
from eval.metrics import DEFAULT_SEED, Interval, bootstrap, difference

HOW_TO_READ = (
    "R@k is the share of what should be found that is among the first k, averaged over the questions; MRR the mean of "
    "1 / the rank of the first correct one. In brackets: 95 % bootstrap intervals over the questions. *bus − this* "
    "compares R@10 question by question."
)


def table(measured: Measured, *, depths: Sequence[int] = (5, 10), seed: int = DEFAULT_SEED) -> str:
    """Return one table with a line for each method, and the notes below it."""
    with_files = any(question.files for question in measured.dataset.questions)
    heads = ["method", *(f"R@{k}" for k in depths), "MRR"]
    heads += ["files R@3"] if with_files else []
    heads += ["tokens per correct pointer", "bus − this"]
    lines = [f"### {measured.dataset.title}", "", _row(heads), _row(["---"] * len(heads))]
    ours = measured.results[0]
    for result in measured.results:
        cells = [result.method, *(print_interval(bootstrap(result.recalls(k), seed=seed)) for k in depths)]
        cells.append(print_interval(bootstrap(result.reciprocal_ranks(), seed=seed)))
        if with_files:
            cells.append(print_interval(bootstrap(result.file_recalls(3), seed=seed)))
        cells += [_tokens(result), "–" if result is ours else _difference(ours, result, seed)]
        lines.append(_row(cells))
    count = len(measured.dataset.questions)
    notes = [f"{count} questions, {len(measured.dataset.items)} engrams.", *measured.dataset.notes, *measured.notes]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)])


def print_interval(interval: Interval) -> str:
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _difference(ours: MethodResult, other: MethodResult, seed: int) -> str:
    interval = difference(ours.recalls(10), other.recalls(10), seed=seed)
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def _tokens(result: MethodResult) -> str:
    tokens = result.tokens_per_correct()
    return "–" if tokens is None else f"{tokens:,.0f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
