"""What is wrong with a name that is well written: several verbs, fan-out, actions that say nothing, renaming."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from engrambus.space.catalog.catalog import Catalog, CatalogDiff
from engrambus.space.catalog.names import parse_name
from engrambus.space.catalog.nearest import nearest_names
from engrambus.space.catalog.values import EFFECTS, CatalogEntry, Contract

Rule = Literal["domain", "several-verbs", "fan-out", "opaque", "gone", "effect", "authority", "inputs", "cached"]

DOMAINS = ("agent", "ide", "op", "fs", "net", "catalog")
_AND = frozenset({"and", "then", "or", "plus", "also"})
_ALL = frozenset({"all", "every", "each", "any", "everything", "everywhere"})
_OPAQUE = frozenset(
    {"thing", "things", "stuff", "something", "anything", "whatever", "misc", "util", "utils", "helper"}
    | {"generic", "various"}
)
_OPAQUE_VERBS = frozenset({"do", "doing", "handle", "process", "perform", "execute", "manage"})
"""They say nothing of what is done; behind another verb, as in `get_process`, some say to what."""
_VERBS = frozenset(
    {"build", "check", "commit", "compile", "create", "delete", "deploy", "dev", "fetch", "fix", "format", "get"}
    | {"install", "lint", "merge", "post", "publish", "push", "read", "release", "review", "scan", "send", "sync"}
    | {"test", "update", "upload", "validate", "verify", "write"}
)
_THINGS = frozenset(
    {"build", "check", "commit", "fix", "format", "install", "lint", "merge", "post", "push", "release", "review"}
    | {"scan", "sync", "test", "update", "upload"}
)
"""Verbs that are things too: behind a verb that takes a thing they are what it takes, as in `fetch_commit`."""
_TAKES_THINGS = frozenset(
    {"check", "create", "delete", "fetch", "fix", "get", "install", "merge", "post", "publish", "push", "read"}
    | {"review", "scan", "send", "sync", "update", "upload", "validate", "verify", "write"}
)


class Flaw(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing the linter found."""

    rule: Rule
    yool: str
    says: str
    """What is wrong, and what to do instead."""
    line: int | None = None
    """Where it is declared."""


def lint_name(name: str, line: int | None = None) -> list[Flaw]:
    """Every naming rule a name breaks."""
    base = parse_name(name, "yool_id", line).base
    domain, *rest = base.split(".")

    def flaw(rule: Rule, says: str) -> Flaw:
        return Flaw(rule=rule, yool=name, says=says, line=line)

    found = []
    if domain not in DOMAINS:
        found.append(flaw("domain", f"'{domain}' is not a domain; they are {', '.join(DOMAINS)}."))
    for segment in rest:
        words = segment.split("_")
        if (len(words) > 2 and _AND & set(words[1:-1])) or len(_verbs(words)) > 1:
            found.append(flaw("several-verbs", f"'{segment}' says more than one verb: make a yool of each."))
        if _ALL & set(words):
            found.append(flaw("fan-out", f"'{segment}' fans out unseen: make a yool of each."))
        if _OPAQUE & set(words) or words[0] in _OPAQUE_VERBS:
            found.append(flaw("opaque", f"'{segment}' does not say what is done: name the action."))
    return found


def _verbs(words: list[str]) -> list[str]:
    """The words that say what is done, without those that say to what."""
    verbs = [word for word in words if word in _VERBS]
    if words[0] in _TAKES_THINGS:
        return verbs[:1] + [word for word in verbs[1:] if word not in _THINGS]
    return verbs


def lint_change(old: Catalog, new: Catalog) -> list[Flaw]:
    """What a newer catalog breaks for those who know the older: names are stable, and so is what they promise."""
    changes = old.diff(new)
    found = [Flaw(rule="gone", yool=entry.full_name, says=_gone(entry, old, new, changes)) for entry in changes.removed]
    for was, now in changes.changed:
        found += (
            Flaw(rule=rule, yool=now.full_name, says=f"{says}: that takes a new version.")
            for rule, says in _broken(was, now)
        )
    return found


def _gone(entry: CatalogEntry, old: Catalog, new: Catalog, changes: CatalogDiff) -> str:
    others = new.versions(entry.name)
    heirs = sorted(each.full_name for each in changes.added if entry.agent and each.agent == entry.agent)
    if others:
        became, instead = "is gone", f"keep it beside '{others[-1].full_name}'"
    else:
        became = f"was renamed to '{(nearest_names(entry.full_name, heirs) or heirs)[0]}'" if heirs else "is gone"
        follows = f"{entry.name}.v{max(each.version for each in old.versions(entry.name)) + 1}"
        instead = f"keep it, and add '{follows}'"
    return f"'{entry.full_name}' {became}, which breaks every tuple that names it: {instead}."


def _broken(was: CatalogEntry, now: CatalogEntry) -> Iterator[tuple[Rule, str]]:
    """What a version no longer keeps; to promise more, or to admit more, breaks nothing."""
    before, after = was.contract, now.contract
    if EFFECTS.index(after.effect) > EFFECTS.index(before.effect):
        yield "effect", f"It was '{before.effect}' and is '{after.effect}'"
    lost = [each for each in was.authority if each not in now.authority]
    if lost:
        yield "authority", f"It no longer runs on the authority of {', '.join(lost)}"
    one, other = _depends(before), _depends(after)
    if before != Contract() and set(one) != set(other):  # until code says so, nothing is said of what it depends on
        yield "inputs", f"It depended on {', '.join(one) or 'nothing'} and depends on {', '.join(other) or 'nothing'}"
    if before.cached and not after.cached:
        yield "cached", "Its results could be used again and no longer can"


def _depends(contract: Contract) -> list[str]:
    return [*(f"'{pattern}'" for pattern in contract.inputs), *(f"${name}" for name in contract.env)]
