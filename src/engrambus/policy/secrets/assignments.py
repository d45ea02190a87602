"""Values assigned to secret names: `password=…`, `"api_key": "…"`, `--token …`, `<secret>…`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from engrambus.policy.secrets.structure import SecretSpan
from engrambus.policy.secrets.value_checks import (
    is_generated_key,
    is_identifier,
    is_password,
    is_random,
    value_patterns,
)

_PASSWORD = rb"pass(?:word|wd|phrase|wort|code)|passwd|(?<=[_.-])pass(?![a-z])|pwd|pswd|contrasena|kennwort"
_SECRET = rb"secret|credential"
_KEY = rb"token|auth(?:orization)?(?![a-z])|key"
# `key` alone also names entries of dictionaries and parts of keyboards; after one of these words it is a credential.
_OPENERS = (
    rb"api|access|auth|account|private|signing|signature|encryption|crypto|master|shared|license|licence|app|application"
    rb"|service|integration|storage|client|deploy|webhook|admin|ingest|session|subscription|ssh|function|host|insert"
    rb"|consumer|hmac|jwt|pat|security|primary|secondary|connection|server|rest|write|read|user|global|ca|dd|org"
    rb"|project|team|bot|personal|publish|upload|root|vault|sas|pass|secret|token"
)
# Before `key`, these words say that it finds something and opens nothing.
_FINDERS = (
    b"public pub cache sort sorting primary foreign partition row column col hash map dict dictionary object obj "
    b"lookup search index group grouping unique natural composite surrogate routing route shard message msg event "
    b"record item entry node cell i18n translation locale lang label registry config setting settings preference "
    b"property prop idempotency dedup dedupe hot short shortcut arrow enter escape esc space tab ctrl alt shift "
    b"meta cmd left right up down any press mon don tur hoc jock whis fingerprint image img cdn file path blob "
    b"etag version build commit git tree job task step run trace span correlation metric tag topic stream redis "
    b"bucket state context react list array set json yaml xml env header cookie param query form field data "
    b"similarity content digest checksum asset chunk module bundle plugin feature flag scope range start end min "
    b"max last first next prev parent child order distinct bin nested inner outer missing unknown duplicate known "
    b"valid invalid wrong same other new old the this that its each every which one two a an of and or is per by "
    b"with for gpg pgp ssh verification verify verifying site publishable ed25519 dsa ecdsa"
)
# Last words of a name that make its value public: the name of a secret, its location, its digest.
_HARMLESS = (
    b"name names hash hashed digest url uri path file files filename type types count counts len length size limit ttl "
    b"expiry expires expiration field fields label regex pattern id ids sha sha1 sha256 md5 class provider manager "
    b"policy min max arn version ref refs reset env var variable header headers prefix suffix param params format kind "
    b"store index idx pos position start end offset hint endpoint scope scopes title description error message "
    b"fingerprint checksum salt iterations algorithm alg method location public pub issuer audience budget used "
    b"left rate time at"
)


# Every name above begins with one of these; searching them one by one is much faster than one pattern for all.
STARTS = (b"pass", b"pwd", b"pswd", b"contrasena", b"kennwort", b"secret", b"credential", b"token", b"auth", b"key")


_MAX_VALUE = 400


class NamePatterns:
    """The compiled patterns; one instance, created on first use."""

    def __init__(self) -> None:
        self.stem = re.compile(
            rb"(?P<password>" + _PASSWORD + rb")|(?P<secret>" + _SECRET + rb")|(?P<key>" + _KEY + rb")"
        )
        quote = rb"\\{0,3}[\"'`]"
        self.between = re.compile(
            rb"(?P<suffix>[a-z0-9_.-]{0,30}+)(?P<quote>" + quote + rb")?[\])*_]{0,4}+"
            rb"(?:(?P<typed>[ ]?:[ ]?[a-z_][a-z0-9_\[\]|. ]{0,30}?[ ]?=)"
            rb"|[ \t]{0,24}+(?P<sign>:=|=>|->|===?|!=|:(?!:)|[=>]|\?=|\|\|?)"
            rb"|(?P<words>(?:[ ][a-z]{1,12}){0,4}[ ](?:(?:is|was|are|to)\b|=|:))"
            rb"|(?P<attribute>[ ]{1,3}value=|(?:</[a-z]{1,12}>|[,;])?\s{0,40}(?:-\s{1,4})?[\"'<]?"
            rb"(?:value|val|string|default|content|text|data)[\"']?(?:\s{0,3}(?:[:=]|=>)|>))"
            rb"|(?P<comma>,)"
            rb"|(?P<blank>[ \t]{1,3}(?!is |was |[:=])))"
            rb"[*_]{0,3}+[ \t]{0,4}+(?:\\?\n[ \t]{1,40}+(?=[\"'`]))?"
        )
        self.quoted = re.compile(
            rb"(?:[bruf]{0,2}|[|>]-?\s{1,20})(\\{0,3}[\"'`]|\"{3})(?P<value>[^\"'`\n]{5,400}?)(?:\1|\\n)", re.IGNORECASE
        )
        self.bare = re.compile(rb"(?:[^\s\"'`<>;,(){}\[\]\\|&]|&(?![A-Za-z_]{1,30}=)){6,400}+")
        self.rest = re.compile(rb"[^\s\"'`<>;,(){}\[\]\\|&]*+")
        self.opener = re.compile(rb"(?:" + _OPENERS + rb")[ _-]?\Z")
        self.finders = frozenset(_FINDERS.split())
        self.word_before = re.compile(rb"([A-Za-z][A-Za-z0-9]{1,30})[ _-]?\Z")
        # An option of a command, or a variable that a shell sets without a sign.
        self.flag = re.compile(
            rb"(?:--?[a-z0-9-]{0,30}|\b(?:set|setenv|setx)(?: -{1,2}[a-z]{1,8}){0,2} [a-z0-9_.-]{0,24})\Z"
        )
        self.place = re.compile(rb"[0-9]{1,8}(?:-[0-9]{1,8})?@[0-9a-f]{7,64}+(?![A-Za-z0-9])")
        self.path = re.compile(rb"[./]")
        self.login = re.compile(rb"\blogin\s{1,4}\S{1,80}\s{1,4}\Z")
        self.hex = re.compile(rb"[0-9a-f]{7,}")
        self.harmless = frozenset(_HARMLESS.split())
        self.words = re.compile(rb"[a-z0-9]+")
        self.expression = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|->|::)[A-Za-z_][A-Za-z0-9_]*)+")
        self.public_before = re.compile(
            rb"(?:public(?:[_ -]?key)?|csrf|next|page|cursor|continuation|sam:|artifact:|repo:|test:|max|num|sync"
            rb"|sec-websocket)[_ -]?\Z"
        )


@cache
def name_patterns() -> NamePatterns:
    """Return the compiled patterns."""
    return NamePatterns()


def find_assignments(data: bytes, low: bytes) -> Iterator[SecretSpan]:
    """Find every value that is assigned to a secret name; `low` is `data` in lower case."""
    for start in STARTS:
        index = 0
        while (index := low.find(start, index)) >= 0:
            patterns = name_patterns()
            match = patterns.stem.match(low, index)
            index += len(start)
            if match is None:
                continue
            between = patterns.between.match(low, match.end())
            if between is None or not (certainty := _name_certainty(data, low, match, between)):
                continue
            span = None if _is_place(data, match, between) else _assigned_value(data, match, between, certainty)
            if span:
                yield span
                index = span[2]


def secret_kind_of_field(name: str, value: str) -> str | None:
    """Return the kind of secret that a value is by the name of its field."""
    category, certainty = _name_category(name[:200])
    if category is None or len(value) > 4096:
        return None
    body = value.strip().encode("ascii", "replace")
    return _secret_kind(category, body, quoted=True) if certainty == SURE or _is_long_key(body) else None


@lru_cache(maxsize=1024)
def _name_category(name: str) -> tuple[str | None, int]:
    """Return `password`, `secret` or `key` for the name of a secret field; cached, because few names recur often."""
    lowered = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().encode("ascii", "replace")
    if not any(start in lowered for start in STARTS):
        return None, UNSURE
    patterns = name_patterns()
    match, certainty = None, SURE
    for stem in patterns.stem.finditer(lowered):
        if stem[0] != b"key" or patterns.opener.search(lowered[: stem.start()]):
            match, certainty = stem, SURE
        elif match is None and _opens_something(lowered[: stem.start()]):
            match, certainty = stem, UNSURE
    if match is None or _is_harmless(lowered[match.end() :]) or patterns.public_before.search(lowered[: match.start()]):
        return None, UNSURE
    return match.lastgroup, certainty


def _opens_something(before: bytes) -> bool:
    """True if the word before `key` may be the name of a service, and not of what a key finds."""
    word = name_patterns().word_before.search(before[-32:])
    return word is not None and word[1].lower() not in name_patterns().finders


def _is_harmless(suffix: bytes) -> bool:
    patterns = name_patterns()
    words = patterns.words.findall(suffix)
    return bool(words) and (words[-1] in patterns.harmless or words[0] in (b"s", b"izer", b"ize", b"ized", b"izers"))


UNSURE, SURE = 1, 2


def _name_certainty(data: bytes, low: bytes, match: re.Match[bytes], between: re.Match[bytes]) -> int:
    """Return how surely a name is that of a secret: 0 if it is not, `UNSURE` if only a long random value shows it."""
    patterns, prefix = name_patterns(), low[max(0, match.start() - 40) : match.start()]
    certainty = SURE
    if match[0] == b"key" and not patterns.opener.search(prefix):
        before = data[max(0, match.start() - 32) : match.start()]
        is_joined = before[-1:] in b"_- " or data[match.start() : match.start() + 1] == b"K"
        if not is_joined or not _opens_something(before):
            return 0
        certainty = UNSURE
    if _is_harmless(between["suffix"]) or patterns.public_before.search(prefix):
        return 0
    next_character = low[between.end() : between.end() + 1]
    if between["blank"] is not None:
        is_option = bool(patterns.flag.search(prefix) or patterns.login.search(prefix))
        return certainty if is_option or next_character in (b'"', b"'", b"`") else UNSURE
    if between["comma"] is not None and (
        between["quote"] is None or next_character not in (b'"', b"'") or b"\n" in between[0]
    ):
        return UNSURE if b"\n" not in between[0] else 0
    return certainty


def _is_place(data: bytes, match: re.Match[bytes], between: re.Match[bytes]) -> bool:
    """True if the name is the end of a path, and its value lines at a commit: `src/auth.py:1-2@3a4c4fe`."""
    patterns = name_patterns()
    if between["sign"] != b":" or data[between.end() - 1 : between.end()] != b":":
        return False
    if not patterns.place.match(data, between.end()):
        return False
    # No generator makes this shape; a person might choose it as a password, but not for something called like a file.
    return match.lastgroup != "password" or bool(patterns.path.search(data, max(0, match.start() - 1), between.end()))


def _assigned_value(data: bytes, match: re.Match[bytes], between: re.Match[bytes], certainty: int) -> SecretSpan | None:
    patterns, start = name_patterns(), between.end()
    quoted = patterns.quoted.match(data, start)
    if quoted:
        first, last = quoted.span("value")
    else:
        bare = patterns.bare.match(data, start)
        if bare is None or data[bare.end() : bare.end() + 1] in (b"(", b"["):
            return None
        first, last = bare.span()
        if patterns.stem.match(data, first):
            return None  # another secret name, which is checked by itself
        last -= len(bare[0]) - len(bare[0].rstrip(b".:!?*"))
    if certainty == UNSURE and not _is_long_key(data[first:last]):
        return None
    kind = _secret_kind(str(match.lastgroup), data[first:last], quoted=bool(quoted))
    if kind and last - first >= _MAX_VALUE and not quoted:
        # Only a value that is accused is read to its end, so that no text is read again and again.
        last = patterns.rest.match(data, last).end()  # type: ignore[union-attr]  # it matches nothing, too
    is_loose = between["words"] and not (between["quote"] and quoted)
    if kind and (is_loose or between["blank"] or between["comma"]) and not _is_strong(data[first:last]):
        return None
    return (kind, first, last) if kind else None


def _is_long_key(value: bytes) -> bool:
    """True if a value is so long and so mixed that a name which often means something else does not excuse it."""
    patterns = value_patterns()
    digits = len(patterns.digit.findall(value))
    if len(value) < 20 or not 2 <= digits < len(value) - 2 or patterns.version.match(value):
        return False
    return is_generated_key(value)


def _secret_kind(category: str, value: bytes, *, quoted: bool) -> str | None:
    if b" " in value or b"://" in value or (value[:1] in b"/." and not is_random(value)):
        return None
    if (
        not quoted
        and name_patterns().expression.fullmatch(value)
        and not any(len(piece) >= 16 and is_generated_key(piece) for piece in value.split(b"."))
    ):
        return None
    if is_identifier(value) and category != "password":
        return None
    if category == "password":
        return "password" if is_password(value) and (quoted or _is_strong(value)) else None
    if category == "secret" and len(value) < 16:
        return "assigned-secret" if len(value) >= 8 and is_password(value) and _is_strong(value) else None
    return "assigned-secret" if is_generated_key(value) else None


def _is_strong(value: bytes) -> bool:
    """True if a value has three of the four character classes, or two of them, a digit and ten characters."""
    # Used where only the name suggests a secret; weaker values are words of a sentence too often.
    patterns = value_patterns()
    character_classes = (patterns.lower, patterns.upper, patterns.digit, patterns.symbol)
    classes = sum(bool(pattern.search(value)) for pattern in character_classes)
    return classes >= 3 or (
        classes >= 2 and len(value) >= 10 and bool(patterns.digit.search(value)) and not is_identifier(value)
    )
