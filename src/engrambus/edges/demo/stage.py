"""Showing a play on a terminal: who does what, what it costs, and the bill at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from engrambus.edges.cli.screen import safe_line
from engrambus.edges.demo.bill import Bill, Row

WIDEST = 96
IN_A_PIPE = 80
COLUMN = 6
"""Where what somebody does begins."""
COLOURS = {"lead": "magenta", "ada": "cyan", "ben": "green", "cleo": "blue"}


class Stage:
    """Prints a play, and pauses after each step so that people can follow."""

    def __init__(
        self,
        *,
        pace: float = 0.0,
        console: Console | None = None,
        sleep: Callable[[float], None] = time.sleep,
        silent: bool = False,
    ) -> None:
        on_terminal = sys.stdout.isatty()
        self.console = console or Console(
            width=None if on_terminal else IN_A_PIPE, highlight=False, emoji=False, markup=False, quiet=silent
        )
        if console is None and on_terminal:
            self.console.width = min(self.console.width, WIDEST)
        self._pace = pace
        self._sleep = sleep

    def scene(self, title: str) -> None:
        """Another part begins."""
        self.console.print()
        self.console.print(Text(title, style="bold"))

    def act(self, who: str, does: str, cost: int | None = None, *, style: str = "") -> None:
        """Somebody does something, at a cost in tokens."""
        words = Text(safe_line(does), style=style)
        price = Text(f"{cost:,} tok" if cost is not None else "", style="dim")
        row = Table.grid(padding=(0, 2), expand=True)
        row.add_column(width=COLUMN, no_wrap=True)
        row.add_column(ratio=1, overflow="fold")
        row.add_column(justify="right", no_wrap=True)
        row.add_row(Text(who, style=f"bold {COLOURS.get(who, '')}".strip()), words, price)
        self.console.print(Padding(row, (0, 0, 0, 2)))
        self._pause()

    def quote(self, lines: Iterable[str], *, most: int = 12) -> None:
        """Something that was sent, as it was."""
        shown = [safe_line(line) for line in lines]
        for line in shown[:most] if len(shown) > most + 1 else shown:
            text = Text(line, style="dim", overflow="ellipsis", no_wrap=True)
            self.console.print(Padding(text, (0, 0, 0, COLUMN + 4)))
        if len(shown) > most + 1:
            self.console.print(Padding(Text(f"… {len(shown) - most} lines more", style="dim"), (0, 0, 0, COLUMN + 4)))
        self._pause()

    def note(self, text: str, *, style: str = "dim") -> None:
        """Something for whoever watches."""
        self.console.print(Text(safe_line(text), style=style), soft_wrap=True)

    def bill(self, bill: Bill) -> None:
        """What it cost, and what copying would have."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_footer=True, expand=False)
        total = bill.total
        table.add_column("tokens moved", "in all")
        for title, count in (
            ("pointers", total.moved),
            ("lines pasted", total.lines),
            ("files pasted", total.files),
        ):
            table.add_column(title, f"{count:,}", justify="right", footer_style="bold")
        for row in bill.rows:
            table.add_row(row.what, *_cells(row))
        self.console.print()
        self.console.print(Padding(table, (0, 0, 0, 2)))

    def _pause(self) -> None:
        if self._pace > 0:
            self._sleep(self._pace)


def _cells(row: Row) -> tuple[str, str, str]:
    return f"{row.moved:,}", f"{row.lines:,}" if row.lines else "–", f"{row.files:,}" if row.files else "–"
