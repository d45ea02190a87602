"""Reservations: leases on paths, so that agents do not edit the same files at once (decision 79)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

import engrambus.policy.reservations as reservations
from engrambus.core import print_time
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.policy.reservations import ReservationTerms, SeenReservation

if TYPE_CHECKING:
    from engrambus.policy import RoleVisibility
    from engrambus.policy.reservations import Reservation, ReservationReads

MAX_CHECKED = 200
"""Paths of one check: as many files as a commit has at most, in the usual case."""
MAX_REASON_CHARS = 200

Paths = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=900)]],
    Meta(min_length=1, max_length=MAX_CHECKED, description="Files, folders or patterns: src/billing/**"),
]


ProcessName = Annotated[
    str,
    Meta(
        pattern=r"^[^/]{1,255}/[0-9]{1,10}\.[0-9]{1,20}$",
        description="The process you work in, as <host>/<pid>.<start time>; what you reserve or claim ends with it",
    ),
]


class Reserve(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The paths to reserve, why, and for how long."""

    paths: Paths
    reason: Annotated[str, Meta(max_length=MAX_REASON_CHARS, description="Your work on them, in a few words")] = ""
    expires_in: Annotated[
        str | None, Meta(description="How long, as an ISO 8601 duration; PT30M by default, the policy sets the ceiling")
    ] = None
    process: ProcessName | None = None


class ReservationRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reservation as its reader may see it."""

    reservation_id: str
    run_id: str
    agent: str
    """The holder; `admin` is a person."""
    paths: list[str]
    """Those that the reader's role may see."""
    expires_at: str
    reason: str = ""
    yours: bool = False
    """True if the reader holds it."""


@operation(
    "less.reserve",
    writes=True,
    route=Route("POST", "/reservation"),
    command=Command(
        "reserve",
        section="team",
        example='engrambus reserve src/parser.py "tests/**" --reason "refund rework" --for PT1H',
        renderer="team:reservation",
        rank=34,
        arguments=("paths",),
        option_names={"expires_in": "--for", "paths": "PATH"},
        override="team:reserve",
    ),
    tool=Tool(part_of="less_inbox", action="reserve", hidden=("expires_in", "process")),
    prose=("reason",),
)
def reserve(context: Context, request: Reserve) -> ReservationRow:
    """Reserve files, folders or patterns that you are going to edit, so that others keep out of them.

    Reserving the same paths again renews the reservation. It ends when it expires, when you release it, and with
    your run, session or process. Your own descendants may edit what you have reserved.
    """
    terms = ReservationTerms(
        paths=request.paths,
        reason=" ".join(request.reason.split()),  # hooks and briefs show it on a line of their own
        expires_in=request.expires_in,
        process=request.process,
    )

    def decide(view: View) -> tuple[Sequence[object], ReservationRow]:
        facts, made = reservations.reserve(
            view,
            caller=context.caller,
            terms=terms,
            policy=view.policy().reservations,
            rule=_rule(context),
            is_dead=_is_dead,
            is_folder=lambda path: _is_folder(context, path),
            randomness=context.randomness,
        )
        return facts, _row(context, SeenReservation(reservation=made, paths=made.paths, reason=made.reason))

    return context.commit(decide, ReservationRow)


class ListReservations(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A selection of reservations."""

    foreign: Annotated[bool, Meta(description="Only those that concern you: of agents you do not work for")] = False


class ReservationsAnswer(Struct, frozen=True, kw_only=True):
    reservations: list[ReservationRow]
    """Oldest first."""
    as_of: str


@operation(
    "reservation.list",
    route=Route("GET", "/reservation"),
    command=Command(
        "reservation list",
        section="team",
        example="engrambus reservation list",
        renderer="team:reservation_list",
        rank=35,
    ),
    absent_from={"mcp": "the brief shows an agent what others have reserved"},
)
def list_reservations(context: Context, request: ListReservations) -> ReservationsAnswer:
    """List what agents and people have reserved, in all runs of the project."""
    live = live_reservations(context.view)
    if request.foreign:
        live = reservations.foreign_reservations(context.view, context.caller, live)
    seen = reservations.visible_reservations(live, [_rule(context)])
    return ReservationsAnswer(reservations=[_row(context, item) for item in seen], as_of=print_time(context.as_of))


class ReleaseReservations(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reservations to release."""

    paths: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=900)]],
        Meta(max_length=MAX_CHECKED, description="Ids of reservations, or paths of them; all of yours by default"),
    ] = []
    all: Annotated[bool, Meta(description="Also what your descendants hold; for a person, what everyone holds")] = False


class ReleaseAnswer(Struct, frozen=True, kw_only=True):
    released: list[ReservationRow]
    """The reservations with the paths that were released; one of which only some are named keeps the others."""


@operation(
    "reservation.release",
    writes=True,
    route=Route("POST", "/reservation/release"),
    command=Command(
        "reservation release",
        section="team",
        example="engrambus reservation release src/parser.py",
        renderer="team:reservations_released",
        rank=36,
        arguments=("paths",),
        option_names={"paths": "ID|PATH"},
        override="team:release",
    ),
    tool=Tool(part_of="less_inbox", action="release", hidden=("all",)),
)
def release_reservations(context: Context, request: ReleaseReservations) -> ReleaseAnswer:
    """Release reservations before they expire: by id, by path, or all of yours.

    A parent can release what its descendants hold, and a person everything.
    """

    def decide(view: View) -> tuple[Sequence[object], ReleaseAnswer]:
        facts, released = reservations.release(
            view,
            caller=context.caller,
            names=request.paths,
            with_descendants=request.all,
            is_folder=lambda path: _is_folder(context, path),
        )
        seen = [SeenReservation(reservation=lease, paths=lease.paths, reason=lease.reason) for lease in released]
        return facts, ReleaseAnswer(released=[_row(context, item) for item in seen])

    # A hook releases at the end of every sub-agent and session; most of them hold nothing.
    with context.store.read() as view:
        facts, answer = decide(view)
    return context.commit(decide, ReleaseAnswer, in_run=False) if facts else answer


class CheckReservations(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The paths that are going to be edited."""

    paths: Paths


class ReservedPath(ReservationRow, frozen=True, kw_only=True, omit_defaults=True):
    """A reservation of another holder that has one of the paths."""

    path: str
    """The path that is reserved."""


class CheckAnswer(Struct, frozen=True, kw_only=True):
    mode: str
    """How the policy's limit `reservations` applies to the caller: `enforce`, `warn` or `off`."""
    reserved: list[ReservedPath]
    """Empty if the caller may edit all of them, or the mode is `off`."""


@operation(
    "reservation.check",
    route=Route("POST", "/reservation/check"),
    command=Command(
        "reservation check",
        section="team",
        example="engrambus reservation check src/parser.py",
        renderer="team:reservation_check",
        rank=37,
        arguments=("paths",),
        option_names={"paths": "PATH"},
        override="team:reserve",
    ),
    absent_from={"mcp": "the hook of an editing tool asks before each edit"},
)
def check_reservations(context: Context, request: CheckReservations) -> CheckAnswer:
    """Check whether others have reserved paths that you are going to edit.

    The policy's limit `reservations` decides what happens then: a warning by default, a refusal with `enforce`.
    """
    mode = context.limits.mode("reservations")
    if mode == "off":
        return CheckAnswer(mode=mode, reserved=[])
    view = context.view
    paths = reservations.read_paths(request.paths, MAX_CHECKED, lambda path: _is_folder(context, path))
    conflicts = reservations.find_conflicts(view, context.caller, paths, live_reservations(view), _rule(context))
    for conflict in conflicts:
        context.limits.exceeded("reservations", conflict.refusal())
    return CheckAnswer(mode=mode, reserved=[_reserved(context, conflict) for conflict in conflicts])


def live_reservations(view: ReservationReads) -> list[Reservation]:
    """Return the reservations that have not ended, also not with the process of their holder."""
    return reservations.live_reservations(view, _is_dead)


def _is_dead(process: str) -> bool:
    from engrambus.core.process_names import is_dead  # few reservations name a process

    return is_dead(process)


def _is_folder(context: Context, path: str) -> bool:
    """True if a path is a folder of the project that the caller's role may know of."""
    folder = context.project_files.root / path
    rule = _rule(context)
    return (rule is None or rule.sees_path(path)) and folder.is_dir() and not folder.is_symlink()


def _rule(context: Context) -> RoleVisibility | None:
    return context.policy.visible_to(context.caller.role)


def _reserved(context: Context, conflict: reservations.PathConflict) -> ReservedPath:
    row = _row(context, conflict.seen)
    return ReservedPath(
        path=conflict.path,
        reservation_id=row.reservation_id,
        run_id=row.run_id,
        agent=row.agent,
        paths=row.paths,
        expires_at=row.expires_at,
        reason=row.reason,
    )


def _row(context: Context, seen: SeenReservation) -> ReservationRow:
    lease, caller = seen.reservation, context.caller
    return ReservationRow(
        reservation_id=lease.reservation_id,
        run_id=lease.run,
        agent=lease.agent,
        paths=list(seen.paths),
        expires_at=print_time(lease.expires_us),
        reason=seen.reason,
        yours=(lease.run, lease.agent) == (caller.run.run_id, caller.name),
    )
