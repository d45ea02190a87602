"""The request and the answer of `memory.read`, and the receipt it leaves in the journal."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

CONTROLLER_VERSION = "phase6-v1"
DEFAULT_MAX_ITEMS = 50
DEFAULT_HALF_LIFE_DAYS = 30
DEFAULT_DENY_CLASSIFICATIONS = ("malicious",)
MAX_NUMBER = 2**53

Positive = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of the selection."""

    max_excerpt_tokens: Annotated[int, Meta(ge=1, le=MAX_NUMBER, description="Tokens of all excerpts together")]
    per_item_max_excerpt_tokens: Annotated[Positive | None, Meta(description="Tokens of one excerpt")] = None
    max_items: Annotated[int, Meta(ge=1, le=MAX_NUMBER, description="How many excerpts at the most")] = (
        DEFAULT_MAX_ITEMS
    )


class Scoring(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of the scoring."""

    enable_recency_weight: Annotated[bool, Meta(description="Newer records score higher; needs now_utc")] = False
    recency_half_life_days: Annotated[Positive, Meta(description="Days until the bonus has halved")] = (
        DEFAULT_HALF_LIFE_DAYS
    )
    enable_tag_overlap: Annotated[bool, Meta(description="Terms that are tags score half a point more")] = True
    query_terms: Annotated[list[str] | None, Meta(description="The terms, instead of the query's words")] = None


class TrustFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The records to leave out because a trust snapshot classifies them."""

    deny_classifications: Annotated[tuple[str, ...], Meta(description="Classes that are left out")] = (
        DEFAULT_DENY_CLASSIFICATIONS
    )
    trust_snapshot_path: Annotated[str | None, Meta(description="A file that classifies records")] = None


class MemoryInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to JSONL memory stores."""

    query: Annotated[str, Meta(description="What to search for")]
    store_paths: Annotated[list[str], Meta(description="The JSONL files to read")]
    budget: Annotated[Budget, Meta(description="At least max_excerpt_tokens")]
    scoring: Annotated[Scoring | None, Meta(description="How records are scored")] = None
    trust_filter: Annotated[TrustFilter | None, Meta(description="Which records are left out")] = None
    now_utc: Annotated[str | None, Meta(description="The time that ages are measured from")] = None


class Query(Struct, frozen=True, kw_only=True):
    raw: str
    """The query as given."""
    query_hash: str
    """sha256 of the query trimmed, white space collapsed, lower-cased."""


class SpentBudget(Struct, frozen=True, kw_only=True):
    max_excerpt_tokens: int
    used_excerpt_tokens: int
    remaining_excerpt_tokens: int
    per_item_max_excerpt_tokens: int
    max_items: int


class Selected(Struct, frozen=True, kw_only=True, gc=False):
    memory_id: str
    record_hash: str
    store_path: str
    score: float
    excerpt: str
    excerpt_tokens: int


class Dropped(Struct, frozen=True, gc=False):
    memory_id: str
    record_hash: str
    store_path: str
    reason: str
    """invalid_record_schema, trust_denied, budget_exhausted or max_items_reached."""


class Selection(Struct, frozen=True, kw_only=True):
    selected: list[Selected]
    dropped: list[Dropped] | UnsetType = UNSET
    dropped_counts: dict[str, int] | UnsetType = UNSET
    """Number of dropped records per reason, when the request asks for counts instead of the list."""


class ContextPackage(Struct, frozen=True, kw_only=True):
    """The excerpts selected within the budget. The same question to the same stores gives the same bytes."""

    query: Query
    budget: SpentBudget
    selection: Selection
    controller_version: str = CONTROLLER_VERSION
    package_hash: str
    """sha256 of the canonical package without this field, all dropped records included."""


class MemoryReadData(Struct, frozen=True, kw_only=True):
    query_hash: str
    store_paths: list[str]
    """The paths of the request, sorted, without duplicates."""
    selected_count: int
    package_hash: str


class MemoryRead(Struct, frozen=True, kw_only=True, tag="memory.read", tag_field="fact"):
    """A journal fact: a memory store was read. It holds no content of the store."""

    data: MemoryReadData
