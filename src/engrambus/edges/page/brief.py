"""The shared brief: what a role is told now, its versions, and what changed between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from engrambus.edges.page.desk import Desk
from engrambus.policy import ROLES

PARAMS = ("for", "version", "since")

_ENGRAM = re.compile(r"- \[(?P<kind>[a-z]+)\] (?P<claim>.*) \((?P<ref>[^ ()]+)(?: \+(?P<more>\d+))?\)")


class Line(NamedTuple):
    """A line of a brief, taken apart again."""

    sign: str
    """`+` or `-` in a comparison."""
    title: str
    """The heading of a section, if it is one."""
    kind: str
    claim: str
    ref: str
    more: int
    """How many pointers there are besides."""


def load(desk: Desk, params: Mapping[str, str]) -> dict[str, Any]:
    """A role's brief in one version, and what changed since another."""
    answer = desk.ask("list_briefs", role=params.get("for"), version=params.get("version"), since=params.get("since"))
    known = [each.version for each in answer.versions]
    shown = answer.version or (known[0] + 1 if known else 1)
    return {
        "answer": answer,
        "lines": list(read_lines(answer.lines)),
        "changed": None if answer.changed is None else list(read_changes(answer.changed)),
        "since": params.get("since"),
        "earlier": [version for version in known if version < shown],
        "roles": ROLES,
    }


def read_lines(lines: Iterable[str], sign: str = "") -> Iterator[Line]:
    """The lines of a brief."""
    for line in lines:
        found = _ENGRAM.fullmatch(line)
        if found:
            yield Line(sign, "", found["kind"], found["claim"], found["ref"], int(found["more"] or 0))
        elif line.endswith(":"):
            yield Line(sign, line[:-1], "", "", "", 0)
        else:
            yield Line(sign, "", "", line, "", 0)


def read_changes(changed: Iterable[str]) -> Iterator[Line]:
    """The lines of a comparison, without the headings that came or went with theirs."""
    for line in changed:
        yield from (each for each in read_lines([line[2:]], line[:1]) if not each.title)
