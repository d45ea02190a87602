"""What a random value looks like, and what only looks like one.

Everything here is a pure question about a few bytes: is this a stand-in someone wrote for a secret, is it a public
digest or an id, could it be a password, was it drawn by a random generator.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from math import log2

_STAND_INS = (
    "example|placeholder|redacted|changeme|change[_-]me|dummy|xxxx|yyyyy|zzzzz|00000000|11111111|aaaaaaa|"
    "ffffffff|1234567|abcdefg|7654321|deadbeef|foobar|(?:\\A|[^a-z])your|"
    r"\A(?:my|test|testing|some|fake|the|insert|replace|sample|invalid|mock|demo)[_-]"
)
_WEAK_WORDS = (
    "password passwd pass passphrase passwort pwd pw secret token key user username userpass admin root guest foo bar "
    "baz tiger test tester none null true false undefined string str int bytes postgres mysql redis mongo hidden "
    "masked empty default value pass1 pass123 pass1234 password1 password123 password1234 secret123 test123 test1234 "
    "user123 abc abc123 qwerty letmein required optional s3cr3t p4ssw0rd pa55w0rd passw0rd p@ssw0rd p@ssword my-token "
    "mytoken apikey credentials login me you p x y z a b c"
)


class Likeness:
    """The compiled questions; one instance, made on first use."""

    def __init__(self) -> None:
        self.stand_in = re.compile(_STAND_INS.encode())
        self.weak = frozenset(word.encode() for word in _WEAK_WORDS.split())
        self.template = re.compile(
            rb"\A[<\[]|\A[$%][A-Za-z_][A-Za-z0-9_]*%?\Z|\A\$\(|\A%\(|\$\{|\{\{|\{[a-z_.]+\}|<[a-z _-]+>|\.\.\."
            rb"|\*\*\*|-{4}|_{4}|\?\?\?"
        )
        self.ulid = re.compile(rb"[0-7][0-9A-HJKMNP-TV-Z]{25}")
        self.uuid = re.compile(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
        self.digest = re.compile(rb"(?:sha(?:1|224|256|384|512)|md5|blake2b|h1)[-:=~][A-Za-z0-9+/=_-]+")
        self.digit = re.compile(rb"[0-9]")
        self.letter = re.compile(rb"[A-Za-z]")
        self.lower = re.compile(rb"[a-z]")
        self.upper = re.compile(rb"[A-Z]")
        self.symbol = re.compile(rb"[^A-Za-z0-9]")
        self.exotic = re.compile(rb"[^A-Za-z0-9_.:/-]")
        self.pieces = re.compile(rb"[A-Za-z0-9]+")
        # A word with at most a short number behind it, camel case, a number: what people compose names from.
        self.spoken = re.compile(rb"(?:[A-Z]?[a-z]++|[A-Z]++(?![a-z])|[A-Z]++[a-z]++)*+[0-9]{0,3}|[0-9]{1,8}|v[0-9]+")
        self.chunks = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
        self.long_words = re.compile(rb"[A-Z]?[a-z]{5,}")
        self.classes = bytes(
            1 if 97 <= c <= 122 else 2 if 65 <= c <= 90 else 3 if 48 <= c <= 57 else 4 for c in range(256)
        )


@cache
def likeness() -> Likeness:
    """The compiled questions."""
    return Likeness()


def is_stand_in(body: bytes) -> bool:
    """Whether someone wrote this in place of a secret: `xxxx`, `EXAMPLE`, `your-key`, `123456789`."""
    known, body = likeness(), body[:128]
    if known.stand_in.search(body.lower()) or known.template.search(body):
        return True
    return len(body) >= 12 and (len(set(body)) < 6 or _is_sequence(body))


def _is_sequence(body: bytes) -> bool:
    """Whether seven neighbours in a row count up, as keyboards and alphabets do."""
    row = 0
    for before, after in pairwise(body):
        row = row + 1 if after == before + 1 else 0
        if row == 7:
            return True
    return False


def is_public(value: bytes) -> bool:
    """Whether this is a name for something: a digest with its algorithm, a ULID, an agent behind its run's."""
    known = likeness()
    run, _, name = value.partition(b"/")
    return bool((known.ulid.fullmatch(run) and not is_random(name)) or known.digest.match(value))


def entropy(value: bytes) -> float:
    """Shannon's entropy of the value's own characters, in bits a character."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())


def is_spoken(value: bytes) -> bool:
    """Whether every piece between the punctuation is a word or a short number, as in names, paths and dates."""
    known = likeness()
    for piece in known.pieces.findall(value):
        if not known.spoken.fullmatch(piece) or (len(piece) > 4 and len(piece) < 3 * len(known.chunks.findall(piece))):
            return False
    return True


def is_words(value: bytes) -> bool:
    """Whether this is put together from words: hardly a digit, and long stretches of one class."""
    known = likeness()
    if not known.lower.search(value) or known.exotic.search(value):
        return False
    return len(known.digit.findall(value)) * 8 <= len(value) and len(value) >= 4 * len(known.chunks.findall(value))


def is_composed(value: bytes) -> bool:
    """Whether this is an identifier: words, or camel case that is mostly long words."""
    known = likeness()
    if is_words(value):
        return True
    if not known.upper.search(value) or known.exotic.search(value):
        return False
    return sum(len(word) for word in known.long_words.findall(value)) * 5 >= 2 * len(value)


def is_random(value: bytes) -> bool:
    """Whether a generator with letters of both cases and digits drew this: it changes class at every other character.

    Drawn from 62 letters and digits, neighbours differ in class 62 times in 100; in camel case about 30 times. The
    bar is 42; the entropy bar falls a little with length because a short draw cannot use every letter.
    """
    known = likeness()
    classes = value.translate(known.classes, b"-_")
    if min(classes.count(1), classes.count(2)) * 10 < len(classes) or not classes.count(3):
        return False
    changes = sum(1 for before, after in pairwise(classes) if before != after)
    if changes < 0.42 * (len(classes) - 1):
        return False
    return entropy(value) >= (4.0 if len(value) >= 32 else 3.4) and not is_stand_in(value)


def is_drawn(value: bytes) -> bool:
    """Whether a value that stands where a key belongs was drawn at random: also hex, base32, lower case, a UUID."""
    known = likeness()
    if len(value) < 16 or is_stand_in(value) or is_public(value):
        return False
    if known.uuid.fullmatch(value):
        return True
    if not known.letter.search(value) or is_spoken(value):
        return False
    if not known.digit.search(value) and not (known.upper.search(value) and known.lower.search(value)):
        return False
    return not is_composed(value) and entropy(value) >= 2.8


def is_password(value: bytes) -> bool:
    """Whether a person or a generator could have chosen this as a password, and it is not a word of documentation."""
    known = likeness()
    if len(value) < 6 or value.lower() in known.weak or is_stand_in(value) or is_public(value):
        return False
    has_digit, has_letter = known.digit.search(value), known.letter.search(value)
    if not has_letter or (not has_digit and not known.symbol.search(value)):
        return False
    if is_spoken(value):
        return False
    return len(set(value)) >= 5
