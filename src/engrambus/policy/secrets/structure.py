"""Secrets with a structure of their own: private keys, passwords in URLs, JWTs, headers, references to a vault.

Each function takes the bytes of a text and yields what it found. Every pattern is anchored on a literal that is looked
for first, and bounded, so that no input makes it look at a character more than a fixed number of times.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache

from engrambus.policy.secrets.likeness import is_password, is_spoken, is_stand_in, likeness

Found = tuple[str, int, int]


class Patterns:
    """The compiled patterns; one instance, made on first use."""

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
        self.pinned = re.compile(rb"sha256:[0-9a-f]{64}")
        self.vault_reference = re.compile(rb"op://[^\s/\"'`<>][^/\n\"'`<>]{0,80}/[^\s\"'`<>,;)]{1,200}+")
        self.webhook = re.compile(
            rb"(?P<slack>hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{20,120}+)"
            rb"|(?P<discord>discord(?:app)?\.com/api/webhooks/[0-9]{16,22}/[A-Za-z0-9_-]{50,100}+)"
            rb"|(?P<teams>webhook\.office\.com/webhookb2/[A-Za-z0-9@-]{36,90}+/IncomingWebhook/[A-Za-z0-9/-]{32,160}+)"
        )
        self.jwt = re.compile(
            rb"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,2000}+\.[A-Za-z0-9_-]{4,8000}+\.[A-Za-z0-9_-]{0,2000}+"
            rb"(?:\.[A-Za-z0-9_-]{1,4000}+){0,2}"
        )
        self.bearer = re.compile(rb"(?:bearer|token)[ \t]{1,4}([A-Za-z0-9._~+/-]{16,2000}+=*+)", re.IGNORECASE)
        self.basic = re.compile(rb"basic[ \t]{1,4}([A-Za-z0-9+/_-]{8,400}+={0,2})", re.IGNORECASE)
        self.curl_user = re.compile(rb"(?:-u|--user)[ =]{0,2}[\"']?[^\s:\"']{1,80}:([^\s\"']{3,120}+)")
        self.signature = re.compile(rb"[?&;]sig=([A-Za-z0-9%+/_-]{40,120}+=?)")
        self.telegram = re.compile(rb"(?<![0-9A-Za-z])[0-9]{6,12}:A[A-Za-z0-9_-]{34}(?![A-Za-z0-9_-])")
        self.discord = re.compile(
            rb"(?<![A-Za-z0-9_.-])[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_.-])"
        )
        self.jwk = re.compile(rb"\\{0,3}\"d\\{0,3}\"\s{0,3}:\s{0,3}\\{0,3}\"([A-Za-z0-9_-]{32,700}+)\\{0,3}\"")
        self.azure_secret = re.compile(
            rb"(?<![A-Za-z0-9])[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9])"
        )
        self.newrelic = re.compile(rb"(?<![A-Za-z0-9])[0-9a-fA-F]{36}NRAL(?![A-Za-z0-9])")
        self.mailchimp = re.compile(rb"(?<![A-Za-z0-9])[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])")


@cache
def patterns() -> Patterns:
    """The compiled patterns."""
    return Patterns()


def private_keys(data: bytes) -> Iterator[Found]:
    """PEM, OpenPGP and OpenSSH private keys from their first line, whole or cut short; PuTTY's; a JWK's secret part."""
    known, at = patterns(), 0
    while (at := data.find(b"PRIVATE KEY", at)) >= 0:
        first = known.private_key.search(data, max(0, at - 60), at + 30)
        at += 11
        if first and (begun := known.key_start.match(data, first.end())):
            body = known.key_body.match(data, begun.end())
            at = body.end() if body else begun.end()
            yield "private-key", first.start(), at
    if b"Private-Lines: " in data:
        yield from (("private-key", found.start(), found.end()) for found in known.putty.finditer(data))
    if b'"kty' in data:
        yield from (("private-key", found.start(1), found.end(1)) for found in known.jwk.finditer(data))


def urls(data: bytes) -> Iterator[Found]:
    """Passwords between `://user:` and `@`, references into 1Password, signed links to Azure storage."""
    known, at = patterns(), 0
    while (at := data.find(b"://", at)) >= 0:
        if data[max(0, at - 2) : at] == b"op":
            reference = known.vault_reference.match(data, at - 2)
            if reference and not is_stand_in(reference[0][5:]):
                yield "op-reference", reference.start(), reference.end()
                at = reference.end() - 3
        elif (match := known.user_password.match(data, at)) and _is_url_password(data, match):
            yield "url-password", match.start(1), match.end(1)
        at += 3
    if b"hooks.slack" in data or b"/webhook" in data:
        for hook in known.webhook.finditer(data):
            if not is_stand_in(hook[0][24:]):
                yield f"{hook.lastgroup}-webhook", hook.start(), hook.end()
    if b"sig=" in data:
        for signed in known.signature.finditer(data):
            if not is_stand_in(signed[1]):
                yield "azure-sas", signed.start(1), signed.end(1)


def _is_url_password(data: bytes, match: re.Match[bytes]) -> bool:
    if patterns().pinned.match(data, match.end()):
        return False  # a pointer of ours: the port of a host, then the digest the page is pinned by
    word = match[1]
    user = data[match.start() + 3 : match.start(1) - 1]
    if word.lower() in likeness().weak or word == user or is_stand_in(word):
        return False
    return not (word.isdigit() and len(word) <= 5)


def suffixed(data: bytes) -> Iterator[Found]:
    """Formats known by a mark in their middle or at their end; each is looked for from where it would begin."""
    known = patterns()
    for kind, mark, back, pattern in (
        ("azure-client-secret", b"Q~", 4, known.azure_secret),
        ("newrelic-key", b"NRAL", 36, known.newrelic),
        ("mailchimp-key", b"-us", 32, known.mailchimp),
    ):
        at = 0
        while (at := data.find(mark, at)) >= 0:
            match = pattern.match(data, at - back) if at >= back else None
            if match and not is_stand_in(match[0]):
                yield kind, match.start(), match.end()
            at += len(mark)


def headers(data: bytes, low: bytes) -> Iterator[Found]:
    """What an Authorization header carries, and `curl -u`."""
    known = patterns()
    at = 0
    while (at := low.find(b"basic", at)) >= 0:
        match = known.basic.match(data, at)
        if match and _is_basic(match[1]):
            yield "basic-auth", match.start(1), match.end(1)
        at += 5
    at = 0
    while (at := low.find(b"bearer", at)) >= 0:
        match = known.bearer.match(data, at)
        if match and is_credential(match[1]):
            yield "bearer-token", match.start(1), match.end(1)
        at += 6
    at = 0
    while (at := low.find(b"authorization", at)) >= 0:
        match = known.bearer.search(data, at + 13, at + 22 + 2000)
        if match and match.start() < at + 22 and is_credential(match[1]):
            yield "bearer-token", match.start(1), match.end(1)
        at += 13
    at = 0
    while (at := low.find(b"curl", at)) >= 0:
        stop = data.find(b"\n", at, at + 1000)
        end = stop if stop >= 0 else min(len(data), at + 1000)
        for user in known.curl_user.finditer(data, at, end):
            if is_password(user[1]):
                yield "basic-auth", user.start(1), user.end(1)
        at = max(at + 4, end)


def is_credential(value: bytes) -> bool:
    """Whether what follows `Bearer` is a token and not a word of the sentence."""
    known = likeness()
    if is_stand_in(value) or not known.letter.search(value) or value.islower():
        return not is_stand_in(value) and bool(known.digit.search(value)) and not is_spoken(value)
    return max(map(len, known.pieces.findall(value))) >= 12 and not is_spoken(value)


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
        and password.lower() not in likeness().weak
        and not is_stand_in(password)
    )


def is_jwt(token: bytes) -> bool:
    """Whether the first part of a dotted token is the header of a JWT."""
    head = token.partition(b".")[0]
    try:
        plain = base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4))
    except (binascii.Error, ValueError):
        return False
    return b'"alg"' in plain or b'"typ"' in plain or b'"enc"' in plain
