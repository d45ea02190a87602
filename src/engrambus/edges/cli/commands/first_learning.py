"""Learning at the first start of a project: an empty memory is filled while the page is already being served."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from engrambus.edges.cli.commands.learn import LearnProgress, LearnReport, learn_from
from engrambus.edges.cli.screen import dim
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.gateway import Gateway

STOP_SECONDS = 30.0


class _Stopped(Exception):
    """The server is stopping."""


class _StoppableProgress(LearnProgress):
    """Shows progress on a terminal and nothing in a pipe, and ends the work when the server stops."""

    def __init__(self, session: Session, stop: threading.Event) -> None:
        super().__init__(session if sys.stderr.isatty() and not session.json else None)
        self._stop = stop

    def __call__(self, part: str, done: int, total: int) -> None:
        """Show that `done` of `total` are done; raise if the server is stopping."""
        if self._stop.is_set():
            raise _Stopped
        super().__call__(part, done, total)


class FirstLearning:
    """A thread that learns from the repository if the project's memory is empty."""

    def __init__(self, session: Session, gateway: Gateway) -> None:
        self._session = session
        self._gateway = gateway
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, if nothing was ever stated or learned here and there is a repository with a commit."""
        from engrambus.errors import EngramBusError
        from engrambus.gateway import LOCAL_ADMIN
        from engrambus.operations import OPERATIONS
        from engrambus.operations.learn import ReadLearned

        try:
            state = self._gateway.call(OPERATIONS["read_learned"], ReadLearned(), LOCAL_ADMIN)
            if state.commit is not None or state.engrams or state.keys:
                return
            self._gateway.project_files.head()
        except EngramBusError:
            return
        self._session.note(dim("The memory is empty: learning from what this repository says …"))
        self._thread = threading.Thread(target=self._learn, name="first learning", daemon=True)
        self._thread.start()

    def _learn(self) -> None:
        from engrambus.errors import EngramBusError
        from engrambus.gateway import LOCAL_ADMIN

        try:
            report = learn_from(self._gateway, LOCAL_ADMIN, progress=_StoppableProgress(self._session, self._stop))
        except _Stopped:
            return
        except EngramBusError as problem:
            if not self._stop.is_set():
                self._session.note(dim(f"Nothing was learned: {problem.detail} Try again: engrambus learn"))
            return
        self._session.note(dim(_outcome(report)))

    def __enter__(self) -> FirstLearning:
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)


def _outcome(report: LearnReport) -> str:
    if not report.put:
        return "The repository says nothing that could be learned."
    return f"Learned {report.put:,} claims from {report.commit[:10]}; engrambus learn brings them up to date."
