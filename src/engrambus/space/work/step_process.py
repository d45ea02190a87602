"""Supervision of a running step, shared by commands and warm processes: its limits and its end."""

from __future__ import annotations

from engrambus.core import Clock, print_micros
from engrambus.errors import BudgetExceeded, DeadlinePast, DiskQuota, EngramBusError, MemoryQuota, error_line
from engrambus.space.work.guard import StepWatch
from engrambus.space.work.ports import ReportSpending, StepRequest
from engrambus.space.work.step_folder import StepFolder

POLL_SECONDS = 0.1
"""Interval at which a running step's spending and limits are checked."""
STOPPED_EXIT = 143
"""Exit status recorded for a step that was stopped: 128 + SIGTERM."""


def environment_mark(name: str, value: str) -> str:
    """Return a variable as /proc shows it; every process a step starts inherits it and is recognised by it."""
    return f"{name}={value}\0"


def check_running(
    request: StepRequest, folder: StepFolder, report_spending: ReportSpending, clock: Clock, watch: StepWatch
) -> EngramBusError | None:
    """Report what a running step has spent; return the reason if it must stop."""
    try:
        folder.report_spending(report_spending)
        check_limits(request, folder, watch)
        if request.deadline_us is not None and clock.now() >= request.deadline_us:
            raise DeadlinePast
        stop_reason = request.stop_reason()
        if stop_reason is not None:
            raise stop_reason
    except EngramBusError as refusal:
        return refusal
    return None


def conclude(
    request: StepRequest,
    folder: StepFolder,
    report_spending: ReportSpending,
    watch: StepWatch,
    refusal: EngramBusError | None,
    peak_bytes: int,
    shared_memory_bytes: int = 0,
) -> EngramBusError | None:
    """Check an ended step once more and return why it failed, if it did; the reason is added to its standard error.

    `peak_bytes` is the most RAM one of its processes held at once, 0 if unknown; `shared_memory_bytes` is what it left
    in a /dev/shm of its own, of which the kernel counts no writes.
    """
    ram_bytes, disk_bytes = request.limits.ram_bytes, request.limits.disk_bytes
    folder.written_bytes = watch.written_bytes + shared_memory_bytes
    try:
        folder.report_spending(report_spending, last=True)
        if ram_bytes is not None and peak_bytes > ram_bytes:
            raise MemoryQuota(limit=ram_bytes, used=peak_bytes)
        if disk_bytes is not None and shared_memory_bytes > disk_bytes:
            raise DiskQuota(limit=disk_bytes, used=shared_memory_bytes)
        check_limits(request, folder, watch)
    except EngramBusError as late_refusal:
        refusal = refusal or late_refusal
    truncated = disk_bytes is not None and folder.truncate(disk_bytes)
    if refusal is not None:
        folder.add_error_line(f"stopped: {error_line(refusal)}")
    if truncated:
        folder.add_error_line(f"Output beyond {disk_bytes} bytes was dropped, and so were all artifacts.")
    return refusal


def check_limits(request: StepRequest, folder: StepFolder, watch: StepWatch) -> None:
    """Raise if a step is over a quota of the machine or over its budget."""
    limits = request.limits
    if watch.refusal is not None:
        raise watch.refusal
    if limits.disk_bytes is not None and (size := folder.size(limits.disk_bytes)) > limits.disk_bytes:
        raise DiskQuota(limit=limits.disk_bytes, used=size)
    spent = folder.cost_file.total
    if limits.tokens is not None and spent.tokens > limits.tokens:
        raise BudgetExceeded(
            "The step has spent its tokens.", field="budget_tokens", limit=limits.tokens, used=spent.tokens
        )
    if limits.usd_micros is not None and spent.micros > limits.usd_micros:
        raise BudgetExceeded(
            "The step has spent its money.",
            field="budget_usd",
            limit=print_micros(limits.usd_micros),
            used=print_micros(spent.micros),
        )
