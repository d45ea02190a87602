"""Everything that can stand in the journal of work, read back."""

from __future__ import annotations

import msgspec

from engrambus.errors import FormatUnknown
from engrambus.space.tuples import Fact

_decoder = msgspec.json.Decoder(list[Fact])


def decode_work(text: bytes) -> list[Fact]:
    """A commit's facts."""
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as problem:
        raise FormatUnknown(f"The journal holds something this version does not know: {problem}.") from None
