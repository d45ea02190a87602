"""What the catalog says of a yool: its name and version, who may have it run, where, on which terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from engrambus.core import MICROS
from engrambus.errors import AuthorityInvalid, TermsInvalid, YoolContract

Authority = Literal["user", "agent", "ci"]
AUTHORITIES: tuple[Authority, ...] = get_args(Authority)
Effect = Literal["pure", "reads", "writes"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
"""From the one that promises most to the one that promises least."""

MAX_ABOUT = 200
MAX_LISTED = 64
_MOST = {
    "budget_usd": 1_000_000_000,
    "budget_tokens": 1_000_000_000_000,
    "max_retries": 1_000,
    "cpu_quota_pct": 100,
    "disk_quota_mb": 1_000_000_000,
    "memory_mb": 1_000_000_000,
}
TERMS = tuple(_MOST)
"""What terms are called where they are written."""


class Terms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a step may spend unless its tuple says otherwise; what is not said is not limited here."""

    budget_micros: int | None = None
    """Money, in micro-dollars; written `budget_usd`."""
    budget_tokens: int | None = None
    max_retries: int | None = None
    cpu_quota_pct: int | None = None
    """100 is one core."""
    disk_quota_mb: int | None = None
    memory_mb: int | None = None

    def printed(self) -> dict[str, int | float]:
        """The terms as `agent_terms` are written."""
        said: dict[str, int | float] = dict(msgspec.to_builtins(self))
        micros = said.pop("budget_micros", None)
        return said if micros is None else {"budget_usd": micros / MICROS, **said}


class Contract(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a yool promises: it computes, or it reads the world, or it writes to it; never two at once."""

    effect: Effect = "writes"
    inputs: tuple[str, ...] = ()
    """Files whose content decides the result, as patterns beneath the project; `${path}` stands for an argument."""
    env: tuple[str, ...] = ()
    """The only variables of the environment it sees, and which decide the result."""
    cost_micros: int | None = None
    """What one run costs, as far as can be said beforehand, in micro-dollars."""
    cost_tokens: int | None = None
    cached: bool = True
    """Whether a result may stand for the next run on the same input."""

    def printed(self) -> dict[str, Any]:
        """What it says beyond the defaults."""
        said: dict[str, Any] = msgspec.to_builtins(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one yool."""

    name: str
    """Without the version: `agent.lint.ruff`."""
    version: int
    authority: tuple[Authority, ...]
    """On whose authority it may run."""
    lane: str
    terms: Terms = Terms()
    contract: Contract = Contract()
    agent: str | None = None
    """The agent that bears it in AGENTS.md."""
    about: str = ""
    """What it is for, in one line."""

    @property
    def full_name(self) -> str:
        """The name that always means this version: `agent.lint.ruff.v3`."""
        return f"{self.name}.v{self.version}"

    def admits(self, authority: str) -> bool:
        """Whether it may run on that authority."""
        return authority in self.authority

    def printed(self) -> dict[str, Any]:
        """The entry as `capabilities.json` holds it; what says nothing is left out."""
        said: dict[str, Any] = {"yool_id": self.full_name, "authority": list(self.authority), "lane": self.lane}
        optional = {
            "agent_terms": self.terms.printed(),
            "agent": self.agent,
            "about": self.about,
            "contract": self.contract.printed(),
        }
        return said | {name: value for name, value in optional.items() if value}


def read_authority(said: Any, field: str = "authority", line: int | None = None) -> tuple[Authority, ...]:
    """The authorities a list names, each once and always in the same order."""
    named = list(said) if isinstance(said, list | tuple | frozenset | set) else [said]
    unknown = [each for each in named if each not in AUTHORITIES]
    if unknown or not named:
        raise AuthorityInvalid(
            f"'{str(unknown[0])[:40]}' is not an authority." if unknown else "No authority is named.",
            field=field,
            limit=", ".join(AUTHORITIES),
            line=line,
        )
    return tuple(each for each in AUTHORITIES if each in named)


def read_terms(
    said: Any,
    field: str = "agent_terms",
    lines: Mapping[str, int] | None = None,
    known: Sequence[str] = TERMS,
) -> Terms:
    """The terms a mapping says; `lines` tells where each stands in its file, `known` which a refusal names."""
    where = lines or {}
    if not isinstance(said, Mapping):
        raise TermsInvalid("The terms are not a list of names and numbers.", field=field, line=where.get(""))
    read: dict[str, int] = {}
    for name, value in said.items():
        at, line = f"{field}.{str(name)[:40]}", where.get(name)
        if name == "deadline_iso":
            raise TermsInvalid("A deadline is for one tuple, not for a yool.", field=at, line=line)
        if name not in _MOST:
            raise TermsInvalid(
                f"'{str(name)[:40]}' is not a term.",
                field=at,
                limit=", ".join(known),
                line=line,
                hint="Only a tuple has a deadline: deadline_iso."
                if "deadline" in str(name) and "deadline_iso" not in known
                else None,
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TermsInvalid(f"'{name}' is not a number.", field=at, used=str(value)[:40], line=line)
        if not 0 <= value <= _MOST[name]:
            raise TermsInvalid(f"'{name}' is out of range.", field=at, limit=f"0..{_MOST[name]}", used=value, line=line)
        if name == "budget_usd":
            read["budget_micros"] = read_micros(value, at, line)
        elif value != int(value):
            raise TermsInvalid(f"'{name}' is a whole number.", field=at, used=value, line=line)
        else:
            read[name] = int(value)
    return Terms(**read)


def read_micros(dollars: int | float, field: str, line: int | None = None) -> int:
    """Dollars in whole micro-dollars; anything finer is refused, since it could not be counted."""
    from decimal import Decimal

    if isinstance(dollars, bool) or not isinstance(dollars, int | float):
        raise TermsInvalid("Money is a number of dollars.", field=field, used=str(dollars)[:40], line=line)
    if not 0 <= dollars <= _MOST["budget_usd"]:
        most = f"0..{_MOST['budget_usd']}"
        raise TermsInvalid("The money is out of range.", field=field, limit=most, used=str(dollars)[:40], line=line)
    micros = Decimal(repr(dollars)) * MICROS
    if micros != micros.to_integral_value():
        raise TermsInvalid("Money is counted in micro-dollars, no finer.", field=field, used=dollars, line=line)
    return int(micros)


def check_contract(contract: Contract, field: str = "contract", line: int | None = None) -> Contract:
    """The contract, if it can be kept."""
    if contract.effect not in EFFECTS:
        raise YoolContract(
            "A yool computes, reads or writes.", field=f"{field}.effect", limit=", ".join(EFFECTS), line=line
        )
    for name, listed in (("inputs", contract.inputs), ("env", contract.env)):
        if len(listed) > MAX_LISTED:
            raise YoolContract("Too many.", field=f"{field}.{name}", limit=MAX_LISTED, used=len(listed), line=line)
        if not all(isinstance(each, str) and each and "\0" not in each for each in listed):
            raise YoolContract("Not a list of texts.", field=f"{field}.{name}", line=line)
    for pattern in contract.inputs:
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise YoolContract(
                "An input lies beneath the project.", field=f"{field}.inputs", used=pattern[:200], line=line
            )
    for name, cost, most in (
        ("cost_micros", contract.cost_micros, _MOST["budget_usd"] * MICROS),
        ("cost_tokens", contract.cost_tokens, _MOST["budget_tokens"]),
    ):
        if cost is not None and (type(cost) is not int or not 0 <= cost <= most):
            raise YoolContract(
                "A cost is a whole number, and not negative.",
                field=f"{field}.{name}",
                limit=f"0..{most}",
                used=str(cost)[:40],
                line=line,
            )
    if not isinstance(contract.cached, bool):
        raise YoolContract(
            "Either a result may be used again or not.", field=f"{field}.cached", limit="true, false", line=line
        )
    return contract


def one_line(text: str | None) -> str:
    """The first line of a text, as long as a catalog holds it."""
    lines: Iterable[str] = (text or "").strip().splitlines()
    return next(iter(lines), "").strip()[:MAX_ABOUT]
