"""Limits on the machine: a step's processes, all of them, use no more CPU, RAM and disk than the step may."""

from engrambus.space.work.guard.limit_enforcer import LimitEnforcer, StepWatch
from engrambus.space.work.guard.processes import PeakRam, reap

__all__ = ["LimitEnforcer", "PeakRam", "StepWatch", "reap"]
