"""Checks of a single value: placeholders, public ids, possible passwords, and the output of generators."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from math import log2

_PLACEHOLDERS = (
    r"example|placeholder|redacted|changeme|change[_-]me|dummy|(?:\A|[^a-z])your"
    r"|\A(?:my|test|testing|some|fake|the|insert|replace|sample|invalid|mock|demo)[_-](?![a-z0-9_-]{16})"
)
# What a person types to fill up the length of a key. A generated key may have such a run too, so its share counts.
_FILLERS = r"(.)\1{3,}|deadbeef|cafebabe|foobar|qwerty|asdfgh"
_WEAK_WORDS = (
    "password passwd pass passphrase passwort pwd pw secret token key user username userpass admin root guest foo bar "
    "baz tiger test tester none null true false undefined string str int bytes postgres mysql redis mongo hidden "
    "masked empty default value pass1 pass123 pass1234 password1 password123 password1234 secret123 test123 test1234 "
    "user123 abc abc123 qwerty letmein required optional s3cr3t p4ssw0rd pa55w0rd passw0rd p@ssw0rd p@ssword my-token "
    "mytoken apikey credentials login me you p x y z a b c"
)


class ValuePatterns:
    """The compiled patterns of the checks; one instance, created on first use."""

    def __init__(self) -> None:
        self.placeholder = re.compile(_PLACEHOLDERS.encode())
        self.filler = re.compile(_FILLERS.encode())
        # Words of documentation that were put together: `mysecretpassword`.
        self.weak_words = re.compile(
            rb"(?:(?:my|your|the|a|super|very|strong|secret|password|passwd|pass|pwd|user|db|database|root|admin|test"
            rb"|postgres|mysql|redis|mongo|app|here|goes)[_-]?){1,6}[0-9]{0,4}"
        )
        self.algorithm = re.compile(
            rb"(?:hmac|rsa|ecdsa|aes|ed|es|hs|rs|ps|sha|md)[a-z]{0,6}[-_]?(?:sha)?[-_]?[0-9]{1,5}", re.I
        )
        self.weak = frozenset(word.encode() for word in _WEAK_WORDS.split())
        self.template = re.compile(
            rb"\A[<\[]|\A(?:ENC\[|encrypted:|urn:|arn:)|\A[$%][A-Za-z_][A-Za-z0-9_]*%?\Z|\A\$\(|\A%\(|\$\{|\{\{"
            rb"|\{[a-z_.]+\}|<[a-z _-]+>|\.\.\.|\*\*\*|-{4}|_{4}|\?\?\?"
        )
        self.ulid = re.compile(rb"(?:g_)?[0-7][0-9A-HJKMNP-TV-Z]{25}")
        self.version = re.compile(rb"v?[0-9]{1,4}\.[0-9]{1,4}[.-]")
        self.uuid = re.compile(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
        self.digest = re.compile(rb"(?:sha(?:1|224|256|384|512)|md5|blake2b|h1)[-:=~/][A-Za-z0-9+/=_-]+")
        # Ids of content and of peers in IPFS, base58 of a multihash; addresses of accounts in Ethereum.
        self.content_id = re.compile(
            rb"(?:0x[0-9a-fA-F]{40}|Qm[1-9A-HJ-NP-Za-km-z]{44}|12D3KooW[1-9A-HJ-NP-Za-km-z]{44}|z[a-z0-9]{3}[1-9A-HJ-NP-Za-km-z]{40,50})"
            rb"(?![A-Za-z0-9])"
        )
        self.title_words = re.compile(rb"[A-Z][a-z]{2,}")
        self.digit = re.compile(rb"[0-9]")
        self.letter = re.compile(rb"[A-Za-z]")
        self.lower = re.compile(rb"[a-z]")
        self.upper = re.compile(rb"[A-Z]")
        self.symbol = re.compile(rb"[^A-Za-z0-9]")
        self.exotic = re.compile(rb"[^A-Za-z0-9_.:/-]")
        self.pieces = re.compile(rb"[A-Za-z0-9]+")
        # A word with at most a short number after it, camel case, a number: the parts of names that people choose.
        self.name_part = re.compile(
            rb"(?:[A-Z]?[a-z]++|[A-Z]++(?![a-z])|[A-Z]++[a-z]++)*+[0-9]{0,3}|[0-9]{1,8}|v[0-9]+"
        )
        self.chunks = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
        self.scattered_digits = re.compile(rb"[a-z][0-9]{1,3}[a-z]{1,8}[0-9]{1,3}[a-z]{1,8}[0-9]")
        self.long_words = re.compile(rb"[A-Z]?[a-z]{5,}")
        self.digit_end = re.compile(rb"[-_!#%&*^]*[0-9]+\Z")
        self.chosen = re.compile(rb"[A-Za-z]{4,}[A-Za-z]*(?:[-_!#%&*^@$][A-Za-z]{0,12})?[0-9]{2,6}[!#%&*^@$]?")
        self.classes = bytes(
            1 if 97 <= c <= 122 else 2 if 65 <= c <= 90 else 3 if 48 <= c <= 57 else 4 for c in range(256)
        )


@cache
def value_patterns() -> ValuePatterns:
    """Return the compiled patterns."""
    return ValuePatterns()


def is_placeholder(body: bytes) -> bool:
    """True if a person wrote this in place of a secret: `xxxx`, `EXAMPLE`, `your-key`, `123456789`."""
    patterns, body = value_patterns(), body[:128]
    low = body.lower()
    if patterns.placeholder.search(low) or patterns.template.search(body):
        return True
    if len(body) < 8:
        return patterns.filler.fullmatch(low) is not None
    if len(body) >= 12 and len(set(body)) < 6:
        return True
    filled = max(sum(len(match[0]) for match in patterns.filler.finditer(low)), _counted_chars(low))
    return filled * 5 >= 2 * len(body)


def _counted_chars(body: bytes) -> int:
    """Return the number of characters in runs of five or more that count up or down: `12345`, `abcdefgh`, `98765`."""
    total = run = 0
    direction = 0
    for first, second in pairwise(body + b"\0"):
        step = second - first
        # On a keyboard, 0 comes after 9.
        step = 1 if (first, second) == (57, 48) else -1 if (first, second) == (48, 57) else step
        if step in (1, -1) and (step == direction or run == 0):
            run, direction = run + 1, step
        else:
            total += run + 1 if run >= 4 else 0
            run, direction = (1, step) if step in (1, -1) else (0, 0)
    return total


def is_public(value: bytes) -> bool:
    """True if this is a public id: a digest with its algorithm, a ULID, a grant's handle, or `<run>/<name>`."""
    patterns = value_patterns()
    run, _, name = value.partition(b"/")
    if patterns.digest.match(value) or patterns.content_id.match(value):
        return True
    return bool(patterns.ulid.fullmatch(run) and not is_random(name))


def entropy(value: bytes) -> float:
    """Return the Shannon entropy of the value's characters, in bits per character."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())


def is_readable(value: bytes) -> bool:
    """True if each part between punctuation is a word or a short number, as in names, paths and dates."""
    patterns = value_patterns()
    for piece in patterns.pieces.findall(value):
        if not patterns.name_part.fullmatch(piece):
            return False
        # The longer a name, the longer its words: letters that were drawn make words of three.
        if len(piece) > 4 and len(piece) < (4 if len(piece) >= 20 else 3) * len(patterns.chunks.findall(piece)):
            return False
    return True


def is_words(value: bytes) -> bool:
    """True if this consists of words: few digits, and long runs of one character class."""
    patterns = value_patterns()
    if not patterns.lower.search(value) or patterns.exotic.search(value):
        return False
    if len(patterns.digit.findall(value)) * 8 > len(value) or patterns.scattered_digits.search(value):
        return False
    return len(value) > 4 * len(patterns.chunks.findall(value))


def is_identifier(value: bytes) -> bool:
    """True if this is an identifier: words, or camel case that is mostly long words."""
    patterns = value_patterns()
    if is_words(value):
        return True
    if not patterns.upper.search(value) or patterns.exotic.search(value):
        return False
    return sum(len(word) for word in patterns.long_words.findall(value)) * 2 >= len(value)


def is_title_case(value: bytes) -> bool:
    """True if this is mostly words that begin with a capital: `callIpv6FirstEvenWhenIpv4IsListed`."""
    return sum(map(len, value_patterns().title_words.findall(value))) * 5 >= 3 * len(value)


def is_random(value: bytes, min_entropy_bits: float = 4.0) -> bool:
    """True if a generator produced this from letters of both cases and digits."""
    if value.islower() or value.isupper():
        return False
    classes = value.translate(value_patterns().classes, b"-_")
    if min(classes.count(1), classes.count(2)) * 10 < len(classes) or not classes.count(3):
        return False
    # Of neighbours that are drawn from 62 letters and digits, 62 % differ in class; in camel case about 30 %.
    changes = sum(1 for first, second in pairwise(classes) if first != second)
    if changes < 0.42 * (len(classes) - 1):
        return False
    # The entropy of a short value is lower, because it cannot use every letter.
    least = min_entropy_bits if len(value) >= 32 else min_entropy_bits - 0.6
    return entropy(value) >= least and not is_placeholder(value) and not is_title_case(value)


def is_generated_key(value: bytes) -> bool:
    """True if the value of a key field was generated; other than `is_random` also for hex, base32 and UUIDs."""
    patterns = value_patterns()
    if len(value) < 16 or is_placeholder(value) or is_public(value):
        return False
    if patterns.uuid.fullmatch(value):
        return True
    if not patterns.letter.search(value) or is_readable(value):
        return False
    if not patterns.digit.search(value) and not (patterns.upper.search(value) and patterns.lower.search(value)):
        return False
    return not is_identifier(value) and entropy(value) >= 2.8


def is_password(value: bytes) -> bool:
    """True if this could be a password, and is not a word that documentation uses for one."""
    patterns = value_patterns()
    if len(value) < 6 or value.lower() in patterns.weak or is_placeholder(value) or is_public(value):
        return False
    if patterns.weak_words.fullmatch(value.lower()) or patterns.algorithm.fullmatch(value):
        return False
    has_digit, has_letter = patterns.digit.search(value), patterns.letter.search(value)
    if not has_letter or (not has_digit and not patterns.symbol.search(value)):
        return False
    if is_readable(value) and not is_chosen_password(value):
        return False
    return len(set(value)) >= 5


def is_chosen_password(value: bytes) -> bool:
    """True if words and a number were put together as people do for a password: `Tundra!9828`, `falcon-436`."""
    patterns = value_patterns()
    words = patterns.digit_end.sub(b"", value.lower())
    if words.strip(b"!#%&*_-") in patterns.weak or len(patterns.digit.findall(value)) < 2:
        return False
    return bool(patterns.chosen.fullmatch(value))
