"""The effect that a yool declares, held by the kernel: where a step may write, and whether it may use TCP.

Landlock holds it on Linux (decision 105). A step that is refused a write usually fails with the system's own message;
`find_violation` recognises it there, so that the failure can name what was tried.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from engrambus.errors import EffectViolated
from engrambus.space.catalog import Effect
from engrambus.space.work.guard.process_rules import TCP_ABI, landlock_abi
from engrambus.space.work.guard.step_supervisor import REFUSE_TCP

NETWORK = "the network"
NOT_EXECUTABLE_EXIT = 126
"""Exit status of a shell for a program it is not permitted to run, which is no write."""
_SHARED = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"),
    *("/dev/shm", "/proc/self/."),  # noqa: S108
)
"""Paths that every step may write to: nothing in them outlives it, where it has a /dev/shm of its own."""
_DENIED = re.compile(r"permission denied|\bEACCES\b", re.IGNORECASE)
_QUOTED = re.compile("['\"‘“]([^'\"‘’“”]+)['\"’”]")
_BEFORE_DENIED = re.compile(r"(?:^|[:\s])([^:\s]+): permission denied\W*$", re.IGNORECASE)
_NETWORK_WORDS = re.compile(r"\b(connect|bind|listen|socket|urlopen)", re.IGNORECASE)


class WriteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Where the processes of a step may write, and whether they may use TCP."""

    effect: Effect
    """The effect its yool declares."""
    writable: tuple[str, ...]
    """Files, and folders beneath which everything may be written."""
    refuses_tcp: bool

    def to_rules(self) -> list[str]:
        """Return the limits as a supervisor takes them."""
        return [REFUSE_TCP.decode() if self.refuses_tcp else "", *self.writable]

    def allows(self, path: str) -> bool:
        """True if a path is one of those that may be written, or lies beneath one."""
        return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in self.writable)


@cache
def _abi() -> int:
    return landlock_abi()


def can_hold_effects() -> bool:
    """True if the kernel refuses what the declared effect of a step rules out."""
    return _abi() > 0


def describe_effects() -> str:
    """Say in a few words how declared effects are held on this machine."""
    if not can_hold_effects():
        return "compared files: this machine has no Landlock, so a write is noticed afterwards, and not whose it was"
    return f"Landlock {_abi()}" + ("" if _abi() >= TCP_ABI else "; it knows no rules for TCP")


def write_limits(effect: Effect, root: Path, scratch: Path) -> WriteLimits | None:
    """Return the limits of a step by its declared effect; None for one that may write, or if no kernel would hold them.

    `scratch` is the folder of the step itself.
    """
    if effect == "writes" or not can_hold_effects():
        return None
    scratch_path = os.path.realpath(scratch)
    if effect == "pure":
        return WriteLimits(effect=effect, writable=(*_SHARED, scratch_path), refuses_tcp=_abi() >= TCP_ABI)
    around = _around(Path(os.path.realpath(root)))
    return WriteLimits(effect=effect, writable=(*around, scratch_path), refuses_tcp=False)


def _around(root: Path) -> Iterator[str]:
    """Yield everything on the machine that is not on the way to a folder: Landlock can only allow, never except."""
    for folder, inner in zip(root.parents, (root, *root.parents), strict=False):
        try:
            with os.scandir(folder) as entries:
                yield from (entry.path for entry in entries if entry.name != inner.name and not entry.is_symlink())
        except OSError:  # not ours to list
            continue


def find_violation(limits: WriteLimits, root: Path, exit: int, output: str) -> EffectViolated | None:
    """Return what a failed step was refused, by the system's messages in its output; None if it failed by itself."""
    if exit in (0, NOT_EXECUTABLE_EXIT):
        return None
    denied = [line for line in output.splitlines() if _DENIED.search(line)]
    for line in denied:
        for name in (*_QUOTED.findall(line), *_BEFORE_DENIED.findall(line)):
            path = os.path.realpath(os.path.join(root, name))
            # One that this account could not write either was refused by its permissions.
            if not limits.allows(path) and _could_write(path):
                shown = os.path.relpath(path, os.path.realpath(root))
                return _violation(limits, f"write '{path if shown.startswith('..') else shown}'")
    if denied and limits.refuses_tcp and _NETWORK_WORDS.search(output):
        return _violation(limits, f"use {NETWORK}")
    return None


def _could_write(path: str) -> bool:
    """True if the account may write a path, or, if it does not exist, into the folder it would be in."""
    return os.access(path if os.path.lexists(path) else os.path.dirname(path), os.W_OK)


def _violation(limits: WriteLimits, action: str) -> EffectViolated:
    return EffectViolated(
        f"A yool declared '{limits.effect}' tried to {action}.",
        field="effect",
        used=limits.effect,
        hint="Declare effect='writes', or have it write into $TMPDIR or $ENGRAMBUS_ARTIFACTS (its cache, say).",
    )
