"""Answers as agents read them: short lines of text, sent once (decision 54).

An operation without a function here is answered with its JSON as text. `full: true` in a call gets the JSON of any
tool.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.core import check_tokens_fit, estimate_tokens, short_id
from engrambus.evidence.pointers import Pointer, compact_ref, describe_state, shorten_refs
from engrambus.knowledge.engrams import describe_readers
from engrambus.operations.learned_about import describe_learned
from engrambus.space.catalog import describe_signature
from engrambus.visible_text import count_invisible

if TYPE_CHECKING:
    from engrambus.evidence.pointers import DerefAnswer
    from engrambus.gateway import Operation
    from engrambus.knowledge.cortex import Contribution, SharedContextSnapshot
    from engrambus.knowledge.engrams import Engram
    from engrambus.knowledge.memory import ContextPackage
    from engrambus.operations.artifacts import ArtifactAnswer
    from engrambus.operations.brief import BriefAnswer
    from engrambus.operations.catalog import CatalogAnswer, YoolAnswer, YoolRow
    from engrambus.operations.deref_requests import DenyAnswer, RequestAnswer
    from engrambus.operations.engram_about import EngramAbout
    from engrambus.operations.engram_queries import QueryAnswer
    from engrambus.operations.grants import GrantAnswer
    from engrambus.operations.inbox import InboxAnswer, MailRow
    from engrambus.operations.messages import BroadcastAnswer, MessageAnswer, ValidateAnswer
    from engrambus.operations.pointers import AnchorAnswer
    from engrambus.operations.reservations import ReleaseAnswer, ReservationRow
    from engrambus.operations.task_changes import ReleasedTasks
    from engrambus.operations.task_rows import ClaimedTask, TaskAnswer, TaskRow
    from engrambus.operations.tasks import FinishedTask, TasksAnswer
    from engrambus.operations.tuples import DispatchAnswer, TupleStatus

SHORT_DIGEST_CHARS = len("sha256:") + 12
QUERY_TOKENS = 800
"""Size of an answer to a query if the agent asks for no other."""


def compact_text(operation: Operation[Any, Any], answer: Any, max_tokens: int | None = None) -> str:
    """Return the answer of an operation as text, within `max_tokens` where its tool takes that."""
    lines = _LINES.get(operation.name)
    if lines is None:
        return msgspec.json.encode(answer).decode()
    if operation.name in _CUT:
        return _CUT[operation.name](answer, max_tokens)
    return "\n".join(lines(answer))


def problem_text(problem: dict[str, Any]) -> str:
    """Return a refusal as text: the code first, then what was wrong, what to do, and what to send instead."""
    code, detail = problem["code"], problem.get("detail") or problem["title"]
    figures = [f"{name}: {problem[name]}" for name in ("field", "line", "limit", "used") if name in problem]
    lines = [f"{code}: {_line(detail)}", *([", ".join(map(_line, figures))] if figures else [])]
    if "hint" in problem:
        lines.append(f"hint: {_line(problem['hint'])}")
    for name, value in problem.items():
        if name not in _SHOWN_MEMBERS:
            lines.append(f"{name}: {_line(value) if isinstance(value, str) else msgspec.json.encode(value).decode()}")
    if "resend" in problem:
        lines += ["resend:", problem["resend"]]
    return "\n".join(lines)


_SHOWN_MEMBERS = frozenset({"type", "title", "status", "code", "detail", "field", "line", "limit", "used", "hint"}) | {
    "resend"
}


def _line(text: object) -> str:
    """Return a text on one line: what an agent wrote must not begin a line of its own."""
    return " ".join(str(text).split())


def short_pointer(pointer: Pointer) -> str:
    """Return a pointer as the tools take it: short for lines of this repository, else its ref."""
    return compact_ref(pointer.ref)


def engram_line(engram: Engram, about: EngramAbout) -> str:
    """Return an engram as one line: kind unless a fact, claim, evidence with its state and readers, short id.

    The mark of an unconfirmed or untrusted one comes first, where no claim can imitate or hide it.
    """
    mark = "(untrusted) " if about.untrusted is not None else "(unconfirmed) " if about.unconfirmed is not None else ""
    kind = "" if engram.kind == "fact" else f"{engram.kind}: "
    evidence = about.evidence
    words = describe_state(evidence)
    state = f" {words}" if words else ""
    absent = evidence.unresolved if evidence is not None and evidence.state != "unresolved" else []
    evidence_pointers = [
        pointer for pointer in engram.pointers if pointer.ref != engram.id
    ]  # a memory's id is its own pointer
    places = " ".join(
        short_pointer(pointer) + "(unresolved)" * (pointer.ref in absent) for pointer in evidence_pointers
    )
    memory = "" if about.memory is None else "pinned memory" if about.memory.pinned else "memory"
    rivals = " ".join(["conflicts with", *map(short_id, about.conflicts)]) if about.conflicts else ""
    notes = ", ".join(filter(None, (places + state, _readers(engram, about) if places else "", memory, rivals)))
    return f"{mark}{kind}{_line(engram.claim)} [{notes}] {short_id(engram.id)}"


def _readers(engram: Engram, about: EngramAbout) -> str:
    """Return who read the evidence, in few tokens; a line has no room for more than the first.

    Of what was learned from the repository, where it was learned: no agent has read it.
    """
    if about.learned is not None and not about.read_by:
        return describe_learned(about.learned)
    first = [reader for reader in about.read_by if reader.agent == about.read_by[0].agent]
    return f"read by {describe_readers(first, len(engram.pointers))}" if first else "not read"


def _query(answer: QueryAnswer) -> Iterable[str]:
    for engram in answer.engrams:
        about = answer.about[engram.id]
        uses = about.used_by.count if about.used_by is not None else 0
        newer = f" replaced by {short_id(about.replaced_by)}" if about.replaced_by is not None else ""
        yield engram_line(engram, about) + newer + (f" used by {uses}" if uses else "")


def _query_within(answer: QueryAnswer, max_tokens: int | None) -> str:
    """Return as many whole lines as fit, and the number of the others."""
    lines = list(_query(answer))
    if not lines:
        return "Nothing found."

    def text(count: int) -> str:
        omitted = [f"+{len(lines) - count} more"] if count < len(lines) else []
        page = [f"cursor: {answer.cursor}"] if answer.cursor is not None and not omitted else []
        return "\n".join([*lines[:count], *omitted, *page])

    limit = QUERY_TOKENS if max_tokens is None else max_tokens
    # The whole answer may fit although one line less and the note about it do not.
    count = len(lines)
    if estimate_tokens(text(count)) > limit:
        count = bisect_right(range(1, count), limit, key=lambda number: estimate_tokens(text(number)))
        check_tokens_fit(text(max(count, 1)), limit)
    return text(count)


def _brief(answer: BriefAnswer) -> Iterable[str]:
    yield f"Brief {answer.version} ({answer.role}); call with since={answer.version} to get only what is new."
    yield from answer.lines


def _brief_within(answer: BriefAnswer, max_tokens: int | None) -> str:
    lines = list(_brief(answer))
    while max_tokens is not None and len(lines) > 1 and estimate_tokens("\n".join(lines)) > max_tokens:
        lines.pop()
    if max_tokens is not None:
        check_tokens_fit("\n".join(lines), max_tokens)
    return "\n".join(lines)


def _deref(answer: DerefAnswer) -> Iterable[str]:
    yield f"{short_pointer(answer.pointer)} {answer.content_digest[:SHORT_DIGEST_CHARS]}{_cut_note(answer)}"
    if words := describe_state(answer.evidence):
        yield f"({words})"
    if answer.escaped:
        yield f"({answer.escaped} invisible shown as escapes; the digest is of the file as it is)"
    yield answer.excerpt


def _cut_note(answer: DerefAnswer) -> str:
    """Return which part a cut answer holds: the pointer to exactly its lines and their digest, where it names them."""
    part = answer.excerpt_pointer
    if part is not None and part.digest is not None:
        return f" (cut: {short_pointer(part)} {part.digest[:SHORT_DIGEST_CHARS]})"
    return (" (cut: the end)" if answer.tail else " (cut: the beginning)") if answer.truncated else ""


def _put(answer: Engram) -> Iterable[str]:
    places = " ".join(short_pointer(pointer) for pointer in answer.pointers)
    yield f"{short_id(answer.id)} stored at {answer.scope}: [{places}]"


def _request(answer: RequestAnswer) -> Iterable[str]:
    yield f"asked {answer.asked}: request {answer.request_id}"


def _grant(answer: GrantAnswer) -> Iterable[str]:
    yield f"granted {answer.child_id} until {answer.expires_at}: {answer.biscuit or answer.budget_token}"


def _message(answer: MessageAnswer) -> Iterable[str]:
    engrams = f"; engrams {' '.join(map(short_id, answer.engrams))}" if answer.engrams else ""
    requests = f"; requests {' '.join(answer.requests)}" if answer.requests else ""
    resends = f"; answers rejection {answer.resends}" if answer.resends else ""
    yield f"{answer.message_id} sent to {answer.to}; turn {answer.turn} is open{engrams}{requests}{resends}"


def _inbox(answer: InboxAnswer) -> Iterable[str]:
    yield from map(_line, answer.lines)
    for row in answer.mail:
        yield from _mail(row)
    if answer.waiting:
        yield f"+{answer.waiting} more"
    if not answer.lines and not answer.mail:
        yield "No new mail."
    if answer.claims_waiting:
        yield f"{answer.claims_waiting} unconfirmed in answers of your sub-agents; action confirm takes an id:"
        yield from (f"{row.kind}: {_line(row.claim)} ({row.agent}) {short_id(row.id)}" for row in answer.claims)
    if answer.seen:
        yield "seen before:"
        yield from map(_line, answer.seen)


def _mail(answer: MailRow) -> Iterable[str]:
    yield f"{answer.kind} {answer.item} from {answer.sender} at {answer.at}"
    yield shorten_refs(answer.text).rstrip()
    for name in ("engrams", "requests", "grants", "used"):
        if ids := getattr(answer, name):
            stale = getattr(answer, "stale", ())
            yield f"{name}: {' '.join(short_id(item) + '(stale)' * (item in stale) for item in ids)}"


def _broadcast(answer: BroadcastAnswer) -> Iterable[str]:
    yield f"{answer.broadcast_id} sent to {', '.join(answer.to) or 'nobody: you have no children'}"


def _denial(answer: DenyAnswer) -> Iterable[str]:
    yield f"{answer.request_id} is declined"


def _verdict(answer: ValidateAnswer) -> Iterable[str]:
    usage, budget = answer.usage, answer.budget
    yield "It would be accepted." if answer.ok else "It would be refused."
    yield f"{usage.inline_tokens} of {budget.max_inline_tokens} tokens, {usage.engrams} of {budget.max_engrams} engrams"
    for problem in answer.problems:
        yield problem_text(problem)


def _reservation(answer: ReservationRow) -> Iterable[str]:
    yield f"{', '.join(answer.paths)} reserved until {answer.expires_at[:16]}Z: {short_id(answer.reservation_id)}"


def _released(answer: ReleaseAnswer) -> Iterable[str]:
    yield "released: " + (", ".join(path for row in answer.released for path in row.paths) or "nothing was reserved")


def _artifact(answer: ArtifactAnswer) -> Iterable[str]:
    yield f"{answer.pointer} stored, {answer.tokens} tokens"


def _anchor(answer: AnchorAnswer) -> Iterable[str]:
    if answer.pointer is not None:
        yield short_pointer(answer.pointer)
    elif answer.candidates:
        yield f"in several places, {answer.matched_lines} lines matched:"
        yield from map(short_pointer, answer.candidates)
    else:
        yield "not found"


def _inherit(answer: SharedContextSnapshot) -> Iterable[str]:
    for item in answer.items:
        yield f"{_line(item.content)} {item.provenance.memory_id or short_id(item.provenance.atom_id or '')}".rstrip()
    if answer.left_out:
        yield f"+{answer.left_out} more"
    if not answer.items and not answer.left_out:
        yield "Nothing is remembered yet."


def _contribute(answer: Contribution) -> Iterable[str]:
    yield f"{answer.contribution_id} {answer.status}"


def _memory(answer: ContextPackage) -> Iterable[str]:
    for item in answer.selection.selected:
        yield f"{item.memory_id}: {_line(item.excerpt)}"
    if escaped := sum(count_invisible(item.excerpt) for item in answer.selection.selected):
        yield f"({escaped} invisible shown as escapes; package_hash is of the texts as they are)"
    dropped = answer.selection.dropped_counts
    if isinstance(dropped, dict) and dropped:
        yield "dropped: " + ", ".join(f"{reason} {count}" for reason, count in sorted(dropped.items()))
    elif not answer.selection.selected:
        yield "Nothing found."


def _catalog(answer: CatalogAnswer) -> Iterable[str]:
    for yool in answer.yools:
        yield _yool_row(yool)
    if answer.cursor is not None:
        yield f"cursor: {answer.cursor}"


def _yool_row(yool: YoolRow | YoolAnswer) -> str:
    return f"{yool.yool_id} ({yool.lane}) {_line(yool.about)}".rstrip()


def _yool(answer: YoolAnswer) -> Iterable[str]:
    yield _yool_row(answer)
    yield f"authority: {', '.join(answer.authority)}"
    if answer.arguments is not None:
        yield f"args: {describe_signature(answer.arguments)}"
    for name in ("agent_terms", "contract", "versions"):
        value = getattr(answer, name)
        if value:
            yield f"{name}: {msgspec.json.encode(value).decode()}"


def _dispatch(answer: DispatchAnswer) -> Iterable[str]:
    yield f"{answer.id} {'accepted' if answer.new else 'is there already'}, receipt {answer.receipt_id}"


def _status(answer: TupleStatus) -> Iterable[str]:
    yield f"{answer.state} on {answer.lane}, attempts {answer.attempts}, {answer.tokens} tokens, ${answer.usd:g}"
    for step in answer.steps:
        yield msgspec.json.encode(step).decode()
    if answer.error:
        yield f"error: {_line(answer.error)}"
    if answer.terminal:
        yield f"final receipt: {answer.terminal}"


def _task_row(task: TaskRow) -> str:
    """Return a task in one line: id, state, title, then who and when."""
    words = [f"p{task.priority}"] if task.priority else []
    if task.due is not None:
        words.append(f"{'overdue' if task.overdue else 'due'} {task.due[:16]}Z")
    if task.mine:
        words.append("yours")
    elif task.claimed_by is not None:
        words.append(f"by {task.claimed_by.rpartition('/')[2]}")
    elif task.owner:
        words.append(f"for {task.owner.rpartition('/')[2]}")
    if task.begun_by is not None:
        words.append(f"begun by {task.begun_by.rpartition('/')[2]}")
    notes = f" ({', '.join(words)})" if words else ""
    places = f" [{' '.join(map(compact_ref, task.at))}]" if task.at else ""
    return f"{short_id(task.id)} {task.state}: {_line(task.title)}{places}{notes}"


def _task(answer: TaskRow) -> Iterable[str]:
    yield _task_row(answer)
    yield from map(_line, answer.blocked)


def _tasks(answer: TasksAnswer) -> Iterable[str]:
    yield from map(_task_row, answer.tasks)
    if answer.more:
        yield f"+{answer.more} more"
    if not answer.tasks:
        yield "No task is ready for you."


def _task_history(answer: ClaimedTask | TaskAnswer) -> Iterable[str]:
    yield from _task(answer)
    for note in answer.history:
        text = f": {_line(note.text)}" if note.text else ""
        yield f"{note.at[:16]}Z {note.what} by {note.by.rpartition('/')[2]}{text}"
    if answer.claimed_by is not None and answer.lease_until is not None:
        yield f"lease until {answer.lease_until[:16]}Z, renewed by each of your calls"


def _shown_task(answer: TaskAnswer) -> Iterable[str]:
    yield from _task_history(answer)
    yield from (f"evidence: {compact_ref(item.ref)}" for item in answer.evidence)


def _finished_task(answer: FinishedTask) -> Iterable[str]:
    yield f"{short_id(answer.id)} done, receipt {short_id(answer.receipt_id)}"
    for task in answer.ready:
        yield f"ready now: {_task_row(task)}"


def _released_tasks(answer: ReleasedTasks) -> Iterable[str]:
    yield "released: " + (" ".join(map(short_id, answer.released)) or "nothing was claimed")


_LINES: dict[str, Callable[[Any], Iterable[str]]] = {
    "add_task": _task,
    "block_task": _task,
    "claim_task": _task_history,
    "finish_task": _finished_task,
    "ready_tasks": _tasks,
    "release_tasks": _released_tasks,
    "show_task": _shown_task,
    "unblock_task": _task,
    "anchor": _anchor,
    "approve_request": _grant,
    "brief": _brief,
    "broadcast": _broadcast,
    "catalog_list_by_lane": _catalog,
    "catalog_lookup": _yool,
    "contribute": _contribute,
    "deny_request": _denial,
    "deref_pointer": _deref,
    "inbox": _inbox,
    "inherit": _inherit,
    "issue_grant": _grant,
    "memory_read": _memory,
    "promote_engram": _put,
    "put_engram": _put,
    "query_engrams": _query,
    "read_mail": _mail,
    "release_reservations": _released,
    "request_deref": _request,
    "reserve": _reservation,
    "send_message": _message,
    "store_artifact": _artifact,
    "tuple_dispatch": _dispatch,
    "tuple_observe": _status,
    "validate_message": _verdict,
}
"""The lines of each operation's answer."""

_CUT: dict[str, Callable[[Any, int | None], str]] = {
    "brief": _brief_within,
    "query_engrams": _query_within,
}
"""Operations whose lines are cut here, because lines cost less than the JSON that the operation counts."""


def takes_text_budget(operation: Operation[Any, Any]) -> bool:
    """True if `max_tokens` of the operation counts its lines."""
    return operation.name in _CUT
