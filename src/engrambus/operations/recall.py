"""What hooks show an agent unasked: the engrams that fit its prompt, its task or the file it is about to edit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from msgspec import Meta, Struct, structs

from engrambus.core import estimate_tokens
from engrambus.evidence.pointers import STALE, describe_state
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.gateway.role_view import project_stores, restrict_view
from engrambus.knowledge.engrams import (
    Engram,
    EngramsRecalled,
    PathLines,
    RecallForgotten,
    TaskRecalled,
    VisibleStore,
    is_learned,
    parse_path_lines,
    recall_line,
    stale_line,
)
from engrambus.operations.evidence_about import EvidenceAbout, engram_states, evidence_about
from engrambus.policy import ADMIN, shared_scopes

MAX_RECALLED = 5
"""Engrams that one answer shows."""
MAX_RECALL_TOKENS = 300
"""Size of the lines of one answer."""
MAX_TEXT_CHARS = 20_000
MAX_PATHS = 32
MAX_PARENT_PATHS = 4
"""Files that a parent used last, which stand for the task of its sub-agent if that is not known."""
MAX_COMPARED = 12
"""Engrams that fit whose evidence is compared with the files."""
MAX_SHOWN_COMPARED = 24
"""Engrams that an agent was shown earlier whose evidence is compared with the files."""
HEAD = "From the team's memory on Engram Bus, as data; less_query_engrams finds more:"

Occasion: TypeAlias = Literal["prompt", "task", "subagent", "edit"]


class RecallRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent is about to do."""

    text: Annotated[str, Meta(max_length=MAX_TEXT_CHARS, description="The prompt, or a sub-agent's task")] = ""
    paths: Annotated[
        list[Annotated[str, Meta(max_length=1000)]],
        Meta(max_length=MAX_PATHS, description="A file it is about, with the lines if known: src/a.py:10-20"),
    ] = []
    occasion: Annotated[
        Occasion,
        Meta(
            description="A `prompt`, an `edit` of the paths, the `task` of a sub-agent to be, a `subagent` that starts"
        ),
    ] = "prompt"
    max_tokens: Annotated[int, Meta(ge=1, le=MAX_RECALL_TOKENS, description="Maximum size of the lines, in tokens")] = (
        MAX_RECALL_TOKENS
    )
    record: Annotated[
        bool, Meta(description="Count what is shown as shown: the agent does not get it again in its session")
    ] = False
    task: Annotated[
        str, Meta(max_length=40, pattern="^[a-z]*$", description="Digest by which a sub-agent's task is found again")
    ] = ""
    forget: Annotated[
        bool, Meta(description="Forget what was shown before, because the agent's context was compacted")
    ] = False


class RecallAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    lines: list[str] = []
    """What the agent is shown; the first line says what the others are."""
    engrams: list[str] = []
    """Ids of the engrams that the lines show."""
    stale: list[str] = []
    """Ids of those of them, and of others that were shown before, that the lines call stale."""
    off: bool = False
    """True if the policy has turned this off."""


class _Candidate(NamedTuple):
    """One line that may be shown, and what showing it means."""

    engram_id: str
    line: str
    is_stale: bool
    is_notice: bool = False
    """True if the engram was shown before, and the line says only that it is stale now."""


@operation(
    "less.recall",
    writes=True,
    route=Route("POST", "/recall"),
    command=Command(
        "recall",
        section="knowledge",
        example='engrambus recall "Why are refunds sent twice?" --path src/refund.py',
        renderer="knowledge:recalled",
        rank=21,
        arguments=("text",),
    ),
    absent_from={"mcp": "hooks show it unasked; an agent that asks has less_query_engrams"},
    redacts=True,
    raw_fields=("text", "paths"),
    span="search_memory",
)
def recall(context: Context, request: RecallRequest) -> RecallAnswer:
    """Show what a hook would show an agent with this prompt: at most 5 engrams, or nothing.

    Nothing is recorded, unless --record says so. `recall: false` in the policy turns it off for hooks.
    """
    if not context.policy.recall:
        return RecallAnswer(off=True)
    caller = context.caller
    run, agent, records = caller.run.run_id, caller.name, request.record and caller.role != ADMIN
    with context.store.read() as view:
        shown_ids = {} if not records or request.forget else view.recalled(run, agent)
        forgets = records and request.forget and bool(view.recalled(run, agent))
        parent = _parent(view, context, request)
        task_found = view.task_recalled(run, parent, request.task) if parent else None
        if parent and task_found is None:  # the client did not tell the task: where its parent works may tell
            paths = list(view.agent_paths(run, parent, limit=MAX_PARENT_PATHS))
            request = structs.replace(request, paths=[*request.paths, *paths])
        candidates = _candidates(context, view, request, shown_ids, task_found)
    if not records or not (candidates or forgets or task_found is not None):
        return _answer(candidates, request.max_tokens)

    def decide(view: View) -> tuple[Sequence[Any], RecallAnswer]:
        if request.occasion == "task":
            ids = tuple(candidate.engram_id for candidate in candidates)
            return [TaskRecalled(run=run, agent=agent, task=request.task, engrams=ids)] if ids else [], RecallAnswer()
        forgotten = [RecallForgotten(run=run, agent=agent)] if forgets else []
        # Another hook of the same agent may have shown some of them since they were looked for.
        shown_ids_now = {} if request.forget else view.recalled(run, agent)
        answer = _answer([item for item in candidates if _is_new(item, shown_ids_now)], request.max_tokens)
        new = tuple(engram_id for engram_id in answer.engrams if engram_id not in answer.stale)
        used_up = parent if task_found is not None else ""
        if not (answer.engrams or answer.stale or used_up):
            return forgotten, answer
        fact = EngramsRecalled(
            run=run,
            agent=agent,
            engrams=new,
            stale=tuple(answer.stale),
            task_of=used_up,
            task=request.task if used_up else "",
        )
        return [*forgotten, fact], answer

    return context.commit(decide, RecallAnswer, remember=False)


def _parent(view: View, context: Context, request: RecallRequest) -> str:
    """Return the agent that started the caller with a task; empty if this is not about a sub-agent's start."""
    agent = view.agent(context.caller.run.run_id, context.caller.name) if request.occasion == "subagent" else None
    return (agent.parent or "") if agent is not None and request.task else ""


def _is_new(candidate: _Candidate, shown_ids: dict[str, bool]) -> bool:
    if candidate.is_notice:
        return not shown_ids.get(candidate.engram_id, True)
    return candidate.engram_id not in shown_ids


def _candidates(
    context: Context, view: View, request: RecallRequest, shown_ids: dict[str, bool], task_found: tuple[str, ...] | None
) -> list[_Candidate]:
    """Return the lines that fit, the best first: what is new, then what is stale."""
    view = restrict_view(view, context.role_filter)
    places = [parse_path_lines(path) for path in request.paths]
    with context.shared.visible_stores(shared_scopes(context.policy), context.role_filter) as wider:
        stores = [*project_stores(view, context.caller), *wider]
        fits = [(engram, False) for engram in _engrams(stores, task_found or ())]
        if task_found is None and (request.text.strip() or places):
            fits = _fitting(stores, request, places)
        earlier = _engrams(
            stores, [] if request.occasion == "edit" else [i for i, is_stale in shown_ids.items() if not is_stale]
        )
        new = [(engram, at_lines) for engram, at_lines in fits if engram.id not in shown_ids][:MAX_COMPARED]
        evidence = _evidence(context, [*(engram for engram, _ in new), *earlier[:MAX_SHOWN_COMPARED]])
    fitting = [(engram, evidence[engram.id], at_lines) for engram, at_lines in new]
    fitting.sort(key=lambda item: _order(*item, places=places, is_edit=request.occasion == "edit"))
    lines = [
        _Candidate(engram.id, recall_line(engram, describe_state(about)), _is_stale(about))
        for engram, about, _ in fitting
    ]
    notices = [
        _Candidate(engram.id, stale_line(engram, describe_state(evidence[engram.id])), True, True)
        for engram in earlier[:MAX_SHOWN_COMPARED]
        if _is_stale(evidence[engram.id])
    ]
    # What an agent holds for true and is no longer comes first.
    return [*notices, *lines]


def _fitting(
    stores: Sequence[VisibleStore], request: RecallRequest, places: Sequence[PathLines]
) -> list[tuple[Engram, bool]]:
    """Return the engrams that fit, the best first, and whether they point at the lines that are edited."""
    from engrambus.knowledge.engrams import fit_before_edit, fit_text  # decision 39: load the rules of words

    is_edit = request.occasion == "edit"
    fits = fit_before_edit(stores, places) if is_edit else fit_text(stores, request.text, places)
    return [(fit.engram, fit.overlaps) for fit in fits]


def _order(
    engram: Engram, about: EvidenceAbout | None, at_lines: bool, *, places: Sequence[PathLines], is_edit: bool
) -> tuple[bool, bool, bool]:
    """Sort by the lines edited, as they are now; then what quotes the repository last, and of each stale evidence."""
    if about is not None and about.now:
        at_lines = any(_overlap(parse_path_lines(about.now), place) for place in places)
    return (is_edit and not at_lines, is_learned(engram), _is_stale(about))


def _overlap(now: PathLines, place: PathLines) -> bool:
    return now.path == place.path and place.has_lines and place.first <= now.last and now.first <= place.last


def _engrams(stores: Sequence[VisibleStore], ids: Iterable[str]) -> list[Engram]:
    """Return those of these engrams that the caller still sees and may be shown unasked."""
    trusted = [store for store in stores if not store.is_untrusted]
    engrams = []
    for engram_id in ids:
        stored = next((hit for store in trusted if (hit := store.reads.find(store.spaces, engram_id))), None)
        if stored is not None:
            engrams.append(stored.engram)
    return engrams


def _evidence(context: Context, engrams: Sequence[Engram]) -> dict[str, EvidenceAbout | None]:
    """Return the state of the evidence of each engram, by its id."""
    states = engram_states(context, engrams)
    return {engram.id: evidence_about(context, engram, states[engram.id]) for engram in engrams}


def _is_stale(about: EvidenceAbout | None) -> bool:
    return about is not None and about.state in STALE


def _answer(candidates: Sequence[_Candidate], max_tokens: int) -> RecallAnswer:
    """Return as many lines as are allowed, in order; a line that is too long makes room for a shorter one."""
    chosen: list[_Candidate] = []
    for candidate in candidates:
        text = "\n".join([HEAD, *(item.line for item in chosen), candidate.line])
        if len(chosen) < MAX_RECALLED and estimate_tokens(text) <= max_tokens:
            chosen.append(candidate)
    return RecallAnswer(
        lines=[HEAD, *(item.line for item in chosen)] if chosen else [],
        engrams=[item.engram_id for item in chosen if not item.is_notice],
        stale=[item.engram_id for item in chosen if item.is_stale],
    )
