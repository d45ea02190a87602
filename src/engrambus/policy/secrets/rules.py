"""The rules of the search for secrets that a project may set; formats, structures and names are always searched for."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from engrambus.errors import PolicyInvalid

MIN_ENTROPY_BITS, MAX_ENTROPY_BITS = 2.0, 6.0
MIN_CHARS, MAX_CHARS = 16, 200


class SecretRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a string that nothing but its randomness accuses counts as a secret."""

    random_strings: Annotated[
        bool, Meta(description="Random strings are secrets; formats of vendors and named values are in either case")
    ] = True
    min_entropy_bits: Annotated[float, Meta(description="Bits per character that a random string has at least")] = 4.0
    min_chars: Annotated[int, Meta(description="Characters that a random string has at least")] = 32


DEFAULT_RULES = SecretRules()


def check_rules(rules: SecretRules) -> None:
    """Refuse thresholds at which everything or nothing would be a secret."""
    for name, value, least, most in (
        ("min_entropy_bits", rules.min_entropy_bits, MIN_ENTROPY_BITS, MAX_ENTROPY_BITS),
        ("min_chars", rules.min_chars, MIN_CHARS, MAX_CHARS),
    ):
        if not least <= value <= most:
            raise PolicyInvalid(
                f"{name} must be from {least:g} to {most:g}.", field=f"secrets.{name}", limit=most, used=value
            )
