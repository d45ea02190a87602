"""Counts the tokens the demo moves, beside what copying the same lines or files would have moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engrambus.core import estimate_tokens

from .survey import Span


class TokenRow(NamedTuple):
    """Tokens moved by one kind of traffic."""

    label: str
    moved: int
    lines_pasted: int = 0
    """Tokens had the pointed lines been pasted, once for each reader."""
    files_pasted: int = 0
    """Tokens had the whole files been pasted, once for each reader."""


class TokenCount:
    """Token counts by kind of traffic."""

    def __init__(self, files: Mapping[str, str], spans: Iterable[Span], sha: str) -> None:
        self._files = files
        self._spans = {span.ref(sha): span for span in spans}
        self._rows: dict[str, TokenRow] = {}
        self._received: set[tuple[str, object]] = set()

    def add_message(self, label: str, text: str, readers: Iterable[str]) -> int:
        """Count a text for each reader and return its tokens. Copying would have pasted what it points at as well."""
        tokens = estimate_tokens(text)
        pointed = [span for ref, span in self._spans.items() if ref in text]
        for reader in readers:
            lines = sum(self._first_time(reader, span, self._lines(span)) for span in pointed)
            files = sum(self._first_time(reader, span.path, self._files[span.path]) for span in pointed)
            self._add(TokenRow(label, tokens, tokens + lines, tokens + files))
        return tokens

    def add_overhead(self, label: str, text: str) -> int:
        """Count a text that copying would not have needed and return its tokens."""
        tokens = estimate_tokens(text)
        self._add(TokenRow(label, tokens))
        return tokens

    @property
    def rows(self) -> list[TokenRow]:
        """Rows in the order in which their kind of traffic first occurred."""
        return list(self._rows.values())

    @property
    def total(self) -> TokenRow:
        """The sum over all rows."""
        return TokenRow(
            "total",
            sum(row.moved for row in self.rows),
            sum(row.lines_pasted for row in self.rows),
            sum(row.files_pasted for row in self.rows),
        )

    def _add(self, row: TokenRow) -> None:
        previous = self._rows.get(row.label, TokenRow(row.label, 0))
        self._rows[row.label] = TokenRow(
            row.label,
            previous.moved + row.moved,
            previous.lines_pasted + row.lines_pasted,
            previous.files_pasted + row.files_pasted,
        )

    def _first_time(self, reader: str, content: object, text: str) -> int:
        """Return the tokens of a text if this reader has not received that content yet, else 0."""
        if (reader, content) in self._received:
            return 0
        self._received.add((reader, content))
        return estimate_tokens(text)

    def _lines(self, span: Span) -> str:
        return "".join(self._files[span.path].splitlines(keepends=True)[span.first - 1 : span.last])
