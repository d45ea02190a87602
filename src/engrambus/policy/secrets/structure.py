"""Secrets with a recognisable structure: private keys, passwords in URLs, JWTs, headers, references to a vault.

Each function takes the bytes of a text and yields spans. Every pattern is bounded and is tried only where a literal was
found first, so that no input makes it visit a character more than a fixed number of times.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache

from engrambus.policy.secrets.value_checks import (
    is_generated_key,
    is_password,
    is_placeholder,
    is_readable,
    value_patterns,
)

SecretSpan = tuple[str, int, int]
"""Kind, start and end of a secret."""


class StructurePatterns:
    """The compiled patterns; one instance, created on first use."""

    def __init__(self) -> None:
        gap = rb"(?:[\s>|#*\"'+,;\\])"
        self.private_key = re.compile(
            rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            rb"|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
        )
        self.key_start = re.compile(
            rb"(?:" + gap + rb"{1,16}[A-Za-z-]{2,20}: [^\n]{0,120}){0,6}(?:" + gap + rb"{0,16}[A-Za-z0-9+/=]){24}"
        )
        self.key_body = re.compile(rb"(?:" + gap + rb"|[A-Za-z0-9+/=])*+(?:-----END [A-Z0-9 ]{1,40}-----)?")
        self.putty = re.compile(rb"Private-Lines: [0-9]{1,4}(?:\s{1,4}[A-Za-z0-9+/=]{4,80}){1,200}")
        self.user_password = re.compile(rb"://[^\s/?#:@\"'<>`\\]{0,80}+:([^\s/?#\"'<>`\\]{3,160})@(?=[A-Za-z0-9\[{$%])")
        # In a password for a database, people leave characters as they are that belong to the syntax of an address.
        self.database = re.compile(
            rb"(?:sql|postgres|maria|mongo|redis|amqp|oracle|clickhouse|cockroach|snowflake|db2?)[a-z0-9+]{0,20}\Z"
        )
        self.database_password = re.compile(
            rb"://[^\s/:@\"'<>`]{0,80}+:([^\s\"'<>`@]{0,80}[/?#@][^\s\"'<>`]{0,80})@(?=[A-Za-z0-9\[.-]{2,})"
        )
        self.user_token = re.compile(rb"://([A-Za-z0-9_-]{20,255}+)@(?=[A-Za-z0-9])")
        self.pinned = re.compile(rb"sha256:[0-9a-f]{64}")
        self.vault_reference = re.compile(rb"op://[^\s/\"'`<>][^/\n\"'`<>]{0,80}/[^\s\"'`<>,;)]{1,200}+")
        self.webhook = re.compile(
            rb"(?P<slack>hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{20,120}+)"
            rb"|(?P<discord>discord(?:app)?\.com/api/webhooks/[0-9]{16,22}/[A-Za-z0-9_-]{50,100}+)"
            rb"|(?P<teams>webhook\.office\.com/webhookb2/[A-Za-z0-9@-]{36,90}+/IncomingWebhook/[A-Za-z0-9/-]{32,160}+)"
        )
        # The parts have no largest size: what a bound left out would stay in clear. At most five are read.
        self.jwt = re.compile(
            rb"(?<![A-Za-z0-9_])eyJ[A-Za-z0-9_-]{8,}+={0,2}"
            rb"(?:\.[A-Za-z0-9_-]{4,}+={0,2}\.[A-Za-z0-9_-]*+={0,2}|\.\.[A-Za-z0-9_-]{20,}+)(?:\.[A-Za-z0-9_-]++){0,2}"
        )
        self.bearer = re.compile(rb"(?:bearer|token)[ \t]{1,4}([A-Za-z0-9._~+/-]{16,}+=*+)", re.IGNORECASE)
        self.basic = re.compile(rb"basic[ \t]{1,4}([A-Za-z0-9+/_-]{8,400}+={0,2})", re.IGNORECASE)
        self.curl_user = re.compile(rb"(?:-u|--user)[ =]{0,2}[\"']?[^\s:\"']{1,80}:([^\s\"']{3,120}+)")
        self.signature = re.compile(rb"[?&;]sig=([A-Za-z0-9%+/_-]{40,120}+=?)")
        self.telegram = re.compile(rb"(?<![0-9A-Za-z])[0-9]{6,12}:A[A-Za-z0-9_-]{34}(?![A-Za-z0-9_-])")
        self.discord = re.compile(
            rb"(?<![A-Za-z0-9_.-])[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
        )
        self.jwk = re.compile(rb"\\{0,3}\"d\\{0,3}\"\s{0,3}:\s{0,3}\\{0,3}\"([A-Za-z0-9_-]{32,700}+)\\{0,3}\"")
        self.azure_secret = re.compile(
            rb"(?<![A-Za-z0-9])[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9])"
        )
        self.marked_run = re.compile(
            rb"(?P<azure_devops_token>[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})|(?P<maxmind_key>[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)"
        )
        self.newrelic = re.compile(rb"(?<![A-Za-z0-9])[0-9a-fA-F]{36}NRAL(?![A-Za-z0-9])")
        self.mailchimp = re.compile(rb"(?<![A-Za-z0-9])[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])")


@cache
def structure_patterns() -> StructurePatterns:
    """Return the compiled patterns."""
    return StructurePatterns()


def private_keys(data: bytes) -> Iterator[SecretSpan]:
    """Find private keys: PEM, OpenPGP and OpenSSH, also cut short; PuTTY's; the secret part of a JWK."""
    patterns, index, end = structure_patterns(), 0, 0
    while (index := data.find(b"PRIVATE KEY", index)) >= 0:
        first = patterns.private_key.search(data, max(end, index - 60), index + 30)
        index += 11
        if first:
            # Also without a key below it: the first line announces one, and who sends it means to.
            index = end = max(index, first.end())
            if key_start := patterns.key_start.match(data, index):
                body = patterns.key_body.match(data, key_start.end())
                index = end = body.end() if body else key_start.end()
            yield "private-key", first.start(), index
    if b"Private-Lines: " in data:
        yield from (("private-key", match.start(), match.end()) for match in patterns.putty.finditer(data))
    if b'"kty' in data:
        yield from (("private-key", match.start(1), match.end(1)) for match in patterns.jwk.finditer(data))


def urls(data: bytes) -> Iterator[SecretSpan]:
    """Find passwords between `://user:` and `@`, references into 1Password, webhooks, signed links to Azure storage."""
    patterns, index = structure_patterns(), 0
    while (index := data.find(b"://", index)) >= 0:
        if data[max(0, index - 2) : index] == b"op":
            reference = patterns.vault_reference.match(data, index - 2)
            if reference and not is_placeholder(reference[0][5:]):
                yield "op-reference", reference.start(), reference.end()
                index = reference.end() - 3
        elif match := _user_part(data, index):
            yield "url-password", match.start(1), match.end(1)
        index += 3
    if b"hooks.slack" in data or b"/webhook" in data:
        for hook in patterns.webhook.finditer(data):
            if not is_placeholder(hook[0][24:]):
                yield f"{hook.lastgroup}-webhook", hook.start(), hook.end()
    if b"sig=" in data:
        for signed in patterns.signature.finditer(data):
            if not is_placeholder(signed[1]):
                yield "azure-sas", signed.start(1), signed.end(1)


def _user_part(data: bytes, index: int) -> re.Match[bytes] | None:
    """Return the match of a password, or of a token instead of a user, in an address at its `://`."""
    patterns = structure_patterns()
    if patterns.database.search(data[max(0, index - 30) : index].lower()):
        match = patterns.database_password.match(data, index)
        if match and _is_url_password(data, match):
            return match
    match = patterns.user_password.match(data, index)
    if match:
        return match if _is_url_password(data, match) else None
    match = patterns.user_token.match(data, index)
    # The key in an address of Sentry is public.
    if match and is_generated_key(match[1]) and b"sentry" not in data[match.end() : match.end() + 60]:
        return match
    return None


def _is_url_password(data: bytes, match: re.Match[bytes]) -> bool:
    if structure_patterns().pinned.match(data, match.end()):
        return False  # a url pointer of this product: a host, its port, and the digest that pins the page
    word = match[1]
    user = data[match.start() + 3 : match.start(1) - 1]
    if word.lower() in value_patterns().weak or word == user or is_placeholder(word) or b"[" in user:
        return False
    if value_patterns().weak_words.fullmatch(word.lower()):
        return False
    return not (word.isdigit() and len(word) <= 5)


def suffixed(data: bytes) -> Iterator[SecretSpan]:
    """Find formats that have their fixed mark in the middle or at the end."""
    patterns = structure_patterns()
    for kind, mark, back, pattern in (
        ("azure-client-secret", b"Q~", 4, patterns.azure_secret),
        ("newrelic-key", b"NRAL", 36, patterns.newrelic),
        ("mailchimp-key", b"-us", 32, patterns.mailchimp),
    ):
        index = 0
        while (index := data.find(mark, index)) >= 0:
            match = pattern.match(data, index - back) if index >= back else None
            if match and not is_placeholder(match[0]):
                yield kind, match.start(), match.end()
            index += len(mark)


def marked_run(run: bytes) -> str | None:
    """Return the kind of a key that has its fixed mark near the end of a run."""
    match = structure_patterns().marked_run.fullmatch(run)
    return str(match.lastgroup).replace("_", "-") if match else None


def headers(data: bytes, low: bytes) -> Iterator[SecretSpan]:
    """Find credentials in Authorization headers and after `curl -u`."""
    patterns = structure_patterns()
    index = 0
    while (index := low.find(b"basic", index)) >= 0:
        match = patterns.basic.match(data, index)
        if match and _is_basic(match[1]):
            yield "basic-auth", match.start(1), match.end(1)
        index += 5
    index = 0
    while (index := low.find(b"bearer", index)) >= 0:
        match = patterns.bearer.match(data, index)
        if match and is_credential(match[1]):
            yield "bearer-token", match.start(1), match.end(1)
        index += 6
    index = 0
    while (index := low.find(b"authorization", index)) >= 0:
        match = patterns.bearer.search(data, index + 13, index + 22 + 2000)
        if match and match.start() < index + 22 and is_credential(match[1]):
            yield "bearer-token", match.start(1), match.end(1)
        index += 13
    index = 0
    while (index := low.find(b"curl", index)) >= 0:
        stop = data.find(b"\n", index, index + 1000)
        end = stop if stop >= 0 else min(len(data), index + 1000)
        for user in patterns.curl_user.finditer(data, index, end):
            if is_password(user[1]):
                yield "basic-auth", user.start(1), user.end(1)
        index = max(index + 4, end)


def is_credential(value: bytes) -> bool:
    """True if the text after `Bearer` is a token and not a word of a sentence."""
    patterns = value_patterns()
    if is_placeholder(value) or is_readable(value):
        return False
    if not patterns.letter.search(value) or value.islower():
        return bool(patterns.digit.search(value))
    return max(map(len, patterns.pieces.findall(value))) >= 12


def _is_basic(wrapped: bytes) -> bool:
    try:
        plain = base64.b64decode(
            wrapped + b"=" * (-len(wrapped) % 4), altchars=b"-_" if b"-" in wrapped or b"_" in wrapped else None
        )
    except (binascii.Error, ValueError):
        return False
    user, colon, password = plain.partition(b":")
    if not colon or not plain.isascii() or any(c < 32 for c in plain):
        return False
    return (
        len(password) >= 3
        and password != user
        and password.lower() not in value_patterns().weak
        and not is_placeholder(password)
    )


def is_jwt(token: bytes) -> bool:
    """True if the first part of a dotted token is the header of a JWT."""
    head = token.partition(b".")[0]
    try:
        plain = base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4))
    except (binascii.Error, ValueError):
        return False
    return b'"alg"' in plain or b'"typ"' in plain or b'"enc"' in plain
