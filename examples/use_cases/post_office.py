"""A small repository with a history: the same files and commit ids every time."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

FILES = {
    "README.md": """\
# Post office

Takes parcels in, weighs them, says what they cost and where they go.

Every parcel that is taken in is delivered or sent back; none is lost.
""",
    "post/office.py": '''\
"""The counter: parcels come in here, wait on the shelf, and are handed to the carrier."""

from dataclasses import dataclass, field
from datetime import date, timedelta

from post.routes import route_of
from post.tariff import price_of

KEPT = timedelta(days=14)
"""How long a parcel that cannot be delivered waits for its sender."""


@dataclass(frozen=True)
class Address:
    """Where somebody lives."""

    name: str
    street: str
    postcode: str
    town: str

    def lines(self):
        """The address as it stands on a parcel."""
        return [self.name, self.street, f"{self.postcode} {self.town}"]


@dataclass(frozen=True)
class Parcel:
    """What somebody brings to the counter."""

    sender: Address
    address: Address
    grams: int
    express: bool = False


@dataclass
class Entry:
    """What the book says of a parcel."""

    parcel: Parcel
    price: int
    change: int
    taken_in: date
    state: str = "taken in"
    depots: list[str] = field(default_factory=list)

    def waits_since(self, today):
        """How long it has been here."""
        return today - self.taken_in


class CarrierAway(Exception):
    """The carrier did not come, or did not answer."""


class Office:
    """One office with a shelf and a book."""

    def __init__(self, carrier, clock):
        self.carrier = carrier
        self.clock = clock
        self.shelf = []
        self.book = {}
        self.till = 0

    def take_in(self, parcel, paid):
        """Take a parcel, check it, price it, file it and send it on its way."""
        if parcel.address is None:
            raise ValueError("no address")
        if parcel.grams <= 0:
            raise ValueError("no weight")
        price = price_of(parcel.grams, parcel.express)
        if paid < price:
            raise ValueError(f"{price - paid} cents are missing")
        number = f"P{len(self.book) + 1:06}"
        entry = Entry(
            parcel=parcel,
            price=price,
            change=paid - price,
            taken_in=self.clock.today(),
        )
        self.book[number] = entry
        self.till += price
        route = route_of(parcel.address)
        if route is None:
            entry.state = "nobody delivers there"
            self.shelf.append(number)
            return number
        for depot in route:
            entry.depots.append(depot)
        if parcel.express:
            self.send(number)
        else:
            self.shelf.append(number)
        return number

    def send(self, number):
        """Hand a parcel to the carrier."""
        entry = self.book[number]
        try:
            self.carrier.carry(number, entry.depots)
            entry.state = "sent"
        except Exception:
            pass  # it will be picked up tomorrow

    def close(self):
        """Hand over everything that waits, at the end of the day."""
        for number in list(self.shelf):
            if self.book[number].depots:
                self.send(number)
                self.shelf.remove(number)

    def delivered(self, number, to):
        """Note who took a parcel."""
        entry = self.book[number]
        if entry.state != "sent":
            raise ValueError(f"{number} was never sent")
        entry.state = f"delivered to {to}"

    def give_back(self, number):
        """Give a parcel back to its sender, with the money."""
        entry = self.book[number]
        self.shelf.remove(number)
        self.till -= entry.price
        entry.state = "given back"
        return entry.price

    def overdue(self):
        """Parcels that have waited too long."""
        today = self.clock.today()
        return [number for number in self.shelf if self.book[number].waits_since(today) > KEPT]

    def lost(self):
        """Parcels nobody has seen since they came in."""
        return [
            number for number, entry in self.book.items() if entry.state == "taken in" and number not in self.shelf
        ]

    def report(self):
        """What happened today, a line for each state."""
        states = {}
        for entry in self.book.values():
            states[entry.state] = states.get(entry.state, 0) + 1
        lines = [f"{count:>5} {state}" for state, count in sorted(states.items())]
        return [*lines, f"{self.till / 100:>8.2f} in the till"]
''',
    "post/routes.py": '''\
"""Where parcels go: the depots each of them passes."""

DEPOTS = {"1": "north", "2": "east", "3": "south", "4": "west"}
HUBS = {("north", "south"): "middle", ("north", "west"): "middle"}
HOME = "north"
ISLANDS = {"1999", "2999"}


def route_of(address):
    """The depots a parcel passes, or none when nobody delivers there."""
    if address.postcode in ISLANDS:
        return None
    # TODO: ask the carrier instead of reading the first digit
    depot = DEPOTS.get(address.postcode[:1])
    if depot is None:
        return None
    hub = HUBS.get((HOME, depot))
    return [each for each in (hub, depot, "local") if each]


def reaches(depot):
    """Which first digits a depot serves."""
    return sorted(digit for digit, name in DEPOTS.items() if name == depot)


def legs(route):
    """A route as pairs: from where to where."""
    return list(zip([HOME, *route], route))
''',
    "post/tariff.py": '''\
"""What sending costs, in cents."""

STEPS = ((500, 190), (1000, 290), (5000, 590), (10_000, 990))
EXPRESS = 400


def price_of(grams, express=False):
    """The price of a parcel."""
    for limit, price in STEPS:
        if grams <= limit:
            return price + (EXPRESS if express else 0)
    raise ValueError("too heavy")
''',
    "tests/test_tariff.py": '''\
"""Prices."""

from post.tariff import price_of


def test_light_parcels_are_cheap():
    assert price_of(300) == 190


def test_express_costs_more():
    assert price_of(300, express=True) == 590
''',
    "tests/test_routes.py": '''\
"""Routes."""

from post.office import Address
from post.routes import legs, reaches, route_of


def lives_in(postcode):
    return Address("Ada", "Mill Lane 1", postcode, "Mill")


def test_a_route_ends_with_the_local_depot():
    assert route_of(lives_in("3100")) == ["middle", "south", "local"]


def test_nobody_delivers_on_islands():
    assert route_of(lives_in("1999")) is None


def test_a_depot_serves_its_first_digit():
    assert reaches("east") == ["2"]


def test_legs_begin_at_home():
    assert legs(["south"]) == [("north", "south")]
''',
    "tests/test_office.py": '''\
"""The counter."""

from datetime import date

import pytest

from post.office import Address, Office, Parcel


class Carrier:
    def __init__(self):
        self.carried = []

    def carry(self, number, depots):
        self.carried.append(number)


class Clock:
    def today(self):
        return date(2026, 1, 1)


@pytest.fixture
def office():
    return Office(Carrier(), Clock())


def parcel_of(grams, express=False):
    return Parcel(None, Address("Ada", "Mill Lane 1", "3100", "Mill"), grams, express)


def test_a_parcel_waits_on_the_shelf(office):
    assert office.take_in(parcel_of(300), 500) in office.shelf


def test_change_is_given(office):
    office.take_in(parcel_of(300), 500)
    assert office.book["P000001"].change == 310


def test_express_leaves_at_once(office):
    office.take_in(parcel_of(300, express=True), 1000)
    assert office.carrier.carried == ["P000001"]


def test_too_little_money_is_refused(office):
    with pytest.raises(ValueError, match="missing"):
        office.take_in(parcel_of(300), 100)


def test_the_shelf_is_empty_in_the_evening(office):
    office.take_in(parcel_of(300), 500)
    office.close()
    assert office.shelf == []


def test_a_new_office_has_an_empty_report(office):
    assert office.report() == ["    0.00 in the till"]


def test_an_address_has_three_lines():
    assert len(parcel_of(300).address.lines()) == 3
''',
}


class Step(NamedTuple):
    """One commit: files that move, and texts that are replaced in a file."""

    subject: str
    moves: dict[str, str]
    edits: dict[str, list[tuple[str, str]]]


STEPS = [
    Step(
        "Parcels that nobody fetched are listed by age",
        {},
        {
            "post/office.py": [
                (
                    "        return [number for number in self.shelf if self.book[number].waits_since(today) > KEPT]\n",
                    "        old = [number for number in self.shelf if self.book[number].waits_since(today) > KEPT]\n"
                    "        return sorted(old, key=lambda number: self.book[number].taken_in)\n",
                )
            ]
        },
    ),
    Step(
        "Routes move to the network; the first digit becomes a zone",
        {"post/routes.py": "post/network/zones.py"},
        {
            "post/network/zones.py": [
                (
                    '"""Where parcels go: the depots each of them passes."""\n',
                    '"""Zones, and the depots that a parcel passes."""\n\nLOCAL = "local"\n',
                ),
                ("    depot = DEPOTS.get(address.postcode[:1])\n", "    depot = DEPOTS.get(zone_of(address))\n"),
                ('(hub, depot, "local")', "(hub, depot, LOCAL)"),
                (
                    "def legs(route):\n",
                    'def zone_of(address):\n    """The zone of an address: its first digit."""\n'
                    "    return address.postcode[:1]\n\n\n"
                    "def legs(route):\n",
                ),
            ],
            "post/office.py": [("from post.routes import", "from post.network.zones import")],
            "tests/test_routes.py": [("from post.routes import", "from post.network.zones import")],
        },
    ),
    Step(
        "Parcels to islands cost more and are refused without the surcharge",
        {},
        {
            "post/tariff.py": [
                ("EXPRESS = 400\n", "EXPRESS = 400\nISLAND = 250\n"),
                ("def price_of(grams, express=False):\n", "def price_of(grams, express=False, island=False):\n"),
                (
                    "            return price + (EXPRESS if express else 0)\n",
                    "            return price + (EXPRESS if express else 0) + (ISLAND if island else 0)\n",
                ),
            ],
            "post/office.py": [
                (
                    "from post.network.zones import route_of\n",
                    "from post.network.zones import is_island, route_of\n",
                ),
                (
                    "        price = price_of(parcel.grams, parcel.express)\n",
                    "        island = is_island(parcel.address)\n"
                    "        price = price_of(parcel.grams, parcel.express, island)\n",
                ),
                (
                    '            entry.state = "sent"\n        except Exception:\n'
                    "            pass  # it will be picked up tomorrow\n",
                    '            entry.state = "sent"\n        except Exception:\n'
                    "            self.shelf.append(number)  # it will be picked up tomorrow\n",
                ),
            ],
            "post/network/zones.py": [
                (
                    "def zone_of(address):\n",
                    'def is_island(address):\n    """True if a parcel needs a boat."""\n'
                    "    return address.postcode in ISLANDS\n\n\n"
                    "def zone_of(address):\n",
                ),
                ("    if address.postcode in ISLANDS:\n", "    if is_island(address):\n"),
            ],
            "tests/test_tariff.py": [
                (
                    "def test_express_costs_more():\n",
                    "def test_islands_cost_more():\n    assert price_of(300, island=True) == 440\n\n\n"
                    "def test_express_costs_more():\n",
                )
            ],
        },
    ),
]
"""What happened after the first commit: an edit, a refactoring, a change to review."""

_COMMIT_DATE = "2026-01-01T00:00:00Z"


def make_repository(folder: Path) -> None:
    """Write the repository and its four commits."""
    for name, text in FILES.items():
        _write(folder / name, text)
    _git(folder, "init", "-q", "-b", "main")
    _commit(folder, "Post office")
    for step in STEPS:
        for old, new in step.moves.items():
            (folder / new).parent.mkdir(parents=True, exist_ok=True)
            (folder / old).rename(folder / new)
        for name, replacements in step.edits.items():
            text = (folder / name).read_text("utf-8")
            for before, after in replacements:
                if before not in text:
                    raise ValueError(f"{name} has no {before!r}")
                text = text.replace(before, after, 1)
            _write(folder / name, text)
        _commit(folder, step.subject)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _commit(folder: Path, subject: str) -> None:
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "--no-gpg-sign", "-m", subject)


def _git(folder: Path, *words: str) -> None:
    author = {"GIT_AUTHOR_NAME": "post", "GIT_AUTHOR_EMAIL": "post@example.org", "GIT_AUTHOR_DATE": _COMMIT_DATE}
    committer = {name.replace("AUTHOR", "COMMITTER"): value for name, value in author.items()}
    # No configuration of the user: the commit id must be the same on every machine.
    environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=folder, env={**environment, **author, **committer}, check=True)
