"""Guards: they see to it that the processes of a step, all of them, take no more of the machine than they may."""

from engrambus.space.work.guard.memory import OwnPeak, reap
from engrambus.space.work.guard.warden import Warden, Watch

__all__ = ["OwnPeak", "Warden", "Watch", "reap"]
