"""The rules of reservations: who may reserve, renew and release paths, and whom a reservation concerns (decision 79).

A reservation is a lease. The first holder has the paths until it releases them, they expire, or it ends: with its run,
its removal, its session, its sub-agent, or the process that it works in. It concerns every agent and person of the
project but the holder and the holder's descendants, which work for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from engrambus.core import Randomness, new_ulid, parse_duration, print_duration, print_time, short_id
from engrambus.errors import (
    FieldValue,
    LifetimeTooLong,
    PathReserved,
    ReservationNotFound,
    ReservationPath,
    TooManyReservations,
)
from engrambus.policy.identity import ADMIN, Caller, IdentityReads, descends, lineage_of
from engrambus.policy.lifetimes import duration_us
from engrambus.policy.project_policy import ReservationPolicy
from engrambus.policy.reservations.facts import ReservationChanged, ReservationMade, ReservationReleased
from engrambus.policy.reservations.patterns import (
    EVERYTHING_BELOW,
    has_wildcard,
    names_everything,
    overlaps,
    read_path_pattern,
    without_depth,
)
from engrambus.policy.reservations.ports import Reservation, ReservationReads, ReservationView, as_made
from engrambus.policy.visibility import RoleVisibility

MAX_PATHS_RESERVED = 2_000
"""Paths of all reservations of a project together: each new one is compared with all of them."""
LEAST_ID_CHARS = 10
"""Characters from which the beginning of an id names a reservation."""

IsDead = Callable[[str], bool]
IsFolder = Callable[[str], bool]
ReservationFact = ReservationMade | ReservationChanged | ReservationReleased


class ReservationTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks for."""

    paths: Sequence[str]
    reason: str
    expires_in: str | None = None
    process: str | None = None


class SeenReservation(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation as a reader may see it."""

    reservation: Reservation
    paths: tuple[str, ...]
    """The paths that the reader's role may see."""
    reason: str
    """The reason; empty if the role may not see all the paths that it is about."""


class PathConflict(msgspec.Struct, frozen=True, kw_only=True):
    """A path that a caller asks for, and the reservation that has it."""

    path: str
    """The path as it may be shown: the reserved one, or the one that was asked for."""
    seen: SeenReservation

    def refusal(self, field: str = "paths") -> PathReserved:
        """Return the refusal that names the holder, its reason and when the reservation expires."""
        lease = self.seen.reservation
        until = print_time(lease.expires_us)
        why = f": {self.seen.reason}" if self.seen.reason else ""
        return PathReserved(
            f"'{self.path}' is reserved by {lease.agent} until {until[:16]}Z{why}.",
            field=field,
            holder=lease.agent,
            path=self.path,
            reason=self.seen.reason or None,
            expires_at=until,
            reservation=lease.reservation_id,
            hint=f"Work on something else until then, or ask {lease.agent}. A person can end it: "
            f"engrambus reservation release {short_id(lease.reservation_id)}.",
        )


def live_reservations(view: ReservationReads, is_dead: IsDead) -> list[Reservation]:
    """Return the reservations whose process, if they have one, still runs."""
    return [lease for lease in view.reservations() if lease.process is None or not is_dead(lease.process)]


def reserve(
    view: ReservationView,
    *,
    caller: Caller,
    terms: ReservationTerms,
    policy: ReservationPolicy,
    rule: RoleVisibility | None,
    is_dead: IsDead,
    is_folder: IsFolder,
    randomness: Randomness,
) -> tuple[list[ReservationFact], Reservation]:
    """Reserve paths, or renew the caller's reservation of the same paths; refuse paths that another holder has."""
    paths = read_paths(terms.paths, policy.max_paths, is_folder)
    if caller.role != ADMIN and any(map(names_everything, paths)):
        raise ReservationPath(
            "An agent does not reserve the whole repository.",
            field="paths",
            hint="Name a folder, or files by their name: src/billing/**, **/*.sql.",
        )
    expires_us = view.as_of + _duration(terms.expires_in, policy)
    live = live_reservations(view, is_dead)
    for conflict in find_conflicts(view, caller, paths, live, rule):
        raise conflict.refusal()
    facts: list[ReservationFact] = [_ended(lease, caller) for lease in view.reservations() if lease not in live]
    own = [lease for lease in live if _is_holder(lease, caller)]
    same = next((lease for lease in own if sorted(lease.paths) == sorted(paths)), None)
    if same is not None:
        reason = terms.reason or same.reason
        renewed = msgspec.structs.replace(same, reason=reason, expires_us=expires_us, process=terms.process)
        return [*facts, _changed(renewed, caller)], renewed
    _check_number(live, own, paths, policy)
    made = ReservationMade(
        reservation_id=new_ulid(view.as_of, randomness),
        run=caller.run.run_id,
        agent=caller.name,
        paths=paths,
        reason=terms.reason,
        expires_us=expires_us,
        by=caller.full_name,
        process=terms.process,
    )
    return [*facts, made], as_made(made)


def read_paths(paths: Sequence[str], max_paths: int, is_folder: IsFolder) -> tuple[str, ...]:
    """Return paths in their one spelling, each once; refuse none and more than the policy allows."""
    if not 0 < len(paths) <= max_paths:
        raise FieldValue(
            "Give at least one path." if not paths else "A reservation cannot have so many paths.",
            field="paths",
            limit=max_paths,
            used=len(paths),
            hint="Name a folder or a pattern instead: src/billing/**." if paths else None,
        )
    read = (read_path_pattern(path, is_folder, f"paths[{index}]") for index, path in enumerate(paths))
    return tuple(dict.fromkeys(read))


def release(
    view: ReservationView,
    *,
    caller: Caller,
    names: Sequence[str],
    with_descendants: bool,
    is_folder: IsFolder,
) -> tuple[list[ReservationFact], list[Reservation]]:
    """Release reservations by id or by path; without names all of the caller's own, and its descendants' on request.

    A parent may release what its descendants hold, and a person everything. Returns the reservations with the paths of
    them that were released.
    """
    allowed = [lease for lease in view.reservations() if _may_release(view, caller, lease)]
    if not names:
        chosen = [lease for lease in allowed if with_descendants or _is_holder(lease, caller)]
        return [_released(lease, caller) for lease in chosen], chosen
    remaining = {lease.reservation_id: lease.paths for lease in allowed}
    for index, name in enumerate(names):
        by_id = [lease for lease in allowed if _has_id(lease, name)]
        path = "" if by_id else read_path_pattern(name, is_folder, f"paths[{index}]")
        spellings = (path, path + EVERYTHING_BELOW)  # the folder may be gone since
        named = by_id or [lease for lease in allowed if not set(lease.paths).isdisjoint(spellings)]
        if not named:
            raise ReservationNotFound(
                f"You hold no reservation '{name}'.", field=f"paths[{index}]", hint="`reservation.list` lists them."
            )
        for lease in named:
            paths = () if by_id else tuple(item for item in remaining[lease.reservation_id] if item not in spellings)
            remaining[lease.reservation_id] = paths
    changed = [lease for lease in allowed if remaining[lease.reservation_id] != lease.paths]
    facts: list[ReservationFact] = []
    for lease in changed:
        narrowed = msgspec.structs.replace(lease, paths=remaining[lease.reservation_id])
        facts.append(_changed(narrowed, caller) if narrowed.paths else _released(lease, caller))
    released = [
        msgspec.structs.replace(
            lease, paths=tuple(path for path in lease.paths if path not in remaining[lease.reservation_id])
        )
        for lease in changed
    ]
    return facts, released


def find_conflicts(
    reads: IdentityReads,
    caller: Caller,
    paths: Iterable[str],
    live: Sequence[Reservation],
    rule: RoleVisibility | None,
) -> list[PathConflict]:
    """Return the reservations of others that have one of these paths, each once.

    What the caller's role may not see is not revealed. A single file that it sees is its own to ask about; a pattern
    conflicts only with reserved paths that the role sees.
    """
    foreign = foreign_reservations(reads, caller, live)
    conflicts: dict[str, PathConflict] = {}
    for path in paths:
        for lease in foreign:
            taken = [reserved for reserved in lease.paths if overlaps(reserved, path)]
            if not taken or lease.reservation_id in conflicts:
                continue
            visible = [reserved for reserved in taken if sees_pattern(rule, reserved)]
            if visible or (not has_wildcard(path) and sees_pattern(rule, path)):
                shown = visible[0] if visible else path
                conflicts[lease.reservation_id] = PathConflict(path=shown, seen=as_seen(lease, (rule,)))
    return list(conflicts.values())


def foreign_reservations(reads: IdentityReads, caller: Caller, live: Sequence[Reservation]) -> list[Reservation]:
    """Return the reservations that concern a caller: not its own, and not those of its ancestors, for whom it works."""
    if caller.role == ADMIN:
        return [lease for lease in live if lease.agent != ADMIN]
    lineage = lineage_of(reads, caller)
    return [lease for lease in live if lease.run != caller.run.run_id or lease.agent not in lineage]


def visible_reservations(live: Iterable[Reservation], rules: Sequence[RoleVisibility | None]) -> list[SeenReservation]:
    """Return reservations without the paths that one of the rules hides, and without those that have no other path."""
    seen = (as_seen(lease, rules) for lease in live)
    return [item for item in seen if item.paths]


def as_seen(lease: Reservation, rules: Sequence[RoleVisibility | None]) -> SeenReservation:
    """Return a reservation as readers under these rules see it."""
    paths = tuple(path for path in lease.paths if all(sees_pattern(rule, path) for rule in rules))
    # A reason is about all of the paths, so it is shown only with all of them.
    return SeenReservation(reservation=lease, paths=paths, reason=lease.reason if paths == lease.paths else "")


def sees_pattern(rule: RoleVisibility | None, pattern: str) -> bool:
    """True if a role may be shown a pattern of paths."""
    return rule is None or rule.sees_path(without_depth(pattern))


def describe(seen: SeenReservation, now_us: int) -> str:
    """Return a reservation for one line of a brief: `src/billing/** by amber-fox until 14:20Z: refund rework`."""
    until, now = print_time(seen.reservation.expires_us), print_time(now_us)
    time = until[11:16] if until[:10] == now[:10] else until[:16]
    reason = f": {' '.join(seen.reason.split())}" if seen.reason else ""
    return f"{', '.join(seen.paths)} by {seen.reservation.agent} until {time}Z{reason}"


def _duration(asked: str | None, policy: ReservationPolicy) -> int:
    ceiling_us = duration_us(policy.max_duration)
    if asked is None:
        return min(duration_us(policy.default_duration), ceiling_us)
    asked_us = parse_duration(asked, "expires_in")
    if asked_us > ceiling_us:
        raise LifetimeTooLong(
            field="expires_in",
            limit=policy.max_duration,
            used=print_duration(asked_us),
            hint="Reserve again to renew. An admin sets `reservations.max_duration` in .catalog/policy.yaml.",
        )
    return asked_us


def _check_number(
    live: Sequence[Reservation], own: Sequence[Reservation], paths: Sequence[str], policy: ReservationPolicy
) -> None:
    if len(own) >= policy.max_per_agent:
        raise TooManyReservations(
            f"You hold {len(own)} reservations.",
            field="reservations.max_per_agent",
            limit=policy.max_per_agent,
            used=len(own),
            hint="Release what you no longer work on, or reserve several paths at once.",
        )
    used = sum(len(lease.paths) for lease in live)
    if used + len(paths) > MAX_PATHS_RESERVED:
        raise TooManyReservations(
            f"The reservations of the project have {used} paths.",
            field="paths",
            limit=MAX_PATHS_RESERVED,
            used=used + len(paths),
            hint="Name folders or patterns instead of many files, or wait until some expire.",
        )


def _may_release(reads: IdentityReads, caller: Caller, lease: Reservation) -> bool:
    if caller.role == ADMIN or _is_holder(lease, caller):
        return True
    return lease.run == caller.run.run_id and lease.agent != ADMIN and descends(reads, caller, lease.agent)


def _is_holder(lease: Reservation, caller: Caller) -> bool:
    # A person is the same person in every run.
    return lease.agent == caller.name and (lease.run == caller.run.run_id or caller.role == ADMIN)


def _has_id(lease: Reservation, name: str) -> bool:
    # decision 54: answers to agents show the beginning of an id
    return len(name) >= LEAST_ID_CHARS and lease.reservation_id.startswith(name)


def _changed(lease: Reservation, caller: Caller) -> ReservationChanged:
    return ReservationChanged(
        reservation_id=lease.reservation_id,
        run=lease.run,
        paths=lease.paths,
        reason=lease.reason,
        expires_us=lease.expires_us,
        by=caller.full_name,
        process=lease.process,
    )


def _released(lease: Reservation, caller: Caller) -> ReservationReleased:
    return ReservationReleased(
        reservation_id=lease.reservation_id, run=lease.run, agent=lease.agent, by=caller.full_name
    )


def _ended(lease: Reservation, caller: Caller) -> ReservationReleased:
    return msgspec.structs.replace(_released(lease, caller), cause="process_ended")
