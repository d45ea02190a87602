"""`python -m tests.recall [--tuning] [--show]`: precision of what prompts get unasked."""

from __future__ import annotations

import sys

from tests.recall.measure import measure


def main() -> None:
    """Print one row; `--show` only with `--tuning`, so that the test part stays unseen."""
    tuning = "--tuning" in sys.argv
    part = "tune" if tuning else "test"
    row = measure(part, show=tuning and "--show" in sys.argv)
    print(f"{part}: {row.prompts} prompts; {row.shown} engrams shown, {row.right} of them wanted: {row.precision:.2f}")
    print(f"wanted {row.wanted}, shown {row.found}: {row.recall:.2f}")
    print(f"prompts without anything to show: {row.without}, of which {row.quiet} got nothing")


if __name__ == "__main__":
    main()
