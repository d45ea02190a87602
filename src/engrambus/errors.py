"""Every refusal Engram Bus can give, in one tree.

EngramBusError                    code, HTTP status, and what a caller needs to do better next time
├── Refusal                  422  the request is at fault; nothing changed
│   ├── BodyRefusal               the bytes were not taken at all
│   │   ├── BodyTooLarge     413  BODY_TOO_LARGE
│   │   ├── BodyTooSlow      408  BODY_TOO_SLOW
│   │   ├── ContentType      415  CONTENT_TYPE
│   │   ├── BadJson               BAD_JSON
│   │   ├── BadYaml               BAD_YAML
│   │   ├── TooDeep               TOO_DEEP
│   │   ├── DuplicateKey          DUPLICATE_KEY
│   │   ├── NumberRange           NUMBER_RANGE
│   │   ├── BadText               BAD_TEXT
│   │   ├── TextCut               TEXT_CUT
│   │   └── InputNotAFile         INPUT_NOT_A_FILE
│   ├── FieldRefusal              a field is not what its type or schema says
│   │   ├── FieldMissing          FIELD_MISSING
│   │   ├── FieldUnknown          FIELD_UNKNOWN
│   │   ├── FieldType             FIELD_TYPE
│   │   ├── FieldValue            FIELD_VALUE
│   │   ├── IdAmbiguous           ID_AMBIGUOUS
│   │   └── ProvenanceStamped     PROVENANCE_STAMPED
│   ├── EngramRefusal             an engram breaks a rule of its own
│   │   ├── NoPointer             NO_POINTER
│   │   ├── TooManyPointers       TOO_MANY_POINTERS
│   │   ├── ClaimEmpty            CLAIM_EMPTY
│   │   ├── ClaimTooLong          CLAIM_TOO_LONG
│   │   ├── ClaimTooManySentences CLAIM_TOO_MANY_SENTENCES
│   │   ├── TtlInvalid            TTL_INVALID
│   │   ├── TtlTooLong            TTL_TOO_LONG
│   │   ├── ConfidenceRange       CONFIDENCE_RANGE
│   │   ├── IdInvalid             ID_INVALID
│   │   ├── PhantomRead           PHANTOM_READ
│   │   └── TimeInvalid           TIME_INVALID
│   ├── PointerRefusal            a pointer that cannot be read as an address
│   │   ├── PointerSyntax         POINTER_SYNTAX
│   │   ├── PointerNotPinned      POINTER_NOT_PINNED
│   │   ├── PointerRevision       POINTER_REVISION
│   │   ├── PointerPath           POINTER_PATH
│   │   ├── PointerSpan           POINTER_SPAN
│   │   ├── PointerDisagrees      POINTER_DISAGREES
│   │   └── PointerTooLong        POINTER_TOO_LONG
│   ├── EvidenceRefusal           an address that leads to something we will not read
│   │   ├── DigestMismatch        DIGEST_MISMATCH
│   │   ├── NotAFile              NOT_A_FILE
│   │   ├── LinkRefused           LINK_REFUSED
│   │   ├── NotText               NOT_TEXT
│   │   ├── ContentTooLarge       CONTENT_TOO_LARGE
│   │   ├── SectionAmbiguous      SECTION_AMBIGUOUS
│   │   ├── ArtifactAmbiguous     ARTIFACT_AMBIGUOUS
│   │   ├── ObjectDamaged         OBJECT_DAMAGED
│   │   ├── RepositoryRefused     REPOSITORY_REFUSED
│   │   ├── TestReportInvalid     TEST_REPORT_INVALID
│   │   ├── NoRepository          NO_REPOSITORY
│   │   ├── NoResolver            NO_RESOLVER
│   │   ├── UrlsOff          403  URLS_OFF
│   │   └── UrlRefused       403  URL_REFUSED
│   ├── SecretFound               SECRET_FOUND
│   ├── MessageRefusal            a message between a parent and a child is not in its form
│   │   ├── MessageShape          MESSAGE_SHAPE
│   │   ├── MessageFence          MESSAGE_FENCE
│   │   ├── MessageEmpty          MESSAGE_EMPTY
│   │   ├── MessageSectionMissing MESSAGE_SECTION_MISSING
│   │   ├── MessageSectionUnknown MESSAGE_SECTION_UNKNOWN
│   │   ├── MessageRole           MESSAGE_ROLE
│   │   └── MessageStatus         MESSAGE_STATUS
│   ├── TupleRefusal              a tuple, its terms or its steps break a rule
│   │   ├── TupleSchema           TUPLE_SCHEMA
│   │   ├── TupleIdMismatch       TUPLE_ID_MISMATCH
│   │   ├── TupleTooLarge    413  TUPLE_TOO_LARGE
│   │   ├── DeadlinePast          DEADLINE_PAST
│   │   ├── StepCycle             STEP_CYCLE
│   │   ├── StepUnknown           STEP_UNKNOWN
│   │   ├── LineageTooLong        LINEAGE_TOO_LONG
│   │   ├── AuthorityStamped      AUTHORITY_STAMPED
│   │   └── ReceiptForeign        RECEIPT_FOREIGN
│   ├── PatternRefusal            a pattern that cannot be matched against tuples
│   │   ├── PatternOperator       PATTERN_OPERATOR
│   │   └── PatternValue          PATTERN_VALUE
│   ├── ArtifactPath              ARTIFACT_PATH
│   ├── QuotaRefusal              a step took more than it may, and was stopped
│   │   ├── MemoryQuota           MEMORY_QUOTA
│   │   └── DiskQuota             DISK_QUOTA
│   ├── CatalogRefusal            a yool, or a file that declares yools, is not as it should be
│   │   ├── YoolName              YOOL_NAME
│   │   ├── YoolReserved          YOOL_RESERVED
│   │   ├── YoolTwice             YOOL_TWICE
│   │   ├── YoolContract          YOOL_CONTRACT
│   │   ├── YoolArguments         YOOL_ARGUMENTS
│   │   ├── ScriptUnguarded       SCRIPT_UNGUARDED
│   │   ├── LaneName              LANE_NAME
│   │   ├── AuthorityInvalid      AUTHORITY_INVALID
│   │   ├── TermsInvalid          TERMS_INVALID
│   │   ├── CommandDeclared       COMMAND_DECLARED
│   │   ├── StackUnknown          STACK_UNKNOWN
│   │   ├── AgentsFile            AGENTS_FILE
│   │   └── CatalogFile           CATALOG_FILE
│   ├── BudgetExceeded       413  BUDGET_EXCEEDED
│   ├── MethodNotAllowed     405  METHOD_NOT_ALLOWED
│   ├── BudgetTooSmall            BUDGET_TOO_SMALL
│   ├── MemoryRefusal             a memory store or a trust snapshot that cannot be read
│   │   ├── MemoryStoreNotAFile   MEMORY_STORE_NOT_A_FILE
│   │   ├── MemoryStoreOutside 403 MEMORY_STORE_OUTSIDE
│   │   ├── MemoryLineTooLong     MEMORY_LINE_TOO_LONG
│   │   └── TrustSnapshotInvalid  TRUST_SNAPSHOT_INVALID
│   ├── ClientFileBroken          CLIENT_FILE_BROKEN
│   └── PolicyInvalid             POLICY_INVALID
├── Unauthorized             401  we do not know who is asking
│   ├── TokenMissing              TOKEN_MISSING
│   ├── TokenInvalid              TOKEN_INVALID
│   ├── TokenExpired              TOKEN_EXPIRED
│   └── CodeInvalid               CODE_INVALID
├── Forbidden                403  we know who is asking, and the answer is no
│   ├── RoleForbidden             ROLE_FORBIDDEN
│   ├── ScopeForbidden            SCOPE_FORBIDDEN
│   ├── DerefDenied               DEREF_DENIED
│   ├── NotYourDescendant         NOT_YOUR_DESCENDANT
│   ├── RunEnded                  RUN_ENDED
│   ├── CortexOff                 CORTEX_OFF
│   ├── YoolForbidden             YOOL_FORBIDDEN
│   ├── HostForbidden        421  HOST_FORBIDDEN
│   ├── OriginForbidden           ORIGIN_FORBIDDEN
│   └── GrantRefusal              a budget token that does not allow this
│       ├── GrantForged           GRANT_FORGED
│       ├── GrantForeign          GRANT_FOREIGN
│       ├── GrantTooLong          GRANT_TOO_LONG
│       ├── GrantTooDeep          GRANT_TOO_DEEP
│       ├── GrantExpired          GRANT_EXPIRED
│       ├── GrantWrongChild       GRANT_WRONG_CHILD
│       ├── GrantWrongPointer     GRANT_WRONG_POINTER
│       ├── GrantOverCap          GRANT_OVER_CAP
│       ├── GrantSpent            GRANT_SPENT
│       └── GrantRevoked          GRANT_REVOKED
├── NotFound                 404  absent, or not yours: the two look the same
│   ├── EngramNotFound            ENGRAM_NOT_FOUND
│   ├── AgentNotFound             AGENT_NOT_FOUND
│   ├── RunNotFound               RUN_NOT_FOUND
│   ├── GrantNotFound             GRANT_NOT_FOUND
│   ├── RequestNotFound           REQUEST_NOT_FOUND
│   ├── ProjectNotFound           PROJECT_NOT_FOUND
│   ├── RepositoryNotFound        REPOSITORY_NOT_FOUND
│   ├── RevisionNotFound          REVISION_NOT_FOUND
│   ├── FileNotFound              FILE_NOT_FOUND
│   ├── SpanNotFound              SPAN_NOT_FOUND
│   ├── SectionNotFound           SECTION_NOT_FOUND
│   ├── ArtifactNotFound          ARTIFACT_NOT_FOUND
│   ├── BodyNotFound              BODY_NOT_FOUND
│   ├── MemoryStoreNotFound       MEMORY_STORE_NOT_FOUND
│   ├── EpisodeNotFound           EPISODE_NOT_FOUND
│   ├── ContributionNotFound      CONTRIBUTION_NOT_FOUND
│   ├── TupleNotFound             TUPLE_NOT_FOUND
│   ├── ReceiptNotFound           RECEIPT_NOT_FOUND
│   ├── TestNotFound              TEST_NOT_FOUND
│   ├── YoolNotFound              YOOL_NOT_FOUND
│   └── RouteNotFound             ROUTE_NOT_FOUND
├── RateLimited              429  RATE_LIMITED
├── Conflict                 409  true once, not now
│   ├── AgentExists               AGENT_EXISTS
│   ├── IdTaken                   ID_TAKEN
│   ├── IdempotencyConflict       IDEMPOTENCY_CONFLICT
│   ├── MemoryStoreChanged        MEMORY_STORE_CHANGED
│   ├── ContributionDecided       CONTRIBUTION_DECIDED
│   ├── LaneFull             429  LANE_FULL
│   ├── StaleFence                STALE_FENCE
│   ├── TupleEnded                TUPLE_ENDED
│   ├── ProjectExists             PROJECT_EXISTS
│   ├── ClientEntryTaken          CLIENT_ENTRY_TAKEN
│   ├── ClientFileChanged         CLIENT_FILE_CHANGED
│   ├── ClientFileUnwritable      CLIENT_FILE_UNWRITABLE
│   └── PortTaken                 PORT_TAKEN
└── Trouble                  503  our side is at fault, or the machine's
    ├── StoreReadOnly             STORE_READ_ONLY
    ├── JournalDamaged            JOURNAL_DAMAGED
    ├── IndexDamaged              INDEX_DAMAGED
    ├── FormatUnknown             FORMAT_UNKNOWN
    ├── DiskPressure         507  DISK_PRESSURE
    ├── SecretCheckFailed         SECRET_CHECK_FAILED
    ├── NoTupleSpace              NO_WORKBENCH
    ├── TooManyStreams            TOO_MANY_STREAMS
    ├── GitTrouble                GIT_TROUBLE
    ├── UrlTrouble           502  URL_TROUBLE
    ├── Unreachable          502  UNREACHABLE
    └── Internal             500  INTERNAL

A class's docstring is its message; its code never changes once published. `problem()` is the object every edge
shows: RFC 9457 members over HTTP, the same object as an MCP error and under `--json`. A class that has more to say
names it in `members`; `from_problem` brings those back too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class EngramBusError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "ERROR"
    status: ClassVar[int] = 500
    members: ClassVar[tuple[str, ...]] = ("field", "line", "limit", "used", "hint")
    """What is shown besides the class and the detail; each is an attribute and an argument of the same name."""

    def __init__(
        self,
        detail: str | None = None,
        *,
        field: str | None = None,
        limit: int | float | str | None = None,
        used: int | float | str | None = None,
        hint: str | None = None,
        line: int | None = None,
    ) -> None:
        self.title = (type(self).__doc__ or "").strip()
        self.detail = detail or self.title
        self.field = field
        self.limit = limit
        self.used = used
        self.hint = hint
        self.line = line
        super().__init__(self.detail)

    def problem(self) -> dict[str, Any]:
        """The refusal as the object every edge shows."""
        shown: dict[str, Any] = {
            "type": f"urn:engrambus:{self.code.lower().replace('_', '-')}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
        }
        if self.detail != self.title:
            shown["detail"] = self.detail
        for name in self.members:
            value = getattr(self, name)
            if value is not None and value != ():
                shown[name] = value
        return {name: _unicode(value) for name, value in shown.items()}

    @classmethod
    def from_problem(cls, shown: dict[str, Any]) -> EngramBusError:
        """The same refusal, rebuilt by a client from what an edge sent."""
        kind = BY_CODE.get(str(shown.get("code")), Internal)
        detail = shown.get("detail") or shown.get("title")
        return kind(
            detail if isinstance(detail, str) else None,
            **{name: shown.get(name) for name in kind.members},
        )


class Refusal(EngramBusError):
    """The request is at fault; nothing was changed."""

    code = "REFUSED"
    status = 422


class BodyRefusal(Refusal):
    """The body was not taken."""

    code = "BODY_REFUSED"


class BodyTooLarge(BodyRefusal):
    """The body is larger than this operation takes."""

    code = "BODY_TOO_LARGE"
    status = 413


class BodyTooSlow(BodyRefusal):
    """The body did not arrive in time."""

    code = "BODY_TOO_SLOW"
    status = 408


class ContentType(BodyRefusal):
    """The content type is not one this operation takes."""

    code = "CONTENT_TYPE"
    status = 415


class BadJson(BodyRefusal):
    """The body is not JSON."""

    code = "BAD_JSON"


class BadYaml(BodyRefusal):
    """The text is not YAML as it is taken here."""

    code = "BAD_YAML"


class TooDeep(BodyRefusal):
    """The body is nested too deeply."""

    code = "TOO_DEEP"


class DuplicateKey(BodyRefusal):
    """An object names the same key twice."""

    code = "DUPLICATE_KEY"


class NumberRange(BodyRefusal):
    """A number is not finite, or is an integer beyond 2^53."""

    code = "NUMBER_RANGE"


class BadText(BodyRefusal):
    """A text is not valid Unicode."""

    code = "BAD_TEXT"


class TextCut(BodyRefusal):
    """An unquoted text goes on where YAML reads a comment."""

    code = "TEXT_CUT"


class InputNotAFile(BodyRefusal):
    """The input is not a regular file."""

    code = "INPUT_NOT_A_FILE"


class FieldRefusal(Refusal):
    """A field is not what it should be."""

    code = "FIELD_REFUSED"


class FieldMissing(FieldRefusal):
    """A required field is missing."""

    code = "FIELD_MISSING"


class FieldUnknown(FieldRefusal):
    """A field is not known here."""

    code = "FIELD_UNKNOWN"


class FieldType(FieldRefusal):
    """A field has the wrong type."""

    code = "FIELD_TYPE"


class FieldValue(FieldRefusal):
    """A field has a value outside what its schema allows."""

    code = "FIELD_VALUE"


class IdAmbiguous(FieldRefusal):
    """More than one id begins like this."""

    code = "ID_AMBIGUOUS"


class ProvenanceStamped(FieldRefusal):
    """Provenance is stamped by the gateway and cannot be written by a caller."""

    code = "PROVENANCE_STAMPED"


class EngramRefusal(Refusal):
    """The engram breaks a rule."""

    code = "ENGRAM_REFUSED"


class NoPointer(EngramRefusal):
    """An engram needs at least one pointer."""

    code = "NO_POINTER"


class TooManyPointers(EngramRefusal):
    """An engram has too many pointers."""

    code = "TOO_MANY_POINTERS"


class ClaimEmpty(EngramRefusal):
    """The claim says nothing."""

    code = "CLAIM_EMPTY"


class ClaimTooLong(EngramRefusal):
    """The claim is too long."""

    code = "CLAIM_TOO_LONG"


class ClaimTooManySentences(EngramRefusal):
    """The claim has too many sentences."""

    code = "CLAIM_TOO_MANY_SENTENCES"


class TtlInvalid(EngramRefusal):
    """The ttl is not an ISO-8601 duration in weeks, days, hours, minutes and seconds."""

    code = "TTL_INVALID"


class TtlTooLong(EngramRefusal):
    """The ttl is longer than the project allows."""

    code = "TTL_TOO_LONG"


class ConfidenceRange(EngramRefusal):
    """The confidence is not a finite number from 0 to 1."""

    code = "CONFIDENCE_RANGE"


class IdInvalid(EngramRefusal):
    """The id is neither a ULID nor a UUID."""

    code = "ID_INVALID"


class PhantomRead(EngramRefusal):
    """The engram carries the digest of something nobody in this run has read through the gateway."""

    code = "PHANTOM_READ"


class TimeInvalid(EngramRefusal):
    """The time is not an RFC 3339 date-time."""

    code = "TIME_INVALID"


class PointerRefusal(Refusal):
    """The pointer cannot be read as an address."""

    code = "POINTER_REFUSED"


class PointerSyntax(PointerRefusal):
    """The pointer does not follow the grammar."""

    code = "POINTER_SYNTAX"


class PointerNotPinned(PointerRefusal):
    """The pointer names no revision, version or digest."""

    code = "POINTER_NOT_PINNED"


class PointerRevision(PointerRefusal):
    """The revision is not a full lower-case object id."""

    code = "POINTER_REVISION"


class PointerPath(PointerRefusal):
    """The path leaves its tree or holds a character no path may hold."""

    code = "POINTER_PATH"


class PointerSpan(PointerRefusal):
    """The line span is not one."""

    code = "POINTER_SPAN"


class PointerDisagrees(PointerRefusal):
    """The pointer's fields and its ref disagree."""

    code = "POINTER_DISAGREES"


class PointerTooLong(PointerRefusal):
    """The pointer is too long."""

    code = "POINTER_TOO_LONG"


class EvidenceRefusal(Refusal):
    """The pointer leads to something that will not be read."""

    code = "EVIDENCE_REFUSED"


class DigestMismatch(EvidenceRefusal):
    """The content does not have the digest the pointer carries."""

    code = "DIGEST_MISMATCH"


class NotAFile(EvidenceRefusal):
    """The pointer leads to something that is not a regular file."""

    code = "NOT_A_FILE"


class LinkRefused(EvidenceRefusal):
    """The pointer leads to a symbolic link."""

    code = "LINK_REFUSED"


class NotText(EvidenceRefusal):
    """The content is not UTF-8 text."""

    code = "NOT_TEXT"


class ContentTooLarge(EvidenceRefusal):
    """The content is larger than a pointer may lead to."""

    code = "CONTENT_TOO_LARGE"


class SectionAmbiguous(EvidenceRefusal):
    """More than one section has this heading."""

    code = "SECTION_AMBIGUOUS"


class ArtifactAmbiguous(EvidenceRefusal):
    """More than one file has this artifact's name."""

    code = "ARTIFACT_AMBIGUOUS"


class ObjectDamaged(EvidenceRefusal):
    """The stored object does not have the hash it is stored under."""

    code = "OBJECT_DAMAGED"


class RepositoryRefused(EvidenceRefusal):
    """The repository borrows objects from outside itself."""

    code = "REPOSITORY_REFUSED"


class TestReportInvalid(EvidenceRefusal):
    """The file is no test report that can be read."""

    __test__ = False
    code = "TEST_REPORT_INVALID"


class NoRepository(EvidenceRefusal):
    """The project has no git repository, so repo pointers cannot be read."""

    code = "NO_REPOSITORY"


class NoResolver(EvidenceRefusal):
    """No resolver for this type of pointer is installed."""

    code = "NO_RESOLVER"


class UrlsOff(EvidenceRefusal):
    """URL pointers are switched off in this project."""

    code = "URLS_OFF"
    status = 403


class UrlRefused(EvidenceRefusal):
    """The URL is not one this project may read."""

    code = "URL_REFUSED"
    status = 403


class SecretFound(Refusal):
    """The text holds a secret, and secrets are not stored."""

    code = "SECRET_FOUND"


class MessageRefusal(Refusal):
    """The message is not in its form."""

    code = "MESSAGE_REFUSED"


class MessageShape(MessageRefusal):
    """A message is a list of named sections."""

    code = "MESSAGE_SHAPE"


class MessageFence(MessageRefusal):
    """Nothing but the message may stand in the text, at most inside one fence."""

    code = "MESSAGE_FENCE"


class MessageEmpty(MessageRefusal):
    """The message says nothing."""

    code = "MESSAGE_EMPTY"


class MessageSectionMissing(MessageRefusal):
    """A section that every such message has is missing."""

    code = "MESSAGE_SECTION_MISSING"


class MessageSectionUnknown(MessageRefusal):
    """There is no such section in this kind of message."""

    code = "MESSAGE_SECTION_UNKNOWN"


class MessageRole(MessageRefusal):
    """The ROLE is not the sender's."""

    code = "MESSAGE_ROLE"


class MessageStatus(MessageRefusal):
    """The TASK_STATUS is not one."""

    code = "MESSAGE_STATUS"


class TupleRefusal(Refusal):
    """The tuple breaks a rule."""

    code = "TUPLE_REFUSED"


class TupleSchema(TupleRefusal):
    """The tuple's schema is not one this version knows."""

    code = "TUPLE_SCHEMA"


class TupleIdMismatch(TupleRefusal):
    """The tuple does not have the id it is given under."""

    code = "TUPLE_ID_MISMATCH"


class TupleTooLarge(TupleRefusal):
    """The tuple is larger than the space takes."""

    code = "TUPLE_TOO_LARGE"
    status = 413


class DeadlinePast(TupleRefusal):
    """The deadline has passed."""

    code = "DEADLINE_PAST"


class StepCycle(TupleRefusal):
    """The steps wait for each other in a circle."""

    code = "STEP_CYCLE"


class StepUnknown(TupleRefusal):
    """A step waits for one that the tuple does not have."""

    code = "STEP_UNKNOWN"


class LineageTooLong(TupleRefusal):
    """The tuple is a part of a part of too many others."""

    code = "LINEAGE_TOO_LONG"


class AuthorityStamped(TupleRefusal):
    """Authority is stamped by the gateway and cannot be written by a caller."""

    code = "AUTHORITY_STAMPED"


class ReceiptForeign(TupleRefusal):
    """The receipt is another tuple's."""

    code = "RECEIPT_FOREIGN"


class PatternRefusal(Refusal):
    """The pattern cannot be matched."""

    code = "PATTERN_REFUSED"


class PatternOperator(PatternRefusal):
    """The pattern names an operator that is not known here."""

    code = "PATTERN_OPERATOR"


class PatternValue(PatternRefusal):
    """The pattern compares with something that cannot be compared with."""

    code = "PATTERN_VALUE"


class ArtifactPath(Refusal):
    """The artifact's path leads out of its folder."""

    code = "ARTIFACT_PATH"


class QuotaRefusal(Refusal):
    """A step took more of the machine than it may, and was stopped."""

    code = "QUOTA_REFUSED"


class MemoryQuota(QuotaRefusal):
    """The step's processes held more memory than they may."""

    code = "MEMORY_QUOTA"


class DiskQuota(QuotaRefusal):
    """The step wrote more than it may."""

    code = "DISK_QUOTA"


class CatalogRefusal(Refusal):
    """The yool, or the file that declares it, is not as it should be."""

    code = "CATALOG_REFUSED"


class YoolName(CatalogRefusal):
    """The name is not one a yool may bear."""

    code = "YOOL_NAME"


class YoolReserved(CatalogRefusal):
    """The names under 'catalog' are the catalog's own."""

    code = "YOOL_RESERVED"


class YoolTwice(CatalogRefusal):
    """The same version of a yool is declared twice."""

    code = "YOOL_TWICE"


class YoolContract(CatalogRefusal):
    """The yool's contract is not one."""

    code = "YOOL_CONTRACT"


class YoolArguments(CatalogRefusal):
    """The arguments are not those the command takes."""

    code = "YOOL_ARGUMENTS"


class ScriptUnguarded(CatalogRefusal):
    """The script starts a worker as it is loaded: what it does belongs under 'if __name__ == "__main__":'."""

    code = "SCRIPT_UNGUARDED"


class LaneName(CatalogRefusal):
    """The name is not one a lane may bear."""

    code = "LANE_NAME"


class AuthorityInvalid(CatalogRefusal):
    """The authority is not a list of user, agent and ci."""

    code = "AUTHORITY_INVALID"


class TermsInvalid(CatalogRefusal):
    """The agent_terms are not what a step may be given."""

    code = "TERMS_INVALID"


class CommandDeclared(CatalogRefusal):
    """A file may declare names and terms, never commands."""

    code = "COMMAND_DECLARED"


class StackUnknown(CatalogRefusal):
    """The name holds ${stack}, and no stack is known."""

    code = "STACK_UNKNOWN"


class AgentsFile(CatalogRefusal):
    """The agents file cannot be read as one."""

    code = "AGENTS_FILE"


class CatalogFile(CatalogRefusal):
    """The catalog file cannot be read as one."""

    code = "CATALOG_FILE"


class BudgetExceeded(Refusal):
    """The message is larger than its budget."""

    code = "BUDGET_EXCEEDED"
    status = 413
    members = (*Refusal.members, "exceeded", "resend")

    def __init__(
        self,
        detail: str | None = None,
        *,
        exceeded: Sequence[Mapping[str, Any]] | None = None,
        resend: str | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(detail, **rest)
        self.exceeded = tuple(exceeded or ())
        """Everything that was exceeded: what, limit and used."""
        self.resend = resend
        """A message in the required form, to be filled in and sent instead."""


class MethodNotAllowed(Refusal):
    """This address does not take that method."""

    code = "METHOD_NOT_ALLOWED"
    status = 405


class BudgetTooSmall(Refusal):
    """The token budget is too small for any answer."""

    code = "BUDGET_TOO_SMALL"


class MemoryRefusal(Refusal):
    """A memory store cannot be read."""

    code = "MEMORY_REFUSED"


class MemoryStoreNotAFile(MemoryRefusal):
    """A memory store is not a regular file."""

    code = "MEMORY_STORE_NOT_A_FILE"


class MemoryStoreOutside(MemoryRefusal):
    """A memory store lies outside the folders that may be read."""

    code = "MEMORY_STORE_OUTSIDE"
    status = 403


class MemoryLineTooLong(MemoryRefusal):
    """A line of a memory store is too long."""

    code = "MEMORY_LINE_TOO_LONG"


class TrustSnapshotInvalid(MemoryRefusal):
    """The trust snapshot is not in its form."""

    code = "TRUST_SNAPSHOT_INVALID"


class ClientFileBroken(Refusal):
    """A client's file cannot be read, so it was left alone."""

    code = "CLIENT_FILE_BROKEN"


class PolicyInvalid(Refusal):
    """The policy file is not valid."""

    code = "POLICY_INVALID"


class Unauthorized(EngramBusError):
    """We do not know who is asking."""

    code = "UNAUTHORIZED"
    status = 401


class TokenMissing(Unauthorized):
    """A bearer token is needed."""

    code = "TOKEN_MISSING"


class TokenInvalid(Unauthorized):
    """The token is not one this project signed."""

    code = "TOKEN_INVALID"


class TokenExpired(Unauthorized):
    """The token has expired."""

    code = "TOKEN_EXPIRED"


class CodeInvalid(Unauthorized):
    """The code was used already, has expired, or was never given."""

    code = "CODE_INVALID"


class Forbidden(EngramBusError):
    """The caller may not do this."""

    code = "FORBIDDEN"
    status = 403


class RoleForbidden(Forbidden):
    """The caller's role may not do this."""

    code = "ROLE_FORBIDDEN"


class DerefDenied(Forbidden):
    """The turn's dereference budget does not allow this."""

    code = "DEREF_DENIED"


class ScopeForbidden(Forbidden):
    """The caller may not use this scope."""

    code = "SCOPE_FORBIDDEN"


class NotYourDescendant(Forbidden):
    """The caller may speak only for itself and its descendants."""

    code = "NOT_YOUR_DESCENDANT"


class RunEnded(Forbidden):
    """The run has ended."""

    code = "RUN_ENDED"


class CortexOff(Forbidden):
    """This part of the shared cortex is switched off."""

    code = "CORTEX_OFF"


class YoolForbidden(Forbidden):
    """The catalog does not admit this authority to the yool."""

    code = "YOOL_FORBIDDEN"


class HostForbidden(Forbidden):
    """The Host header names another server."""

    code = "HOST_FORBIDDEN"
    status = 421


class OriginForbidden(Forbidden):
    """The request comes from a foreign origin."""

    code = "ORIGIN_FORBIDDEN"


class GrantRefusal(Forbidden):
    """The budget token does not allow this."""

    code = "GRANT_REFUSED"


class GrantForged(GrantRefusal):
    """The budget token is not one this project signed, or was changed since."""

    code = "GRANT_FORGED"


class GrantForeign(GrantRefusal):
    """The budget token belongs to another project or run."""

    code = "GRANT_FOREIGN"


class GrantTooLong(GrantRefusal):
    """The budget token is longer than one may be."""

    code = "GRANT_TOO_LONG"


class GrantTooDeep(GrantRefusal):
    """The grant was passed on more often than a grant may be."""

    code = "GRANT_TOO_DEEP"


class GrantExpired(GrantRefusal):
    """The grant has expired."""

    code = "GRANT_EXPIRED"


class GrantWrongChild(GrantRefusal):
    """The grant is for another agent."""

    code = "GRANT_WRONG_CHILD"


class GrantWrongPointer(GrantRefusal):
    """The grant does not cover this pointer."""

    code = "GRANT_WRONG_POINTER"


class GrantOverCap(GrantRefusal):
    """The grant does not allow so much."""

    code = "GRANT_OVER_CAP"


class GrantSpent(GrantRefusal):
    """The grant has been used as often as it may be."""

    code = "GRANT_SPENT"


class GrantRevoked(GrantRefusal):
    """The grant, or one it was narrowed from, was revoked."""

    code = "GRANT_REVOKED"


class NotFound(EngramBusError):
    """Absent, or not yours."""

    code = "NOT_FOUND"
    status = 404


class EngramNotFound(NotFound):
    """There is no such engram."""

    code = "ENGRAM_NOT_FOUND"


class AgentNotFound(NotFound):
    """There is no such agent in this run."""

    code = "AGENT_NOT_FOUND"


class RunNotFound(NotFound):
    """There is no such run."""

    code = "RUN_NOT_FOUND"


class GrantNotFound(NotFound):
    """There is no such grant of yours in this run."""

    code = "GRANT_NOT_FOUND"


class RequestNotFound(NotFound):
    """There is no such open request to you in this run."""

    code = "REQUEST_NOT_FOUND"


class ProjectNotFound(NotFound):
    """There is no Engram Bus project here."""

    code = "PROJECT_NOT_FOUND"


class RepositoryNotFound(NotFound):
    """No repository of that name belongs to this project."""

    code = "REPOSITORY_NOT_FOUND"


class RevisionNotFound(NotFound):
    """The repository has no such commit."""

    code = "REVISION_NOT_FOUND"


class FileNotFound(NotFound):
    """There is no such file at that revision."""

    code = "FILE_NOT_FOUND"


class SpanNotFound(NotFound):
    """The file does not have those lines."""

    code = "SPAN_NOT_FOUND"


class SectionNotFound(NotFound):
    """There is no section with that heading."""

    code = "SECTION_NOT_FOUND"


class ArtifactNotFound(NotFound):
    """There is no such artifact at that revision."""

    code = "ARTIFACT_NOT_FOUND"


class BodyNotFound(NotFound):
    """There is no stored body with that digest."""

    code = "BODY_NOT_FOUND"


class MemoryStoreNotFound(NotFound):
    """There is no such memory store."""

    code = "MEMORY_STORE_NOT_FOUND"


class EpisodeNotFound(NotFound):
    """Nothing is remembered under this name."""

    code = "EPISODE_NOT_FOUND"


class ContributionNotFound(NotFound):
    """There is no such contribution."""

    code = "CONTRIBUTION_NOT_FOUND"


class TupleNotFound(NotFound):
    """There is no such tuple."""

    code = "TUPLE_NOT_FOUND"


class ReceiptNotFound(NotFound):
    """There is no such receipt."""

    code = "RECEIPT_NOT_FOUND"


class TestNotFound(NotFound):
    """There is no such test in the receipt."""

    __test__ = False
    code = "TEST_NOT_FOUND"


class YoolNotFound(NotFound):
    """There is no yool of that name in the catalog."""

    code = "YOOL_NOT_FOUND"
    members = (*NotFound.members, "nearest")

    def __init__(self, detail: str | None = None, *, nearest: Sequence[str] | None = None, **rest: Any) -> None:
        super().__init__(detail, **rest)
        self.nearest = tuple(nearest or ())
        """The names that are most like it, the likest first."""


class RouteNotFound(NotFound):
    """There is nothing at this address."""

    code = "ROUTE_NOT_FOUND"


class RateLimited(EngramBusError):
    """Too many engrams in one minute."""

    code = "RATE_LIMITED"
    status = 429


class Conflict(EngramBusError):
    """The request does not fit the present state."""

    code = "CONFLICT"
    status = 409


class AgentExists(Conflict):
    """An agent of that name is already in this run."""

    code = "AGENT_EXISTS"


class IdTaken(Conflict):
    """That id is already taken."""

    code = "ID_TAKEN"


class IdempotencyConflict(Conflict):
    """That idempotency key was used for another request."""

    code = "IDEMPOTENCY_CONFLICT"


class LaneFull(Conflict):
    """The lane holds as many waiting tuples as it may."""

    code = "LANE_FULL"
    status = 429


class StaleFence(Conflict):
    """The claim is no longer held: its lease has ended or another has the tuple."""

    code = "STALE_FENCE"


class TupleEnded(Conflict):
    """The tuple has its last receipt already."""

    code = "TUPLE_ENDED"


class ProjectExists(Conflict):
    """A project already lives here."""

    code = "PROJECT_EXISTS"


class MemoryStoreChanged(Conflict):
    """A memory store changed while it was read."""

    code = "MEMORY_STORE_CHANGED"


class ContributionDecided(Conflict):
    """The contribution was decided on before."""

    code = "CONTRIBUTION_DECIDED"


class ClientEntryTaken(Conflict):
    """A client's file has an entry of our name that is not ours."""

    code = "CLIENT_ENTRY_TAKEN"


class ClientFileChanged(Conflict):
    """A client wrote its file at the same moment, so it was left alone."""

    code = "CLIENT_FILE_CHANGED"


class ClientFileUnwritable(Conflict):
    """A client's file cannot be written, so all of them were left as they were."""

    code = "CLIENT_FILE_UNWRITABLE"


class PortTaken(Conflict):
    """Something else listens on that port."""

    code = "PORT_TAKEN"


class Trouble(EngramBusError):
    """The fault is on our side, or the machine's."""

    code = "TROUBLE"
    status = 503


class StoreReadOnly(Trouble):
    """A sync to disk failed, so the store takes no more writes until it is opened again."""

    code = "STORE_READ_ONLY"


class JournalDamaged(Trouble):
    """The journal is damaged before its last synced mark."""

    code = "JOURNAL_DAMAGED"


class IndexDamaged(Trouble):
    """The index was damaged and has been built anew; ask again."""

    code = "INDEX_DAMAGED"


class FormatUnknown(Trouble):
    """The files were written by a version this one does not know."""

    code = "FORMAT_UNKNOWN"


class DiskPressure(Trouble):
    """The disk is full."""

    code = "DISK_PRESSURE"
    status = 507


class SecretCheckFailed(Trouble):
    """The check for secrets failed, so nothing was stored."""

    code = "SECRET_CHECK_FAILED"


class NoTupleSpace(Trouble):
    """Work is not kept here."""

    code = "NO_WORKBENCH"


class TooManyStreams(Trouble):
    """No more event streams can be opened now."""

    code = "TOO_MANY_STREAMS"


class GitTrouble(Trouble):
    """Git did not answer."""

    code = "GIT_TROUBLE"


class UrlTrouble(Trouble):
    """The URL did not answer as it should."""

    code = "URL_TROUBLE"
    status = 502


class Unreachable(Trouble):
    """The gateway cannot be reached."""

    code = "UNREACHABLE"
    status = 502


class Internal(Trouble):
    """Something broke inside Engram Bus."""

    code = "INTERNAL"
    status = 500


def _unicode(value: Any) -> Any:
    """The value with nothing in it that cannot be encoded: what was refused may not be Unicode."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_unicode(key): _unicode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_unicode(item) for item in value]
    return value


def _walk(kind: type[EngramBusError]) -> list[type[EngramBusError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _walk(child))]


BY_CODE: dict[str, type[EngramBusError]] = {kind.code: kind for kind in _walk(EngramBusError)}
