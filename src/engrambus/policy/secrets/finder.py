"""The scan: where the secrets of a text are.

The text becomes one byte a character. Everything a generator drew is a run of letters, digits, `_` and `-`; runs of
sixteen or more are found by one translation and a substring search, which skips ordinary text at hundreds of megabytes
a second. Only runs are searched for the anchors of the format table, judged for randomness and unwrapped. What can be
shorter than a run (passwords, headers, PEM lines) is found through literals of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b

import msgspec

from engrambus.policy.secrets.assigned import STARTS, assigned
from engrambus.policy.secrets.formats import formats
from engrambus.policy.secrets.likeness import is_public, is_random, is_spoken, is_stand_in, is_words, likeness
from engrambus.policy.secrets.structure import Found, headers, is_jwt, patterns, private_keys, suffixed, urls
from engrambus.policy.secrets.wrapping import block, unwrap

_RUN = 16
_OPAQUE = 24  # sixteen bytes in base64: nothing shorter is worth unwrapping or judging
_WRAPPED_DEPTH = 2
_LINE_LENGTHS = frozenset((60, 64, 70, 72, 76))  # where encoders break base64
_RANDOM_LEAST, _RANDOM_MOST = 32, 200
_VAGUE = frozenset(("password", "assigned-secret", "high-entropy", "bearer-token"))
_TOKEN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_DIGITS = b"0123456789"
_RUNS = bytes(97 if c in _TOKEN else 32 for c in range(256))
_EMPTY: set[tuple[bytes, int]] = set()
"""Which spans, at which depth, were unwrapped and held nothing; by digest, for one may be a secret all the same."""
_EMPTY_MOST = 4096
_WIDE = bytes(97 if c in _TOKEN + b"+/" else 32 for c in range(256))


class Secret(msgspec.Struct, frozen=True):
    """Where a secret stands in a text and what kind it is; never the secret itself."""

    kind: str
    start: int
    end: int


def find_secrets(text: str) -> list[Secret]:
    """The secrets in a text, in order, none overlapping another."""
    return [Secret(*found) for found in _scan(text.encode("ascii", "replace"), 0)]


def _scan(data: bytes, depth: int) -> list[Found]:
    if b"\\" in data:
        # Escapes written out become the white space they stand for; the length stays the same.
        data = data.replace(b"\\n", b" \n").replace(b"\\r", b" \r").replace(b"\\t", b" \t")
    low = data.lower()
    found: list[Found] = []
    if _clue().search(low):
        found += private_keys(data)
        found += urls(data)
        found += headers(data, low)
        found += assigned(data, low)
        found += suffixed(data)
    found += _tokens(data, depth)
    return _merge(found) if len(found) > 1 else found


@cache
def _clue() -> re.Pattern[bytes]:
    """What stands in every secret that can be shorter than a run, in small letters: one look instead of two dozen."""
    literals = (
        *(b"private key", b"private-lines", b'"kty'),
        *(b"://", b"hooks.slack", b"/webhook", b"sig="),
        *(b"basic", b"bearer", b"authorization", b"curl"),
        *(b"q~", b"nral", b"-us"),
        *STARTS,
    )
    return re.compile(b"|".join(map(re.escape, literals)))


def _merge(found: list[Found]) -> list[Found]:
    """Overlapping findings as one, under the most telling kind."""
    merged: list[Found] = []
    for kind, start, end in sorted(found, key=lambda each: (each[1], -each[2], each[0])):
        if merged and start < merged[-1][2]:
            before, first, last = merged[-1]
            merged[-1] = (kind if before in _VAGUE and kind not in _VAGUE else before, first, max(last, end))
        else:
            merged.append((kind, start, end))
    return merged


def _tokens(data: bytes, depth: int) -> Iterator[Found]:
    """Findings in the runs: known formats, JWTs, wrapped secrets, strings that were drawn at random."""
    runs = data.translate(_RUNS)
    wide = b""
    needle, space, end, seen = b"a" * _RUN, b" ", 0, 0
    search = None
    while (start := runs.find(needle, end)) >= 0:
        end = runs.find(space, start)
        if end < 0:
            end = len(data)
        run = data[start:end]
        if run.islower() and run.translate(None, _DIGITS) == run:
            continue  # an identifier; nothing drawn at random goes sixteen characters without a digit or a capital
        before = data[start - 1] if start else 32
        if before in b"./:~|+" and (dotted := _dotted(data, start, end)) is not None:
            yield dotted
            end = max(end, dotted[2])
            continue
        search = search or formats().anchors.search  # built for the first text that could hold one
        if search(data, start, end) or data[end : end + 1] == b".":
            known = list(_known(data, start, end, runs))
            if known:
                yield from known
                end = max(end, known[-1][2])
                continue
        if run.islower() and run.translate(None, b"0123456789abcdef"):
            continue
        if start < seen:
            continue
        wide = wide or data.translate(_WIDE)
        first = wide.rfind(space, 0, start) + 1 if before in b"+/" else start
        last = wide.find(space, start)
        seen = last = last if last >= 0 else len(data)
        if last - first < _OPAQUE:
            continue
        found, seen = _opaque(data, first, last, depth)
        if found:
            yield found
            end = max(end, found[2])


@cache
def _shapes() -> tuple[tuple[str, re.Pattern[bytes]], ...]:
    known = patterns()
    return (("discord-token", known.discord), ("jwt", known.jwt))


def _dotted(data: bytes, start: int, end: int) -> Found | None:
    """A format whose anchor ends before the run: `SG.…`, `hvs.…`, `hooks.slack.com/services/…`, a bot's number."""
    if data[start - 1] == 58 and (match := patterns().telegram.match(data, _digits_before(data, start - 1))):
        return "telegram-token", match.start(), match.end()
    for anchor in formats().anchors.finditer(data, max(0, start - 30), end):
        found = _format_at(data, anchor.start(), anchor[0])
        if found and found[2] > start:
            return found
    return None


def _digits_before(data: bytes, at: int) -> int:
    head = data[max(0, at - 13) : at]
    return at - len(head) + len(head.rstrip(b"0123456789"))


def _known(data: bytes, start: int, end: int, runs: bytes) -> Iterator[Found]:
    """The formats that stand in a run."""
    for kind, shape in _shapes():
        match = shape.match(data, start)
        if match and (kind != "jwt" or is_jwt(match[0])) and not is_stand_in(match[0][-20:]):
            yield kind, match.start(), match.end()
            return
    at, search = start, formats().anchors.search
    while anchor := search(data, at, end):
        found = _format_at(data, anchor.start(), anchor[0])
        if found:
            stop = runs.find(b" ", found[2] - 1)
            at = max(found[2], stop if stop >= 0 else len(data))
            yield found[0], found[1], at
            end = max(end, at)
        else:
            at = anchor.start() + 1


def _format_at(data: bytes, at: int, anchor: bytes) -> Found | None:
    for shape in formats().by_anchor[anchor]:
        match = shape.match(data, at)
        if match and not _is_written(match[0][len(anchor) :]):
            start = max(0, at - 14) if anchor == b".atlasv1." else at
            return shape.kind, start, match.end()
    return None


def _is_written(body: bytes) -> bool:
    """Whether a person wrote what follows an anchor: a stand-in, or words with hyphens and underscores between them."""
    return is_stand_in(body) or (is_words(body) and (b"-" in body or b"_" in body))


@cache
def _public_before() -> re.Pattern[bytes]:
    """What says that the string after it is a digest, a public key, a picture or an id."""
    return re.compile(
        rb"sha-?(?:1|224|256|384|512)|integrity|base64,|digest|md5|hash|checksum|etag|ssh-(?:rsa|dss|ed25519)|ecdsa-sha2"
        rb"|signature|certificate|fingerprint|nonce|\bid\b|_id\b|\bh1:|blake|crc|cursor|icon|image|font|woff|mappings"
    )


def _opaque(data: bytes, first: int, last: int, depth: int) -> tuple[Found | None, int]:
    """What a run no format knows holds: something wrapped, or a string drawn at random. And how far it reaches."""
    last += 2 if data[last : last + 2] == b"==" else 1 if data[last : last + 1] == b"=" else 0
    span = data[first:last]
    if depth < _WRAPPED_DEPTH and (kind := _inside(span, depth)):
        return (kind, first, last), last
    if len(span) >= 40 and data[last : last + 1] in (b"\n", b"\r", b" "):
        lines = block().match(data, first)
        if lines and lines.end() > last:
            if depth < _WRAPPED_DEPTH and (kind := _inside(lines[0], depth)):
                return (kind, first, lines.end()), lines.end()
            if lines["full"] or len(span) in _LINE_LENGTHS:
                return None, lines.end()  # a body of data, not one value
    return _random(data, first, last), last


def _inside(span: bytes, depth: int) -> str | None:
    """The kind of the first secret that is wrapped in a span; the same shas and names come again and again."""
    known = blake2b(span, digest_size=16).digest(), depth
    if known in _EMPTY:
        return None
    for plain in unwrap(span):
        if found := _scan(plain, depth + 1):
            return found[0][0]
    if len(_EMPTY) >= _EMPTY_MOST:
        _EMPTY.clear()
    _EMPTY.add(known)
    return None


def _random(data: bytes, first: int, last: int) -> Found | None:
    """A string drawn at random, if nothing before it says that it is a digest, a picture or an address."""
    span = data[first:last]
    if not _RANDOM_LEAST <= len(span) <= _RANDOM_MOST or not is_random(span) or is_public(span):
        return None
    before = data[max(0, first - 40) : first].rpartition(b"\n")[2].lower()
    if _public_before().search(before) or data[first - 1 : first] in (b"/", b".", b"#", b"@"):
        return None
    if len(max(likeness().pieces.findall(span), key=len)) < 10 or is_spoken(span):
        return None
    return "high-entropy", first, last
