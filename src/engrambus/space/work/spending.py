"""What a step says it spends: lines of JSON in a file, added up."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from engrambus.errors import FieldValue
from engrambus.space.tuples import Price

MAX_USD, MAX_TOKENS = 1_000_000, 1_000_000_000
"""What one line may say was spent."""
NANOS = 1_000_000_000


class Spending(msgspec.Struct):
    """A line of what a step says it spends."""

    usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0


_decode = msgspec.json.Decoder(Spending).decode


class CostFile:
    """The file a step says it in, read as it grows. Whoever reads it to its end adds up the same."""

    def __init__(self, path: Path) -> None:
        self.micros = self.tokens_in = self.tokens_out = self._nanos = 0
        self._path = path
        self._read = 0

    @property
    def said(self) -> Price:
        """All it has said so far, as far as it was read."""
        return Price(micros=self.micros, tokens=self.tokens_in + self.tokens_out)

    def read(self, *, last: bool = False) -> FieldValue | None:
        """Read what was said since the last time; at the very last also a line without an end.

        Gives back what is wrong with the first line that cannot be read; all the others count: that money is spent."""
        said = self._rest()
        whole = said if last else said[: said.rfind(b"\n") + 1]
        self._read += len(whole)
        refusal: FieldValue | None = None
        for line in whole.splitlines():
            try:
                spent = _spending(line)
            except FieldValue as problem:
                refusal = refusal or problem
                continue
            self._nanos += round(spent.usd * NANOS)  # prices of single tokens are finer than micro-dollars
            self.tokens_in += spent.tokens_in
            self.tokens_out += spent.tokens_out
        self.micros = -(-self._nanos // 1000)
        return refusal

    def has_more(self) -> bool:
        """Whether something was said that was not read."""
        return bool(self._rest())

    def _rest(self) -> bytes:
        """What stands behind what was read. A step that took the file away, or put something else in its place, says
        nothing more: a pipe would never end."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return b""
            with open(descriptor, "rb", closefd=False) as file:
                file.seek(self._read)
                return file.read()
        finally:
            os.close(descriptor)


def _spending(line: bytes) -> Spending:
    try:
        spent = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise FieldValue("A line of cost is not JSON as it should be.", field="cost") from None
    for name, value, most in (
        ("usd", spent.usd, MAX_USD),
        ("tokens_in", spent.tokens_in, MAX_TOKENS),
        ("tokens_out", spent.tokens_out, MAX_TOKENS),
    ):
        if not 0 <= value <= most:
            raise FieldValue("No step can spend that.", field=f"cost.{name}", limit=most, used=value)
    return spent
