"""The text of a journal: one line is one commit, and each line's checksum covers the line before it.

    {"at":"<RFC 3339>","format":2,"kind":"memory","project":"<ulid>","seq":0,"mac":"<32 hex>","sum":"<32 hex>"}
    {"at":"<RFC 3339>","boot":"<8 hex>:81233412","facts":[…],"mark":153,"seq":1,"mac":"<32 hex>","sum":"<32 hex>"}

A journal that has grown long is continued in a new file, a segment. Its header says where it continues:

    {"after":"<32 hex>","at":"<RFC 3339>","base":69201,"format":2,"kind":"tuples","project":"<ulid>","seq":301,"mac":…}

`base` is the number of bytes in all earlier segments: offsets count through all of them. `after` is the checksum of
the last line before the segment and `seq` its number; the header's own checksum covers `after` as any line's does.

`boot` is the machine's boot and the milliseconds since then; `"behind":true` stands before it in a line whose time is
not the clock's, because the clock was behind the line before (decision 91). Lines of older versions have neither.

`sum` is the first 128 bits of SHA-256 over the previous line's `sum` and this line up to its own `sum`. `mark` is an
offset: everything before it was on disk when the line was written. An invalid line after the last mark is a commit that
never happened; an invalid line before it is damage (decision 1).

`mac` is the first 128 bits of HMAC-SHA256 under the journal's key, over the previous line's `sum` and this line up to
its `mac`. Anyone can check the sums; only a machine with the key can write a line whose `mac` is right, and because of
the sums one such line vouches for every line before it. Format 1, of older versions, has no `mac` (decision 67).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

import msgspec

from engrambus.core.clock import parse_time, print_time
from engrambus.core.ids import is_ulid
from engrambus.core.journal.key import MAC_CHARS, LineKey
from engrambus.core.project_clock import Stamp
from engrambus.errors import FormatUnknown

FORMAT = 2
UNMARKED_FORMAT = 1
"""The format of older versions, whose lines have no `mac`."""
_BEHIND = ',"behind":true'
_MAC_FIELD = b',"mac":"'
_CHECKSUM_FIELD = b',"sum":"'
_CHECKSUM_LENGTH = 32
_MAC = rb'(?:,"mac":"([0-9a-f]{32})")?'
_MARK = re.compile(rb',"mark":([0-9]{1,18}),"seq":[0-9]{1,18}' + _MAC + rb',"sum":"[0-9a-f]{32}"}\n\Z')
_END = re.compile(rb',"seq":([0-9]{1,18})' + _MAC + rb',"sum":"([0-9a-f]{32})"}\n\Z')
TAIL_LENGTH = len(_CHECKSUM_FIELD) + _CHECKSUM_LENGTH + len(b'"}\n')
"""Bytes of the checksum at the end of every line."""
MAC_LENGTH = len(_MAC_FIELD) + MAC_CHARS + len(b'"')
"""Bytes of the MAC before the checksum."""
END_LENGTH = len(b',"seq":') + 18 + MAC_LENGTH + TAIL_LENGTH
"""Most bytes that the number, the MAC and the checksum at the end of a line take."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One commit as the journal records it."""

    at_us: int
    """Commit time by the project's clock."""
    stamp: Stamp
    """That time with what the machine's other clock said then."""
    facts: bytes
    """The facts, as a JSON array."""
    mark: int
    """Offset up to which the journal was on disk when the line was written."""
    seq: int
    """1-based line number; the header is 0."""
    checksum: str
    """Checksum, chained to the line before."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a journal or of a segment: its kind, its project, and what it continues."""

    created_at: str = msgspec.field(name="at")
    format: int
    kind: str
    project: str
    seq: int
    checksum: str = msgspec.field(name="sum")
    base: int = 0
    """Bytes in the segments before this one."""
    after: str = ""
    """Checksum of the last line before this segment."""


class _LineFields(msgspec.Struct):
    at: str
    facts: msgspec.Raw
    mark: int
    seq: int
    sum: str
    boot: str = ""
    behind: bool = False


_line_decoder = msgspec.json.Decoder(_LineFields)
_header_decoder = msgspec.json.Decoder(Header)
_facts_encoder = msgspec.json.Encoder(order="sorted")  # the same facts are the same bytes on every back end


def encode_facts(facts: list[Any]) -> bytes:
    """Return a commit's facts as JSON."""
    return _facts_encoder.encode(facts)


def encode_header(line_key: LineKey, *, kind: str, project: str, now_us: int) -> tuple[bytes, str]:
    """Return the first line of a new journal and its checksum."""
    text = f'{{"at":"{print_time(now_us)}","format":{FORMAT},"kind":"{kind}","project":"{project}","seq":0'
    return _seal("", _mark(line_key, "", text.encode()))


def encode_continuation(
    line_key: LineKey, header: Header, *, base: int, after: str, seq: int, now_us: int
) -> tuple[bytes, str]:
    """Return the first line of a segment that continues a journal, and its checksum."""
    text = (
        f'{{"after":"{after}","at":"{print_time(now_us)}","base":{base},"format":{FORMAT},"kind":"{header.kind}"'
        f',"project":"{header.project}","seq":{seq}'
    )
    return _seal(after, _mark(line_key, after, text.encode()))


def encode_line(
    line_key: LineKey, previous: str, *, stamp: Stamp, facts: bytes, mark: int, seq: int
) -> tuple[bytes, str]:
    """Return the line of a commit and its checksum; `previous` is the checksum of the line before it."""
    time = f'{print_time(stamp.at_us)}"{_BEHIND if stamp.is_behind else ""}'
    if stamp.boot:
        time = f'{time},"boot":"{stamp.boot}:{stamp.elapsed_ms}"'
    text = b'{"at":"%b,"facts":%b,"mark":%d,"seq":%d' % (time.encode(), facts, mark, seq)
    return _seal(previous, _mark(line_key, previous, text))


def _mark(line_key: LineKey, previous: str, text: bytes) -> bytes:
    return b"".join((text, _MAC_FIELD, line_key.mac(previous, text), b'"'))


def _seal(previous: str, text: bytes) -> tuple[bytes, str]:
    checksum = hashlib.sha256(previous.encode() + text).hexdigest()[:_CHECKSUM_LENGTH]
    return b"".join((text, _CHECKSUM_FIELD, checksum.encode(), b'"}\n')), checksum


def is_continuation(line: bytes) -> bool:
    """True if a line is the header of a segment that continues a journal."""
    return line.startswith(b'{"after":"')


def is_valid_line(previous: str, line: bytes) -> bool:
    """True if a line, newline included, is complete and follows the line with checksum `previous`."""
    text = line[:-TAIL_LENGTH]
    return len(line) > TAIL_LENGTH and _seal(previous, text)[0] == line


def is_marked_line(line_key: LineKey, previous: str, line: bytes) -> bool:
    """True if a valid line that follows the line with checksum `previous` carries a MAC under this key."""
    marked = line[:-TAIL_LENGTH]
    return hmac.compare_digest(_mark(line_key, previous, marked[:-MAC_LENGTH]), marked)


def stated_checksum(line: bytes) -> str | None:
    """Return the checksum a line ends with, without verifying the line; None if its end is incomplete."""
    tail = line[-TAIL_LENGTH:]
    if len(tail) == TAIL_LENGTH and tail.startswith(_CHECKSUM_FIELD) and tail.endswith(b'"}\n'):
        return tail[len(_CHECKSUM_FIELD) : len(_CHECKSUM_FIELD) + _CHECKSUM_LENGTH].decode("ascii", "replace")
    return None


def stated_mark(line: bytes) -> int:
    """Return the mark a line ends with, without verifying the line; 0 if its end is incomplete."""
    match = _MARK.search(line)
    return int(match.group(1)) if match else 0


def stated_end(line: bytes) -> tuple[int, str] | None:
    """Return the number and checksum a line ends with, without verifying the line; None if its end is incomplete."""
    match = _END.search(line)
    return (int(match.group(1)), match.group(3).decode()) if match else None


def parse_line(line: bytes) -> Line:
    """Parse a valid line."""
    raw = _line_decoder.decode(line)
    boot, _, elapsed_ms = raw.boot.partition(":")
    stamp = Stamp(parse_time(raw.at), boot, int(elapsed_ms or 0), raw.behind)
    facts = bytes(raw.facts)
    return Line(at_us=stamp.at_us, stamp=stamp, facts=facts, mark=raw.mark, seq=raw.seq, checksum=raw.sum)


def parse_header(line: bytes) -> Header:
    """Parse and verify a first line; refuse a format this version does not know."""
    try:
        header = _header_decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise FormatUnknown("The journal does not begin with a header.") from None
    if header.format not in (UNMARKED_FORMAT, FORMAT):
        raise FormatUnknown(f"The journal has format {header.format}.", limit=FORMAT)
    if not is_valid_line(header.after, line):
        raise FormatUnknown("The checksum of the journal's header is wrong.")
    if not is_ulid(header.project):  # it names the folder of the project's keys
        raise FormatUnknown("The header of the journal does not name a project.")
    return header
