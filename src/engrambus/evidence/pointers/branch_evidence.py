"""Pointers against a branch: whether its changes touch the pointed lines, and what is left of them at its head."""

from __future__ import annotations

from engrambus.evidence.pointers.addresses import Pointer, RepoAddress
from engrambus.evidence.pointers.branch_changes import BranchChanges, Touch
from engrambus.evidence.pointers.grammar import parse_ref
from engrambus.evidence.pointers.staleness import EvidenceState, StalenessChecker


class BranchEvidence:
    """Compares pointers with the changes of one branch."""

    def __init__(self, changes: BranchChanges, checker: StalenessChecker) -> None:
        self._changes = changes
        self._checker = checker

    def touched_at(self, pointer: Pointer) -> Touch | None:
        """Return where the branch changes the lines of a pointer; None if it does not, or if they are not here.

        The lines are looked for where the branch left its base, and at its head: a pointer may have been recorded
        on the branch itself.
        """
        before = self._place(pointer, self._changes.merge_base)
        touch = self._changes.touch_before(*before) if before is not None else None
        if touch is not None:
            return touch
        after = self._place(pointer, self._changes.head)
        return self._changes.touch_after(*after) if after is not None else None

    def state(self, pointer: Pointer) -> EvidenceState | None:
        """Compare the lines of a pointer with the branch's head."""
        return self._checker.check(pointer, self._changes.head)

    def _place(self, pointer: Pointer, commit: str) -> tuple[str, list[tuple[int, int]] | None] | None:
        """Return the file and the lines that hold a pointer's content at a commit; None if none does."""
        state = self._checker.check(pointer, commit)
        if state is None or state.state in ("gone", "unresolved"):
            return None
        if state.now is not None:
            path, _, lines = state.now.rpartition(":")
            first, _, last = lines.partition("-")
            return path, [(int(first), int(last or first))]
        address = parse_ref(pointer.ref)
        if not isinstance(address, RepoAddress) or state.state != "same":
            return None
        return address.path, [address.lines] if address.lines else None
