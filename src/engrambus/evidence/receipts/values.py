"""Receipts: one execution, one record, named by the hash of what it says."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.core import MICROS, digest, digest_of

SCHEMA = "yool-receipt/v1"
JUNIT = "junit"
"""What an artifact is that holds a test report."""
EMPTY = digest(b"")
"""The digest of nothing: what a step without output leaves."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What an execution used up."""

    usd: float = 0.0
    """Dollars: a whole number of micro-dollars, divided by a million."""
    tokens_in: int = 0
    """Tokens that models read."""
    tokens_out: int = 0
    """Tokens that models wrote."""
    wall_ms: int = 0
    """Milliseconds from start to end."""
    disk_mb: float = 0.0
    """Megabytes that were kept of it: output and artifacts."""

    @property
    def micros(self) -> int:
        """The money in micro-dollars."""
        return round(self.usd * MICROS)

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.tokens_in + self.tokens_out


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file a step left, kept as a body."""

    kind: str
    """What it is: `junit`, `coverage`, `file`."""
    path: str
    """Where it lay, beneath the step's own folder."""
    sha: str
    """The digest it is kept under."""
    size: int
    """Its bytes."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one execution did. It never changes."""

    yool: str
    """What was executed, with its version; `tuple.run` for a whole tuple, `tuple.accept` for taking one in."""
    tuple_id: str
    """The tuple it was executed for."""
    started_at: str
    ended_at: str
    exit: int
    """0 is success."""
    stdout_sha: str
    """The digest its output is kept under."""
    stderr_sha: str
    artifacts: tuple[Artifact, ...]
    cost: Cost
    result_sha: str
    """The hash of what came out: equal results have equal ones."""
    schema: str
    id: str = ""
    """The hash of everything else here."""
    step: int | None = None
    """Which step of the tuple it was, from 0."""
    attempt: int | None = None
    """The how-manieth time the tuple was tried."""
    worker: str | None = None
    """Who did it."""
    key: str | None = None
    """What the cache knows it by; none when it may not be used again."""
    receipts: tuple[str, ...] = ()
    """For a whole tuple: the receipts of its steps."""
    error: str | None = None
    """In short, why it did not succeed."""


_encode = msgspec.json.Encoder(order="sorted").encode


def result_sha(*, yool: str, exit: int, stdout_sha: str, stderr_sha: str, artifacts: tuple[Artifact, ...]) -> str:
    """The hash of what came out, each part in a frame of its own."""
    found = [[each.kind, each.path, each.sha] for each in artifacts]
    return digest_of([yool, exit, stdout_sha, stderr_sha, found])


_NO_COST = Cost()
_NOTHING: dict[tuple[str, int], str] = {}


def seal(
    *,
    yool: str,
    tuple_id: str,
    started_at: str,
    ended_at: str,
    exit: int,
    stdout_sha: str = EMPTY,
    stderr_sha: str = EMPTY,
    artifacts: tuple[Artifact, ...] = (),
    cost: Cost | None = None,
    **more: Any,
) -> Receipt:
    """A receipt with its id."""
    if stdout_sha == stderr_sha == EMPTY and not artifacts:
        if len(_NOTHING) > 1024:
            _NOTHING.clear()
        result = _NOTHING.get((yool, exit))
        if result is None:
            result = _NOTHING[yool, exit] = result_sha(
                yool=yool, exit=exit, stdout_sha=EMPTY, stderr_sha=EMPTY, artifacts=()
            )
    else:
        result = result_sha(yool=yool, exit=exit, stdout_sha=stdout_sha, stderr_sha=stderr_sha, artifacts=artifacts)
    draft = Receipt(
        yool=yool,
        tuple_id=tuple_id,
        started_at=started_at,
        ended_at=ended_at,
        exit=exit,
        stdout_sha=stdout_sha,
        stderr_sha=stderr_sha,
        artifacts=artifacts,
        cost=_NO_COST if cost is None else _with_floats(cost),
        result_sha=result,
        schema=SCHEMA,
        **more,
    )
    msgspec.structs.force_setattr(draft, "id", receipt_id(draft))  # nobody has seen it yet
    return draft


def _with_floats(cost: Cost) -> Cost:
    """The cost as it is read back: 1 and 1.0 are equal, and print and hash differently."""
    if type(cost.usd) is float and type(cost.disk_mb) is float:
        return cost
    return msgspec.structs.replace(cost, usd=float(cost.usd), disk_mb=float(cost.disk_mb))


def receipt_id(receipt: Receipt) -> str:
    """The id a receipt must have: sha256 of its canonical form without `id`."""
    bare = receipt if not receipt.id else msgspec.structs.replace(receipt, id="")
    cost = bare.cost
    if cost is not _NO_COST and (_has_exponent(cost.usd) or _has_exponent(cost.disk_mb)):
        return digest_of(msgspec.to_builtins(bare))
    return digest(_encode(bare))


def _has_exponent(number: float) -> bool:
    """Whether a float is printed with an exponent: the fast encoder does that otherwise than the definition."""
    return number != 0 and not 1e-4 <= abs(number) < 1e16


def bodies_of(receipt: Receipt) -> tuple[str, ...]:
    """The digests of everything it left."""
    found = (receipt.stdout_sha, receipt.stderr_sha, *(artifact.sha for artifact in receipt.artifacts))
    return tuple(dict.fromkeys(found))
