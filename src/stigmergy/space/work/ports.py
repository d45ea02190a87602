"""What a worker asks of whatever runs a step, and what it tells about how it goes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from stigmergy.evidence.receipts import Artifact
from stigmergy.space.catalog import Terms, Yool
from stigmergy.space.tuples import Price


class StepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One step to be run."""

    yool: Yool
    args: Mapping[str, Any]
    tuple_id: str
    step: int
    root: Path
    """The project's folder, where it is run."""
    env: Mapping[str, str]
    """All it sees of the environment."""
    terms: Terms
    """What it may spend: the tuple's terms, and where those say nothing the yool's."""
    deadline: int | None
    """The moment at which it is stopped."""


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    exit: int
    stdout_sha: str
    stderr_sha: str
    artifacts: tuple[Artifact, ...] = ()
    usd_micros: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    kept_bytes: int = 0
    """How much was kept of output and artifacts."""
    error: str | None = None
    """In short, why it did not succeed."""


Told = Callable[[Price], None]
"""Told, while a step runs, what it has spent since the last time; raises when it must stop."""


class StepRunner(Protocol):
    """Runs steps. Safe under threads."""

    def run(self, request: StepRequest, told: Told, stop: threading.Event) -> StepOutcome:
        """Run one step to its end, or until it is told to stop; its output is kept before this returns."""
        ...

    def close(self) -> None:
        """Let go of every process."""
        ...


What = Literal["hit", "miss", "failed", "done", "again", "dead", "lost", "damaged"]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened while a worker worked."""

    what: What
    tuple_id: str
    yool: str = ""
    step: int | None = None
    receipt: str | None = None
    micros: int = 0
    """What it cost."""
    total: int = 0
    """What the tuple's steps cost so far in this attempt, in micro-dollars."""
    error: str | None = None
