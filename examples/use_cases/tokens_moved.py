"""Compares the tokens a team moved with copying the same code to its readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engrambus.core import estimate_tokens

from .commits import Commit, History
from .functions import Function
from .output import Output
from .team import TokenCount


class TokensMoved(NamedTuple):
    """Tokens of every text that was sent to or by an agent, beside three ways of copying."""

    by_kind: dict[str, int]
    readers: int
    """Agents that read lines: each would have got a copy."""
    files: int
    """The changed source files without tests, whole, once for each reader."""
    functions: int
    """Only the changed functions, once for each reader."""
    patch: int
    """Only the patch, once for each reader."""

    @property
    def bus(self) -> int:
        return sum(self.by_kind.values())

    @classmethod
    def compare(
        cls,
        count: TokenCount,
        history: History,
        commit: Commit,
        functions: Sequence[Function],
        files: dict[str, str],
    ) -> TokensMoved:
        """Count what copying a commit's files, functions or patch to all readers would have moved."""
        readers = len(count.readers)
        return cls(
            by_kind=dict(count.moved),
            readers=readers,
            files=readers * sum(estimate_tokens(files.get(change.path, "")) for change in commit.sources),
            functions=readers * sum(estimate_tokens(function.text(files)) for function in functions),
            patch=readers * estimate_tokens(history.patch(commit)),
        )


def print_tokens(output: Output, tokens: TokensMoved) -> None:
    """Print both tables: through the bus, and copied."""
    rows = [(kind, f"{moved:,}") for kind, moved in tokens.by_kind.items()]
    output.table(("through the bus", "tokens"), rows, total=("everything that was sent", f"{tokens.bus:,}"))
    copied = [
        ("the changed files, whole", tokens.files),
        ("only the changed functions", tokens.functions),
        ("only the patch", tokens.patch),
    ]
    shares = [(what, f"{moved:,}", f"{tokens.bus / moved:.0%}") for what, moved in copied if moved]
    output.table((f"copied to the {tokens.readers} agents that read lines", "tokens", "bus / copies"), shares)
