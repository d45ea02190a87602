"""`python -m tests.staleness REPOSITORY…`: the states of spans drawn from real histories, compared with plain git."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.staleness.measure import CLASSES, Table, measure

MAX_EXAMPLES = 10


def show(title: str, table: Table) -> None:
    total = sum(table.counts.values())
    print(f"\n{title}: {total} spans, {len(table.wrong)} wrong")
    print(f"  {'truth':<10}" + "".join(f"{state:>9}" for state in (*CLASSES, "none")) + "   precision  recall")
    for true in CLASSES:
        row = "".join(f"{table.counts[true, given]:>9}" for given in (*CLASSES, "none"))
        print(f"  {true:<10}{row}   {table.precision(true):9.3f}  {table.recall(true):6.3f}")
    cold, warm = (sum(times) / len(times) * 1000 for times in (table.cold_s, table.warm_s))
    print(f"  processor time for 50 pointers: {cold:.0f} ms at first, {warm:.1f} ms when asked again")
    for span, true, given in table.wrong[:MAX_EXAMPLES]:
        print(f"    {span.commit[:12]} {span.path}:{span.first}-{span.last} is {true}, given {given}")


def main() -> None:
    options = argparse.ArgumentParser(prog="tests.staleness", description=__doc__)
    options.add_argument("repositories", nargs="+", type=Path)
    options.add_argument("--spans", type=int, default=600)
    options.add_argument("--seed", type=int, default=17)
    chosen = options.parse_args()
    for repository in chosen.repositories:
        with tempfile.TemporaryDirectory(prefix="engrambus-staleness-") as scratch:
            tables = measure(repository, Path(scratch), chosen.spans, chosen.seed)
        for name, table in tables.items():
            show(f"{repository.parent.name if repository.name == 'repo' else repository.name}, {name}", table)


if __name__ == "__main__":
    main()
