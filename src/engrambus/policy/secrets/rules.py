"""What a project may set about the search for secrets. Formats of vendors, structures and names are always searched for."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

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
