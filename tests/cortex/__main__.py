"""`python -m tests.cortex`: precision and recall of the contradiction detector, and its mistakes in the tuned group."""

from __future__ import annotations

from collections import Counter

from tests.cortex.measure import measure, measure_nearest, pairs


def main() -> None:
    """Print precision and recall of each group, and the mistakes in the tuned one."""
    print("pairs:", ", ".join(f"{count} {label}" for label, count in Counter(pair.label for pair in pairs()).items()))
    for group in ("tuned", "held", "later", "unseen", "last", None):
        result = measure(group)
        print(f"{group or 'all':6} precision {result.precision:.3f}  recall {result.recall:.3f}  {result}")
    print("nearest, among 40 earlier claims:", measure_nearest(crowded=False))
    print("nearest, among all of the others:", measure_nearest(crowded=True))
    for pair in pairs("tuned"):
        if pair.is_flagged != (pair.label == "contradiction"):
            print(f"{'false' if pair.is_flagged else 'missed'}  [{pair.label}] {pair.first} | {pair.second}")


if __name__ == "__main__":
    main()
