"""`python -m tests.docs.refresh [PAGE …]`: run every example again and write into the pages what it prints now."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs.examples import ROOT, Reader, examples, plain, settle
from tests.docs.test_examples import PAGES


def main() -> None:
    """Rewrite every example's output; tell which no longer printed what their page said."""
    for page in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory() as home:
            reader = Reader(Path(home))
            try:
                reader.start_bus()
                _refresh(ROOT / page, reader)
            finally:
                reader.leave()


def _refresh(page: Path, reader: Reader) -> None:
    lines = page.read_text("utf-8").splitlines()
    shift = 0
    for example in examples(page):
        printed = reader.run(example).replace(f":{reader.port}", ":7171")
        if example.language == "python":
            continue
        if settle(plain(printed), plain(example.expected)) != plain(example.expected):
            print(f"{page.name}:{example.line}: {example.command}")
        old = example.expected.splitlines()
        new = [line.rstrip() for line in printed.splitlines()]
        start = example.line + shift
        lines[start : start + len(old)] = new
        shift += len(new) - len(old)
    page.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
