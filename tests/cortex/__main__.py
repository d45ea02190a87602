"""`python -m tests.cortex`: what the conflict detector finds, and what it gets wrong in the half it was tuned on."""

from __future__ import annotations

from collections import Counter

from tests.cortex.measure import measure, pairs


def main() -> None:
    """Print precision and recall of each half, and the mistakes in the tuned one."""
    print("pairs:", ", ".join(f"{count} {label}" for label, count in Counter(each.label for each in pairs()).items()))
    for half in ("tuned", "held", "later", "unseen", "last", None):
        told = measure(half)
        print(f"{half or 'all':6} precision {told.precision:.3f}  recall {told.recall:.3f}  {told}")
    for pair in pairs("tuned"):
        if pair.found != (pair.label == "contradiction"):
            print(f"{'false' if pair.found else 'missed'}  [{pair.label}] {pair.one} | {pair.other}")


if __name__ == "__main__":
    main()
