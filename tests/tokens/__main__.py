"""`python -m tests.tokens`: the table of results."""

from __future__ import annotations

from tests.tokens.table import table

if __name__ == "__main__":
    print(table())
