"""Batches: spawning a tree of virtual agents, and unfolding the leaves that workers reach (decision 112)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from engrambus.core import canonical, digest, parse_time, print_time
from engrambus.errors import BatchTemplate
from engrambus.space.batches import BatchShape, LeafRange, check_shape, check_threshold
from engrambus.space.tuples.budgets import MAX_GENERATIONS
from engrambus.space.tuples.enqueue import check_room, generation_below, repeated_put
from engrambus.space.tuples.facts import BatchSpawned, Fact, LeavesUnfolded, TuplePut
from engrambus.space.tuples.limits import room_in, subject_of_body
from engrambus.space.tuples.next_steps import CanRun, may_run, next_yools
from engrambus.space.tuples.patterns import ABSENT, TuplePattern
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.rules import CheckedTuple, check_new, read_tuple, with_free_id
from engrambus.space.tuples.transitions import new_record, pattern_fields
from engrambus.space.tuples.values import AgentPosition, BatchRecord, SpaceSettings

UNFOLDED_AT_ONCE = 32
"""Leaves that wait materialised after a claim found too few, so that not every claim unfolds some."""
MAX_UNFOLDED_BATCHES = 16
"""Folded batches of which leaves wait at once for one claim."""

PATH, NUMBER = "${agent.path}", "${agent.number}"
"""Placeholders in the arguments of a template's steps."""
_OF_AGENT = re.compile(r"\$\{agent\.[^}]*\}?")
_BUDGETS = frozenset({"budget_usd", "budget_micros", "budget_tokens"})
_PLACE = ("agent", "batch", "depth", "branching")
"""Fields of `map_pos` that the agents of a batch have."""


class SpawnResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to spawning a batch."""

    id: str
    new: bool = True
    """False if the request was repeated under its idempotency key."""


def read_template(draft: Mapping[str, Any], authority: Mapping[str, Any], now_us: int) -> CheckedTuple:
    """Parse and check the tuple that every leaf of a batch is made from."""
    for name in ("id", "authority", "receipts"):
        if name in draft:
            raise BatchTemplate(
                f"A template has no `{name}`: each of its leaves has its own.", field=name, hint="Leave it out."
            )
    template = read_tuple(draft, authority, now_us)
    if not template.tuple.payload:
        raise BatchTemplate("The leaves of a batch have at least one step.", field="payload", limit=1, used=0)
    for name in _PLACE:
        if name in template.tuple.map_pos:
            raise BatchTemplate(f"`map_pos.{name}` is set for each agent of a batch.", field=f"map_pos.{name}")
    _check_placeholders(msgspec.to_builtins(template.tuple.payload))
    return template


def _check_placeholders(value: Any) -> None:
    """Refuse a placeholder of an agent that nothing would replace."""
    if isinstance(value, str):
        for placeholder in _OF_AGENT.findall(value):
            if placeholder not in (PATH, NUMBER):
                raise BatchTemplate(
                    f"{placeholder} stands for nothing.",
                    field="payload",
                    used=placeholder,
                    hint=f"An agent of a batch has {PATH} and {NUMBER}.",
                )
        return
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        _check_placeholders(item)


def spawn(
    view: WorkView,
    template: CheckedTuple,
    *,
    depth: int,
    branching: int,
    threshold: int,
    run: str,
    settings: SpaceSettings,
    admit: Callable[[CheckedTuple], int | None],
    idempotency: tuple[str, str] | None = None,
    every_run: bool = False,
) -> tuple[list[Fact], SpawnResult]:
    """Spawn a batch: folded, or with fewer leaves than the threshold as tuples at once."""
    if idempotency is not None and (previous := view.idempotent_put(idempotency[0])) is not None:
        return [], SpawnResult(id=repeated_put(previous, idempotency[1]).id, new=False)
    check_threshold(threshold)
    check_new(template, view.as_of)
    above = generation_below(view, template.tuple.parent_id, None if every_run else run)
    shape = check_shape(depth, branching, max_depth=MAX_GENERATIONS - above)
    root = with_free_id(_root(template, shape), lambda id: view.find(id) is not None)
    fields = {**template.fields, "parent_id": None}
    fields["agent_terms"] = {name: term for name, term in fields["agent_terms"].items() if name not in _BUDGETS}
    leaf = _leaf_fields(fields, root.id, root.id, shape, 0)
    retries = admit(read_tuple(_without_stamps(leaf), template.tuple.authority, view.as_of))
    key, request_digest = idempotency or (None, None)
    facts: list[Fact] = [
        TuplePut(
            id=root.id,
            run=run,
            tuple=msgspec.Raw(root.body),
            idempotency_key=key,
            request_digest=request_digest,
            agent=AgentPosition(batch=root.id, level=0, number=0, children=branching),
        ),
        BatchSpawned(
            id=root.id, depth=depth, branching=branching, template=msgspec.Raw(canonical(fields)), retries=retries
        ),
    ]
    if shape.leaves < threshold:
        check_room(view, template.tuple.lane, shape.leaves, settings)
        agents = AgentFactory(
            view, batch=root.id, shape=shape, template=canonical(fields), run=run, retries=retries, is_new=True
        )
        facts += agents.unfold(LeafRange(0, shape.leaves))
    return facts, SpawnResult(id=root.id)


def _root(template: CheckedTuple, shape: BatchShape) -> CheckedTuple:
    """Return the root of a batch: the template without its steps, and with its budget."""
    fields = _without_stamps(template.fields)
    fields.pop("flags", None)
    fields["payload"] = []
    fields["map_pos"] = {**fields["map_pos"], "agent": "0", "depth": shape.depth, "branching": shape.branching}
    fields["agent_terms"] = {name: term for name, term in fields["agent_terms"].items() if name in _BUDGETS}
    return read_tuple(fields, template.tuple.authority, parse_time(template.tuple.created_at))


def _without_stamps(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in ("authority", "receipts")}


def _leaf_fields(template: dict[str, Any], batch: str, parent: str, shape: BatchShape, number: int) -> dict[str, Any]:
    path = shape.path(shape.depth, number)
    return {
        **template,
        "payload": _filled(template["payload"], path, number),
        "map_pos": {**template["map_pos"], "agent": path, "batch": batch},
        "parent_id": parent,
    }


def _filled(value: Any, path: str, number: int) -> Any:
    """Return a part of a payload with the placeholders replaced by an agent's path and number."""
    if isinstance(value, str):
        if "${" not in value:
            return value
        return number if value == NUMBER else value.replace(PATH, path).replace(NUMBER, str(number))
    if isinstance(value, list):
        return [_filled(item, path, number) for item in value]
    if isinstance(value, dict):
        return {name: _filled(item, path, number) for name, item in value.items()}
    return value


@lru_cache(maxsize=64)
def _decoded_template(template: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(template)
    return fields


class AgentFactory:
    """Makes the tuples of a batch's agents. Content, creation time and so the ids follow from their place alone.

    If a tuple from elsewhere has the id of an agent, the agent is created some microseconds later.
    """

    def __init__(
        self,
        view: WorkView,
        *,
        batch: str,
        shape: BatchShape,
        template: bytes,
        run: str,
        retries: int | None,
        is_new: bool = False,
    ) -> None:
        self._view = view
        self._batch = batch
        self._shape = shape
        self._template = _decoded_template(template)
        self._run = run
        self._retries = retries
        self._is_new = is_new
        """True if no agent but the root can be in the space yet."""
        self._ids = {(0, 0): batch}

    @classmethod
    def of(cls, view: WorkView, batch: BatchRecord) -> AgentFactory:
        """Return the factory of a batch that is in the space."""
        return cls(
            view, batch=batch.id, shape=batch.shape, template=batch.template, run=batch.run, retries=batch.retries
        )

    def unfold(self, leaves: LeafRange) -> list[Fact]:
        """Return the facts that turn folded leaves into tuples, and before them the nodes above that are missing."""
        return [*self.unfold_to(leaves), *(self.leaf(number) for number in range(leaves.start, leaves.stop))]

    def unfold_to(self, leaves: LeafRange) -> list[Fact]:
        """Return the facts that come before leaves are put: they are folded no longer, and all nodes above are put."""
        depth = self._shape.depth
        facts: list[Fact] = [LeavesUnfolded(id=self._batch, start=leaves.start, stop=leaves.stop)]
        for level in range(1, depth):
            facts += self._missing_nodes(level, self._shape.touched_nodes(leaves, level))
        return facts

    def put_node(self, level: int, number: int) -> list[Fact]:
        """Return the facts that put a node above the leaves, and the nodes above it that are missing."""
        facts: list[Fact] = []
        for upper in range(1, level + 1):
            ancestor = number // self._shape.branching ** (level - upper)
            facts += self._missing_nodes(upper, range(ancestor, ancestor + 1))
        return facts

    def leaf(self, number: int) -> TuplePut:
        """Return the fact that puts a leaf; the node above it is known."""
        shape = self._shape
        parent = self._ids[shape.depth - 1, number // shape.branching]
        fields = _leaf_fields(self._template, self._batch, parent, shape, number)
        return self._put(fields, shape.depth, number, children=0)

    def sample(self, number: int) -> TuplePut:
        """Return a leaf as it would be put, below a parent that is not looked up."""
        fields = _leaf_fields(self._template, self._batch, self._batch, self._shape, number)
        return self._put(fields, self._shape.depth, number, children=0)

    def _missing_nodes(self, level: int, numbers: range) -> list[Fact]:
        if not self._is_new:
            for agent in self._view.agents_at(self._batch, level, numbers.start, numbers.stop):
                self._ids[level, agent.position.number] = agent.id
        return [self._node(level, number) for number in numbers if (level, number) not in self._ids]

    def _node(self, level: int, number: int) -> TuplePut:
        template = self._template
        fields = {
            **{name: value for name, value in template.items() if name not in ("flags", "priority")},
            "payload": [],
            "agent_terms": {},
            "map_pos": {**template["map_pos"], "agent": self._shape.path(level, number), "batch": self._batch},
            "parent_id": self._ids[level - 1, number // self._shape.branching],
        }
        put = self._put(fields, level, number, children=self._shape.branching)
        self._ids[level, number] = put.id
        return put

    def _put(self, fields: dict[str, Any], level: int, number: int, *, children: int) -> TuplePut:
        body = canonical(fields)
        while not self._is_new and self._view.find(digest(body)) is not None:
            body = canonical({**fields, "created_at": _later(fields)})
            fields = msgspec.json.decode(body)
        return TuplePut(
            id=digest(body),
            run=self._run,
            tuple=msgspec.Raw(body),
            retries=None if children else self._retries,
            agent=AgentPosition(batch=self._batch, level=level, number=number, children=children),
        )


def _later(fields: dict[str, Any]) -> str:
    return print_time(parse_time(fields["created_at"]) + 1)


def shortages(
    view: WorkView, pattern: TuplePattern, limit: int, *, settings: SpaceSettings, can_run: CanRun | None, epoch: int
) -> list[tuple[BatchRecord, int]]:
    """Return the folded batches of which too few leaves wait for a claim of this size, and how many to unfold.

    Batches whose leaves no worker may start now, because of a pause or a limit, are passed by.
    """
    if limit < 1 or not view.has_batches():
        return []
    lane = pattern.equal_to("lane")
    if not (lane is ABSENT or isinstance(lane, str)):
        return []
    conditions = pattern.without("lane")
    short: list[tuple[BatchRecord, int]] = []
    room: dict[str, int] = {}
    looked_at = 0
    for batch in view.folded_batches(None if lane is ABSENT else lane):
        if looked_at == MAX_UNFOLDED_BATCHES:
            break
        if not may_run(next_yools(batch.template), can_run) or not _matches_next(view, batch, conditions):
            continue
        wanted = min(limit, _may_start(view, batch, epoch, limit))
        if not wanted:
            continue
        looked_at += 1
        idle = len(view.idle_leaves(batch.id, limit=wanted))
        if batch.lane not in room:
            room[batch.lane] = settings.queue_maxsize - view.waiting_count(batch.lane)
        count = min(max(wanted, UNFOLDED_AT_ONCE) - idle, room[batch.lane], batch.folded)
        if idle < wanted and count > 0:
            room[batch.lane] -= count
            short.append((batch, count))
    return short


def _may_start(view: WorkView, batch: BatchRecord, epoch: int, most: int) -> int:
    """Return how many leaves of a batch limits and pauses let start now, up to `most`."""
    rules = view.limit_rules()
    pools = rules.pools(subject_of_body(batch.template, batch.lane, batch.run)) if rules else []
    return min((room_in(rule, view.pool_use(rule, pool, epoch=epoch)) for rule, pool in pools), default=most)


def _matches_next(view: WorkView, batch: BatchRecord, conditions: TuplePattern) -> bool:
    """True if the next leaf to unfold matches a pattern as a waiting tuple."""
    if not conditions.conditions:
        return True
    first = view.folded_leaves(batch.id, limit=1)[0].start
    record = new_record(AgentFactory.of(view, batch).sample(first), 0)
    return conditions.matches(pattern_fields(record))


def unfold_for(
    view: WorkView, pattern: TuplePattern, limit: int, *, settings: SpaceSettings, can_run: CanRun | None, epoch: int
) -> tuple[list[Fact], None]:
    """Unfold leaves for a claim of this size, the first of each batch; those of all others stay folded."""
    facts: list[Fact] = []
    for batch, count in shortages(view, pattern, limit, settings=settings, can_run=can_run, epoch=epoch):
        agents = AgentFactory.of(view, batch)
        for leaves in view.folded_leaves(batch.id, limit=count):
            if count <= 0:
                break
            part = LeafRange(leaves.start, min(leaves.stop, leaves.start + count))
            facts += agents.unfold(part)
            count -= len(part)
    return facts, None
