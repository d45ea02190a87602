"""The port between a worker and what runs its steps, and the progress a worker reports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from engrambus.errors import EngramBusError
from engrambus.evidence.receipts import Artifact
from engrambus.policy.guardrails import NO_LIMITS, Ceiling, StepLimits
from engrambus.space.catalog import Yool
from engrambus.space.tuples import Fence, Price


class StepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One step to be run."""

    yool: Yool
    args: Mapping[str, Any]
    tuple_id: str
    step: int
    fence: Fence | None = None
    """Claim the step is executed under; without one its spending is not counted if this process dies."""
    root: Path
    """Folder of the project, in which the step runs."""
    env: Mapping[str, str]
    """Complete environment of the step."""
    limits: StepLimits = NO_LIMITS
    ceiling: Ceiling | None = None
    """Limits on the steps of its tuple that run at once, together."""
    deadline_us: int | None = None
    """Time at which the step is stopped."""
    stop_reason: Callable[[], EngramBusError | None] = lambda: None
    """Returns why the step must stop, once somebody else has spent its budget."""


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one step: its exit status, and the digests of what it printed and left."""

    exit: int
    stdout_sha: str
    stderr_sha: str
    artifacts: tuple[Artifact, ...] = ()
    usd_micros: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    stored_bytes: int = 0
    """Size of output and artifacts together."""
    written_bytes: int = 0
    """Bytes it wrote to disks and to its own /dev/shm, wherever, as far as they are counted."""
    error: str | None = None
    """Short reason why the step did not succeed."""


ReportSpending = Callable[[Price], EngramBusError | None]
"""Called with a step's total spending while it runs and when it has ended. Counts it and returns the reason if the step
must stop; raises if the spending could not be counted."""


class StepRunner(Protocol):
    """Runs steps. Safe to call from several threads."""

    def run(self, request: StepRequest, report_spending: ReportSpending, stop: threading.Event) -> StepOutcome:
        """Run one step to its end, or until `stop` is set; its output is stored before this returns."""
        ...

    def describe_limits(self) -> str:
        """Say in a few words how limits are enforced on this machine."""
        ...

    def holds_effects(self) -> bool:
        """True if a step that tries what its declared effect rules out is refused; else files are compared."""
        ...

    def sweep(self, count_spending: Callable[[str, Fence, int, Price], object]) -> None:
        """Count what steps of killed workers reported as spent, by tuple, claim and step, then delete their folders."""
        ...

    def close(self) -> None: ...


ProgressKind = Literal[
    "hit", "miss", "failed", "refused", "done", "again", "dead", "lost", "damaged", "pressure", "handed on"
]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened while a worker worked; `engrambus worker --json` prints it."""

    kind: ProgressKind = msgspec.field(name="what")
    tuple_id: str
    yool: str = ""
    """The yool that was run, with its version."""
    called: str = ""
    """The yool as the tuple names it, often without a version."""
    step: int | None = None
    receipt: str | None = None
    stdout_sha: str | None = None
    """Digest of what a failed step printed."""
    stderr_sha: str | None = None
    usd_micros: int = msgspec.field(name="micros", default=0)
    """Cost of this step."""
    wall_ms: int = 0
    """Time that this step took."""
    total_usd_micros: int = msgspec.field(name="total", default=0)
    """Cost of the tuple's steps so far in this attempt."""
    changed_files: tuple[str, ...] = msgspec.field(name="changed", default=())
    """Files that changed while the step ran, so that its result is not reused; as in the receipt."""
    error: str | None = None
