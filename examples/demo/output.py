"""Prints the demo on a terminal: each agent's steps with their tokens, and the table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from engrambus.edges.cli.screen import safe_line

from .token_count import TokenCount, TokenRow

MAX_WIDTH = 96
PIPE_WIDTH = 80
NAME_WIDTH = 6
COLOURS = {"lead": "magenta", "ada": "cyan", "ben": "green", "cleo": "blue"}


class DemoOutput:
    """Prints steps and pauses after each, so that people can follow."""

    def __init__(
        self,
        *,
        pause_seconds: float = 0.0,
        console: Console | None = None,
        silent: bool = False,
    ) -> None:
        on_terminal = sys.stdout.isatty()
        self.console = console or Console(
            width=None if on_terminal else PIPE_WIDTH, highlight=False, emoji=False, markup=False, quiet=silent
        )
        if console is None and on_terminal:
            self.console.width = min(self.console.width, MAX_WIDTH)
        self._pause_seconds = pause_seconds

    def _print(self, padded: Padding) -> None:
        """Print without the blanks that fill up each line, which a pipe would keep."""
        with self.console.capture() as captured:
            self.console.print(padded)
        for line in captured.get().splitlines():
            self.console.file.write(line.rstrip() + "\n")

    def heading(self, title: str) -> None:
        """Print the title of the next part."""
        self.console.print()
        self.console.print(Text(title, style="bold"))

    def step(self, agent: str, action: str, tokens: int | None = None, *, style: str = "") -> None:
        """Print an agent's action and its tokens."""
        row = Table.grid(padding=(0, 2), expand=True)
        row.add_column(width=NAME_WIDTH, no_wrap=True)
        row.add_column(ratio=1, overflow="fold")
        row.add_column(justify="right", no_wrap=True)
        row.add_row(
            Text(agent, style=f"bold {COLOURS.get(agent, '')}".strip()),
            Text(safe_line(action), style=style),
            Text(f"{tokens:,} tok" if tokens is not None else "", style="dim"),
        )
        self._print(Padding(row, (0, 0, 0, 2)))
        self._pause()

    def quote(self, lines: Iterable[str], *, max_lines: int = 12) -> None:
        """Print a sent text as it was, cut after `max_lines`."""
        quoted = [safe_line(line) for line in lines]
        for line in quoted[:max_lines] if len(quoted) > max_lines + 1 else quoted:
            self._print_quoted(line, overflow=True)
        if len(quoted) > max_lines + 1:
            self._print_quoted(f"… {len(quoted) - max_lines} lines more")
        self._pause()

    def _print_quoted(self, line: str, *, overflow: bool = False) -> None:
        text = Text(line, style="dim", overflow="ellipsis", no_wrap=True) if overflow else Text(line, style="dim")
        self._print(Padding(text, (0, 0, 0, NAME_WIDTH + 4)))

    def note(self, text: str, *, style: str = "dim") -> None:
        """Print a remark for the person watching."""
        self.console.print(Text(safe_line(text), style=style), soft_wrap=True)

    def token_table(self, count: TokenCount) -> None:
        """Print the tokens moved beside what copying would have moved."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_footer=True, expand=False)
        total = count.total
        table.add_column("tokens moved", "total")
        for title, tokens in (
            ("pointers", total.moved),
            ("lines pasted", total.lines_pasted),
            ("files pasted", total.files_pasted),
        ):
            table.add_column(title, f"{tokens:,}", justify="right", footer_style="bold")
        for row in count.rows:
            table.add_row(row.label, *_cells(row))
        self.console.print()
        self._print(Padding(table, (0, 0, 0, 2)))

    def _pause(self) -> None:
        if self._pause_seconds > 0:
            time.sleep(self._pause_seconds)


def _cells(row: TokenRow) -> tuple[str, str, str]:
    return (
        f"{row.moved:,}",
        f"{row.lines_pasted:,}" if row.lines_pasted else "–",
        f"{row.files_pasted:,}" if row.files_pasted else "–",
    )
