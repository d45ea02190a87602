"""Progress of long work on a terminal: a bar or a status line on stderr; nothing in a pipe."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from rich.status import Status


class ProgressBar:
    """A bar over bytes, called with how many of how many are done; a total of 0 means that it is not known.

    It appears with the first call that does not already complete the work, and disappears when the work is done.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: tuple[Progress, TaskID] | None = None
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` bytes are done."""
        if not self._is_terminal:
            return  # and rich, which is slow to load, is never imported
        complete = 0 < total <= done
        if self._bar is None and not complete:
            bar = _transient_bar()
            self._bar = bar, bar.add_task(self._label, total=total or None)
            bar.start()
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, completed=done)
            if complete:
                self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StatusLine:
    """One line that is rewritten in place, below the lines that the work prints."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self.is_visible = sys.stderr.isatty()

    def update(self, text: str) -> None:
        """Show a new text; do nothing in a pipe."""
        if not self.is_visible:
            return
        if self._status is None:
            from rich.console import Console

            # Without markup: the text holds names that agents chose.
            self._status = Console(stderr=True, markup=False, highlight=False, emoji=False).status(text)
            self._status.start()
        self._status.update(text)

    def print(self, line: str) -> None:
        """Print a line of output; above the status line where both are on a terminal."""
        if self._status is not None and sys.stdout.isatty():
            self._status.console.print(line, soft_wrap=True)
        else:
            click.echo(line)

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _transient_bar() -> Progress:
    """Return a bar on stderr that leaves nothing behind."""
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
