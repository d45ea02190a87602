"""`python -m tests.secrets [--tuning] [--show] [--texts FOLDER]`: the tables of the secret detector.

On the held-out half of the corpus, on every part of the second corpus, and on the texts of a folder, if one is named.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.secrets.corpus import HELD_OUT, TUNING
from tests.secrets.measure import measure_alarms, measure_recall, measure_speed, measure_texts, measure_unseen
from tests.secrets.unseen import PARTS

_REAL_CHARS = 20_000_000
_ROUNDS = 10


def print_unseen() -> None:
    """Print the parts of the second corpus: recall by family, false hits, and the kinds that are not always found."""
    for part in PARTS:
        unseen = measure_unseen(part, rounds=3)
        families = ", ".join(f"{family} {recall:.3f}" for family, recall in unseen.families().items())
        print(f"\npart {part}: recall {unseen.overall:.4f} of {unseen.tried.total()} ({families})")
        print(f"        {unseen.accused} of {unseen.texts} harmless texts accused")
        for (family, kind), tried in unseen.tried.items():
            if unseen.hidden[family, kind] < tried:
                print(f"        {family}: {kind} {unseen.hidden[family, kind]} of {tried}")


def main() -> None:
    """Print the table; `--show` only with `--tuning`, so that the held-out half stays unseen."""
    seed = TUNING if "--tuning" in sys.argv else HELD_OUT
    recall = measure_recall(seed, _ROUNDS)
    alarms = measure_alarms(seed, _REAL_CHARS)
    print(f"{'kind':26} {'found':>6} {'of':>6} {'recall':>7}")
    for kind in recall.tried:
        print(f"{kind:26} {recall.found[kind]:6} {recall.tried[kind]:6} {recall.found[kind] / recall.tried[kind]:7.3f}")
    print(f"\n{'place or wrapping':26} {'found':>6} {'of':>6} {'recall':>7}")
    for place, tried in recall.places_tried.items():
        print(f"{place:26} {recall.places_found[place]:6} {tried:6} {recall.places_found[place] / tried:7.3f}")
    print(f"\n{'innocent':26} {'alarms':>6} {'KB':>8} {'per 100 KB':>11}")
    for source, chars in sorted(alarms.chars.items()):
        print(f"{source:26} {alarms.alarms[source]:6} {chars / 1000:8.0f} {alarms.alarms[source] / chars * 1e5:11.3f}")
    print(f"\nrecall {recall.overall:.4f} over {recall.tried.total()} secrets of {len(recall.tried)} kinds")
    print(f"false positives {alarms.per_100_kb:.3f} per 100 KB over {alarms.chars.total() / 1e6:.1f} MB")
    print(f"speed {measure_speed(seed, _REAL_CHARS):.1f} MB/s")
    print_unseen()
    if "--texts" in sys.argv:
        folder = Path(sys.argv[sys.argv.index("--texts") + 1])
        for kind, (tried, accused) in measure_texts(folder).items():
            print(f"{kind:12} {accused} of {tried} texts accused: {accused / tried:.2%}")
    if "--show" in sys.argv and seed == TUNING:
        for sample in recall.missed:
            print("missed", sample.kind, sample.place, repr(sample.text[:200]))
        for source, examples in alarms.examples.items():
            for kind, text in examples:
                print("alarm", source, kind, repr(text))


main()
