"""How far long work has come: a bar on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bytes:
    """A bar over bytes, for callbacks told how many of how many are done. It appears with the first news that is not
    already the last, and goes when the work is done."""

    def __init__(self, working: str) -> None:
        self._working = working
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._shows = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        """So much is done."""
        if not self._shows:
            return
        if self._bar is None or self._task is None:
            if done >= total:
                return
            self._bar = make_bar()
            self._task = self._bar.add_task(self._working, total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)
        if done >= total:
            self.close()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def make_bar() -> Progress:
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
