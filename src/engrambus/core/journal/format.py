"""The journal's text: one line is one commit, and every line vouches for the one before it.

    {"at":"<RFC 3339>","format":1,"kind":"memory","project":"<ulid>","seq":0,"sum":"<32 hex>"}
    {"at":"<RFC 3339>","facts":[…],"mark":112,"seq":1,"sum":"<32 hex>"}

A journal that has grown long is continued in a new file, a segment. Its header says where it stands:

    {"after":"<32 hex>","at":"<RFC 3339>","base":69201,"format":1,"kind":"tuples","project":"<ulid>","seq":301,"sum":…}

`base` is how many bytes the segments before it have together: offsets count through all of them. `after` is the last
line's checksum and `seq` its number, and the header's own checksum covers it like any line's.

`sum` is the first 128 bits of SHA-256 over the previous line's `sum` and this line up to its own. `mark` is an offset:
everything before it had reached the disk when the line was written. A line that does not check and lies after the last
mark is a commit that never happened; one that lies before it is damage.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from engrambus.core.clock import parse_time, print_time
from engrambus.errors import FormatUnknown

FORMAT = 1
_SUM_AT = b',"sum":"'
_SUM_LENGTH = 32
_MARK = re.compile(rb',"mark":([0-9]{1,18}),"seq":[0-9]{1,18},"sum":"[0-9a-f]{32}"}\n\Z')
_END = re.compile(rb',"seq":([0-9]{1,18}),"sum":"([0-9a-f]{32})"}\n\Z')
TAIL_LENGTH = len(_SUM_AT) + _SUM_LENGTH + len(b'"}\n')
END_LENGTH = len(b',"seq":') + 18 + TAIL_LENGTH
"""As many bytes as a line's number and checksum take at the most, at its end."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One commit as it stands in the journal."""

    at: int
    """When it was committed, by the project's clock."""
    facts: bytes
    """What happened, as a JSON array."""
    mark: int
    """Everything before this offset was on disk when the line was written."""
    seq: int
    """Its number; the header is 0."""
    sum: str
    """The checksum, chained to the line before."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: what kind of journal this is, and whose."""

    at: str
    format: int
    kind: str
    project: str
    seq: int
    sum: str
    base: int = 0
    """Bytes in the segments before this one."""
    after: str = ""
    """The checksum of the last line before it."""


class _Written(msgspec.Struct):
    at: str
    facts: msgspec.Raw
    mark: int
    seq: int
    sum: str


_line_decoder = msgspec.json.Decoder(_Written)
_header_decoder = msgspec.json.Decoder(Header)


def _seal(previous: str, text: bytes) -> tuple[bytes, str]:
    checksum = hashlib.sha256(previous.encode() + text).hexdigest()[:_SUM_LENGTH]
    return b"".join((text, _SUM_AT, checksum.encode(), b'"}\n')), checksum


def print_header(*, kind: str, project: str, at: int) -> tuple[bytes, str]:
    """A new journal's first line and its checksum."""
    text = f'{{"at":"{print_time(at)}","format":{FORMAT},"kind":"{kind}","project":"{project}","seq":0'
    return _seal("", text.encode())


def print_continued(header: Header, *, base: int, after: str, seq: int, at: int) -> tuple[bytes, str]:
    """The first line of a segment that continues a journal, and its checksum."""
    text = (
        f'{{"after":"{after}","at":"{print_time(at)}","base":{base},"format":{FORMAT},"kind":"{header.kind}"'
        f',"project":"{header.project}","seq":{seq}'
    )
    return _seal(after, text.encode())


def continues(written: bytes) -> bool:
    """Whether a line is the header of a segment that continues a journal."""
    return written.startswith(b'{"after":"')


def print_line(previous: str, *, at: int, facts: bytes, mark: int, seq: int) -> tuple[bytes, str]:
    """A commit's line and its checksum, following the line whose checksum is `previous`."""
    text = b'{"at":"%b","facts":%b,"mark":%d,"seq":%d' % (print_time(at).encode(), facts, mark, seq)
    return _seal(previous, text)


def checks(previous: str, written: bytes) -> bool:
    """Whether a line, newline included, is whole and follows the line whose checksum is `previous`."""
    text = written[:-TAIL_LENGTH]
    return len(written) > TAIL_LENGTH and _seal(previous, text)[0] == written


def stated_sum(written: bytes) -> str | None:
    """The checksum a line claims for itself, whether or not the rest of it is sound."""
    tail = written[-TAIL_LENGTH:]
    if len(tail) == TAIL_LENGTH and tail.startswith(_SUM_AT) and tail.endswith(b'"}\n'):
        return tail[len(_SUM_AT) : len(_SUM_AT) + _SUM_LENGTH].decode("ascii", "replace")
    return None


def stated_mark(written: bytes) -> int:
    """The mark at the end of a line, whether or not what stands before it is sound; 0 when its end is not whole."""
    found = _MARK.search(written)
    return int(found.group(1)) if found else 0


def stated_end(written: bytes) -> tuple[int, str] | None:
    """The number and checksum at the end of a line, whether or not what stands before them is sound."""
    found = _END.search(written)
    return (int(found.group(1)), found.group(2).decode()) if found else None


def parse_line(written: bytes) -> Line:
    """A line that checks, taken apart."""
    raw = _line_decoder.decode(written)
    return Line(at=parse_time(raw.at), facts=bytes(raw.facts), mark=raw.mark, seq=raw.seq, sum=raw.sum)


def parse_header(written: bytes) -> Header:
    """The first line, or a refusal when it is not one we know."""
    try:
        header = _header_decoder.decode(written)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise FormatUnknown("The journal does not begin with a header.") from None
    if header.format != FORMAT:
        raise FormatUnknown(f"The journal has format {header.format}.", limit=FORMAT)
    if not checks(header.after, written):
        raise FormatUnknown("The journal's header does not check.")
    return header


def encode_facts(facts: list[Any]) -> bytes:
    """A commit's facts as they stand in its line."""
    return _facts_encoder.encode(facts)


_facts_encoder = msgspec.json.Encoder(order="sorted")
