"""What a message may hold: every token of it is paid for by whoever reads it."""

from __future__ import annotations

import msgspec


class InlineBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most a message may hold."""

    max_inline_tokens: int = 800
    max_engrams: int = 12
    max_engram_chars: int = 500
    """Of one claim."""
    max_inline_code_chars: int = 0
    max_brief_lines: int = 30

    def lowered_by(self, given: object) -> InlineBudget:
        """What somebody's limits of the same names leave of this budget; nothing is ever raised."""
        lower = {
            name: min(getattr(self, name), said)
            for name in self.__struct_fields__
            if (said := getattr(given, name, None)) is not None
        }
        return msgspec.structs.replace(self, **lower)
