"""Visibility by role: which kinds, scopes and paths a role sees (decision 50).

What a role may not see looks to it as if it did not exist. A role without a rule sees everything in its scopes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import lru_cache

import msgspec

from engrambus.core import nfc
from engrambus.errors import PolicyInvalid

KINDS = ("fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy")


class RoleVisibility(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one role sees. A part that is left out hides nothing."""

    kinds: tuple[str, ...] | None = None
    """Kinds of engrams."""
    scopes: tuple[str, ...] | None = None
    paths: tuple[str, ...] = ()
    """Patterns of paths: `src/*` shows only what matches, `!secrets/*` hides it in any case; a `*` matches `/`, too."""

    def sees_kind(self, kind: str) -> bool:
        """True if engrams of a kind are shown."""
        return self.kinds is None or kind in self.kinds

    def sees_scope(self, scope: str) -> bool:
        """True if engrams of a scope are shown."""
        return self.scopes is None or scope in self.scopes

    def sees_path(self, path: str) -> bool:
        """True if a path matches a pattern that shows, or there is none, and no pattern that hides."""
        shown, hidden = _compile(self.paths)
        path = nfc(path)
        # decision 73: a file system may not tell upper case from lower, and what is hidden is hidden there, too
        if hidden is not None and hidden.match(path.casefold()):
            return False
        return shown is None or shown.match(path) is not None


@lru_cache(maxsize=64)
def _compile(patterns: Sequence[str]) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
    """Return one expression for all patterns that show, and one for all that hide."""
    hiding = [nfc(pattern[1:]).casefold() for pattern in patterns if pattern.startswith("!")]
    showing = [nfc(pattern) for pattern in patterns if not pattern.startswith("!")]
    # `secrets/*` covers the folder itself: that it exists is part of what is hidden.
    return _union(showing), _union([*hiding, *(pattern[:-2] for pattern in hiding if pattern.endswith("/*"))])


def _union(patterns: Iterable[str]) -> re.Pattern[str] | None:
    expressions = [translate(pattern) for pattern in patterns]
    return re.compile("|".join(expressions)) if expressions else None


def check_visibility(visibility: dict[str, RoleVisibility], roles: Sequence[str], scopes: Sequence[str]) -> None:
    """Refuse a rule for an unknown role or for the admin, and one with an unknown kind or scope or an empty pattern."""
    for role, rule in visibility.items():
        if role == "admin":
            raise PolicyInvalid("The admin is a person and sees everything.", field="visibility.admin")
        _check_names("visibility", (role,), roles)
        _check_names(f"visibility.{role}.kinds", rule.kinds or (), KINDS)
        _check_names(f"visibility.{role}.scopes", rule.scopes or (), scopes)
        for pattern in rule.paths:
            if not pattern.removeprefix("!") or pattern.removeprefix("!").startswith("/"):
                raise PolicyInvalid(
                    "A pattern of paths begins at the root of the repository, without a '/'.",
                    field=f"visibility.{role}.paths",
                    used=pattern,
                )


def _check_names(field: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise PolicyInvalid(f"'{name}' is not one of {', '.join(known)}.", field=field)
