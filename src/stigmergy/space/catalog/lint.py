"""What is wrong with a name that is well written: several verbs, fan-out, actions that say nothing, renaming."""

from __future__ import annotations

from typing import Literal

import msgspec

from stigmergy.space.catalog.catalog import Catalog
from stigmergy.space.catalog.names import parse_name
from stigmergy.space.catalog.nearest import nearest_names
from stigmergy.space.catalog.values import EFFECTS

Rule = Literal["domain", "several-verbs", "fan-out", "opaque", "gone", "effect"]

DOMAINS = ("agent", "ide", "op", "fs", "net", "catalog")
_AND = frozenset({"and", "then", "or", "plus", "also"})
_ALL = frozenset({"all", "every", "each", "any", "everything", "everywhere"})
_OPAQUE = frozenset(
    {"do", "doing", "thing", "things", "stuff", "something", "anything", "whatever", "handle", "process", "perform"}
    | {"execute", "misc", "util", "utils", "helper", "manage", "generic", "various"}
)
_VERBS = frozenset(
    {"build", "check", "commit", "compile", "create", "delete", "deploy", "dev", "fetch", "fix", "format", "get"}
    | {"install", "lint", "merge", "post", "publish", "push", "read", "release", "review", "scan", "send", "sync"}
    | {"test", "update", "upload", "validate", "verify", "write"}
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
        verbs = [word for word in words if word in _VERBS]
        if (len(words) > 2 and _AND & set(words[1:-1])) or len(verbs) > 1:
            found.append(flaw("several-verbs", f"'{segment}' says more than one verb: make a yool of each."))
        if _ALL & set(words):
            found.append(flaw("fan-out", f"'{segment}' fans out unseen: make a yool of each."))
        if _OPAQUE & set(words):
            found.append(flaw("opaque", f"'{segment}' does not say what is done: name the action."))
    return found


def lint_change(old: Catalog, new: Catalog) -> list[Flaw]:
    """What a newer catalog breaks for those who know the older: names are stable, and so is what they promise."""
    changes = old.diff(new)
    found = []
    for entry in changes.removed:
        follows = f"{entry.name}.v{max(each.version for each in old.versions(entry.name)) + 1}"
        heirs = sorted(each.full_name for each in changes.added if entry.agent and each.agent == entry.agent)
        renamed = f"was renamed to '{(nearest_names(entry.full_name, heirs) or heirs)[0]}'" if heirs else "is gone"
        says = f"'{entry.full_name}' {renamed}, which breaks every tuple that names it: keep it, and add '{follows}'."
        found.append(Flaw(rule="gone", yool=entry.full_name, says=says))
    for was, now in changes.changed:
        if EFFECTS.index(now.contract.effect) > EFFECTS.index(was.contract.effect):
            says = f"It was '{was.contract.effect}' and is '{now.contract.effect}': that takes a new version."
            found.append(Flaw(rule="effect", yool=now.full_name, says=says))
    return found
