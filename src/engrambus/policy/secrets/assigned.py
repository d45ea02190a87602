"""Values given to names that say they are secret: `password=…`, `"api_key": "…"`, `--token …`, `<secret>…`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from engrambus.policy.secrets.likeness import is_composed, is_drawn, is_password, is_random, likeness
from engrambus.policy.secrets.structure import Found

_PASSWORD = rb"pass(?:word|wd|phrase|wort|code)|passwd|pwd|pswd|contrasena|kennwort"
_SECRET = rb"secret|credential"
_KEY = rb"token|auth(?:orization)?(?![a-z])|key"
# `key` alone is a word of dictionaries and keyboards; with one of these before it, it opens something.
_OPENERS = (
    rb"api|access|auth|account|private|signing|signature|encryption|crypto|master|shared|license|licence|app|application"
    rb"|service|integration|storage|client|deploy|webhook|admin|ingest|session|subscription|ssh|function|host|insert"
    rb"|consumer|hmac|jwt|pat|security|primary|secondary|connection|server|rest|write|read|user|global|ca|dd|org"
    rb"|project|team|bot|personal|publish|upload|root|vault|sas|pass|secret|token"
)
# The last word of a name that makes the value public: what the secret is called, where it lives, its digest.
_HARMLESS = (
    b"name names hash hashed digest url uri path file files filename type types count counts len length size limit ttl "
    b"expiry expires expiration field fields label regex pattern id ids sha sha1 sha256 md5 class provider manager "
    b"policy min max arn version ref refs reset env var variable header headers prefix suffix param params format kind "
    b"store index idx pos position start end offset hint endpoint scope scopes title description error message "
    b"fingerprint checksum salt iterations algorithm alg method location public pub issuer audience budget used "
    b"left rate time at"
)


# What every name above begins with: looked for one by one, far quicker than all at once.
STARTS = (b"pass", b"pwd", b"pswd", b"contrasena", b"kennwort", b"secret", b"credential", b"token", b"auth", b"key")


class Names:
    """The compiled patterns; one instance, made on first use."""

    def __init__(self) -> None:
        self.stem = re.compile(
            rb"(?P<password>" + _PASSWORD + rb")|(?P<secret>" + _SECRET + rb")|(?P<key>" + _KEY + rb")"
        )
        quote = rb"\\{0,3}[\"'`]"
        self.between = re.compile(
            rb"(?P<rest>[a-z0-9_.-]{0,30}+)(?P<quote>" + quote + rb")?\]?"
            rb"(?:(?P<typed>[ ]?:[ ]?[a-z_][a-z0-9_\[\]|. ]{0,30}?[ ]?=)"
            rb"|[ \t]{0,4}(?P<sign>:=|=>|->|===?|!=|:(?!:)|[=>]|\?=|\|\|)"
            rb"|(?P<words>(?:[ ][a-z]{1,12}){0,4}[ ](?:is|was|are|=|:|to))"
            rb"|(?P<attribute>[ ]{1,3}value=)"
            rb"|(?P<comma>,)"
            rb"|(?P<blank>[ \t]{1,3}(?!is |was |[:=])))"
            rb"[ \t]{0,4}+(?:\\?\n[ \t]{1,40}+(?=[\"'`]))?"
        )
        self.quoted = re.compile(
            rb"(?:[bruf]{0,2}|[|>]-?\s{1,20})(\\{0,3}[\"'`]|\"{3})(?P<value>[^\"'`\n]{5,400}?)(?:\1|\\n)", re.IGNORECASE
        )
        self.bare = re.compile(rb"(?:[^\s\"'`<>;,(){}\[\]\\|&]|&(?![A-Za-z_]{1,30}=)){6,400}+")
        self.opener = re.compile(rb"(?:" + _OPENERS + rb")[ _-]?\Z")
        self.flag = re.compile(rb"--?[a-z0-9-]{0,30}\Z")
        self.login = re.compile(rb"\blogin\s{1,4}\S{1,80}\s{1,4}\Z")
        self.hex = re.compile(rb"[0-9a-f]{7,}")
        self.harmless = frozenset(_HARMLESS.split())
        self.words = re.compile(rb"[a-z0-9]+")
        self.expression = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|->|::)[A-Za-z_][A-Za-z0-9_]*)+")
        self.public_before = re.compile(
            rb"(?:public|csrf|next|page|cursor|continuation|sam:|artifact:|repo:|test:|max|num|sync)[_ -]?\Z"
        )


@cache
def names() -> Names:
    """The compiled patterns."""
    return Names()


def assigned(data: bytes, low: bytes) -> Iterator[Found]:
    """Every value given to a secret name."""
    for start in STARTS:
        at = 0
        while (at := low.find(start, at)) >= 0:
            known = names()
            match = known.stem.match(low, at)
            at += len(start)
            if match is None:
                continue
            between = known.between.match(low, match.end())
            if between is None or not _is_secret_name(low, match, between):
                continue
            found = _value(data, match, between)
            if found:
                yield found
                at = found[2]


def named(name: str, value: str) -> str | None:
    """The kind of secret a value is because of the name of its field alone."""
    sort = _sort_by_name(name[:200])
    body = value.strip().encode("ascii", "replace") if sort is not None else b""
    return _judge(sort, body, quoted=True) if sort is not None and len(body) <= 4096 else None


@lru_cache(maxsize=1024)
def _sort_by_name(name: str) -> str | None:
    """What a field of this name holds: a password, a secret, a key, or nothing secret; the same few come again."""
    lowered = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().encode("ascii", "replace")
    if not any(start in lowered for start in STARTS):
        return None
    known = names()
    match = None
    for each in known.stem.finditer(lowered):
        if each[0] != b"key" or known.opener.search(lowered[: each.start()]):
            match = each
    if match is None or _is_harmless(lowered[match.end() :]) or known.public_before.search(lowered[: match.start()]):
        return None
    return match.lastgroup


def _is_harmless(rest: bytes) -> bool:
    words = names().words.findall(rest)
    return bool(words) and (words[-1] in names().harmless or words[0] in (b"s", b"izer", b"ize", b"ized", b"izers"))


def _is_secret_name(low: bytes, match: re.Match[bytes], between: re.Match[bytes]) -> bool:
    known, before = names(), low[max(0, match.start() - 40) : match.start()]
    if match[0] == b"key" and not known.opener.search(before):
        return False
    if _is_harmless(between["rest"]) or known.public_before.search(before):
        return False
    if between["blank"] is not None:
        return bool(known.flag.search(before) or known.login.search(before)) or low[
            between.end() : between.end() + 1
        ] in (b'"', b"'", b"`")
    if between["comma"] is not None:
        after = low[between.end() - 1 : between.end() + 1]
        return between["quote"] is not None and after[1:] in (b'"', b"'") and b"\n" not in between[0]
    return True


def _value(data: bytes, match: re.Match[bytes], between: re.Match[bytes]) -> Found | None:
    known, start = names(), between.end()
    quoted = known.quoted.match(data, start)
    if quoted:
        first, last = quoted.span("value")
    else:
        bare = known.bare.match(data, start)
        if bare is None or data[bare.end() : bare.end() + 1] in (b"(", b"["):
            return None
        first, last = bare.span()
        if known.stem.match(data, first):
            return None  # a name of its own, which is judged by itself
        last -= len(bare[0]) - len(bare[0].rstrip(b".:!?*"))
    kind = _judge(str(match.lastgroup), data[first:last], quoted=bool(quoted))
    if kind and (between["words"] or between["blank"] or between["comma"]) and not _is_strong(data[first:last]):
        return None
    return (kind, first, last) if kind else None


def _judge(sort: str, value: bytes, *, quoted: bool) -> str | None:
    known = names()
    if b" " in value or b"://" in value or (value[:1] in b"/." and not is_random(value)):
        return None
    if not quoted and known.expression.fullmatch(value):
        return None
    if is_composed(value) and sort != "password":
        return None
    if sort == "password":
        return "password" if is_password(value) and (quoted or _is_strong(value)) else None
    if sort == "secret" and len(value) < 16:
        return "assigned-secret" if len(value) >= 8 and is_password(value) and _is_strong(value) else None
    return "assigned-secret" if is_drawn(value) else None


def _is_strong(value: bytes) -> bool:
    """Three of the four classes, or long and mixed: what is left when nothing but the name speaks for a value."""
    known = likeness()
    classes = sum(bool(sort.search(value)) for sort in (known.lower, known.upper, known.digit, known.symbol))
    return classes >= 3 or (
        classes >= 2 and len(value) >= 10 and bool(known.digit.search(value)) and not is_composed(value)
    )
