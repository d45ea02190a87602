"""Catalog entries: a yool's name and version, its authorities, lane, terms and contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from engrambus.core import MICROS_PER_DOLLAR
from engrambus.errors import AuthorityInvalid, TermsInvalid, YoolContract
from engrambus.evidence.receipts import ARTIFACT_KINDS
from engrambus.space.catalog.signatures import Signature

Authority = Literal["user", "agent", "ci"]
AUTHORITIES: tuple[Authority, ...] = get_args(Authority)
Effect = Literal["pure", "reads", "writes"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
"""From the strictest promise to the weakest."""

MAX_ABOUT = 200
MAX_LISTED = 64
# Generous limits, which only keep a typing error from being taken for a number.
_MAX_TERMS = {
    "budget_usd": 1_000_000_000,
    "budget_tokens": 1_000_000_000_000,
    "max_retries": 1_000,
    "cpu_quota_pct": 100,
    "disk_quota_mb": 1_000_000_000,
    "memory_mb": 1_000_000_000,
    "max_processes": 1_000_000,
}
TERMS = tuple(_MAX_TERMS)
"""Names of terms as they are written in files and tuples."""


class Terms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Default limits of a step, unless its tuple sets others; None for no limit."""

    budget_micros: int | None = None
    """Money in micro-dollars; written as `budget_usd`."""
    budget_tokens: int | None = None
    max_retries: int | None = None
    cpu_quota_pct: int | None = None
    """100 is one core."""
    disk_quota_mb: int | None = None
    memory_mb: int | None = None
    max_processes: int | None = None

    def to_fields(self) -> dict[str, int | float]:
        """Return the terms as `agent_terms` are written."""
        fields: dict[str, int | float] = dict(msgspec.to_builtins(self))
        micros = fields.pop("budget_micros", None)
        return fields if micros is None else {"budget_usd": micros / MICROS_PER_DOLLAR, **fields}


class Contract(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Promises of a yool: whether it only computes, reads the world or writes to it, and what its result depends on."""

    effect: Effect = "writes"
    inputs: tuple[str, ...] | None = None
    """Files the result depends on, as patterns relative to the project; `${path}` stands for an argument.

    Empty if it reads no file. None if that is not declared: then its results are not reused."""
    env: tuple[str, ...] = ()
    """Environment variables it sees and its result depends on; it sees no others."""
    cost_micros: int | None = None
    """Expected cost of one execution, in micro-dollars."""
    cost_tokens: int | None = None
    cached: bool = True
    """False if no result may be reused, whatever it depends on."""
    artifacts: dict[str, str] = {}
    """Kinds of the files it leaves, by pattern of their path; other files are recognised by their content."""

    @property
    def is_reusable(self) -> bool:
        """True if a result answers an equal step; only a yool that declares its inputs can promise that."""
        # decision 104: without declared inputs a result would stay valid whatever becomes of the files it came from.
        return self.cached and self.inputs is not None

    def to_fields(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one yool."""

    name: str
    """Name without the version: `agent.lint.ruff`."""
    version: int
    authority: tuple[Authority, ...]
    """Authorities it may run on."""
    lane: str
    terms: Terms = Terms()
    contract: Contract = Contract()
    agent: str | None = None
    """Title of the agent that declares it in AGENTS.md."""
    about: str = ""
    """Purpose in one line."""
    triggers: str = ""
    """When to run it, in one line, for people and agents; nothing reads it."""
    arguments: Signature | None = None
    """Arguments its code takes; None if no code was named when the catalog was built, and then none are checked."""

    @property
    def full_name(self) -> str:
        """The name with its version: `agent.lint.ruff.v3`."""
        return f"{self.name}.v{self.version}"

    def admits(self, authority: str) -> bool:
        """True if it may run on that authority."""
        return authority in self.authority

    def to_fields(self) -> dict[str, Any]:
        """Return the entry as it is written in `capabilities.json`, without empty fields."""
        required: dict[str, Any] = {"yool_id": self.full_name, "authority": list(self.authority), "lane": self.lane}
        optional = {
            "agent_terms": self.terms.to_fields(),
            "agent": self.agent,
            "about": self.about,
            "triggers": self.triggers,
            "contract": self.contract.to_fields(),
        }
        arguments = {} if self.arguments is None else {"arguments": self.arguments.to_fields()}
        return required | {name: value for name, value in optional.items() if value} | arguments


def read_authority(value: Any, field: str = "authority", line: int | None = None) -> tuple[Authority, ...]:
    """Parse one authority or a list of them; the result has each once, in the order of AUTHORITIES."""
    names = list(value) if isinstance(value, list | tuple | frozenset | set) else [value]
    unknown = [name for name in names if name not in AUTHORITIES]
    if unknown or not names:
        raise AuthorityInvalid(
            f"'{str(unknown[0])[:40]}' is not an authority." if unknown else "No authority is named.",
            field=field,
            limit=", ".join(AUTHORITIES),
            line=line,
        )
    # One order for all, so that equal declarations have equal text in `capabilities.json`.
    return tuple(authority for authority in AUTHORITIES if authority in names)


def read_terms(
    values: Any,
    field: str = "agent_terms",
    lines: Mapping[str, int] | None = None,
    suggested: Sequence[str] = TERMS,
) -> Terms:
    """Parse terms. For errors, `lines` has the line of each term, and `suggested` the names to choose from."""
    lines = lines or {}
    if not isinstance(values, Mapping):
        raise TermsInvalid("Terms are names with numbers, like budget_usd: 0.05.", field=field, line=lines.get(""))
    terms: dict[str, int] = {}
    for name, value in values.items():
        path, line = f"{field}.{str(name)[:40]}", lines.get(name)
        if name in ("deadline_iso", "not_before_iso"):
            what = "a deadline" if name == "deadline_iso" else "a time before which it waits"
            raise TermsInvalid(f"Only a tuple can have {what}, not a yool.", field=path, line=line)
        if name not in _MAX_TERMS:
            raise TermsInvalid(
                f"'{str(name)[:40]}' is not a term.",
                field=path,
                limit=", ".join(suggested),
                line=line,
                hint="Only a tuple has a deadline: deadline_iso."
                if "deadline" in str(name) and "deadline_iso" not in suggested
                else None,
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TermsInvalid(f"'{name}' is not a number.", field=path, used=str(value)[:40], line=line)
        if not 0 <= value <= _MAX_TERMS[name]:
            raise TermsInvalid(
                f"'{name}' is out of range.", field=path, limit=f"0..{_MAX_TERMS[name]}", used=value, line=line
            )
        if name == "budget_usd":
            terms["budget_micros"] = read_micros(value, path, line)
        elif value != int(value):
            raise TermsInvalid(f"'{name}' must be an integer.", field=path, used=value, line=line)
        else:
            terms[name] = int(value)
    return Terms(**terms)


def read_micros(dollars: int | float, field: str, line: int | None = None) -> int:
    """Convert dollars to micro-dollars; refuse finer amounts, which could not be counted exactly."""
    from decimal import Decimal

    if isinstance(dollars, bool) or not isinstance(dollars, int | float):
        raise TermsInvalid("Money is a number of dollars.", field=field, used=str(dollars)[:40], line=line)
    if not 0 <= dollars <= _MAX_TERMS["budget_usd"]:
        limit = f"0..{_MAX_TERMS['budget_usd']}"
        raise TermsInvalid("The amount is out of range.", field=field, limit=limit, used=str(dollars)[:40], line=line)
    micros = Decimal(repr(dollars)) * MICROS_PER_DOLLAR  # exact: 0.1 * 1_000_000 as floats may not be
    if micros != micros.to_integral_value():
        raise TermsInvalid("Money has at most six decimal places.", field=field, used=dollars, line=line)
    return int(micros)


def check_contract(contract: Contract, field: str = "contract", line: int | None = None) -> Contract:
    """Return the contract if all its values are valid, or refuse it."""
    if contract.effect not in EFFECTS:
        raise YoolContract(
            f"The effect of a yool is one of {', '.join(EFFECTS)}.",
            field=f"{field}.effect",
            limit=", ".join(EFFECTS),
            line=line,
        )
    for name, texts in (("inputs", contract.inputs or ()), ("env", contract.env)):
        if len(texts) > MAX_LISTED:
            raise YoolContract(
                f"'{name}' has more than {MAX_LISTED} elements.",
                field=f"{field}.{name}",
                limit=MAX_LISTED,
                used=len(texts),
                line=line,
            )
        if not all(isinstance(text, str) and text and "\0" not in text for text in texts):
            raise YoolContract(f"'{name}' is a list of non-empty texts.", field=f"{field}.{name}", line=line)
    for pattern in contract.inputs or ():
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise YoolContract(
                "An input is a path inside the project, without '..'.",
                field=f"{field}.inputs",
                used=pattern[:200],
                line=line,
            )
    _check_artifact_kinds(contract.artifacts, f"{field}.artifacts", line)
    for name, cost, limit in (
        ("cost_micros", contract.cost_micros, _MAX_TERMS["budget_usd"] * MICROS_PER_DOLLAR),
        ("cost_tokens", contract.cost_tokens, _MAX_TERMS["budget_tokens"]),
    ):
        if cost is not None and (type(cost) is not int or not 0 <= cost <= limit):
            raise YoolContract(
                "A cost is an integer that is not negative.",
                field=f"{field}.{name}",
                limit=f"0..{limit}",
                used=str(cost)[:40],
                line=line,
            )
    if not isinstance(contract.cached, bool):
        raise YoolContract("'cached' is true or false.", field=f"{field}.cached", limit="true, false", line=line)
    return contract


def _check_artifact_kinds(kinds: Mapping[str, str], field: str, line: int | None) -> None:
    if not isinstance(kinds, Mapping) or not all(isinstance(pattern, str) and pattern for pattern in kinds):
        raise YoolContract("'artifacts' maps patterns of file names to kinds.", field=field, line=line)
    if len(kinds) > MAX_LISTED:
        raise YoolContract("'artifacts' is too long.", field=field, limit=MAX_LISTED, used=len(kinds), line=line)
    for kind in kinds.values():
        if kind not in ARTIFACT_KINDS:
            limit = ", ".join(ARTIFACT_KINDS)
            raise YoolContract("This is no kind of artifact.", field=field, limit=limit, used=str(kind)[:40], line=line)


def one_line(text: str | None) -> str:
    """Return the first line of a text, cut to the length a catalog stores."""
    lines: Iterable[str] = (text or "").strip().splitlines()
    return next(iter(lines), "").strip()[:MAX_ABOUT]
