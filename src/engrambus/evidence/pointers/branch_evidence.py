"""Pointers against a branch: whether its changes touch the pointed lines, and what is left of them at its head."""

from __future__ import annotations

from engrambus.evidence.pointers.addresses import Pointer
from engrambus.evidence.pointers.branch_changes import BranchChanges, Touch
from engrambus.evidence.pointers.staleness import CompareTarget, EvidenceState, StalenessChecker


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
        for path, lines in self._places(pointer, self._changes.merge_base):
            if (touch := self._changes.touch_before(path, lines)) is not None:
                return touch
        for path, lines in self._places(pointer, self._changes.head):
            if (touch := self._changes.touch_after(path, lines)) is not None:
                return touch
        return None

    def state(self, pointer: Pointer) -> EvidenceState | None:
        """Compare the lines of a pointer with the branch's head."""
        return self._checker.check(pointer, self._changes.head)

    def _places(self, pointer: Pointer, commit: str) -> list[tuple[str, list[tuple[int, int]]]]:
        """Return the files and the lines that hold a pointer's content at a commit."""
        lines = self._checker.lines_now(pointer, CompareTarget(commit))
        return [(file.path, list(file.ranges)) for file in lines.files] if lines is not None else []
