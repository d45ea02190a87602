"""What a worker asks of whatever runs a step, and what it tells about how it goes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from engrambus.errors import EngramBusError
from engrambus.evidence.receipts import Artifact
from engrambus.policy.guardrails import NO_LIMITS, StepLimits
from engrambus.space.catalog import Yool
from engrambus.space.tuples import Fence, Price


class StepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One step to be run."""

    yool: Yool
    args: Mapping[str, Any]
    tuple_id: str
    step: int
    fence: Fence | None = None
    """The claim it is executed under; without one, what it spends is not counted should this process die."""
    root: Path
    """The project's folder, where it is run."""
    env: Mapping[str, str]
    """All it sees of the environment."""
    limits: StepLimits = NO_LIMITS
    """What it may take of the machine, and what it may spend itself."""
    deadline: int | None = None
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


Told = Callable[[Price], EngramBusError | None]
"""Told, while a step runs and when it has ended, what it has spent in all. Counts it, and tells why the step must stop,
if it must; raises when it could not be counted."""


class StepRunner(Protocol):
    """Runs steps. Safe under threads."""

    def run(self, request: StepRequest, told: Told, stop: threading.Event) -> StepOutcome:
        """Run one step to its end, or until it is told to stop; its output is kept before this returns."""
        ...

    def note(self) -> str:
        """How it holds steps to their quotas, in a few words for people."""
        ...

    def sweep(self, spend: Callable[[str, Fence, int, Price], object]) -> None:
        """Count what steps of killed workers said they spent, by tuple, claim and step; take away what they left."""
        ...

    def close(self) -> None:
        """Let go of every process."""
        ...


What = Literal["hit", "miss", "failed", "refused", "done", "again", "dead", "lost", "damaged", "pressure"]


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
