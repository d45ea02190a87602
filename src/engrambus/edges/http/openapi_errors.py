"""The errors that each operation can give, by status, as responses of the OpenAPI document.

Which errors belong to an operation follows from its declaration: its roles, its fields, whether it writes, and the
module that declares it. A test compares this with every error that the tests of HTTP meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

from engrambus import errors
from engrambus.errors import EngramBusError
from engrambus.gateway import Operation

Schema = dict[str, Any]
ErrorTypes = tuple[type[EngramBusError], ...]

PROBLEM = "#/components/schemas/Problem"

_EVERY_CALL: ErrorTypes = (
    errors.FieldRefusal,
    errors.DuplicateKey,
    errors.BadText,
    errors.RouteNotFound,
    errors.HostForbidden,
    errors.OriginForbidden,
    errors.ProxyForbidden,
    errors.TooManyFailures,
    errors.StoreReadOnly,
    errors.JournalDamaged,
    errors.JournalMissing,
    errors.JournalForeign,
    errors.IndexDamaged,
    errors.DiskError,
    errors.ClockAhead,
    errors.FormatUnknown,
    errors.HookInvalid,
    errors.Internal,
)
_WITH_TOKEN: ErrorTypes = (
    errors.TokenMissing,
    errors.TokenInvalid,
    errors.TokenExpired,
    errors.TokenRevoked,
    errors.RunEnded,
    errors.AgentRemoved,
    errors.RoleForbidden,
    errors.NotYourDescendant,
    errors.MarkInvalid,
    errors.MarkMissing,
    errors.AgentNotFound,
    errors.TooManyCalls,
    errors.AgentAmbiguous,
)
_WITH_BODY: ErrorTypes = (
    errors.BodyTooLarge,
    errors.BodyTooSlow,
    errors.ContentType,
    errors.BadJson,
    errors.TooDeep,
    errors.NumberRange,
    errors.SecretFound,
    errors.SecretCheckFailed,
    errors.InvisibleText,
)
_WRITING: ErrorTypes = (
    errors.HookRefusal,
    errors.IdempotencyConflict,
    errors.DiskPressure,
    errors.InvisibleText,
    errors.SecretFound,
    errors.SecretCheckFailed,
)
_QUERY: ErrorTypes = (errors.NumberRange, errors.BodyTooLarge)
_YAML: ErrorTypes = (errors.BadYaml, errors.TextCut)

_POINTED_AT: ErrorTypes = (
    errors.PointerRefusal,
    errors.EvidenceRefusal,
    errors.RepositoryNotFound,
    errors.RevisionNotFound,
    errors.FileNotFound,
    errors.SpanNotFound,
    errors.SectionNotFound,
    errors.ArtifactNotFound,
    errors.BodyNotFound,
    errors.EpisodeNotFound,
    errors.ReceiptNotFound,
    errors.TestNotFound,
    errors.GitTrouble,
    errors.UrlTrouble,
)
_ENGRAM: ErrorTypes = (
    errors.EngramRefusal,
    errors.EngramNotFound,
    errors.ScopeForbidden,
    errors.IdTaken,
    errors.RateLimited,
)
_READING: ErrorTypes = (errors.DerefDenied, errors.GrantRefusal, errors.BudgetTooSmall)
_WORK: ErrorTypes = (
    errors.TupleRefusal,
    errors.TimeInvalid,
    errors.PatternRefusal,
    errors.CatalogRefusal,
    errors.TupleNotFound,
    errors.ReceiptNotFound,
    errors.YoolNotFound,
    errors.YoolForbidden,
    errors.LaneFull,
    errors.TupleEnded,
    errors.StaleFence,
    errors.IdTaken,
    errors.NoTupleSpace,
)
_CORTEX: ErrorTypes = (
    errors.CortexOff,
    errors.EpisodeNotFound,
    errors.ContributionNotFound,
    errors.SnapshotNotFound,
    errors.InputNotFound,
    errors.ContributionDecided,
    errors.TtlInvalid,
    errors.TtlTooLong,
)

_MEMORY: ErrorTypes = (
    errors.MemoryRefusal,
    errors.MemoryStoreNotFound,
    errors.MemoryStoreChanged,
    errors.TimeInvalid,
)

_BY_FIELD: dict[str, ErrorTypes] = {
    "pointer": _POINTED_AT,
    "pointers": _POINTED_AT,
    "at": _POINTED_AT,
    "ref": _POINTED_AT,
    "revision": _POINTED_AT,
    "engrams": _POINTED_AT,
    "evidence": _POINTED_AT,
    "used": (errors.EngramNotFound,),
    "max_tokens": (errors.BudgetTooSmall,),
    "budget_token": (errors.GrantRefusal, errors.GrantNotFound),
    "from_grant": (errors.GrantRefusal, errors.GrantNotFound),
    "scope": (errors.ScopeForbidden,),
    "expires_in": (errors.TtlInvalid, errors.TtlTooLong),
    "run_id": (errors.RunNotFound,),
    "to": (errors.NotYourPeer,),
    "embedding_ref": (errors.EmbeddingsOff,),
}
_BY_MODULE: dict[str, ErrorTypes] = {
    "artifacts": (errors.ContentTooLarge, errors.RateLimited),
    "batches": (*_WORK, errors.BatchNotFound, errors.BatchRunning, errors.IdAmbiguous),
    "catalog": (errors.YoolNotFound, errors.YoolName, errors.LaneName, errors.CatalogFile),
    "cortex": (*_CORTEX, *_ENGRAM, *_POINTED_AT),
    "snapshots": (*_CORTEX, *_ENGRAM, *_READING, errors.EmbeddingsOff, errors.EmbeddingsUnavailable),
    "deref_requests": (*_READING, errors.RequestNotFound, errors.GrantNotFound),
    "engram_queries": (errors.EngramNotFound, errors.GitTrouble, errors.EmbeddingsUnavailable),
    "engrams": _ENGRAM,
    "grants": (errors.GrantRefusal, errors.GrantNotFound),
    "inbox": (errors.MailNotFound,),
    "memory_read": (*_READING, *_MEMORY),
    "answers": (*_YAML, *_ENGRAM, *_POINTED_AT, errors.MessageRefusal, errors.GrantRefusal, errors.RequestNotFound),
    "messages": (*_YAML, *_ENGRAM, *_POINTED_AT, errors.MessageRefusal, errors.GrantRefusal, errors.RequestNotFound),
    "pointers": _READING,
    "promotions": (errors.RequestNotFound, errors.PromotionDecided, errors.EngramNotFound, errors.ScopeForbidden),
    "receipt_list": (errors.RunNotFound, errors.TupleNotFound, errors.IdAmbiguous, errors.NoTupleSpace),
    "receipts": (errors.ReceiptNotFound,),
    "review": (*_CORTEX, *_ENGRAM, *_POINTED_AT),
    "runs": (errors.RunNotFound, errors.AgentExists, errors.SessionUnknown, errors.TooManyAgents),
    "schedules": (
        *_WORK,
        errors.ScheduleRefusal,
        errors.ScheduleNotFound,
        errors.ScheduleExists,
        errors.TooManySchedules,
    ),
    "sessions": (errors.SessionNotFound,),
    "tokens": (errors.TokenNotFound,),
    "tuples": (*_WORK, *_POINTED_AT, errors.TtlInvalid),
    "turns": (errors.SessionUnknown,),
    "work_board": (errors.NoTupleSpace,),
}
"""Errors of a domain, by the module of `operations` whose calls can meet them."""


def error_responses(operation: Operation[Any, Any]) -> dict[str, Schema]:
    """Return the responses for the errors that an operation can give, by status."""
    return responses_for(_error_types(operation))


def stream_responses(*other: type[EngramBusError]) -> dict[str, Schema]:
    """Return the responses for the errors of a path that is not an operation."""
    return responses_for((*_EVERY_CALL, *_WITH_TOKEN, *other))


def responses_for(error_types: Iterable[type[EngramBusError]]) -> dict[str, Schema]:
    """Return a response for each status, with the codes that come with it."""
    codes: dict[int, set[str]] = {}
    raised = {error for listed in error_types for error in _with_subclasses(listed)}
    for error in raised:
        codes.setdefault(error.status, set()).add(error.code)
    return {
        str(status): {
            "description": f"{HTTPStatus(status).phrase}. Nothing was changed.",
            "content": {
                "application/problem+json": {
                    "schema": {
                        "allOf": [{"$ref": PROBLEM}],
                        # An open list: a later version may add a code, and clients must not refuse it.
                        "properties": {
                            "code": {"anyOf": [{"enum": sorted(codes[status])}, {"type": "string"}]},
                            "status": {"const": status},
                        },
                    }
                }
            },
        }
        for status in sorted(codes)
    }


def _error_types(operation: Operation[Any, Any]) -> Iterator[type[EngramBusError]]:
    takes_body = operation.route is not None and operation.route.method == "POST"
    yield from _EVERY_CALL
    yield from _WITH_TOKEN
    yield from _WITH_BODY if takes_body else _QUERY
    yield from _WRITING if operation.writes else ()
    yield from (errors.BudgetExceeded,) if operation.prose or operation.text_field else ()
    for field in operation.request.__struct_fields__:
        yield from _BY_FIELD.get(field, ())
    yield from _BY_MODULE.get(operation.run.__module__.rpartition(".")[2], ())


def _with_subclasses(error: type[EngramBusError]) -> Iterator[type[EngramBusError]]:
    """Yield the errors below a class, or the class itself if it is one that is raised."""
    below = error.__subclasses__()
    if not below:
        yield error
    for subclass in below:
        yield from _with_subclasses(subclass)
