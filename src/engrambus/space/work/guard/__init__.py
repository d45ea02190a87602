"""Limits on the machine: a step's processes, all of them, use no more CPU, RAM and disk than the step may."""

from engrambus.space.work.guard.contained_process import ContainedProcess, Containment, find_containment
from engrambus.space.work.guard.effects import (
    WriteLimits,
    can_hold_effects,
    describe_effects,
    find_violation,
    write_limits,
)
from engrambus.space.work.guard.limit_enforcer import LimitEnforcer, StepWatch
from engrambus.space.work.guard.processes import PeakRam, reap

__all__ = [
    "ContainedProcess",
    "Containment",
    "LimitEnforcer",
    "PeakRam",
    "StepWatch",
    "WriteLimits",
    "can_hold_effects",
    "describe_effects",
    "find_containment",
    "find_violation",
    "reap",
    "write_limits",
]
