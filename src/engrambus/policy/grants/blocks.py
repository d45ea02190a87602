"""The form of a grant in the blocks of a Biscuit: writing a block, and reading it back.

The gateway writes the first block. The holder of a token may append further blocks, each of which can only narrow it:

    grant("<grant id>", "<project>", "<run>", "<parent>", hex:<intended use>);     first block only
    uses(3);
    check if project("<project>"), run("<run>");                                   first block only
    check if lineage("<child>");
    check if pointer("repo:src/a.py#L1-L220@<sha>");                               or prefix("repo:src/*@<sha>")
    check if now($at), $at < 1767862800000000;
    check if tokens($tokens), $tokens <= 500;
    check if code($chars), $chars <= 0;

The statements stand in this order, and a later block leaves out those it does not narrow. A block with any other
content is refused (decision 11): no limit of the Datalog engine bounds the cost of a holder's program. No text in a
block has a quote, because Biscuit prints strings unescaped.
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


class GrantLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one block; None leaves a limit to the blocks before it."""

    child: str | None = None
    """The agent the grant is for; its descendants may use it too."""
    target: Target | None = None
    cap_tokens: int | None = None
    """Tokens that may be read with it, all uses together."""
    uses: int | None = None
    expires_us: int | None = None
    """First moment at which it is no longer valid, by the project's clock."""
    inline_code_chars: int | None = None
    """Characters of code that a message may carry with it."""


class GrantOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The identity and purpose of a grant, as its first block states them."""

    grant_id: str
    project: str
    run: str
    parent: str
    intended_use: str


def write_block(limits: GrantLimits, origin: GrantOrigin | None = None) -> tuple[str, dict[str, Any]]:
    """Return the Datalog of a block and its parameters."""
    source: list[str] = []
    values: dict[str, Any] = {}

    def add(statement: str, **parameters: Any) -> None:
        if None not in parameters.values():
            source.append(statement)
            values.update(parameters)

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
    add("check if now($at), $at < {expires_at};", expires_at=limits.expires_us)
    add("check if tokens($tokens), $tokens <= {cap};", cap=limits.cap_tokens)
    add("check if code($chars), $chars <= {chars};", chars=limits.inline_code_chars)
    return "\n".join(source), values


def read_first(source: str) -> tuple[GrantOrigin, GrantLimits]:
    """Return the origin and the limits in the Datalog of a first block, which must set every limit."""
    match = _FIRST.fullmatch(source)
    if match is None:
        raise GrantForged(field=FIELD)
    grant_id, project, run, parent, use, uses, checked_project, checked_run, checks = match.groups()
    limits = read_limits(uses + checks)
    required = (limits.child, limits.target, limits.cap_tokens, limits.expires_us, limits.inline_code_chars)
    # An absent limit would be no limit at all: only later blocks may leave one out.
    if (checked_project, checked_run) != (project, run) or None in required:
        raise GrantForged(field=FIELD)
    try:
        intended_use = bytes.fromhex(use).decode()
    except UnicodeDecodeError:
        raise GrantForged(field=FIELD) from None
    return GrantOrigin(grant_id=grant_id, project=project, run=run, parent=parent, intended_use=intended_use), limits


def read_limits(source: str) -> GrantLimits:
    """Return the limits in the Datalog of a block."""
    match = _LIMITS.fullmatch(source)
    if match is None:
        raise GrantForged("A block of the budget token has a statement that no grant has.", field=FIELD)
    uses, child, kind, target, expires_us, cap_tokens, chars = match.groups()
    return GrantLimits(
        child=child,
        target=_read_target(kind, target) if kind else None,
        cap_tokens=_number(cap_tokens),
        uses=_number(uses),
        expires_us=_number(expires_us),
        inline_code_chars=_number(chars),
    )


def _read_target(kind: str, text: str) -> Target:
    try:
        target: Target = read_pointer(text) if kind == "pointer" else read_prefix(text)
    except EngramBusError:
        raise GrantForged("A block of the budget token names no valid pointer.", field=FIELD) from None
    # Another spelling would pass here and fail in Biscuit's own engine, which compares texts.
    if quoted(target) != text:
        raise GrantForged("A block of the budget token names a pointer that is not in canonical form.", field=FIELD)
    return target


def _number(text: str | None) -> int | None:
    return int(text) if text is not None else None
