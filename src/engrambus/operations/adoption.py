"""Taking on knowledge of another project as untrusted. The rules are in `knowledge/engrams` and `knowledge/cortex`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from msgspec import Meta, Struct

from engrambus.core import check_visible, parse_duration
from engrambus.errors import BadText, EngramBusError, FieldValue, ScopeForbidden, TooDeep, Trouble
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, operation
from engrambus.gateway.ports import View
from engrambus.knowledge import messages
from engrambus.knowledge.cortex import AdoptableMemory, ForeignMemory, adopt_memories, check_foreign_memory
from engrambus.knowledge.engrams import ForeignEngram, PreparedAdoption, adopt_engrams, check_foreign, prepare
from engrambus.policy import ADMIN
from engrambus.policy.secrets import check_no_secrets

T = TypeVar("T")
Item = TypeVar("Item")

MAX_PER_REQUEST = 500
AT_THE_MACHINE = "a person at the machine adopts: engrambus adopt"


class ForeignSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the journals of another project hold."""

    project: str
    commits: int = 0
    first_us: int = 0
    last_us: int = 0
    engrams: int = 0
    """Live engrams of the project: those that would be taken on."""
    pins: int = 0
    """Those of them that are pinned."""
    run_engrams: int = 0
    """Live engrams of single runs; they stay behind."""
    shared_engrams: int = 0
    """Live engrams of wider scopes; they stay behind."""
    expired: int = 0
    memories: int = 0
    contributions: int = 0
    """Contributions of any status."""
    tuples: int = 0
    """Tuples that were put; they stay behind."""
    unreadable: int = 0
    """Commits and facts that are not in any form we know."""
    problem: str | None = None
    """Why the journal could not be read to its end; what comes before that place counts."""


class ForeignSource(Protocol):
    """Knowledge of another project that can be read one item at a time."""

    @property
    def summary(self) -> ForeignSummary:
        """What it holds."""
        ...

    def items(self) -> Iterator[ForeignEngram | ForeignMemory]:
        """Yield what would be taken on; nothing in it is checked."""
        ...


class AdoptKnowledge(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Knowledge of another project, as it was found."""

    origin: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:-]{1,64}$", description="The project it comes from")]
    engrams: Annotated[list[ForeignEngram], Meta(description=f"At most {MAX_PER_REQUEST}")] = []
    memories: Annotated[list[ForeignMemory], Meta(description=f"At most {MAX_PER_REQUEST}")] = []


class AdoptAnswer(Struct, frozen=True, kw_only=True):
    engrams: list[str]
    """Ids of the engrams that were adopted."""
    pins: list[str]
    """Those of them that were pinned where they came from."""
    contributions: list[str]
    """Ids of the memories that wait for review."""
    known: int
    """Engrams and memories that were adopted before."""
    skipped: dict[str, int]
    """Engrams and memories that break a rule of this project, counted by the code of the refusal."""


@operation(
    "knowledge.adopt",
    roles=ADMINS,
    writes=True,
    redacts=True,
    raw_fields=("engrams", "memories"),
    absent_from=dict.fromkeys(("http", "mcp", "client"), AT_THE_MACHINE)
    | {"cli": "engrambus adopt reads a journal and sends it in batches"},
    span="create_memory",
)
def adopt_knowledge(context: Context, request: AdoptKnowledge) -> AdoptAnswer:
    """Take on engrams and memories of another project as untrusted."""
    for field, items in (("engrams", request.engrams), ("memories", request.memories)):
        if len(items) > MAX_PER_REQUEST:
            raise FieldValue(field=field, limit=MAX_PER_REQUEST, used=len(items))
    skipped: Counter[str] = Counter()
    engrams = _passing(request.engrams, lambda item: prepare_foreign(context, item), skipped)
    memories = _passing(request.memories, lambda item: _check_memory(context, item), skipped)

    def decide(view: View) -> tuple[list[Any], AdoptAnswer]:
        adopted, ids = adopt_engrams(view, engrams, origin=request.origin, caller=context.caller)
        submitted, contributions = adopt_memories(view, memories, origin=request.origin, caller=context.caller)
        return [*adopted, *submitted], AdoptAnswer(
            engrams=ids,
            pins=[fact.engram.id for fact in adopted if fact.adoption.pinned],
            contributions=contributions,
            known=len(engrams) - len(adopted) + len(memories) - len(submitted),
            skipped=dict(skipped),
        )

    return context.commit(decide, AdoptAnswer)


def _passing(items: Iterable[Item], check: Callable[[Item], T], skipped: Counter[str]) -> list[T]:
    """Return the items that pass their check; count the others by the code of their refusal."""
    passing = []
    for item in items:
        try:
            passing.append(check(item))
        except Trouble:  # not the item's fault
            raise
        except EngramBusError as refusal:
            skipped[refusal.code] += 1
        except UnicodeEncodeError:
            skipped[BadText.code] += 1
        except RecursionError:
            skipped[TooDeep.code] += 1
    return passing


def prepare_foreign(context: Context, item: ForeignEngram) -> PreparedAdoption:
    """Check an engram as a put of the admin, and prepare it; what a put would only warn of is passed over."""
    limits = context.policy.checks(ADMIN)
    foreign = check_foreign(item, now_us=context.as_of, max_ttl_us=parse_duration(context.policy.max_ttl))
    checked = foreign.checked
    texts = {"claim": checked.claim, "tags": checked.tags, "pointers": [pointer.ref for pointer in checked.pointers]}
    check_visible(texts)
    check_no_secrets(texts, rules=context.policy.secrets)
    _check_code(context, [("claim", checked.claim), *(("tags", tag) for tag in checked.tags)])
    prepared = prepare(
        checked,
        caller=context.caller,
        policy=context.policy,
        limits=limits,
        evidence=context.evidence,
        repositories=context.project_files.repositories,
        origin="adopted",
    )
    if prepared.checked.scope != "project":
        floor = context.policy.floor("project")
        raise ScopeForbidden(field="confidence", limit=floor, used=checked.confidence)
    return PreparedAdoption(prepared=prepared, foreign=msgspec.structs.replace(foreign, checked=prepared.checked))


def _check_memory(context: Context, item: ForeignMemory) -> AdoptableMemory:
    memory = check_foreign_memory(item, context.policy.secrets)
    draft = memory.redacted.draft
    check_visible({"content": draft.content, "categories": draft.categories})
    _check_code(context, [("content", draft.content), *(("categories", name) for name in draft.categories)])
    return memory


def _check_code(context: Context, texts: list[tuple[str, str]]) -> None:
    def allowance() -> int:
        with context.store.read() as view:
            return messages.inline_budget(view, context.policy, context.caller).max_inline_code_chars

    limits = context.policy.checks(ADMIN)
    messages.check_texts(texts, messages.CodeCounter(context.project_files), limits, allowance)
