"""The table of results, by form of answer and by language or package."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tests.tokens.measure import Measure, measures


def table() -> str:
    forms, sources = defaultdict(list), defaultdict(list)
    for measure in measures():
        forms[measure.case.form].append(measure)
        sources[measure.case.source].append(measure)
    rows = [f"{'estimate / real tokens':<24}{'cases':>7}{'lowest':>9}{'mean':>9}{'below':>8}"]
    for groups in (forms, sources):
        rows += [_row(name, group) for name, group in sorted(groups.items())]
        rows.append("")
    return "\n".join([*rows, _row("all", measures())])


def _row(name: str, group: Iterable[Measure]) -> str:
    ratios = [measure.ratio for measure in group]
    below = sum(ratio < 1 for ratio in ratios) / len(ratios)
    return f"{name:<24}{len(ratios):>7}{min(ratios):>9.3f}{sum(ratios) / len(ratios):>9.3f}{below:>8.1%}"
