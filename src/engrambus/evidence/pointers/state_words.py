"""Words for the state of evidence, the same in answers to agents, in the terminal and on the page."""

from __future__ import annotations

from typing import Protocol


class DescribedState(Protocol):
    """The state of one pointer's lines, or the worst among the pointers of an engram."""

    @property
    def state(self) -> str | None: ...
    @property
    def share(self) -> float | None: ...
    @property
    def now(self) -> str | None: ...


def describe_state(evidence: DescribedState | None) -> str:
    """Return what a line says about evidence: `changed since, 60 % left, now src/a.py:12-14`; empty if it is the same.

    Nothing is said where no comparison is possible either.
    """
    if evidence is None or evidence.state in (None, "same"):
        return ""
    if evidence.state == "moved":
        return f"moved to {evidence.now}" if evidence.now else "moved"
    if evidence.state != "changed":
        return evidence.state or ""
    now = [f"now {evidence.now}"] if evidence.now else []
    return ", ".join(["changed since", *_share_words(evidence.share), *now])


def _share_words(share: float | None) -> list[str]:
    if share is None:
        return []
    if share >= 1:
        return ["no longer together"]
    # Rounded to a percentage between the ends: some lines survive, and some do not.
    return [f"{min(max(round(share * 100), 1), 99)} % left"]
