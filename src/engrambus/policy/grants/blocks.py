"""How a grant is written into the blocks of a Biscuit, and read back.

The gateway writes the first block; whoever holds the token may append more, each of which can only narrow:

    grant("<grant id>", "<project>", "<run>", "<parent>", hex:<intended use>);     first block only
    uses(3);
    check if project("<project>"), run("<run>");                                   first block only
    check if lineage("<child>");
    check if pointer("repo:src/a.py#L1-L220@<sha>");                               or prefix("repo:src/*@<sha>")
    check if now($at), $at < 1767862800000000;
    check if tokens($tokens), $tokens <= 500;
    check if code($chars), $chars <= 0;

The statements stand in this order, a later block leaves out those it does not narrow, and a block with anything else in
it is refused: what a stranger's Datalog costs to run, no limit of the engine holds down. Everything between quotes is
free of quotes, because Biscuit prints strings as they are.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from engrambus.errors import EngramBusError, GrantForged
from engrambus.policy.grants.targets import PointerTarget, Target, quoted, read_pointer, read_prefix

FIELD = "budget_token"
MAX_AMOUNT = 2**53 - 1

_AMOUNT = r"(\d{1,16})"
_WORD = r'"([A-Za-z0-9_.-]{1,64})"'
WORD = re.compile(_WORD.replace('"', ""))
_FIRST = re.compile(
    rf"grant\({_WORD}, {_WORD}, {_WORD}, {_WORD}, hex:((?:[0-9a-f]{{2}}){{0,2000}})\);\n"
    rf"(uses\(\d+\);\n)check if project\({_WORD}\), run\({_WORD}\);\n(.*)",
    re.DOTALL,
)
_LIMITS = re.compile(
    rf"(?:uses\({_AMOUNT}\);\n)?"
    rf"(?:check if lineage\({_WORD}\);\n)?"
    r'(?:check if (pointer|prefix)\("([^"\\\n]+)"\);\n)?'
    rf"(?:check if now\(\$at\), \$at < {_AMOUNT};\n)?"
    rf"(?:check if tokens\(\$tokens\), \$tokens <= {_AMOUNT};\n)?"
    rf"(?:check if code\(\$chars\), \$chars <= {_AMOUNT};\n)?"
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one block allows; what it does not mention, it leaves to the blocks before it."""

    child: str | None = None
    """The agent it is for; its descendants may use it too."""
    target: Target | None = None
    cap_tokens: int | None = None
    """How many tokens may be read by it, all uses together."""
    uses: int | None = None
    expires_at: int | None = None
    """The first moment it is no longer good; microseconds of the project's clock."""
    inline_code_chars: int | None = None
    """How many characters of code a message may carry by it."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a grant comes from."""

    grant_id: str
    project: str
    run: str
    parent: str
    intended_use: str


def write_block(limits: Limits, origin: Origin | None = None) -> tuple[str, dict[str, Any]]:
    """The Datalog of a block and its parameters."""
    source: list[str] = []
    values: dict[str, Any] = {}

    def add(statement: str, **given: Any) -> None:
        if None not in given.values():
            source.append(statement)
            values.update(given)

    if origin is not None:
        values["use"] = origin.intended_use.encode()
        values.update({name: getattr(origin, name) for name in ("grant_id", "project", "run", "parent")})
        add("grant({grant_id}, {project}, {run}, {parent}, {use});")
        add("check if project({project}), run({run});")
    add("uses({uses});", uses=limits.uses)
    add("check if lineage({child});", child=limits.child)
    if limits.target is not None:
        name = "pointer" if isinstance(limits.target, PointerTarget) else "prefix"
        add(f"check if {name}({{target}});", target=quoted(limits.target))
    add("check if now($at), $at < {expires_at};", expires_at=limits.expires_at)
    add("check if tokens($tokens), $tokens <= {cap};", cap=limits.cap_tokens)
    add("check if code($chars), $chars <= {chars};", chars=limits.inline_code_chars)
    return "\n".join(source), values


def read_first(source: str) -> tuple[Origin, Limits]:
    """Where a grant comes from and what its first block allows, from that block's Datalog."""
    found = _FIRST.fullmatch(source)
    if found is None:
        raise GrantForged(field=FIELD)
    grant_id, project, run, parent, use, uses, checked_project, checked_run, rest = found.groups()
    limits = read_limits(uses + rest)
    whole = (limits.child, limits.target, limits.cap_tokens, limits.expires_at, limits.inline_code_chars)
    if (checked_project, checked_run) != (project, run) or None in whole:
        raise GrantForged(field=FIELD)
    try:
        intended_use = bytes.fromhex(use).decode()
    except UnicodeDecodeError:
        raise GrantForged(field=FIELD) from None
    return Origin(grant_id=grant_id, project=project, run=run, parent=parent, intended_use=intended_use), limits


def read_limits(source: str) -> Limits:
    """What a block allows, from its Datalog."""
    found = _LIMITS.fullmatch(source)
    if found is None:
        raise GrantForged("A block of the budget token says something no grant says.", field=FIELD)
    uses, child, kind, target, expires_at, cap_tokens, chars = found.groups()
    return Limits(
        child=child,
        target=_read_target(kind, target) if kind else None,
        cap_tokens=_number(cap_tokens),
        uses=_number(uses),
        expires_at=_number(expires_at),
        inline_code_chars=_number(chars),
    )


def _read_target(kind: str, text: str) -> Target:
    try:
        target: Target = read_pointer(text) if kind == "pointer" else read_prefix(text)
    except EngramBusError:
        raise GrantForged("A block of the budget token names no pointer.", field=FIELD) from None
    if quoted(target) != text:
        raise GrantForged("A block of the budget token names a pointer in a spelling of its own.", field=FIELD)
    return target


def _number(text: str | None) -> int | None:
    return int(text) if text is not None else None
