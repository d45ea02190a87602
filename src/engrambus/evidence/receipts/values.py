"""Receipts: the record of one execution, identified by the hash of its content."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from engrambus.core import MICROS_PER_DOLLAR, digest, digest_of

SCHEMA = "yool-receipt/v1"
ArtifactKind = Literal["junit", "coverage", "file"]
ARTIFACT_KINDS: tuple[ArtifactKind, ...] = get_args(ArtifactKind)
JUNIT_KIND: ArtifactKind = "junit"
"""Kind of an artifact that is a test report."""
EMPTY_DIGEST = digest(b"")
"""Digest of the empty body, which a step without output leaves."""
IN_TOTO_STATEMENT = "https://in-toto.io/Statement/v1"
IN_TOTO_PREDICATE = "urn:engrambus:receipt:v1"


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that an execution used."""

    usd: float = 0.0
    """Dollars, rounded up to whole micro-dollars."""
    tokens_in: int = 0
    """Tokens that models read."""
    tokens_out: int = 0
    """Tokens that models wrote."""
    wall_ms: int = 0
    """Milliseconds from start to end."""
    disk_mb: float = 0.0
    """Megabytes that were written to disks, wherever; at least those of output and artifacts."""

    @property
    def usd_micros(self) -> int:
        return round(self.usd * MICROS_PER_DOLLAR)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file a step left, stored as a body."""

    kind: str
    """`junit`, `coverage` or `file`."""
    path: str
    """Path relative to the step's artifacts folder."""
    sha: str
    """Digest of its body."""
    size: int
    """Bytes."""


class EvidenceRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What shows that something is done: a pointer with the digest of its content, or a receipt."""

    ref: str
    """The ref of a pointer, or the id of a receipt."""
    digest: str | None = None
    """Digest of what the pointer led to then."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Record of one execution. It never changes."""

    yool: str
    """Yool that was executed, with its version; `tuple.run` for a complete tuple, `tuple.accept` for accepting one."""
    tuple_id: str
    """Tuple it was executed for."""
    started_at: str
    ended_at: str
    exit: int
    """0 is success."""
    stdout_sha: str
    """Digest of its output."""
    stderr_sha: str
    artifacts: tuple[Artifact, ...]
    cost: Cost
    result_sha: str
    """Hash of yool, exit status, output and artifacts; equal results have equal hashes."""
    schema: str
    id: str = ""
    """Hash of all other fields."""
    step: int | None = None
    """Index of the step in its tuple, from 0."""
    attempt: int | None = None
    """Number of the tuple's attempt, from 1."""
    worker: str | None = None
    """Name of the worker."""
    key: str | None = None
    """Cache key of the result; None if it must not answer another step."""
    changed_files: tuple[str, ...] = ()
    """Files that changed while it ran, which is why it has no cache key; the first few of many.

    They are of those it reads, or of the project's where no kernel refuses the writes of a step that declares none."""
    receipts: tuple[str, ...] = ()
    """For a complete tuple: the receipts of its steps."""
    error: str | None = None
    """Short reason why it did not succeed."""
    evidence: tuple[EvidenceRef, ...] = ()
    """For a task of an agent or a person: what shows that it is done."""


_encode = msgspec.json.Encoder(order="sorted").encode


def result_sha(*, yool: str, exit: int, stdout_sha: str, stderr_sha: str, artifacts: tuple[Artifact, ...]) -> str:
    """Return the hash of a result, over a JSON list so that its parts cannot run into each other."""
    files = [[artifact.kind, artifact.path, artifact.sha] for artifact in artifacts]
    return digest_of([yool, exit, stdout_sha, stderr_sha, files])


_NO_COST = Cost()
_empty_result_shas: dict[tuple[str, int], str] = {}
"""Cache for steps that print and leave nothing."""
_MAX_CACHED_SHAS = 1024


def new_receipt(
    *,
    yool: str,
    tuple_id: str,
    started_at: str,
    ended_at: str,
    exit: int,
    stdout_sha: str = EMPTY_DIGEST,
    stderr_sha: str = EMPTY_DIGEST,
    artifacts: tuple[Artifact, ...] = (),
    cost: Cost | None = None,
    **optional: Any,
) -> Receipt:
    """Create a receipt and compute its id."""
    if stdout_sha == stderr_sha == EMPTY_DIGEST and not artifacts:
        if len(_empty_result_shas) > _MAX_CACHED_SHAS:
            _empty_result_shas.clear()
        result = _empty_result_shas.get((yool, exit))
        if result is None:
            result = _empty_result_shas[yool, exit] = result_sha(
                yool=yool, exit=exit, stdout_sha=EMPTY_DIGEST, stderr_sha=EMPTY_DIGEST, artifacts=()
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
        **optional,
    )
    msgspec.structs.force_setattr(draft, "id", receipt_id(draft))  # frozen, but nothing else refers to it yet
    return draft


def _with_floats(cost: Cost) -> Cost:
    """Return the cost as it is read back from JSON: 1 and 1.0 are equal but are encoded and hashed differently."""
    if type(cost.usd) is float and type(cost.disk_mb) is float:
        return cost
    return msgspec.structs.replace(cost, usd=float(cost.usd), disk_mb=float(cost.disk_mb))


def receipt_id(receipt: Receipt) -> str:
    """Return the SHA-256 of a receipt's canonical form without `id`."""
    without_id = receipt if not receipt.id else msgspec.structs.replace(receipt, id="")
    cost = without_id.cost
    if cost is not _NO_COST and (_has_exponent(cost.usd) or _has_exponent(cost.disk_mb)):
        return digest_of(msgspec.to_builtins(without_id))
    return digest(_encode(without_id))


def _has_exponent(number: float) -> bool:
    # msgspec prints such a float differently from canonical JSON, so it takes the slower path.
    return number != 0 and not 1e-4 <= abs(number) < 1e16


def bodies_of(receipt: Receipt) -> tuple[str, ...]:
    """Return the digests of its output and artifacts, each once."""
    shas = (receipt.stdout_sha, receipt.stderr_sha, *(artifact.sha for artifact in receipt.artifacts))
    return tuple(dict.fromkeys(shas))


def in_toto_statement(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as an unsigned in-toto Statement whose subjects are the bodies it names."""
    subjects = [("stdout", receipt.stdout_sha), ("stderr", receipt.stderr_sha)]
    subjects += [(artifact.path, artifact.sha) for artifact in receipt.artifacts]
    return {
        "_type": IN_TOTO_STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": sha.removeprefix("sha256:")}} for name, sha in subjects],
        "predicateType": IN_TOTO_PREDICATE,
        "predicate": msgspec.to_builtins(receipt),
    }
