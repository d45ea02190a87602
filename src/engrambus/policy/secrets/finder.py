"""The scan of a text for secrets.

The text is encoded with one byte for each character. Everything that a generator produced is a run of letters, digits,
`_` and `-`. Runs of sixteen or more are found by one translation and a substring search, which skips ordinary text at
hundreds of megabytes a second. Only runs are searched for the anchors of the format table, checked for randomness and
unwrapped from base64 or hex. Secrets that can be shorter than a run (passwords, headers, PEM lines) are found through
literals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b

import msgspec

from engrambus.policy.secrets.assignments import STARTS, find_assignments
from engrambus.policy.secrets.connections import find_connection_passwords, find_manifest_values
from engrambus.policy.secrets.formats import formats
from engrambus.policy.secrets.line_breaks import find_broken
from engrambus.policy.secrets.rules import DEFAULT_RULES, SecretRules
from engrambus.policy.secrets.structure import (
    SecretSpan,
    headers,
    is_jwt,
    marked_run,
    private_keys,
    structure_patterns,
    suffixed,
    urls,
)
from engrambus.policy.secrets.value_checks import (
    is_placeholder,
    is_public,
    is_random,
    is_readable,
    is_title_case,
    is_words,
    value_patterns,
)
from engrambus.policy.secrets.wrappings import unwrap

MAX_TEXT_CHARS = 8_000_000
"""Characters that are searched at once; the check of a longer text fails."""
SEPARATOR = b"\n\0\n"
"""Between texts that are searched together: neither a secret nor the context that excuses one reaches across it."""
_RUN_CHARS = 15
_MIN_OPAQUE_CHARS = 24  # sixteen bytes in base64: nothing shorter is worth unwrapping or checking
_MAX_WRAPPING_DEPTH = 2
_LINE_LENGTHS = frozenset((60, 64, 70, 72, 76))  # where encoders break base64
_MAX_RANDOM_CHARS = 200
_MAX_BLOCK = 4000
_GENERIC_KINDS = frozenset(("password", "assigned-secret", "high-entropy", "bearer-token"))
_TOKEN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_DIGITS = b"0123456789"
_RUNS = bytes(97 if c in _TOKEN else 32 for c in range(256))
_WIDE_RUNS = bytes(97 if c in _TOKEN + b"+/" else 32 for c in range(256))
_NOT_WRAPPED: set[tuple[bytes, int, SecretRules | None]] = set()
"""Digest, depth and own rules of spans without a wrapped secret (decision 14); a digest, for a span may be a secret."""
_MAX_NOT_WRAPPED = 4096

_BEFORE_ANCHOR = {b".atlasv1.": 14, b":APA91b": 11}
"""Characters of a key that stand before its anchor."""


class TextTooLarge(Exception):
    """The text is larger than what is searched."""


class Secret(msgspec.Struct, frozen=True):
    """The kind of a secret and its position in a text; never the secret itself."""

    kind: str
    start: int
    end: int


def find_secrets(text: str, rules: SecretRules = DEFAULT_RULES) -> list[Secret]:
    """Return the secrets in a text, in order and without overlaps; raise if it is too large to be searched."""
    if len(text) > MAX_TEXT_CHARS:
        raise TextTooLarge
    return [Secret(*span) for span in _scan(text.encode("ascii", "replace"), 0, rules)]


def _scan(data: bytes, depth: int, rules: SecretRules) -> list[SecretSpan]:
    if b"\\" in data:
        # A written escape becomes the white space it stands for, with the same length.
        data = data.replace(b"\\n", b" \n").replace(b"\\r", b" \r").replace(b"\\t", b" \t")
    low = data.lower()
    spans: list[SecretSpan] = []
    if _clue().search(low):
        spans += private_keys(data)
        spans += urls(data)
        spans += headers(data, low)
        spans += find_assignments(data, low)
        if b"pwd" in low or b"passw" in low or b"jdbc:" in low:
            spans += find_connection_passwords(data, low)
        if b"kind" in low and b"secret" in low:
            spans += find_manifest_values(data, low)
        spans += suffixed(data)
    spans += _run_secrets(data, depth, rules)
    if data.count(b"\n") > 2 * data.count(SEPARATOR):
        spans += find_broken(data, _may_begin_format, _formats_in_word)
    return _merge(spans) if len(spans) > 1 else spans


@cache
def _clue() -> re.Pattern[bytes]:
    """Return a pattern for the literals, one of which is in every secret that can be shorter than a run."""
    literals = (
        *(b"private key", b"private-lines", b'"kty'),
        *(b"://", b"hooks.slack", b"/webhook", b"sig="),
        *(b"basic", b"bearer", b"authorization", b"curl"),
        *(b"q~", b"nral", b"-us", b"jdbc:oracle"),
        *STARTS,
    )
    return re.compile(b"|".join(map(re.escape, literals)))


def _merge(spans: list[SecretSpan]) -> list[SecretSpan]:
    """Join overlapping spans under the most specific kind."""
    merged: list[SecretSpan] = []
    for kind, start, end in sorted(spans, key=lambda span: (span[1], -span[2], span[0])):
        if merged and start < merged[-1][2]:
            previous, first, last = merged[-1]
            specific = kind if previous in _GENERIC_KINDS and kind not in _GENERIC_KINDS else previous
            merged[-1] = (specific, first, max(last, end))
        else:
            merged.append((kind, start, end))
    return merged


def _run_secrets(data: bytes, depth: int, rules: SecretRules) -> Iterator[SecretSpan]:
    """Find secrets in the runs: known formats, JWTs, wrapped secrets, random strings."""
    runs = data.translate(_RUNS)
    wide_runs = b""
    needle, space, end, checked_until = b"a" * _RUN_CHARS, b" ", 0, 0
    search = None
    while (start := runs.find(needle, end)) >= 0:
        end = runs.find(space, start)
        if end < 0:
            end = len(data)
        run = data[start:end]
        is_lower = run.islower()
        if is_lower and run.translate(None, _DIGITS) == run:
            continue  # an identifier: no generator makes sixteen characters without a digit or a capital
        is_hex = is_lower and not run.translate(None, b"0123456789abcdef")
        previous_byte = data[start - 1] if start else 32
        if previous_byte in b"./:~|+$%" and (span := _format_before_run(data, start, end)) is not None:
            yield span
            end = max(end, span[2])
            continue
        search = search or formats().anchors.search  # built for the first text that needs it
        # Every claim has a commit or a digest in it; no format has their alphabet and their length.
        is_digest = is_hex and len(run) in (40, 64)
        if not is_digest and (search(data, start, end) or data[end : end + 1] == b"."):
            in_run = list(_formats_in_run(data, start, end, runs))
            if in_run:
                yield from in_run
                end = max(end, in_run[-1][2])
                continue
        if is_lower and not is_hex:
            continue
        if (run[-8:-4] == b"AZDO" or run[-4:] == b"_mmk") and (kind := marked_run(run)):
            yield kind, start, end
            continue
        if start < checked_until:
            continue
        wide_runs = wide_runs or data.translate(_WIDE_RUNS)
        first = wide_runs.rfind(space, 0, start) + 1 if previous_byte in b"+/" else start
        last = wide_runs.find(space, start)
        checked_until = last = last if last >= 0 else len(data)
        if last - first < min(_MIN_OPAQUE_CHARS, rules.min_chars):
            continue
        opaque, checked_until = _check_opaque(data, first, last, depth, rules)
        if opaque:
            yield opaque
            end = max(end, opaque[2])


@cache
def _dotted_formats() -> tuple[tuple[str, re.Pattern[bytes]], ...]:
    patterns = structure_patterns()
    return (("discord-token", patterns.discord), ("jwt", patterns.jwt))


def _format_before_run(data: bytes, start: int, end: int) -> SecretSpan | None:
    """Return a format whose anchor ends before the run: `SG.…`, `hvs.…`, `hooks.slack.com/services/…`, a bot token."""
    if data[start - 1] == ord(":"):
        bot = structure_patterns().telegram.match(data, _start_of_digits(data, start - 1))
        if bot:
            return "telegram-token", bot.start(), bot.end()
    for anchor in formats().anchors.finditer(data, max(0, start - 30), end):
        span = _format_at(data, anchor.start(), anchor[0])
        if span and span[2] > start:
            return span
    return None


def _start_of_digits(data: bytes, end: int) -> int:
    head = data[max(0, end - 13) : end]
    return end - len(head) + len(head.rstrip(_DIGITS))


def _formats_in_run(data: bytes, start: int, end: int, runs: bytes) -> Iterator[SecretSpan]:
    first = start
    while data[first : first + 1] == b"-":  # the mark of a removed line
        first += 1
    for kind, pattern in _dotted_formats():
        match = pattern.match(data, first)
        if match and (kind != "jwt" or is_jwt(match[0])) and not is_placeholder(match[0][-20:]):
            yield kind, match.start(), match.end()
            return
    index, search = start, formats().anchors.search
    while anchor := search(data, index, end):
        span = _format_at(data, anchor.start(), anchor[0])
        if span:
            stop = runs.find(b" ", span[2] - 1)
            index = max(span[2], stop if stop >= 0 else len(data))
            yield span[0], span[1], index
            end = max(end, index)
        else:
            index = anchor.start() + 1


def _may_begin_format(data: bytes, start: int, end: int) -> bool:
    return formats().anchors.search(data, start, end) is not None or data.find(b"eyJ", start, end) >= 0


def _formats_in_word(data: bytes, start: int, end: int) -> Iterator[SecretSpan]:
    """Yield the known formats and JWTs that begin in a part of a text, without overlaps."""
    index = start
    for anchor in formats().anchors.finditer(data, start, end):
        if anchor.start() >= index and (span := _format_at(data, anchor.start(), anchor[0])):
            index = span[2]
            yield span
    index = start
    while (index := data.find(b"eyJ", index, end)) >= 0:
        match = structure_patterns().jwt.match(data, index)
        index += 3
        if match and is_jwt(match[0]):
            index = match.end()
            yield "jwt", match.start(), match.end()


def _format_at(data: bytes, index: int, anchor: bytes) -> SecretSpan | None:
    for key_format in formats().by_anchor[anchor]:
        match = key_format.match(data, index)
        if match and key_format.is_ambiguous and not _is_short_key(match[0][len(anchor) :]):
            continue
        if match and not _is_written(match[0][len(anchor) :]):
            start = max(0, index - _BEFORE_ANCHOR.get(anchor, 0))
            return key_format.kind, start, match.end()
    return None


def _is_short_key(body: bytes) -> bool:
    """True if a generator made the rest of an ambiguous key: digits among letters, or cases that alternate."""
    patterns = value_patterns()
    if is_readable(body) or is_words(body) or is_placeholder(body):
        return False
    if patterns.digit.search(body) and patterns.letter.search(body):
        return not is_title_case(body)
    chunks = patterns.chunks.findall(body)
    return bool(patterns.lower.search(body) and patterns.upper.search(body)) and len(chunks) * 5 >= 2 * len(body)


def _is_written(body: bytes) -> bool:
    """True if a person wrote the text after an anchor: a placeholder, or words joined by hyphens or underscores."""
    return is_placeholder(body) or (is_words(body) and (b"-" in body or b"_" in body))


def _check_opaque(data: bytes, first: int, last: int, depth: int, rules: SecretRules) -> tuple[SecretSpan | None, int]:
    """Check a run without a known format for a wrapped secret or a random string; return also where it ends."""
    last += 2 if data[last : last + 2] == b"==" else 1 if data[last : last + 1] == b"=" else 0
    span = data[first:last]
    if depth < _MAX_WRAPPING_DEPTH and (kind := _wrapped_secret(span, depth, rules)):
        return (kind, first, last), last
    if len(span) >= 40 and data[last : last + 1] in (b"\n", b"\r", b" "):
        lines = _base64_lines().match(data, first)
        if lines and lines.end() > last:
            if depth < _MAX_WRAPPING_DEPTH and (kind := _wrapped_secret(lines[0], depth, rules)):
                return (kind, first, lines.end()), lines.end()
            if lines["full"] or len(span) in _LINE_LENGTHS:
                return None, lines.end()  # a body of data, not a single value
    return _random_string(data, first, last, rules), last


@cache
def _public_prefix() -> re.Pattern[bytes]:
    """Return a pattern for words before a string that make it a digest, a public key, an image or an id."""
    return re.compile(
        rb"sha-?(?:1|224|256|384|512)|integrity|base64,|digest|md5|hash|checksum|etag|ssh-(?:rsa|dss|ed25519)|ecdsa-sha2"
        rb"|signature|certificate|fingerprint|nonce|\bid\b|_id\b|\bh1:|blake|crc|cursor|icon|image|font|woff|mappings"
        rb"|enc\[|[,\[](?:data|iv|tag|mac):\Z|challenge|opaque|set-cookie|\bpins?\b|ipfs|ipns|multihash|\bcid|peer"
        rb"|site[_-]verification|csrf|xsrf|publickey|\"n\"\s?:|\bs:|[?&](?:list|v|formkey|gid|state|q|hash)=|\x1b\["
    )


def _random_string(data: bytes, first: int, last: int, rules: SecretRules) -> SecretSpan | None:
    span = data[first:last]
    if not rules.random_strings or not rules.min_chars <= len(span) <= _MAX_RANDOM_CHARS:
        return None
    if not is_random(span, rules.min_entropy_bits) or is_public(span) or _is_public_piece(span):
        return None
    prefix = data[max(0, first - 60) : first].rpartition(b"\n")[2].lower()
    if _public_prefix().search(prefix) or data[first - 1 : first] in (b"/", b".", b"#", b"@"):
        return None
    if _is_in_public_block(data, first):
        return None
    if len(max(value_patterns().pieces.findall(span), key=len)) < 10 or is_readable(span):
        return None
    return "high-entropy", first, last


def _is_public_piece(span: bytes) -> bool:
    """True if a path around the slashes has the id of content, or if this is a line of a certificate."""
    return (
        span[:3] == b"MII"
        or span[:9] in (b"MFkwEwYHK", b"MHYwEAYHK", b"MCowBQYDK")
        or any(is_public(piece) for piece in span.split(b"/") if len(piece) > 40)
    )


def _is_in_public_block(data: bytes, first: int) -> bool:
    """True if the text stands in an armoured block that is not a private key: a certificate, a public key."""
    begin = data.rfind(b"-----BEGIN ", max(0, first - _MAX_BLOCK), first)
    return begin >= 0 and b"PRIVATE" not in data[begin : begin + 60] and data.find(b"-----END", begin + 11, first) < 0


def _wrapped_secret(span: bytes, depth: int, rules: SecretRules) -> str | None:
    """Return the kind of the first secret that is encoded in a span."""
    key = blake2b(span, digest_size=16).digest(), depth, None if rules is DEFAULT_RULES else rules
    if key in _NOT_WRAPPED:
        return None
    for plain in unwrap(span):
        if spans := _scan(plain, depth + 1, rules):
            return spans[0][0]
    if len(_NOT_WRAPPED) >= _MAX_NOT_WRAPPED:
        _NOT_WRAPPED.clear()
    _NOT_WRAPPED.add(key)
    return None


@cache
def _base64_lines() -> re.Pattern[bytes]:
    line = rb" ?\r? ?\n[ \t>#*\"']{0,40}+[A-Za-z0-9+/_-]"
    return re.compile(
        rb"[A-Za-z0-9+/_-]{40,}+(?P<full>"
        + line
        + rb"{40,}+){0,4000}+(?:"
        + line
        + rb"{2,}+={0,2}(?=[ \t\r]*+(?:[\n\"'`<-]|\Z)))?"
    )
