"""How far long work has come: a bar or a line on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from rich.status import Status


class Bytes:
    """A bar over bytes, to be told how many of how many are done; 0 in all means that nobody knows.

    It appears with the first news that is not already the last, and goes when the work is done.
    """

    def __init__(self, working: str) -> None:
        self._working = working
        self._shown: tuple[Progress, TaskID] | None = None
        self._shows = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        """So much is done."""
        if not self._shows:
            return
        ended = 0 < total <= done
        if self._shown is None and not ended:
            bar = _make_bar()
            self._shown = bar, bar.add_task(self._working, total=total or None)
            bar.start()
        if self._shown is not None:
            bar, task = self._shown
            bar.update(task, completed=done)
            if ended:
                self.close()

    def close(self) -> None:
        """Take the bar away."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None

    def __enter__(self) -> Bytes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Standing:
    """One line that says how long work stands, below what it prints; nothing in a pipe."""

    def __init__(self) -> None:
        self._shown: Status | None = None
        self.shows = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """So it stands now."""
        if not self.shows:
            return
        if self._shown is None:
            from rich.console import Console

            self._shown = Console(stderr=True, markup=False, highlight=False, emoji=False).status(text)
            self._shown.start()
        self._shown.update(text)

    def print(self, line: str) -> None:
        """A line of the work's own: above the one that stands there, where both are on a terminal."""
        if self._shown is not None and sys.stdout.isatty():
            self._shown.console.print(line, soft_wrap=True)
        else:
            click.echo(line)

    def close(self) -> None:
        """Take the line away."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None


def _make_bar() -> Progress:
    """A bar on stderr that leaves nothing behind."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
