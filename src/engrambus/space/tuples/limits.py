"""Limits: how many tuples may run at once, how many may start in a time, and what is paused (decision 110).

A rule says which tuples it is about, by lane, run, kind of authority and concurrency key, and what holds for them: how
many may run, how many may start within a period, or that none may start. A rule about keys that begin alike counts each
of those keys by itself. What is counted together is called a pool.

A tuple that runs is one with a claim whose lease has not ended, so a slot is given back by time if by no one else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from engrambus.core import parse_duration, print_duration, print_second
from engrambus.errors import LimitInvalid, LimitNotFound, TooManyLimits, TtlInvalid
from engrambus.space.tuples.access import authority_kind
from engrambus.space.tuples.facts import Fact, LimitRemoved, LimitSet
from engrambus.space.tuples.rules import KEY_TERM, is_key

if TYPE_CHECKING:
    from engrambus.space.tuples.ports import WorkView
    from engrambus.space.tuples.values import TupleRecord

AUTHORITY_KINDS = ("user", "agent", "ci")
MAX_RULES = 256
MAX_RUNNING = 1_000_000
MAX_STARTS = 100_000
"""Starts of one period; the time of each is remembered."""
MAX_WHY = 200
MAX_REMEMBERED = 4096
"""Kinds of tuples whose pools are remembered."""
_RATE = re.compile(r"(?P<starts>-?[0-9]{1,12})/(?P<period>[^/]{1,40})")
_RATE_HINT = "Write a number of starts and an ISO 8601 duration: 100/PT1M."


class Subject(msgspec.Struct, frozen=True):
    """What rules look at in a tuple."""

    lane: str
    run: str
    authority: str
    """Kind of authority: `user`, `agent` or `ci`."""
    key: str | None = None
    """Its concurrency key."""


class LimitMatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tuples that a rule is about; what is None is not looked at."""

    lane: str | None = None
    run: str | None = None
    authority: str | None = None
    key: str | None = None
    """A key, or the beginning of keys with `*` behind it: then each of those keys is counted by itself."""

    @property
    def name(self) -> str:
        """The rule's name in lists and texts: `lane build, key customer-*`."""
        fields = (("lane", self.lane), ("run", self.run), ("authority", self.authority), ("key", self.key))
        return ", ".join(f"{name} {value}" for name, value in fields if value is not None)

    @property
    def id(self) -> str:
        """What tells the rule from others; no value has a tab in it."""
        return "\t".join(value or "" for value in (self.lane, self.run, self.authority, self.key))

    @property
    def is_prefix(self) -> bool:
        """True if it is about all keys that begin alike."""
        return self.key is not None and self.key.endswith("*")

    def covers(self, subject: Subject) -> bool:
        """True if a tuple is one of these."""
        return (
            self.lane in (None, subject.lane)
            and self.run in (None, subject.run)
            and self.authority in (None, subject.authority)
            and (self.key is None or self._covers_key(subject.key))
        )

    def _covers_key(self, key: str | None) -> bool:
        if key is None or self.key is None:
            return False
        return key.startswith(self.key[:-1]) if self.is_prefix else key == self.key

    def pool(self, subject: Subject) -> str:
        """Return the pool in which a tuple that it covers is counted."""
        return f"{self.id}\n{subject.key}" if self.is_prefix else self.id


class LimitRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with what holds for its tuples."""

    match: LimitMatch
    running: int | None = None
    """How many of a pool may run at once; None for any number."""
    starts: int | None = None
    """How many of a pool may start within `period_us`; None for any number."""
    period_us: int = 0
    paused: str | None = None
    """Why none may start; empty if no reason was given, None if they may."""
    by: str = ""
    """Who set it."""
    since_us: int = 0

    @property
    def rate(self) -> str | None:
        """The rate as it is written: `100/PT1M`."""
        return None if self.starts is None else f"{self.starts}/{print_duration(self.period_us)}"


class PoolUse(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a pool is used now."""

    running: int = 0
    """Tuples with a claim that is valid."""
    started: int = 0
    """Starts within the rule's period."""
    slot_ends_us: int | None = None
    """When the first of those claims ends unless it is renewed."""
    start_ends_us: int | None = None
    """When the first of so many starts that no further one is allowed is out of the period; None if one is allowed."""


class Pools(Protocol):
    """The rules, and how their pools are used."""

    def limit_rules(self) -> LimitRules: ...

    def pool_use(self, rule: LimitRule, pool: str) -> PoolUse: ...


def use_of_starts(rule: LimitRule, times_us: Sequence[int], now_us: int) -> tuple[int, int | None]:
    """Return how many starts are within the rule's period, and when the next is allowed if it is not.

    `times_us` are the last starts of a pool, oldest first.
    """
    if rule.starts is None:
        return 0, None
    started = sum(time_us > now_us - rule.period_us for time_us in times_us)
    return started, times_us[-rule.starts] + rule.period_us if started >= rule.starts else None


class LimitBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that keeps a tuple from starting."""

    rule: LimitRule
    key: str | None
    """The key counted, if the rule counts each key by itself."""
    use: PoolUse

    @property
    def summary(self) -> str:
        """What the tuple waits for, in a few words."""
        rule = self.rule
        name = f"key {self.key}" if self.key is not None else rule.match.name
        if rule.paused is not None:
            why = f": {rule.paused}" if rule.paused else ""
            return f"{name} is paused by {rule.by} since {print_second(rule.since_us)}{why}"
        if rule.running is not None and self.use.running >= rule.running:
            return f"waits for {name}: {self.use.running} of {rule.running} running"
        until = "" if self.use.start_ends_us is None else f", the next at {print_second(self.use.start_ends_us)}"
        return (
            f"waits for {name}: {self.use.started} of {rule.starts} starts in {print_duration(rule.period_us)}{until}"
        )


class LimitUse(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with what is used of it now, in all its pools, and what waits because of it."""

    rule: LimitRule
    running: int = 0
    started: int = 0
    waiting: int = 0
    """Waiting tuples that it keeps from starting."""
    full: int = 0
    """Pools without room that tuples wait for."""

    @property
    def summary(self) -> str:
        """The rule and what waits because of it, in one line."""
        rule, name = self.rule, self.rule.match.name
        waits = f"; {self.waiting} wait" if self.waiting else ""
        if rule.paused is not None:
            why = f": {rule.paused}" if rule.paused else ""
            return f"{name} is paused by {rule.by} since {print_second(rule.since_us)}{why}{waits}"
        of_each = " of each" if rule.match.is_prefix else ""
        parts = []
        if rule.running is not None:
            parts.append(f"{self.running} running, at most {rule.running}{of_each}")
        if rule.starts is not None:
            period = print_duration(rule.period_us)
            parts.append(f"{self.started} started in {period}, at most {rule.starts}{of_each}")
        return f"{name}: {', '.join(parts)}{waits}"


def subject_of(record: TupleRecord) -> Subject:
    """Return what rules look at in a tuple."""
    return subject_of_body(record.body, record.lane, record.run)


class _SubjectFields(msgspec.Struct):
    authority: dict[str, Any] = {}
    agent_terms: dict[str, Any] = {}


_decode_subject = msgspec.json.Decoder(_SubjectFields).decode


def subject_of_body(body: bytes, lane: str, run: str) -> Subject:
    """Return what rules look at in a tuple with that body."""
    fields = _decode_subject(body)
    return Subject(lane, run, authority_kind(fields.authority), fields.agent_terms.get(KEY_TERM))


class LimitRules(dict[str, LimitRule]):
    """The rules of a project by id; it remembers which pools a tuple is counted in."""

    def __init__(self, rules: Iterable[LimitRule] = ()) -> None:
        super().__init__({rule.match.id: rule for rule in rules})
        self._prefixes = [rule for rule in self.values() if rule.match.is_prefix]
        self._pools: dict[Subject, list[tuple[LimitRule, str]]] = {}

    def pools(self, subject: Subject) -> list[tuple[LimitRule, str]]:
        """Return the pools that a tuple is counted in, each with its rule."""
        pools = self._pools.get(subject)
        if pools is None:
            if len(self._pools) >= MAX_REMEMBERED:
                self._pools.clear()
            pools = self._pools[subject] = [
                (rule, rule.match.pool(subject)) for rule in self._exact(subject) if rule.match.covers(subject)
            ]
            pools += [(rule, rule.match.pool(subject)) for rule in self._prefixes if rule.match.covers(subject)]
        return pools

    def _exact(self, subject: Subject) -> Iterator[LimitRule]:
        """Yield the rules that name just the fields of a tuple, or some of them."""
        fields = subject.lane, subject.run, subject.authority, subject.key or ""
        for named in dict.fromkeys(product(*((field, "") for field in fields))):
            rule = self.get("\t".join(named)) if any(named) else None
            if rule is not None:
                yield rule


def pools_of_rule(rule: LimitRule) -> tuple[str, str]:
    """Return the first and the last name that a pool of a rule can have."""
    return (f"{rule.match.id}\n", f"{rule.match.id}\n\U0010ffff") if rule.match.is_prefix else (rule.match.id,) * 2


def room_in(rule: LimitRule, use: PoolUse) -> int:
    """Return how many more tuples of a pool may start now."""
    if rule.paused is not None:
        return 0
    slots = MAX_RUNNING if rule.running is None else rule.running - use.running
    starts = MAX_RUNNING if rule.starts is None else rule.starts - use.started
    return max(0, min(slots, starts))


def opens_us(rule: LimitRule, use: PoolUse) -> int | None:
    """Return when a pool without room may have some by itself; None if only an action can make room."""
    if rule.paused is not None:
        return None
    times = []
    if rule.running is not None and use.running >= rule.running:
        times.append(use.slot_ends_us)
    if rule.starts is not None and use.started >= rule.starts:
        times.append(use.start_ends_us)
    return max((time_us for time_us in times if time_us is not None), default=None)


def limit_blocks(view: Pools, subject: Subject) -> list[LimitBlock]:
    """Return the rules that keep a tuple from starting now."""
    blocks_found = []
    for rule, pool in view.limit_rules().pools(subject):
        use = view.pool_use(rule, pool)
        if not room_in(rule, use):
            blocks_found.append(LimitBlock(rule=rule, key=subject.key if rule.match.is_prefix else None, use=use))
    return blocks_found


# Setting rules


def read_match(
    *, lane: str | None = None, run: str | None = None, authority: str | None = None, key: str | None = None
) -> LimitMatch:
    """Return what a rule is about, or refuse it."""
    if lane is None and run is None and authority is None and key is None:
        raise LimitInvalid(
            "A limit or a pause needs a lane, a run, an authority or a key.",
            field="lane",
            limit="lane, run, authority, key",
            hint="Name at least one: --lane build, or --key 'customer-*'.",
        )
    for field, name in (("lane", lane), ("run", run)):
        if name is not None and (not is_key(name) or "*" in name):
            raise LimitInvalid(
                f"A {field} is named exactly; only keys are limited by how they begin.",
                field=field,
                used=name[:40],
                hint=f"Set a rule for each {field}.",
            )
    if authority is not None and authority not in AUTHORITY_KINDS:
        raise LimitInvalid(
            f"'{authority[:40]}' is no kind of authority.",
            field="authority",
            used=authority[:40],
            limit=", ".join(AUTHORITY_KINDS),
        )
    if key is not None and (not is_key(key) or "*" in key[:-1]):
        raise LimitInvalid(
            "A key is limited by its name, or by how it begins with one '*' at the end.",
            field="key",
            used=key[:40],
            hint="Write --key customer-7, or --key 'customer-*' for each key that begins so.",
        )
    return LimitMatch(lane=lane, run=run, authority=authority, key=key)


def read_running(running: int | None) -> int | None:
    """Return how many may run at once, or refuse it."""
    if running is None:
        return None
    if running == 0:
        raise LimitInvalid(
            "A limit of 0 would let nothing run.",
            field="running",
            limit=f"1..{MAX_RUNNING}",
            used=0,
            hint="To stop tuples from starting: engrambus pause.",
        )
    if not 0 < running <= MAX_RUNNING:
        raise LimitInvalid("The limit is out of range.", field="running", limit=f"1..{MAX_RUNNING}", used=running)
    return running


def read_rate(text: str | None) -> tuple[int | None, int]:
    """Return the starts and the period in microseconds of a rate like `100/PT1M`, or refuse it."""
    if text is None:
        return None, 0
    match = _RATE.fullmatch(text)
    if match is None:
        raise LimitInvalid("That is not a rate.", field="rate", used=text[:40], hint=_RATE_HINT)
    starts = int(match["starts"])
    if starts == 0:
        raise LimitInvalid(
            "A rate of 0 would let nothing start.",
            field="rate",
            limit=f"1..{MAX_STARTS}",
            used=text,
            hint="To stop tuples from starting: engrambus pause.",
        )
    if not 0 < starts <= MAX_STARTS:
        raise LimitInvalid("The rate is out of range.", field="rate", limit=f"1..{MAX_STARTS}", used=text)
    try:
        period_us = parse_duration(match["period"], field="rate")
    except TtlInvalid as refusal:
        raise LimitInvalid(
            "The period of a rate is a duration of weeks, days, hours, minutes and seconds, longer than 0.",
            field="rate",
            used=text[:40],
            hint=refusal.hint or _RATE_HINT,
        ) from None
    return starts, period_us


def set_limit(
    view: WorkView, match: LimitMatch, *, running: int | None, rate: str | None, by: str
) -> tuple[list[Fact], LimitRule]:
    """Set how many tuples of a rule may run and start; what is not named stays as it is."""
    running = read_running(running)
    starts, period_us = read_rate(rate)
    if running is None and starts is None:
        raise LimitInvalid(
            "A limit says how many may run, or how many may start within a time.",
            field="running",
            hint="Add --running 8, or --rate 100/PT1M.",
        )
    old = view.limit_rules().get(match.id)
    if old is None:
        _check_room(view)
    rule = LimitRule(
        match=match,
        running=running if running is not None or old is None else old.running,
        starts=starts if starts is not None or old is None else old.starts,
        period_us=period_us if starts is not None or old is None else old.period_us,
        paused=None if old is None else old.paused,
        by=by,
        since_us=view.as_of,
    )
    return [fact_of(rule)], rule


def remove_limit(view: WorkView, match: LimitMatch) -> tuple[list[Fact], LimitRule]:
    """Remove the limits of a rule; a pause stays."""
    rule = view.limit_rules().get(match.id)
    if rule is None or (rule.running is None and rule.starts is None):
        raise LimitNotFound(
            f"There is no limit for {match.name}.", field="lane", hint="See them: engrambus limit list."
        )
    if rule.paused is not None:
        return [fact_of(msgspec.structs.replace(rule, running=None, starts=None, period_us=0))], rule
    return [_removed(match)], rule


def pause(view: WorkView, match: LimitMatch, *, why: str, by: str) -> tuple[list[Fact], LimitRule]:
    """Let no tuples of a rule start until `unpause`; those that run go on. Without a reason an earlier one stays."""
    why = " ".join(why.split())
    if len(why) > MAX_WHY:
        raise LimitInvalid("The reason is too long.", field="why", limit=MAX_WHY, used=len(why))
    old = view.limit_rules().get(match.id)
    if old is None:
        _check_room(view)
        old = LimitRule(match=match)
    rule = msgspec.structs.replace(old, paused=why or old.paused or "", by=by, since_us=view.as_of)
    return [fact_of(rule)], rule


def unpause(view: WorkView, match: LimitMatch, *, by: str) -> tuple[list[Fact], LimitRule]:
    """Let the tuples of a rule start again; its limits stay."""
    rule = view.limit_rules().get(match.id)
    if rule is None or rule.paused is None:
        raise LimitNotFound(
            f"{match.name} is not paused.",
            field="lane",
            hint="A pause ends as it was set, with the same lane, run and key: engrambus limit list.",
        )
    if rule.running is None and rule.starts is None:
        return [_removed(match)], rule
    return [fact_of(msgspec.structs.replace(rule, paused=None, by=by, since_us=view.as_of))], rule


def _check_room(view: WorkView) -> None:
    rules = len(view.limit_rules())
    if rules >= MAX_RULES:
        raise TooManyLimits(
            field="lane", limit=MAX_RULES, used=rules, hint="One rule with --key 'PREFIX*' does for many keys."
        )


def fact_of(rule: LimitRule) -> LimitSet:
    """Return the fact that sets a rule."""
    match = rule.match
    return LimitSet(
        lane=match.lane,
        run=match.run,
        authority=match.authority,
        key=match.key,
        running=rule.running,
        starts=rule.starts,
        period_us=rule.period_us,
        paused=rule.paused,
        by=rule.by,
    )


def _removed(match: LimitMatch) -> LimitRemoved:
    return LimitRemoved(lane=match.lane, run=match.run, authority=match.authority, key=match.key)


def match_of(fact: LimitSet | LimitRemoved) -> LimitMatch:
    """Return what the rule of a fact is about."""
    return LimitMatch(lane=fact.lane, run=fact.run, authority=fact.authority, key=fact.key)


def rule_of(fact: LimitSet, at_us: int) -> LimitRule:
    """Return the rule that a fact sets."""
    return LimitRule(
        match=match_of(fact),
        running=fact.running,
        starts=fact.starts,
        period_us=fact.period_us,
        paused=fact.paused,
        by=fact.by,
        since_us=at_us,
    )
