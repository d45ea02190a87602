"""The token estimate that budgets are counted with: by class of character, without a tokenizer.

Tokens depend on the model, and a tokenizer's vocabulary has megabytes. The estimate is deterministic, fast, and rarely
below what o200k and cl100k count (decision 53, which also says how the weights were fitted and measured).
"""

from __future__ import annotations

from zlib import adler32

UNITS_PER_TOKEN = 32
"""Weights are whole numbers of this fraction of a token."""
MAX_BYTES_PER_TOKEN = 8
"""A text of more bytes than this for each token never fits, however regular it is."""

_START_UNITS = 3 * UNITS_PER_TOKEN
"""Added to every text: short texts differ more from the average than long ones."""
_CHUNK_BYTES = 512
"""Sums of at most this many weights, each below 128, stay below the checksum's modulus 65521."""

_CLASSES = (
    b" \t",
    b"\n\r",
    b"0123456789",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    b"aeiou",
    b"tnsrhldcm",  # consonants that are frequent in most languages
    b"fgpwbvykjxqz",
    b"\"'`",
    b"{}[]()<>",
    b",.;:!?",
    b"_-/\\@#$%^&*+=~|",
    bytes(range(0x80, 0xC0)),  # continuation of a character in UTF-8
    bytes(range(0xC2, 0xCA)),  # first byte of accented Latin
    bytes(range(0xCA, 0xE0)),  # first byte of Greek, Cyrillic, Armenian, Hebrew, Arabic
    bytes(range(0xE0, 0xF0)),  # first byte of Indic scripts, Chinese, Japanese, Korean, symbols
)
"""Classes of bytes, numbered from 0; the remaining bytes (control, emoji) are class 15."""

_BYTE_WEIGHTS = bytes.fromhex("""
    03 03 02 04 01 00 04 03 00 0c 00 00 01 00 01 02
    00 02 00 00 06 03 01 02 03 00 03 05 04 00 00 01
    00 18 09 0b 41 0e 32 18 0a 09 01 3a 00 08 00 00
    0e 0d 08 0e 08 06 05 0c 0b 03 03 09 00 00 00 00
    0a 05 13 19 04 00 11 0d 0d 00 23 2b 0a 0e 19 00
    0e 27 0b 04 00 19 1b 16 2b 1b 20 00 22 00 47 00
    00 0e 09 00 00 00 0d 0b 08 0a 1c 1d 0a 12 00 00
    00 06 00 00 00 0d 10 08 05 0c 39 00 09 08 00 00
    00 04 14 26 00 1d 0b 16 00 26 21 01 00 1f 42 02
    07 34 37 3a 05 00 34 05 24 05 20 40 00 00 03 00
    00 07 3c 3f 00 28 19 17 25 06 09 26 27 25 27 0b
    1f 0e 19 21 1a 17 3d 17 00 21 0a 03 00 0a 00 01
    30 30 00 10 0b 31 00 30 13 32 00 30 30 5b 06 38
    00 07 39 5f 2f 2d 42 16 02 00 54 43 30 30 30 30
    14 3a 28 00 00 00 0d 00 31 51 28 17 06 20 50 2a
    1e 60 60 60 60 60 60 60 60 60 60 60 60 60 60 60
""")
"""Weight of each byte. Of bytes that begin a character it tells the script."""

_PAIR_WEIGHTS = bytes.fromhex("""
    01 26 16 00 0f 10 00 00 07 0f 0c 00 00 00 00 04
    14 02 3e 23 2f 0a 27 1c 00 00 00 00 00 00 00 08
    32 22 01 1f 15 20 12 00 2e 00 22 00 00 00 00 00
    01 00 05 01 1e 01 41 00 1e 00 12 00 00 00 00 00
    01 00 13 00 0f 00 00 0c 18 08 03 00 00 00 00 00
    06 00 1b 00 00 0e 0d 00 00 00 03 00 00 00 00 00
    00 0e 12 1e 0a 00 0c 10 00 00 00 00 00 00 00 00
    18 47 13 11 02 10 00 09 0c 00 00 00 00 00 00 00
    00 10 0c 1e 1a 06 1b 00 10 00 11 00 00 00 00 00
    00 01 25 16 0d 00 0c 00 01 0f 0e 00 00 00 00 00
    00 06 00 07 04 00 05 07 19 0a 03 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 03 02 00 1e
    0b 00 00 3c 00 09 03 05 00 00 00 0b 00 00 00 00
    11 00 00 00 00 00 00 0e 01 05 18 00 00 00 00 00
    06 00 00 00 00 00 00 00 00 00 00 02 00 00 00 00
    04 05 00 00 00 00 00 00 00 00 00 29 00 00 00 27
""")
"""Weight of a byte of one class (row) after a byte of another (column): a word begins, a digit stands inside hex."""


def _class_table() -> bytes:
    table = bytearray([15]) * 256
    for number, members in enumerate(_CLASSES):
        for byte in members:
            table[byte] = number
    return bytes(table)


_CLASS_OF = _class_table()


def estimate_tokens(content: str | bytes) -> int:
    """Return an upper estimate of the tokens of a text, the same for every model.

    Appending to a text never lowers it.
    """
    data = content.encode() if isinstance(content, str) else content
    if not data:
        return 0
    classes = int.from_bytes(data.translate(_CLASS_OF), "big")
    # One shift of the whole text puts each byte's class beside the class of the byte before it.
    pairs = (classes << 4 | classes >> 8).to_bytes(len(data), "big")
    units = _sum(data.translate(_BYTE_WEIGHTS)) + _sum(pairs.translate(_PAIR_WEIGHTS))
    units = max(units, len(data) * (UNITS_PER_TOKEN // MAX_BYTES_PER_TOKEN))
    return -(-(units + _START_UNITS) // UNITS_PER_TOKEN)


def _sum(weights: bytes) -> int:
    """Return the sum of the bytes; the low half of Adler-32 is a sum of bytes at the speed of C."""
    if len(weights) <= _CHUNK_BYTES:
        return adler32(weights, 0) & 0xFFFF
    return sum(
        adler32(weights[start : start + _CHUNK_BYTES], 0) & 0xFFFF for start in range(0, len(weights), _CHUNK_BYTES)
    )
