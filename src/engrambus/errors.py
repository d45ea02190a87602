"""Every error Engram Bus can give, in one tree.

EngramBusError                    code, HTTP status, and the members that say what to change
├── Refusal                  422  the request is at fault; nothing changed
│   ├── BodyRefusal               the body cannot be read
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
│   ├── FieldRefusal              a field does not fit its type or schema
│   │   ├── FieldMissing          FIELD_MISSING
│   │   ├── FieldUnknown          FIELD_UNKNOWN
│   │   ├── FieldType             FIELD_TYPE
│   │   ├── FieldValue            FIELD_VALUE
│   │   ├── IdAmbiguous           ID_AMBIGUOUS
│   │   ├── LifetimeTooLong       LIFETIME_TOO_LONG
│   │   ├── StoreUrlInvalid       STORE_URL_INVALID
│   │   └── ProvenanceStamped     PROVENANCE_STAMPED
│   ├── EngramRefusal             an engram breaks a rule
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
│   │   ├── EvidenceStale         EVIDENCE_STALE
│   │   ├── EvidenceUnresolved    EVIDENCE_UNRESOLVED
│   │   ├── LinesUncommitted      LINES_UNCOMMITTED
│   │   └── TimeInvalid           TIME_INVALID
│   ├── PointerRefusal            a pointer cannot be parsed
│   │   ├── PointerSyntax         POINTER_SYNTAX
│   │   ├── PointerNotPinned      POINTER_NOT_PINNED
│   │   ├── PointerRevision       POINTER_REVISION
│   │   ├── PointerPath           POINTER_PATH
│   │   ├── PointerSpan           POINTER_SPAN
│   │   ├── PointerDisagrees      POINTER_DISAGREES
│   │   └── PointerTooLong        POINTER_TOO_LONG
│   ├── EvidenceRefusal           a pointer leads to content that may not be read
│   │   ├── DigestMismatch        DIGEST_MISMATCH
│   │   ├── NotAFile              NOT_A_FILE
│   │   ├── LinkRefused           LINK_REFUSED
│   │   ├── NotText               NOT_TEXT
│   │   ├── ContentTooLarge       CONTENT_TOO_LARGE
│   │   ├── SectionAmbiguous      SECTION_AMBIGUOUS
│   │   ├── ArtifactAmbiguous     ARTIFACT_AMBIGUOUS
│   │   ├── PathTwins             PATH_TWINS
│   │   ├── ObjectDamaged         OBJECT_DAMAGED
│   │   ├── RepositoryRefused     REPOSITORY_REFUSED
│   │   ├── TestReportInvalid     TEST_REPORT_INVALID
│   │   ├── NoRepository          NO_REPOSITORY
│   │   ├── NoResolver            NO_RESOLVER
│   │   ├── UrlsOff          403  URLS_OFF
│   │   └── UrlRefused       403  URL_REFUSED
│   ├── SecretFound               SECRET_FOUND
│   ├── InvisibleText             INVISIBLE_TEXT
│   ├── MessageRefusal            a message does not have the required form
│   │   ├── MessageShape          MESSAGE_SHAPE
│   │   ├── MessageFence          MESSAGE_FENCE
│   │   ├── MessageEmpty          MESSAGE_EMPTY
│   │   ├── MessageSectionMissing MESSAGE_SECTION_MISSING
│   │   ├── MessageSectionUnknown MESSAGE_SECTION_UNKNOWN
│   │   ├── MessageRole           MESSAGE_ROLE
│   │   ├── MessageStatus         MESSAGE_STATUS
│   │   └── MessageUnfilled       MESSAGE_UNFILLED
│   ├── TupleRefusal              a tuple, its terms or its steps break a rule
│   │   ├── TupleSchema           TUPLE_SCHEMA
│   │   ├── TupleIdMismatch       TUPLE_ID_MISMATCH
│   │   ├── TupleTooLarge    413  TUPLE_TOO_LARGE
│   │   ├── DeadlinePast          DEADLINE_PAST
│   │   ├── NotBeforePastDeadline NOT_BEFORE_PAST_DEADLINE
│   │   ├── StepCycle             STEP_CYCLE
│   │   ├── StepUnknown           STEP_UNKNOWN
│   │   ├── LimitInvalid          LIMIT_INVALID
│   │   ├── TooManyLimits         TOO_MANY_LIMITS
│   │   ├── LineageTooLong        LINEAGE_TOO_LONG
│   │   ├── DependencyCycle       DEPENDENCY_CYCLE
│   │   ├── TooManyDependencies   TOO_MANY_DEPENDENCIES
│   │   ├── TaskEvidence          TASK_EVIDENCE
│   │   ├── AuthorityStamped      AUTHORITY_STAMPED
│   │   ├── ReceiptForeign        RECEIPT_FOREIGN
│   │   ├── BatchShapeInvalid     BATCH_SHAPE_INVALID
│   │   ├── BatchTooLarge         BATCH_TOO_LARGE
│   │   ├── BatchThreshold        BATCH_THRESHOLD
│   │   ├── BatchTemplate         BATCH_TEMPLATE
│   │   └── BatchPath             BATCH_PATH
│   │   └── ReceiptForeign        RECEIPT_FOREIGN
│   ├── ScheduleRefusal           a schedule breaks a rule
│   │   ├── ScheduleName          SCHEDULE_NAME
│   │   ├── ScheduleTiming        SCHEDULE_TIMING
│   │   ├── ScheduleTuple         SCHEDULE_TUPLE
│   │   ├── CronInvalid           CRON_INVALID
│   │   ├── CronNeverFires        CRON_NEVER_FIRES
│   │   ├── IntervalInvalid       INTERVAL_INVALID
│   │   └── ZoneUnknown           ZONE_UNKNOWN
│   ├── ReservationPath           RESERVATION_PATH
│   ├── PatternRefusal            a pattern cannot be matched against tuples
│   │   ├── PatternOperator       PATTERN_OPERATOR
│   │   ├── PatternPath           PATTERN_PATH
│   │   └── PatternValue          PATTERN_VALUE
│   ├── ArtifactPath              ARTIFACT_PATH
│   ├── QuotaRefusal              a step exceeded a limit and was stopped
│   │   ├── MemoryQuota           MEMORY_QUOTA
│   │   ├── DiskQuota             DISK_QUOTA
│   │   └── ProcessQuota          PROCESS_QUOTA
│   ├── EffectViolated            EFFECT_VIOLATED
│   ├── CatalogRefusal            a yool, or a file that declares yools, is invalid
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
│   ├── BudgetReserved       413  BUDGET_RESERVED
│   ├── HookRefusal          403  a hook of the operator refused a primitive of the tuple space
│   │   ├── HookVeto              HOOK_VETO
│   │   ├── HookFailed       503  HOOK_FAILED
│   │   ├── HookTimeout      503  HOOK_TIMEOUT
│   │   └── HookInvalid      503  HOOK_INVALID
│   ├── EmbeddingsOff        403  EMBEDDINGS_OFF
│   ├── MethodNotAllowed     405  METHOD_NOT_ALLOWED
│   ├── BudgetTooSmall            BUDGET_TOO_SMALL
│   ├── MemoryRefusal             a memory store or a trust snapshot cannot be read
│   │   ├── MemoryStoreNotAFile   MEMORY_STORE_NOT_A_FILE
│   │   ├── MemoryStoreOutside 403 MEMORY_STORE_OUTSIDE
│   │   ├── MemoryLineTooLong     MEMORY_LINE_TOO_LONG
│   │   └── TrustSnapshotInvalid  TRUST_SNAPSHOT_INVALID
│   ├── AgentAmbiguous            AGENT_AMBIGUOUS
│   ├── AddressInsecure           ADDRESS_INSECURE
│   ├── ServerExposed             SERVER_EXPOSED
│   ├── CertificateInvalid        CERTIFICATE_INVALID
│   ├── LoginInvalid              LOGIN_INVALID
│   ├── ProjectDiffers            PROJECT_DIFFERS
│   ├── PushRefused               PUSH_REFUSED
│   ├── MirrorFull           413  MIRROR_FULL
│   ├── ClientFileBroken          CLIENT_FILE_BROKEN
│   ├── FileExists                FILE_EXISTS
│   ├── ScaffoldFolder            SCAFFOLD_FOLDER
│   ├── KeyFileReadable           KEY_FILE_READABLE
│   ├── SharingRefusal            an exported event, or the place of one, is not as it must be
│   │   ├── EventInvalid          EVENT_INVALID
│   │   ├── EventSignature        EVENT_SIGNATURE
│   │   ├── ReplacesCycle         REPLACES_CYCLE
│   │   ├── ExportTooLarge        EXPORT_TOO_LARGE
│   │   ├── PublicKeyInvalid      PUBLIC_KEY_INVALID
│   │   └── SyncRefInvalid        SYNC_REF_INVALID
│   ├── NotPublished              NOT_PUBLISHED
│   ├── Usage                     USAGE
│   └── PolicyInvalid             POLICY_INVALID
├── Unauthorized             401  the caller is unknown
│   ├── TokenMissing              TOKEN_MISSING
│   ├── TokenInvalid              TOKEN_INVALID
│   ├── TokenExpired              TOKEN_EXPIRED
│   ├── TokenRevoked              TOKEN_REVOKED
│   ├── CodeInvalid               CODE_INVALID
│   └── SessionInvalid            SESSION_INVALID
├── Forbidden                403  the caller is known and may not do this
│   ├── RoleForbidden             ROLE_FORBIDDEN
│   ├── ScopeForbidden            SCOPE_FORBIDDEN
│   ├── DerefDenied               DEREF_DENIED
│   ├── NotYourDescendant         NOT_YOUR_DESCENDANT
│   ├── NotYourPeer               NOT_YOUR_PEER
│   ├── MarkInvalid               MARK_INVALID
│   ├── MarkMissing               MARK_MISSING
│   ├── RunEnded                  RUN_ENDED
│   ├── AgentRemoved              AGENT_REMOVED
│   ├── CortexOff                 CORTEX_OFF
│   ├── EngramUntrusted           ENGRAM_UNTRUSTED
│   ├── EngramUnconfirmed         ENGRAM_UNCONFIRMED
│   ├── YoolForbidden             YOOL_FORBIDDEN
│   ├── HostForbidden        421  HOST_FORBIDDEN
│   ├── ProxyForbidden            PROXY_FORBIDDEN
│   ├── OriginForbidden           ORIGIN_FORBIDDEN
│   └── GrantRefusal              a budget token does not allow this
│       ├── GrantForged           GRANT_FORGED
│       ├── GrantForeign          GRANT_FOREIGN
│       ├── GrantTooLong          GRANT_TOO_LONG
│       ├── GrantTooDeep          GRANT_TOO_DEEP
│       ├── GrantExpired          GRANT_EXPIRED
│       ├── GrantWrongChild       GRANT_WRONG_CHILD
│       ├── GrantWrongPointer     GRANT_WRONG_POINTER
│       ├── GrantWider            GRANT_WIDER
│       ├── GrantOverCap          GRANT_OVER_CAP
│       ├── GrantSpent            GRANT_SPENT
│       └── GrantRevoked          GRANT_REVOKED
├── NotFound                 404  absent or not visible to the caller: both look the same
│   ├── EngramNotFound            ENGRAM_NOT_FOUND
│   ├── AgentNotFound             AGENT_NOT_FOUND
│   ├── RunNotFound               RUN_NOT_FOUND
│   ├── SessionUnknown            SESSION_UNKNOWN
│   ├── SessionNotFound           SESSION_NOT_FOUND
│   ├── TokenNotFound             TOKEN_NOT_FOUND
│   ├── GrantNotFound             GRANT_NOT_FOUND
│   ├── RequestNotFound           REQUEST_NOT_FOUND
│   ├── ReservationNotFound       RESERVATION_NOT_FOUND
│   ├── MailNotFound              MAIL_NOT_FOUND
│   ├── ProjectNotFound           PROJECT_NOT_FOUND
│   ├── RepositoryNotFound        REPOSITORY_NOT_FOUND
│   ├── RepositoryAbsent          REPOSITORY_ABSENT
│   ├── RevisionNotFound          REVISION_NOT_FOUND
│   │   └── RevisionNotFetched    REVISION_NOT_FETCHED
│   │       └── RevisionNotPushed REVISION_NOT_PUSHED
│   ├── MergeBaseNotFound         MERGE_BASE_NOT_FOUND
│   ├── GateFindingNotFound       GATE_FINDING_NOT_FOUND
│   ├── FileNotFound              FILE_NOT_FOUND
│   ├── SpanNotFound              SPAN_NOT_FOUND
│   ├── SectionNotFound           SECTION_NOT_FOUND
│   ├── ArtifactNotFound          ARTIFACT_NOT_FOUND
│   ├── BodyNotFound              BODY_NOT_FOUND
│   ├── MemoryStoreNotFound       MEMORY_STORE_NOT_FOUND
│   ├── EpisodeNotFound           EPISODE_NOT_FOUND
│   ├── ContributionNotFound      CONTRIBUTION_NOT_FOUND
│   ├── SnapshotNotFound          SNAPSHOT_NOT_FOUND
│   ├── InputNotFound             INPUT_NOT_FOUND
│   ├── ContradictionNotFound     CONTRADICTION_NOT_FOUND
│   ├── TupleNotFound             TUPLE_NOT_FOUND
│   ├── LimitNotFound             LIMIT_NOT_FOUND
│   ├── NoTaskReady               NO_TASK_READY
│   ├── BatchNotFound             BATCH_NOT_FOUND
│   ├── ScheduleNotFound          SCHEDULE_NOT_FOUND
│   ├── ReceiptNotFound           RECEIPT_NOT_FOUND
│   ├── TestNotFound              TEST_NOT_FOUND
│   ├── YoolNotFound              YOOL_NOT_FOUND
│   ├── ExportNotFound            EXPORT_NOT_FOUND
│   ├── RemoteNotFound            REMOTE_NOT_FOUND
│   ├── ToolNotFound              TOOL_NOT_FOUND
│   └── RouteNotFound             ROUTE_NOT_FOUND
├── RateLimited              429  RATE_LIMITED
├── TooManyCalls             429  TOO_MANY_CALLS
├── TooManyFailures          429  TOO_MANY_FAILURES
├── TooManySessions          429  TOO_MANY_SESSIONS
├── TooManyAgents            429  TOO_MANY_AGENTS
├── TooManyReservations      429  TOO_MANY_RESERVATIONS
├── TooManySchedules         429  TOO_MANY_SCHEDULES
├── Notice                   200  the call succeeded, but not quite as asked; it comes with the answer
│   ├── ScopeLowered              SCOPE_LOWERED
│   ├── CommitsNotPushed          COMMITS_NOT_PUSHED
│   ├── ClaimConfirmed            CLAIM_CONFIRMED
│   ├── ClaimNear                 CLAIM_NEAR
│   ├── ClaimContradicts          CLAIM_CONTRADICTS
│   ├── PinReplaced               PIN_REPLACED
│   ├── UsedUnresolved            USED_UNRESOLVED
│   ├── UsedUntrusted             USED_UNTRUSTED
│   ├── NothingSearched           NOTHING_SEARCHED
│   ├── ComparedPartly            COMPARED_PARTLY
│   └── ApprovalPending           APPROVAL_PENDING
├── Conflict                 409  the request conflicts with the current state
│   ├── AgentExists               AGENT_EXISTS
│   ├── PathReserved              PATH_RESERVED
│   ├── IdTaken                   ID_TAKEN
│   ├── AlreadyReplaced           ALREADY_REPLACED
│   ├── IdempotencyConflict       IDEMPOTENCY_CONFLICT
│   ├── MemoryStoreChanged        MEMORY_STORE_CHANGED
│   ├── ContributionDecided       CONTRIBUTION_DECIDED
│   ├── ContradictionDecided      CONTRADICTION_DECIDED
│   ├── PromotionDecided          PROMOTION_DECIDED
│   ├── LaneFull             429  LANE_FULL
│   ├── ScheduleExists            SCHEDULE_EXISTS
│   ├── StaleFence                STALE_FENCE
│   ├── TupleEnded                TUPLE_ENDED
│   ├── TaskHeld                  TASK_HELD
│   ├── TaskLost                  TASK_LOST
│   ├── TaskBlocked               TASK_BLOCKED
│   ├── BatchRunning              BATCH_RUNNING
│   ├── ProjectExists             PROJECT_EXISTS
│   ├── ProjectElsewhere          PROJECT_ELSEWHERE
│   ├── ProjectMoved              PROJECT_MOVED
│   ├── MoveInterrupted           MOVE_INTERRUPTED
│   ├── KeysExist                 KEYS_EXIST
│   ├── PublicKeyExists           PUBLIC_KEY_EXISTS
│   ├── SyncRefInUse              SYNC_REF_IN_USE
│   ├── SyncRaced                 SYNC_RACED
│   ├── ClientEntryTaken          CLIENT_ENTRY_TAKEN
│   ├── ClientFileCommitted       CLIENT_FILE_COMMITTED
│   ├── ClientFileChanged         CLIENT_FILE_CHANGED
│   ├── ClientFileUnwritable      CLIENT_FILE_UNWRITABLE
│   └── PortTaken                 PORT_TAKEN
└── Trouble                  503  the server or its machine is at fault
    ├── StoreReadOnly             STORE_READ_ONLY
    ├── StoreBusy                 STORE_BUSY
    ├── StoreTrouble              the database of ENGRAMBUS_STORE cannot be used as it is
    │   ├── StoreUnreachable      STORE_UNREACHABLE
    │   ├── CommitUnknown         COMMIT_UNKNOWN
    │   ├── StoreRights           STORE_RIGHTS
    │   ├── StoreSchemaOld        STORE_SCHEMA_OLD
    │   ├── StoreSchemaNew        STORE_SCHEMA_NEW
    │   └── StoreDriverMissing    STORE_DRIVER_MISSING
    ├── JournalDamaged            JOURNAL_DAMAGED
    ├── JournalMissing            JOURNAL_MISSING
    ├── JournalForeign            JOURNAL_FOREIGN
    ├── IndexDamaged              INDEX_DAMAGED
    ├── FormatUnknown             FORMAT_UNKNOWN
    ├── LinkInCatalog             LINK_IN_CATALOG
    ├── FileNotOurs               FILE_NOT_OURS
    ├── FolderNotOurs             FOLDER_NOT_OURS
    ├── DiskPressure         507  DISK_PRESSURE
    ├── DiskError                 DISK_ERROR
    ├── ClockAhead                CLOCK_AHEAD
    ├── SecretCheckFailed         SECRET_CHECK_FAILED
    ├── NoTupleSpace              NO_WORKBENCH
    ├── EmbeddingsUnavailable     EMBEDDINGS_UNAVAILABLE
    ├── BodiesUnavailable         BODIES_UNAVAILABLE
    ├── TooManyStreams            TOO_MANY_STREAMS
    ├── LimitEnforcerLost         LIMIT_ENFORCER_LOST
    ├── WorkerQuota               WORKER_QUOTA
    ├── GitTrouble                GIT_TROUBLE
    ├── RemoteUnreachable    502  REMOTE_UNREACHABLE
    ├── RemoteRefused        502  REMOTE_REFUSED
    ├── UrlTrouble           502  URL_TROUBLE
    ├── Unreachable          502  UNREACHABLE
    ├── ListenerUnproven     502  LISTENER_UNPROVEN
    └── Internal             500  INTERNAL

A class's docstring is its message. `problem()` is the object every edge returns: RFC 9457 members over HTTP, the same
object as an MCP error and under `--json`. A class with further members names them in `members`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from engrambus.visible_text import make_visible


class EngramBusError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "ERROR"
    """Stable once published (tests/error_codes.txt). Derived from the class name unless the class sets its own."""
    status: ClassVar[int] = 500
    members: ClassVar[tuple[str, ...]] = ("field", "line", "limit", "used", "hint")
    retry_after_seconds: int | None = None
    """When the same call may succeed, for the header Retry-After; None if that is not known."""
    """Members of the problem object besides code, title, status and detail: each an attribute and an argument."""
    is_denial: ClassVar[bool] = False
    """True if a rule about who may do what, or how much, refused the call; the gateway records it (decision 52)."""
    quotes_caller: ClassVar[bool] = True
    """False if its texts name files of ours and nothing that a caller wrote: then no secret is looked for in them."""
    is_recorded = False
    """True if the journal has a fact about this refusal already."""

    def __init_subclass__(cls) -> None:
        # Base classes and renamed classes set a code of their own, which must not pass on to subclasses.
        if "code" not in vars(cls):
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).upper()

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
        # decision 72: details and hints quote what a caller or a file says
        self.detail = make_visible(detail) if detail else self.title
        self.field = field
        self.limit = limit
        self.used = used
        self.hint = hint and make_visible(hint)
        self.line = line
        super().__init__(self.detail)

    def problem(self) -> dict[str, Any]:
        """Return the error as an RFC 9457 problem object, the same on every edge."""
        problem: dict[str, Any] = {
            "type": f"urn:engrambus:{self.code.lower().replace('_', '-')}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
        }
        if self.detail != self.title:
            problem["detail"] = self.detail
        for name in self.members:
            value = getattr(self, name)
            # An empty tuple is a list member that was not given.
            if value is not None and value != ():
                problem[name] = value
        return {name: _unicode(value) for name, value in problem.items()}

    @classmethod
    def from_problem(cls, problem: dict[str, Any]) -> EngramBusError:
        """Rebuild the error from a problem object that an edge sent."""
        # A newer server may send a code that this version does not know.
        kind = BY_CODE.get(str(problem.get("code")), Internal)
        detail = problem.get("detail") or problem.get("title")
        return kind(
            detail if isinstance(detail, str) else None,
            **{name: problem.get(name) for name in kind.members},
        )


class Refusal(EngramBusError):
    """The request is at fault; nothing was changed."""

    code = "REFUSED"
    status = 422


class BodyRefusal(Refusal):
    """The request body was refused."""

    code = "BODY_REFUSED"


class BodyTooLarge(BodyRefusal):
    """The body is larger than this operation accepts."""

    status = 413


class BodyTooSlow(BodyRefusal):
    """The body did not arrive in time."""

    status = 408


class ContentType(BodyRefusal):
    """This operation does not accept the content type."""

    status = 415


class BadJson(BodyRefusal):
    """The body is not JSON."""


class BadYaml(BodyRefusal):
    """The text is not valid YAML, or uses a feature that is not accepted here."""


class TooDeep(BodyRefusal):
    """The body is nested too deeply."""


class DuplicateKey(BodyRefusal):
    """An object has the same key twice."""


class NumberRange(BodyRefusal):
    """A number is not finite, or is an integer beyond 2^53."""


class BadText(BodyRefusal):
    """A text is not valid Unicode."""


class TextCut(BodyRefusal):
    """An unquoted text contains ' #', which YAML reads as a comment."""


class InputNotAFile(BodyRefusal):
    """The input is not a regular file."""


class FieldRefusal(Refusal):
    """A field is invalid."""

    code = "FIELD_REFUSED"


class FieldMissing(FieldRefusal):
    """A required field is missing."""


class FieldUnknown(FieldRefusal):
    """The request has an unknown field."""


class FieldType(FieldRefusal):
    """A field has the wrong type."""


class FieldValue(FieldRefusal):
    """A field has a value outside what its schema allows."""


class LifetimeTooLong(FieldRefusal):
    """The lifetime is longer than the policy allows."""


class StoreUrlInvalid(FieldRefusal):
    """ENGRAMBUS_STORE is not the URL of a database."""


class IdAmbiguous(FieldRefusal):
    """More than one id starts with these characters."""


class ProvenanceStamped(FieldRefusal):
    """Provenance is stamped by the gateway and cannot be written by a caller."""


class EngramRefusal(Refusal):
    """The engram breaks a rule."""

    code = "ENGRAM_REFUSED"


class NoPointer(EngramRefusal):
    """An engram needs at least one pointer."""


class TooManyPointers(EngramRefusal):
    """An engram has too many pointers."""


class ClaimEmpty(EngramRefusal):
    """The claim is empty."""


class ClaimTooLong(EngramRefusal):
    """The claim is too long."""


class ClaimTooManySentences(EngramRefusal):
    """The claim has too many sentences."""


class TtlInvalid(EngramRefusal):
    """The ttl is not an ISO-8601 duration in weeks, days, hours, minutes and seconds."""


class TtlTooLong(EngramRefusal):
    """The ttl is longer than the project allows."""


class ConfidenceRange(EngramRefusal):
    """The confidence is not a finite number from 0 to 1."""


class IdInvalid(EngramRefusal):
    """The id is neither a ULID nor a UUID."""


class PhantomRead(EngramRefusal):
    """The engram has a digest of content that no agent of this run has read through the gateway."""

    is_denial = True


class EvidenceUnresolved(EngramRefusal):
    """No pointer of the engram leads to content that is here, so there is no evidence for its claim."""


class EvidenceStale(EngramRefusal):
    """The lines that the engram points at have changed, so it is confirmed with the lines that show it now."""


class LinesUncommitted(EngramRefusal):
    """The lines on disk are not those of the commit that a pointer to them would name."""


class TimeInvalid(EngramRefusal):
    """The time is not an RFC 3339 date-time, or out of range."""


class PointerRefusal(Refusal):
    """The pointer cannot be read as an address."""

    code = "POINTER_REFUSED"


class PointerSyntax(PointerRefusal):
    """The pointer does not follow the grammar."""


class PointerNotPinned(PointerRefusal):
    """The pointer names no revision, version or digest."""


class PointerRevision(PointerRefusal):
    """The revision is not a full lower-case object id."""


class PointerPath(PointerRefusal):
    """The path leaves its tree or has a character that paths may not have."""


class PointerSpan(PointerRefusal):
    """The line span is invalid."""


class PointerDisagrees(PointerRefusal):
    """The pointer's fields and its ref disagree."""


class PointerTooLong(PointerRefusal):
    """The pointer is too long."""


class EvidenceRefusal(Refusal):
    """The pointer leads to content that may not be read."""

    code = "EVIDENCE_REFUSED"


class DigestMismatch(EvidenceRefusal):
    """The content does not have the digest given in the pointer."""


class NotAFile(EvidenceRefusal):
    """The pointer leads to something that is not a regular file."""


class LinkRefused(EvidenceRefusal):
    """The pointer leads to a symbolic link."""


class NotText(EvidenceRefusal):
    """The content is not UTF-8 text."""


class ContentTooLarge(EvidenceRefusal):
    """The content is larger than a pointer may lead to."""


class SectionAmbiguous(EvidenceRefusal):
    """More than one section has this heading."""


class ArtifactAmbiguous(EvidenceRefusal):
    """More than one file has this artifact's name."""


class PathTwins(EvidenceRefusal):
    """The tree has two names that people read as one, so neither is read."""


class ObjectDamaged(EvidenceRefusal):
    """The stored object does not have the hash it is stored under."""


class RepositoryRefused(EvidenceRefusal):
    """The repository borrows objects from outside itself."""


class TestReportInvalid(EvidenceRefusal):
    """The file is not a test report in a known format."""

    __test__ = False  # pytest would collect a class called Test…


class NoRepository(EvidenceRefusal):
    """The project has no git repository, so repo pointers cannot be read."""


class NoResolver(EvidenceRefusal):
    """No resolver for this type of pointer is installed."""


class UrlsOff(EvidenceRefusal):
    """URL pointers are switched off in this project."""

    status = 403
    is_denial = True


class UrlRefused(EvidenceRefusal):
    """This project's policy does not allow this URL."""

    status = 403
    is_denial = True


class SecretFound(Refusal):
    """The text contains a secret, and secrets are not stored."""

    is_denial = True


class InvisibleText(Refusal):
    """The text contains a character that people do not see and models read."""

    is_denial = True
    members = (*Refusal.members, "character", "position")

    def __init__(
        self, detail: str | None = None, *, character: str | None = None, position: int | None = None, **members: Any
    ) -> None:
        super().__init__(detail, **members)
        self.character = character
        """`U+202E RIGHT-TO-LEFT OVERRIDE`"""
        self.position = position
        """Characters of the field's text before it."""


class MessageRefusal(Refusal):
    """The message does not have the required form."""

    code = "MESSAGE_REFUSED"


class MessageShape(MessageRefusal):
    """A message is a list of named sections."""


class MessageFence(MessageRefusal):
    """The text contains something besides the message. One code fence around the message is allowed."""


class MessageEmpty(MessageRefusal):
    """The message is empty."""


class MessageSectionMissing(MessageRefusal):
    """A required section of the message is missing."""


class MessageSectionUnknown(MessageRefusal):
    """This kind of message has no such section."""


class MessageRole(MessageRefusal):
    """ROLE is not the sender's role."""


class MessageStatus(MessageRefusal):
    """TASK_STATUS has an unknown value."""


class MessageUnfilled(MessageRefusal):
    """A text that was to be filled in still has only dots."""


class TupleRefusal(Refusal):
    """The tuple breaks a rule."""

    code = "TUPLE_REFUSED"


class TupleSchema(TupleRefusal):
    """This version does not know the tuple's schema."""


class TupleIdMismatch(TupleRefusal):
    """The tuple's id does not match its content."""


class TupleTooLarge(TupleRefusal):
    """The tuple is larger than the tuple space accepts."""

    status = 413


class DeadlinePast(TupleRefusal):
    """The deadline has passed."""


class NotBeforePastDeadline(TupleRefusal):
    """The tuple could first be claimed after its deadline."""


class StepCycle(TupleRefusal):
    """The steps depend on each other in a cycle."""


class LimitInvalid(TupleRefusal):
    """The limit or pause is invalid."""


class TooManyLimits(TupleRefusal):
    """There are too many limits and pauses."""


class StepUnknown(TupleRefusal):
    """A step depends on a step that the tuple does not have."""


class LineageTooLong(TupleRefusal):
    """The tuple has too many ancestors."""


class DependencyCycle(TupleRefusal):
    """The tuple would wait for itself."""


class TooManyDependencies(TupleRefusal):
    """A tuple waits for too many others, or too many wait for it."""


class TaskEvidence(TupleRefusal):
    """A task is done with evidence: a pointer that resolves, or a receipt that ended with 0."""


class AuthorityStamped(TupleRefusal):
    """Authority is stamped by the gateway and cannot be written by a caller."""


class ReceiptForeign(TupleRefusal):
    """The receipt belongs to another tuple."""


class BatchShapeInvalid(TupleRefusal):
    """The batch has no level below its root, no children, or too many levels."""


class BatchTooLarge(TupleRefusal):
    """The batch has too many leaves."""


class BatchThreshold(TupleRefusal):
    """The number of leaves from which a batch is put folded is at least 1."""


class BatchTemplate(TupleRefusal):
    """The tuple cannot be the template of a batch's leaves."""


class BatchPath(TupleRefusal):
    """The path does not name an agent of the batch."""


class ScheduleRefusal(Refusal):
    """A schedule breaks a rule."""

    code = "SCHEDULE_REFUSED"


class ScheduleName(ScheduleRefusal):
    """The name of the schedule is not valid."""


class ScheduleTiming(ScheduleRefusal):
    """When the schedule is due is not valid."""


class ScheduleTuple(ScheduleRefusal):
    """A schedule cannot emit such tuples."""


class CronInvalid(ScheduleRefusal):
    """The cron expression is not valid."""


class CronNeverFires(ScheduleRefusal):
    """The cron expression is never due."""


class IntervalInvalid(ScheduleRefusal):
    """The interval of the schedule is not valid."""


class ZoneUnknown(ScheduleRefusal):
    """There is no such time zone."""


class ReservationPath(Refusal):
    """A path that is to be reserved is not one inside the repository."""


class PatternRefusal(Refusal):
    """The pattern cannot be matched."""

    code = "PATTERN_REFUSED"


class PatternOperator(PatternRefusal):
    """The pattern uses an unknown operator."""


class PatternPath(PatternRefusal):
    """The pattern names a field that no tuple can have."""


class PatternValue(PatternRefusal):
    """The pattern compares a field with a value that cannot be compared."""


class ArtifactPath(Refusal):
    """The artifact's path leads out of its folder."""


class QuotaRefusal(Refusal):
    """A step used more of the machine than its limit and was stopped."""

    code = "QUOTA_REFUSED"


class MemoryQuota(QuotaRefusal):
    """The step's processes used more memory than their limit."""


class DiskQuota(QuotaRefusal):
    """The step wrote more to disk than its limit."""


class ProcessQuota(QuotaRefusal):
    """The step had more processes at once than its limit."""


class EffectViolated(Refusal):
    """The step tried to do what the effect its yool declares rules out."""


class CatalogRefusal(Refusal):
    """The yool, or the file that declares it, is invalid."""

    code = "CATALOG_REFUSED"


class YoolName(CatalogRefusal):
    """The yool's name is invalid."""


class YoolReserved(CatalogRefusal):
    """Names that start with 'catalog.' are reserved for the catalog itself."""


class YoolTwice(CatalogRefusal):
    """The same version of a yool is declared twice."""


class YoolContract(CatalogRefusal):
    """The yool's contract is invalid."""


class YoolArguments(CatalogRefusal):
    """The arguments do not match the yool's parameters."""


class ScriptUnguarded(CatalogRefusal):
    """The script starts a worker when it is imported. Put that code under 'if __name__ == "__main__":'."""


class LaneName(CatalogRefusal):
    """The lane's name is invalid."""


class AuthorityInvalid(CatalogRefusal):
    """The authority is not a list of user, agent and ci."""


class TermsInvalid(CatalogRefusal):
    """The agent_terms are invalid."""


class CommandDeclared(CatalogRefusal):
    """A file may declare names and terms, never commands."""


class StackUnknown(CatalogRefusal):
    """The name contains ${stack}, and no stack was recognised."""


class AgentsFile(CatalogRefusal):
    """The AGENTS.md file cannot be read as a list of yools."""


class CatalogFile(CatalogRefusal):
    """The capabilities file is invalid."""


class BudgetExceeded(Refusal):
    """The text is larger than its budget."""

    status = 413
    is_denial = True
    members = (*Refusal.members, "exceeded", "pointers", "resend")

    def __init__(
        self,
        detail: str | None = None,
        *,
        exceeded: Sequence[Mapping[str, Any]] | None = None,
        pointers: Sequence[Mapping[str, Any]] | None = None,
        resend: str | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail, **members)
        self.exceeded = tuple(exceeded or ())
        """Every limit that was exceeded, with its name, limit and use."""
        self.pointers = tuple(pointers or ())
        """The pointer for each block of code: its field, the ref, and whether it can be read already."""
        self.resend = resend
        """A message within the limits, to be filled in and sent instead."""


class BudgetReserved(Refusal):
    """Steps that are running may still need what is left of the budget; this one waits for them."""

    status = 413


class HookRefusal(Refusal):
    """A hook of the operator refused the call."""

    code = "HOOK_REFUSED"
    status = 403
    members = (*Refusal.members, "hook", "reason")

    def __init__(
        self, detail: str | None = None, *, hook: str | None = None, reason: str | None = None, **members: Any
    ) -> None:
        super().__init__(detail, **members)
        self.hook = hook
        """The hook's name."""
        self.reason = reason and make_visible(reason)
        """Why, in the hook's words."""


class HookVeto(HookRefusal):
    """A hook of the operator does not allow this."""


class HookFailed(HookRefusal):
    """A hook of the operator raised an exception instead of answering, so the call is refused."""

    status = 503


class HookTimeout(HookRefusal):
    """A hook of the operator did not answer in time, so the call is refused."""

    status = 503


class HookInvalid(HookRefusal):
    """A hook that the operator named cannot be used, so the work of the project is closed."""

    status = 503


class EmbeddingsOff(Refusal):
    """Search by meaning is turned off here, so engrams have no embeddings."""

    status = 403


class MethodNotAllowed(Refusal):
    """This address does not accept that method."""

    status = 405


class BudgetTooSmall(Refusal):
    """The token budget is too small for any answer."""


class MemoryRefusal(Refusal):
    """A memory store cannot be read."""

    code = "MEMORY_REFUSED"


class MemoryStoreNotAFile(MemoryRefusal):
    """A memory store is not a regular file."""


class MemoryStoreOutside(MemoryRefusal):
    """A memory store lies outside the folders that may be read."""

    status = 403
    is_denial = True


class MemoryLineTooLong(MemoryRefusal):
    """A line of a memory store is too long."""


class TrustSnapshotInvalid(MemoryRefusal):
    """The trust snapshot does not have the required form."""


class AgentAmbiguous(Refusal):
    """Several agents of the project have this name."""


class AddressInsecure(Refusal):
    """The address is of another machine and not encrypted, so nothing was sent to it."""


class ServerExposed(Refusal):
    """The server would be reachable by other machines without protection, so it was not started."""


class CertificateInvalid(Refusal):
    """The server's certificate or its key cannot be used."""


class LoginInvalid(Refusal):
    """The login that is stored for this repository cannot be used."""


class ProjectDiffers(Refusal):
    """The server serves another project than the one of this repository."""


class PushRefused(Refusal):
    """The server's mirror takes only commits, each under the ref that is named after it."""


class MirrorFull(Refusal):
    """The server's mirror of the repository has no room for this."""

    status = 413


class ClientFileBroken(Refusal):
    """A client's configuration file cannot be parsed, so it was not changed."""


class FileExists(Refusal):
    """A file of that name exists already, and it is not ours."""


class ScaffoldFolder(Refusal):
    """The files of a scaffold cannot be written there, so nothing was written."""


class KeyFileReadable(Refusal):
    """Other accounts can read the file with the keys."""


class SharingRefusal(Refusal):
    """What was exported through git is not as `engrambus export` writes it."""

    code = "SHARING_REFUSED"


class EventInvalid(SharingRefusal):
    """The line is not an event as `engrambus export` writes it."""


class EventSignature(SharingRefusal):
    """The signature does not fit the event: it was changed after it was signed."""


class ReplacesCycle(SharingRefusal):
    """These claims replace each other in a circle, so none of them counts as replaced."""


class ExportTooLarge(SharingRefusal):
    """A file or a folder with exported events is larger than what is read."""


class PublicKeyInvalid(SharingRefusal):
    """That is not a public key, or not a name for one."""


class SyncRefInvalid(SharingRefusal):
    """That is not a ref that engrams can be shared through."""


class NotPublished(Refusal):
    """Engram Bus is not on the package index, so running it by name would run code that is not ours."""


class Usage(Refusal):
    """The command line is wrong; nothing was run."""


class PolicyInvalid(Refusal):
    """The policy file is not valid."""


class Unauthorized(EngramBusError):
    """The caller is unknown."""

    status = 401
    is_denial = True


class TokenMissing(Unauthorized):
    """A bearer token is required."""


class TokenInvalid(Unauthorized):
    """The token was not signed by this project."""


class TokenExpired(Unauthorized):
    """The token has expired."""


class TokenRevoked(Unauthorized):
    """The token was revoked."""


class CodeInvalid(Unauthorized):
    """The code was already used, has expired, or was never issued."""


class SessionInvalid(Unauthorized):
    """This session of the page has ended, or never began."""


class Forbidden(EngramBusError):
    """The caller may not do this."""

    status = 403
    is_denial = True


class RoleForbidden(Forbidden):
    """The caller's role may not do this."""


class DerefDenied(Forbidden):
    """The turn's dereference budget does not allow this."""


class ScopeForbidden(Forbidden):
    """The caller may not use this scope."""


class EngramUntrusted(Forbidden):
    """The engram came from elsewhere, and no person here has confirmed it."""


class EngramUnconfirmed(Forbidden):
    """The claim was taken from an agent's prose, and is not confirmed."""


class NotYourDescendant(Forbidden):
    """The caller may speak only for itself and its descendants."""


class NotYourPeer(Forbidden):
    """The caller may not write to this agent."""


class MarkInvalid(Forbidden):
    """The mark in `as` was not made for this project by a client's hook, or has expired."""


class MarkMissing(Forbidden):
    """In a session with sub-agents, this call must be marked by the client's hook."""


class RunEnded(Forbidden):
    """The run has ended."""


class AgentRemoved(Forbidden):
    """The agent was removed from its run."""


class CortexOff(Forbidden):
    """This part of the shared cortex is switched off."""


class YoolForbidden(Forbidden):
    """The yool's catalog entry does not admit this authority."""


class HostForbidden(Forbidden):
    """The Host header names another server."""

    status = 421  # Misdirected Request: the answer to DNS rebinding


class ProxyForbidden(Forbidden):
    """The request did not come over https through the proxy that the server stands behind."""


class OriginForbidden(Forbidden):
    """The request comes from a foreign origin."""


class GrantRefusal(Forbidden):
    """The budget token does not allow this."""

    code = "GRANT_REFUSED"


class GrantForged(GrantRefusal):
    """The budget token was not signed by this project, or was changed."""


class GrantForeign(GrantRefusal):
    """The budget token belongs to another project or run."""


class GrantTooLong(GrantRefusal):
    """The budget token is too long."""


class GrantTooDeep(GrantRefusal):
    """The grant was passed on too many times."""


class GrantExpired(GrantRefusal):
    """The grant has expired."""


class GrantWrongChild(GrantRefusal):
    """The grant is for another agent."""


class GrantWrongPointer(GrantRefusal):
    """The grant does not cover this pointer."""


class GrantWider(GrantRefusal):
    """A grant can be passed on narrower, never wider."""


class GrantOverCap(GrantRefusal):
    """The grant does not allow that many tokens."""


class GrantSpent(GrantRefusal):
    """The grant has no uses left."""


class GrantRevoked(GrantRefusal):
    """The grant, or a grant it was narrowed from, was revoked."""


class NotFound(EngramBusError):
    """Absent, or not yours."""

    status = 404


class EngramNotFound(NotFound):
    """There is no such engram."""


class AgentNotFound(NotFound):
    """There is no such agent, or you may not name it."""


class RunNotFound(NotFound):
    """There is no such run."""


class SessionUnknown(NotFound):
    """No agent was added for this client session or sub-agent."""


class SessionNotFound(NotFound):
    """There is no such open session of the page."""


class TokenNotFound(NotFound):
    """There is no such live token, or you may not revoke it."""


class GrantNotFound(NotFound):
    """There is no such grant of yours in this run."""


class RequestNotFound(NotFound):
    """There is no such open request to you in this run."""


class MailNotFound(NotFound):
    """There is no such mail in your inbox."""


class ReservationNotFound(NotFound):
    """There is no such reservation that you may release."""


class ProjectNotFound(NotFound):
    """There is no Engram Bus project here."""


class RepositoryNotFound(NotFound):
    """No repository of that name belongs to this project."""


class RevisionNotFound(NotFound):
    """The repository has no such commit."""


class RevisionNotFetched(RevisionNotFound):
    """The commit is not in this shallow clone."""


class RevisionNotPushed(RevisionNotFetched):
    """The commit was not pushed to this server yet."""


class MergeBaseNotFound(NotFound):
    """The two commits have no common ancestor here."""


class GateFindingNotFound(NotFound):
    """The gate has no such finding on this branch."""


class RepositoryAbsent(NotFound):
    """The repository is configured in this project, and it is not on this machine."""


class FileNotFound(NotFound):
    """There is no such file at that revision."""


class SpanNotFound(NotFound):
    """The file does not have those lines."""


class SectionNotFound(NotFound):
    """There is no section with that heading."""


class ArtifactNotFound(NotFound):
    """There is no such artifact at that revision."""


class BodyNotFound(NotFound):
    """There is no stored body with that digest."""


class MemoryStoreNotFound(NotFound):
    """There is no such memory store."""


class EpisodeNotFound(NotFound):
    """No memory is stored under this name."""


class ContradictionNotFound(NotFound):
    """There is no such contradiction, or you do not see both claims."""


class ContributionNotFound(NotFound):
    """There is no such contribution."""


class SnapshotNotFound(NotFound):
    """There is no such snapshot."""


class InputNotFound(NotFound):
    """There is no such snapshot, memory or engram that the contribution could be based on."""


class LimitNotFound(NotFound):
    """There is no such limit or pause."""


class TupleNotFound(NotFound):
    """There is no such tuple."""


class NoTaskReady(NotFound):
    """No task is ready for you."""


class BatchNotFound(NotFound):
    """There is no such batch."""


class ScheduleNotFound(NotFound):
    """There is no such schedule."""


class ReceiptNotFound(NotFound):
    """There is no such receipt."""


class TestNotFound(NotFound):
    """There is no such test in the receipt."""

    __test__ = False


class ExportNotFound(NotFound):
    """There are no exported engrams in that place."""


class RemoteNotFound(NotFound):
    """The repository has no remote of that name."""


class YoolNotFound(NotFound):
    """There is no yool of that name in the catalog."""

    members = (*NotFound.members, "nearest")

    def __init__(self, detail: str | None = None, *, nearest: Sequence[str] | None = None, **members: Any) -> None:
        super().__init__(detail, **members)
        self.nearest = tuple(nearest or ())
        """Similar names, the most similar first."""


class ToolNotFound(NotFound):
    """There is no tool of that name."""


class RouteNotFound(NotFound):
    """There is nothing at this address."""


class RateLimited(EngramBusError):
    """Too many engrams were put in one minute."""

    status = 429
    is_denial = True


class TooManyCalls(EngramBusError):
    """Too many calls of this caller are waiting for their answers."""

    status = 429


class TooManyFailures(EngramBusError):
    """Too many calls from this address were refused because their tokens are not valid."""

    status = 429


class TooManySessions(EngramBusError):
    """This caller has too many MCP sessions open."""

    status = 429


class TooManyAgents(EngramBusError):
    """Too many agents were added."""

    status = 429
    is_denial = True


class TooManyReservations(EngramBusError):
    """Too much is reserved."""

    status = 429
    is_denial = True


class TooManySchedules(EngramBusError):
    """There are too many schedules."""

    status = 429
    is_denial = True


class Notice(EngramBusError):
    """The call succeeded, but not quite as it was asked for."""

    code = "NOTICE"
    status = 200


class CommitsNotPushed(Notice):
    """The commits that this call points at could not be pushed to the server."""


class ScopeLowered(Notice):
    """The engram was stored for fewer readers than its author asked for."""


class ClaimConfirmed(Notice):
    """The claim repeats an engram, which was confirmed instead of storing it again."""


class ClaimNear(Notice):
    """An earlier claim is near this one."""


class ClaimContradicts(Notice):
    """The claim may contradict an earlier one."""


class PinReplaced(Notice):
    """The engram that was replaced had been pinned; the newer one is not pinned."""


class UsedUnresolved(Notice):
    """An engram that was used has no evidence that could be found."""


class UsedUntrusted(Notice):
    """An engram that was used came from elsewhere, and no person here has confirmed it."""


class NothingSearched(Notice):
    """Nothing was searched for: the question has only words that engrams are not found by."""


class ComparedPartly(Notice):
    """Not all engrams have been compared yet; the same question again compares more of them."""


class ApprovalPending(Notice):
    """The promotion is waiting for an admin's approval."""


class Conflict(EngramBusError):
    """The request conflicts with the current state."""

    status = 409


class AgentExists(Conflict):
    """An agent of that name is already in this run."""


class PathReserved(Conflict):
    """Another agent, or a person, has reserved this path."""

    is_denial = True
    members = (*Conflict.members, "path", "holder", "reason", "expires_at", "reservation")

    def __init__(
        self,
        detail: str | None = None,
        *,
        path: str | None = None,
        holder: str | None = None,
        reason: str | None = None,
        expires_at: str | None = None,
        reservation: str | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail, **members)
        self.path = path
        self.holder = holder
        """Name of the agent that reserved it; `admin` is a person."""
        self.reason = reason
        self.expires_at = expires_at
        self.reservation = reservation
        """Id of the reservation."""


class IdTaken(Conflict):
    """That id is already taken."""


class AlreadyReplaced(Conflict):
    """A newer engram has replaced this one."""


USE_ANOTHER_KEY = "Send a new request under a new key; a repeated request must be the same in every field."


class IdempotencyConflict(Conflict):
    """That idempotency key was used for another request."""


class LaneFull(Conflict):
    """The lane is full: no more tuples may wait in it."""

    status = 429


class ScheduleExists(Conflict):
    """A schedule of that name exists already."""


class StaleFence(Conflict):
    """The claim is no longer valid: its lease ended or another worker claimed the tuple."""


class TupleEnded(Conflict):
    """The tuple is already finished."""


class TaskHeld(Conflict):
    """Another agent or a person has the task."""


class TaskLost(Conflict):
    """Your claim on the task has ended and another has it now."""


class TaskBlocked(Conflict):
    """The task is blocked."""


class BatchRunning(Conflict):
    """Agents of the batch are running, and only idle ones can be folded."""


class ProjectExists(Conflict):
    """This folder already is a project."""


class ProjectElsewhere(Conflict):
    """The private state of this project belongs to another folder."""

    quotes_caller = False


class ProjectMoved(Conflict):
    """The project was moved into a database; its files take no more writes."""


class MoveInterrupted(Conflict):
    """What an earlier move has copied does not fit what is moved now."""


class KeysExist(Conflict):
    """This machine has other keys for the project."""


class PublicKeyExists(Conflict):
    """The project knows another key under that name, or that key under another name."""


class SyncRefInUse(Conflict):
    """The branch is checked out, so nothing was shared through it."""


class SyncRaced(Conflict):
    """Others changed the ref each time before the push arrived."""


class MemoryStoreChanged(Conflict):
    """A memory store changed while it was read."""


class ContradictionDecided(Conflict):
    """The contradiction was decided otherwise."""


class ContributionDecided(Conflict):
    """The contribution was already accepted, rejected or withdrawn."""


class PromotionDecided(Conflict):
    """The request to promote was already answered otherwise."""


class ClientEntryTaken(Conflict):
    """A client's configuration file has an entry named engrambus that does not run Engram Bus."""


class ClientFileCommitted(Conflict):
    """A path of this machine would be written into a file that is committed."""


class ClientFileChanged(Conflict):
    """A client changed its configuration file at the same moment, so it was not changed."""


class ClientFileUnwritable(Conflict):
    """A client's configuration file cannot be written, so no file was changed."""


class PortTaken(Conflict):
    """Another program is listening on that port."""


class Trouble(EngramBusError):
    """The server or its machine is at fault."""

    status = 503


class StoreReadOnly(Trouble):
    """A sync to disk failed, so the store is read-only until `engrambus recover` or a restart of the machine."""


class StoreBusy(Trouble):
    """Another process holds the lock, so nothing was stored."""


class StoreTrouble(Trouble):
    """The database of ENGRAMBUS_STORE cannot be used as it is."""


class StoreUnreachable(StoreTrouble):
    """The database server cannot be reached, so nothing was stored."""


class CommitUnknown(StoreTrouble):
    """The connection to the database was lost while a change was committed; it may have been stored."""


class StoreRights(StoreTrouble):
    """The login may not do in the database what it has to do."""


class StoreSchemaOld(StoreTrouble):
    """The tables in the database are those of an older version of Engram Bus."""


class StoreSchemaNew(StoreTrouble):
    """The tables in the database are those of a newer version of Engram Bus."""


class StoreDriverMissing(StoreTrouble):
    """ENGRAMBUS_STORE names a database, but the packages that speak to it are not installed."""


class JournalDamaged(Trouble):
    """The journal is damaged before its last synced mark."""


class JournalMissing(Trouble):
    """A journal is gone, while files that were made with it remain."""


class JournalForeign(Trouble):
    """The journal was not written with this machine's key, so nothing of it is used."""


class IndexDamaged(Trouble):
    """The index was damaged and has been rebuilt. Try again."""


class FormatUnknown(Trouble):
    """The files were written by a version of Engram Bus that this one cannot read."""


class LinkInCatalog(Trouble):
    """A file or folder of the project is a symbolic link."""

    quotes_caller = False


class FileNotOurs(Trouble):
    """Something else is in the place of a file of the project."""

    quotes_caller = False


class FolderNotOurs(Trouble):
    """A folder of the project belongs to another account, or other accounts can open it."""

    quotes_caller = False


class DiskPressure(Trouble):
    """The disk is full."""

    status = 507


class DiskError(Trouble):
    """The disk failed to read or write a file."""


class ClockAhead(Trouble):
    """The machine's clock is further ahead of the journal than the machine has been running; nothing was stored."""


class SecretCheckFailed(Trouble):
    """The check for secrets failed, so nothing was stored."""


class NoTupleSpace(Trouble):
    """This process has no tuple space."""

    code = "NO_WORKBENCH"  # published before the class was renamed


class EmbeddingsUnavailable(Trouble):
    """Search by meaning is turned on, but its model cannot be loaded."""


class BodiesUnavailable(Trouble):
    """The store of bodies cannot be reached, or refuses us."""


class TooManyStreams(Trouble):
    """No more event streams can be opened now."""


class LimitEnforcerLost(Trouble):
    """The process that kept the step within its limits was killed, so the step was stopped; it may be tried again."""


class WorkerQuota(Trouble):
    """The steps of a worker together used more than it may; the one that used most was stopped, and may be retried."""


class GitTrouble(Trouble):
    """Git did not answer."""


class RemoteUnreachable(Trouble):
    """The remote did not answer."""

    status = 502


class RemoteRefused(Trouble):
    """The remote, or a hook, refused the push."""

    status = 502


class UrlTrouble(Trouble):
    """The URL did not answer as it should."""

    status = 502


class Unreachable(Trouble):
    """The gateway cannot be reached."""

    status = 502


class ListenerUnproven(Trouble):
    """The server did not prove that it is the gateway of the token's project, so no token was sent to it."""

    status = 502


class Internal(Trouble):
    """An internal error occurred in Engram Bus."""

    status = 500


def _unicode(value: Any) -> Any:
    """Return the value with lone surrogates replaced and invisible characters escaped: refused input may have both."""
    if isinstance(value, str):
        return value if value.isascii() else make_visible(value.encode("utf-8", "replace").decode())
    if isinstance(value, Mapping):
        return {_unicode(key): _unicode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_unicode(item) for item in value]
    return value


def _walk(kind: type[EngramBusError]) -> list[type[EngramBusError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _walk(child))]


BY_CODE: dict[str, type[EngramBusError]] = {kind.code: kind for kind in _walk(EngramBusError)}


MAX_VALUE_CHARS = 200
"""Characters of a value that `error_line` prints."""


MAX_LISTED_IDS = 5
"""Ids that an error about an ambiguous one lists."""


def ambiguous_id(ids: Sequence[str], used: str, field: str = "id") -> IdAmbiguous:
    """Return the error for the beginning of several ids; only ids that the caller sees may be given."""
    more = f" and {len(ids) - MAX_LISTED_IDS} more" if len(ids) > MAX_LISTED_IDS else ""
    return IdAmbiguous(
        field=field, limit=", ".join(ids[:MAX_LISTED_IDS]) + more, used=used, hint="Write more of the `id`."
    )


def error_line(error: EngramBusError) -> str:
    """Return an error as one line for people: code, message, field, limit and use, hint."""
    listed = ", ".join(filter(None, [error.field or "", *_amounts(error)]))
    hint = f" {error.hint}" if error.hint else ""
    line = f"{error.code}: {error.detail}{f' ({listed})' if listed else ''}{hint}"
    return line.encode("utf-8", "backslashreplace").decode()  # a file name need not be valid Unicode


def _amounts(error: EngramBusError) -> list[str]:
    """Return the limit and what was used, as far as the message does not quote them."""
    limit, used = error.limit, error.used
    if limit is not None and used is not None and _is_amount(limit) and _is_amount(used):
        return [f"{_shorten(used)} of {_shorten(limit)}"]
    shown = [] if used is None or str(used) in error.detail else [_shorten(used)]
    return shown if limit is None else [*shown, f"limit {_shorten(limit)}"]


def _is_amount(value: float | str) -> bool:
    return not isinstance(value, str) or value.startswith("$")


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + "…"
