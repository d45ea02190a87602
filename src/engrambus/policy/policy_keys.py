"""The keys of the policy: name, default and meaning of each, read from the declarations in `project_policy.py`.

The file that `init` writes, `policy show` and the documentation are made from this one list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import takewhile
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from engrambus.errors import PolicyInvalid
from engrambus.policy.identity import ROLES
from engrambus.policy.limits import LIMITS, limit_mode
from engrambus.policy.project_policy import DEFAULT_POLICY, SCOPES, AppliedPolicy, Policy

_COMMENT_COLUMN = 44
_HEAD = """\
# What this project allows. Remove the # before a line to change it, then: engrambus policy apply
# `engrambus policy show` prints what is in force. Below are all keys with their defaults.
"""
_SIMPLE_TEXT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class PolicySetting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of one key that is in force, and where it was set."""

    key: str
    value: Any
    meaning: str
    set_us: int | None = None
    """When a policy with this value was applied first, in microseconds; None if it is the default."""
    set_by: str | None = None
    """Full name of the admin who applied it."""


class PolicyKey(NamedTuple):
    """One setting of the policy."""

    name: str
    """`max_ttl`, or with its section `inline.max_engrams`."""
    default: Any
    """As JSON types."""
    meaning: str


@cache
def policy_keys() -> tuple[PolicyKey, ...]:
    """Return every key, in the order of the declarations."""
    defaults = dict(_flatten(DEFAULT_POLICY)) | {"promotion_floor": policy_values(DEFAULT_POLICY)["promotion_floor"]}
    return tuple(PolicyKey(name, defaults[name], meaning) for name, meaning in _meanings(Policy))


def policy_values(policy: Policy) -> dict[str, Any]:
    """Return the value of every key as JSON types, with what holds for scopes and roles that are not listed."""
    values = dict(_flatten(policy))
    values["promotion_floor"] = {scope: policy.floor(scope) for scope in SCOPES}
    values["lineage_engrams_per_minute"] = policy.lineage_rate  # follows from an agent's rate unless it is set
    values["write_scopes"] = {role: [scope for scope in SCOPES if policy.may_write(role, scope)] for role in ROLES}
    return values


def explain_settings(applied: Sequence[AppliedPolicy]) -> list[PolicySetting]:
    """Return every key with its value and where it was set; `applied` are the policies applied so far, newest first."""
    values = [policy_values(item.policy) for item in applied] or [policy_values(DEFAULT_POLICY)]
    defaults = policy_values(DEFAULT_POLICY)
    settings = []
    for key in policy_keys():
        value = values[0][key.name]
        setting = PolicySetting(key=key.name, value=value, meaning=key.meaning)
        if value != defaults[key.name]:
            first = _first_with(applied, [item[key.name] for item in values])
            setting = msgspec.structs.replace(setting, set_us=first.at_us, set_by=first.by)
        settings.append(setting)
    return settings


def _first_with(applied: Sequence[AppliedPolicy], values: Sequence[Any]) -> AppliedPolicy:
    """Return the policy that brought in the present value of a key; `values` are its values in those policies."""
    # A policy replaces the whole previous one, so a later one with the same value did not set it.
    *_, (first, _) = takewhile(lambda pair: pair[1] == values[0], zip(applied, values, strict=True))
    return first


class LimitSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One limit: what it counts, how much is allowed, and how it applies to each role."""

    limit: str
    counts: str
    amount: str
    key: str
    """The policy key, or keys, that set the amount."""
    modes: dict[str, str]
    """Role → `enforce`, `warn` or `off`."""


def explain_limits(policy: Policy, roles: Sequence[str] = ROLES) -> list[LimitSetting]:
    """Return every limit with its amount and its mode for each of these roles."""
    values = policy_values(policy)
    return [
        LimitSetting(
            limit=limit,
            counts=counts,
            amount=", ".join(_amount(values[key]) for key in keys.split(", ")),
            key=keys,
            modes={role: limit_mode(policy.limits, limit, role) for role in roles},
        )
        for limit, (keys, counts) in LIMITS.items()
    ]


def policy_template() -> str:
    """Return the policy file of a new project: every key with its default, as comments."""
    lines = [_HEAD]
    section: tuple[str, ...] = ()
    for key in policy_keys():
        *parents, name = key.name.split(".")
        for depth, parent in enumerate(parents):
            if section[: depth + 1] != tuple(parents[: depth + 1]):
                lines.append(f"# {'  ' * depth}{parent}:\n")
        section = tuple(parents)
        setting = f"{'  ' * len(parents)}{name}: {as_yaml(key.default)}"
        lines.append(f"# {setting:<{_COMMENT_COLUMN}}  # {key.meaning}\n")
    return "".join(lines)


def refuse_key(name: str, siblings: Sequence[str]) -> PolicyInvalid:
    """Return the refusal of a key that does not exist, with the keys of its section and the nearest of all keys."""
    from difflib import get_close_matches

    names = [key.name for key in policy_keys()]
    names += dict.fromkeys(known.rpartition(".")[0] for known in names if "." in known)
    last_parts = {known.rpartition(".")[2]: known for known in names}
    last = name.rpartition(".")[2]
    close = get_close_matches(name, names, 1) or [last_parts[part] for part in get_close_matches(last, last_parts, 1)]
    meant = f"Did you mean `{close[0]}`? " if close else ""
    return PolicyInvalid(
        f"There is no policy key '{name[:80]}'.",
        field=name[:80],
        limit=", ".join(siblings),
        hint=f"{meant}`engrambus policy show` lists every key.",
    )


def _meanings(policy_type: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, hint in get_type_hints(policy_type, include_extras=True).items():
        if get_origin(hint) is Annotated:
            yield prefix + name, next(meta.description for meta in get_args(hint)[1:] if meta.description)
        elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield from _meanings(hint, f"{prefix}{name}.")
        else:
            raise TypeError(f"the policy key {prefix}{name} has no description")


def _flatten(values: msgspec.Struct, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name in values.__struct_fields__:
        value = getattr(values, name)
        if isinstance(value, msgspec.Struct):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, msgspec.to_builtins(value)


def _amount(value: Any) -> str:
    """Return how much a limit allows: `800`, or by scope `project 0.5, org 0.7`."""
    return ", ".join(f"{name} {inner}" for name, inner in value.items()) if isinstance(value, dict) else as_yaml(value)


def as_yaml(value: Any) -> str:
    """Return a value in YAML's flow style."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {as_yaml(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    if isinstance(value, str) and value and _SIMPLE_TEXT.issuperset(value):
        return value
    return msgspec.json.encode(value).decode()
