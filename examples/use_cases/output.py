"""Prints a use case: each agent's steps with their tokens, and the tables at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from engrambus import EngramBusError
from engrambus.edges.cli.screen import safe_line

MAX_WIDTH = 96
PIPE_WIDTH = 80
NAME_WIDTH = 6
COLOURS = {"architect": "magenta", "director": "blue", "manager": "yellow", "programmer": "cyan"}


class Output:
    """Prints steps and pauses after each, so that people can follow; without colours unless on a terminal."""

    def __init__(self, *, pause_seconds: float = 0.0, console: Console | None = None, silent: bool = False) -> None:
        on_terminal = sys.stdout.isatty()
        self.console = console or Console(
            width=None if on_terminal else PIPE_WIDTH, highlight=False, emoji=False, markup=False, quiet=silent
        )
        if console is None and on_terminal:
            self.console.width = min(self.console.width, MAX_WIDTH)
        self._pause_seconds = pause_seconds

    def heading(self, title: str) -> None:
        """Print the title of the next part."""
        self.console.print()
        self.console.print(Text(title, style="bold"))

    def step(self, agent: str, action: str, tokens: int | None = None, *, role: str = "", style: str = "") -> None:
        """Print an agent's action and the tokens that were sent."""
        row = Table.grid(padding=(0, 2), expand=True)
        row.add_column(width=NAME_WIDTH, no_wrap=True)
        row.add_column(ratio=1, overflow="fold")
        row.add_column(justify="right", no_wrap=True)
        row.add_row(
            Text(agent, style=f"bold {COLOURS.get(role, '')}".strip()),
            Text(safe_line(action), style=style),
            Text(f"{tokens:,} tok" if tokens is not None else "", style="dim"),
        )
        self._print(Padding(row, (0, 0, 0, 2)))
        if self._pause_seconds > 0:
            time.sleep(self._pause_seconds)

    def quote(self, lines: Iterable[str], *, max_lines: int = 8) -> None:
        """Print a text as it was sent, its long lines cut, and cut after `max_lines`."""
        quoted = [safe_line(line) for line in lines]
        shown = quoted[:max_lines] if len(quoted) > max_lines + 1 else quoted
        more = [f"… {len(quoted) - len(shown)} lines more"] if len(shown) < len(quoted) else []
        for line in [*shown, *more]:
            text = Text(line, style="dim", overflow="ellipsis", no_wrap=True)
            self._print(Padding(text, (0, 0, 0, NAME_WIDTH + 4)))

    def note(self, text: str, *, style: str = "dim") -> None:
        """Print a remark for the person watching."""
        self.console.print(Text(safe_line(text), style=style), soft_wrap=True)

    def warn(self, error: EngramBusError) -> None:
        """Print what a limit or a contradiction warns of; that a claim is near another one is no problem."""
        if error.code not in ("CLAIM_NEAR", "CLAIM_CONFIRMED"):
            self.note(error.detail, style="yellow")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, total: Sequence[str] = ()) -> None:
        """Print a table whose first column is text and whose others are numbers."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_footer=bool(total), expand=False)
        for index, title in enumerate(columns):
            footer = total[index] if total else ""
            table.add_column(title, footer, justify="right" if index else "left", footer_style="bold")
        for row in rows:
            table.add_row(*row)
        self._print(Padding(table, (0, 0, 0, 2)))

    def _print(self, padded: Padding) -> None:
        """Print without the blanks that fill up each line, which a pipe would keep."""
        with self.console.capture() as captured:
            self.console.print(padded)
        for line in captured.get().splitlines():
            self.console.file.write(line.rstrip() + "\n")
