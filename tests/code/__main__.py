"""`python -m tests.code`: the table of results, and some errors on the tuning half."""

from __future__ import annotations

from engrambus.knowledge.messages import find_code
from tests.code.measure import Count, measure, total

MAX_EXAMPLES = 12


def row(name: str, tuning: Count, held_out: Count) -> str:
    return f"  {name:<14} {tuning.samples:>6} {tuning.share:>8.2%}   {held_out.samples:>6} {held_out.share:>8.2%}"


def table(title: str, tuning: dict[str, Count], held_out: dict[str, Count]) -> None:
    print(f"{title:<16} tuning    found   held out    found")
    for kind in sorted({*tuning, *held_out}):
        print(row(kind, tuning.get(kind, Count()), held_out.get(kind, Count())))
    print(row("all", total(tuning.values()), total(held_out.values())) + "\n")


def main() -> None:
    tuning, held_out = measure(held_out=False), measure(held_out=True)
    table("snippets", tuning.snippets, held_out.snippets)
    table("prose", tuning.prose, held_out.prose)
    for title, counts in (("code not found", tuning.snippets), ("prose taken for code", tuning.prose)):
        wrong = sorted(
            (sample for count in counts.values() for sample in count.wrong), key=lambda sample: sample.number
        )
        print(f"{title}: {len(wrong)} in the tuning half")
        for sample in wrong[:MAX_EXAMPLES]:
            print(f"--- {sample.kind}, {sample.origin}\n{sample.text[:600]}")
            for span in find_code(sample.text):
                print(f"    {span.kind}: {sample.text[span.start : span.end][:120]!r}")
        print()


if __name__ == "__main__":
    main()
