"""Linter: naming rules for yools, and changes of a catalog that break its users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from engrambus.space.catalog.catalog import Catalog, CatalogDiff
from engrambus.space.catalog.entries import EFFECTS, CatalogEntry, Contract
from engrambus.space.catalog.names import nearest_names, parse_name

Rule = Literal[
    "domain", "several-verbs", "fan-out", "opaque", "gone", "effect", "authority", "inputs", "cached", "no-inputs"
]

DOMAINS = ("agent", "ide", "op", "fs", "net", "catalog")
_CONJUNCTIONS = frozenset({"and", "then", "or", "plus", "also"})
_QUANTIFIERS = frozenset({"all", "every", "each", "any", "everything", "everywhere"})
_OPAQUE = frozenset(
    {"thing", "things", "stuff", "something", "anything", "whatever", "misc", "util", "utils", "helper"}
    | {"generic", "various"}
)
_OPAQUE_VERBS = frozenset({"do", "doing", "handle", "process", "perform", "execute", "manage"})
"""Verbs that do not name an action; only the first word counts, since `get_process` is clear."""
_VERBS = frozenset(
    {"build", "check", "commit", "compile", "create", "delete", "deploy", "dev", "fetch", "fix", "format", "get"}
    | {"install", "lint", "merge", "post", "publish", "push", "read", "release", "review", "scan", "send", "sync"}
    | {"test", "update", "upload", "validate", "verify", "write"}
)
_VERBS_AND_NOUNS = frozenset(
    {"build", "check", "commit", "fix", "format", "install", "lint", "merge", "post", "push", "release", "review"}
    | {"scan", "sync", "test", "update", "upload"}
)
"""Verbs that are nouns too: after a transitive verb they are its object, as in `fetch_commit`."""
_TRANSITIVE_VERBS = frozenset(
    {"check", "create", "delete", "fetch", "fix", "get", "install", "merge", "post", "publish", "push", "read"}
    | {"review", "scan", "send", "sync", "update", "upload", "validate", "verify", "write"}
)


class LintFlaw(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One problem the linter reports."""

    rule: Rule
    yool: str
    message: str = msgspec.field(name="says")
    """Description of the problem and what to do instead."""
    line: int | None = None
    """Line of the declaration."""


def lint_name(name: str, line: int | None = None) -> list[LintFlaw]:
    """Return a flaw for every naming rule that a name breaks."""
    base = parse_name(name, "yool_id", line).base
    domain, *segments = base.split(".")

    def flaw(rule: Rule, message: str) -> LintFlaw:
        return LintFlaw(rule=rule, yool=name, message=message, line=line)

    flaws = []
    if domain not in DOMAINS:
        flaws.append(flaw("domain", f"'{domain}' is not a domain; the domains are {', '.join(DOMAINS)}."))
    for segment in segments:
        words = segment.split("_")
        if (len(words) > 2 and _CONJUNCTIONS & set(words[1:-1])) or len(_verbs(words)) > 1:
            flaws.append(flaw("several-verbs", f"'{segment}' has more than one verb: split it into several yools."))
        if _QUANTIFIERS & set(words):
            flaws.append(flaw("fan-out", f"'{segment}' hides several actions: make a yool of each."))
        if _OPAQUE & set(words) or words[0] in _OPAQUE_VERBS:
            flaws.append(flaw("opaque", f"'{segment}' does not say what is done: name the action."))
    return flaws


def _verbs(words: list[str]) -> list[str]:
    """Return the verbs of a segment, without those that are the object of the first one."""
    verbs = [word for word in words if word in _VERBS]
    if words[0] in _TRANSITIVE_VERBS:
        return verbs[:1] + [word for word in verbs[1:] if word not in _VERBS_AND_NOUNS]
    return verbs


def lint_contract(entry: CatalogEntry, line: int | None = None) -> list[LintFlaw]:
    """Return a flaw if nothing says which files a result of this yool depends on, so that no result is reused."""
    contract = entry.contract
    if contract.inputs is not None or not contract.cached:
        return []
    message = (
        "It declares no inputs, so every step runs: write inputs=[…] with the files it reads, inputs=[] if it reads no "
        "file, or cached=False."
    )
    return [LintFlaw(rule="no-inputs", yool=entry.full_name, message=message, line=line)]


def lint_change(old: Catalog, new: Catalog) -> list[LintFlaw]:
    """Return a flaw for every name and every promise of the old catalog that the new one breaks."""
    changes = old.diff(new)
    flaws = [
        LintFlaw(rule="gone", yool=entry.full_name, message=_removal_message(entry, old, new, changes))
        for entry in changes.removed
    ]
    for was, now in changes.changed:
        flaws += (
            LintFlaw(rule=rule, yool=now.full_name, message=f"{problem}: that takes a new version.")
            for rule, problem in _broken_promises(was, now)
        )
    return flaws


def _removal_message(entry: CatalogEntry, old: Catalog, new: Catalog, changes: CatalogDiff) -> str:
    remaining = new.versions(entry.name)
    # A yool added by the same agent is probably the new name of the one removed.
    heirs = sorted(added.full_name for added in changes.added if entry.agent and added.agent == entry.agent)
    if remaining:
        change, advice = "is gone", f"keep it next to '{remaining[-1].full_name}'"
    else:
        change = f"was renamed to '{(nearest_names(entry.full_name, heirs) or heirs)[0]}'" if heirs else "is gone"
        next_version = max(version.version for version in old.versions(entry.name)) + 1
        advice = f"keep it, and add '{entry.name}.v{next_version}'"
    return f"'{entry.full_name}' {change}, which breaks every tuple that names it: {advice}."


def _broken_promises(was: CatalogEntry, now: CatalogEntry) -> Iterator[tuple[Rule, str]]:
    """Yield what a version no longer promises; promising or admitting more breaks nothing."""
    old, new = was.contract, now.contract
    if EFFECTS.index(new.effect) > EFFECTS.index(old.effect):
        yield "effect", f"It was '{old.effect}' and is '{new.effect}'"
    lost = [authority for authority in was.authority if authority not in now.authority]
    if lost:
        yield "authority", f"It no longer runs on the authority of {', '.join(lost)}"
    old_inputs, new_inputs = _dependencies(old), _dependencies(new)
    # An entry without code has the default contract, which says nothing yet about what the result depends on.
    # The same holds for one that has not declared its inputs yet.
    changed = set(old.env) != set(new.env) or (old.inputs is not None and set(old_inputs) != set(new_inputs))
    if old != Contract() and changed:
        yield (
            "inputs",
            f"It depended on {', '.join(old_inputs) or 'nothing'} and depends on {', '.join(new_inputs) or 'nothing'}",
        )
    # A promise made before inputs had to be declared was none: no result of such a yool is reused any more.
    if old.is_reusable and not new.cached:
        yield "cached", "Its results could be reused and no longer can"


def _dependencies(contract: Contract) -> list[str]:
    return [*(f"'{pattern}'" for pattern in contract.inputs or ()), *(f"${name}" for name in contract.env)]
