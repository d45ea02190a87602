"""Reservations: leases on paths, so that agents do not edit the same files at once."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.policy.reservations.facts import ReservationChanged, ReservationMade, ReservationReleased
    from engrambus.policy.reservations.patterns import overlaps
    from engrambus.policy.reservations.ports import (
        Reservation,
        ReservationReads,
        as_changed,
        as_made,
    )
    from engrambus.policy.reservations.rules import (
        PathConflict,
        ReservationTerms,
        SeenReservation,
        describe,
        find_conflicts,
        foreign_reservations,
        live_reservations,
        read_paths,
        release,
        reserve,
        visible_reservations,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "facts": "ReservationChanged ReservationMade ReservationReleased",
        "patterns": "overlaps",
        "ports": "Reservation ReservationReads as_changed as_made",
        "rules": (
            "PathConflict ReservationTerms SeenReservation describe find_conflicts foreign_reservations "
            "live_reservations read_paths release reserve visible_reservations "
        ),
    })

__all__ = [
    "PathConflict", "Reservation", "ReservationChanged", "ReservationMade", "ReservationReads", "ReservationReleased",
    "ReservationTerms", "SeenReservation", "as_changed", "as_made", "describe", "find_conflicts",
    "foreign_reservations", "live_reservations", "overlaps", "read_paths", "release", "reserve", "visible_reservations",
]
