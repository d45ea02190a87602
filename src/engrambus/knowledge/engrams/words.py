"""From text to the words it is found by. docs/hash-keys.md is the definition, this a fast implementation of it.

The result does not depend on the Python version: letters outside ASCII are classified by Unicode 3.2, whose tables
every Python has unchanged, and a character newer than that counts as a letter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple
from unicodedata import ucd_3_2_0

from engrambus.knowledge.engrams.stems import stem

MAX_KEY = 80
"""Most characters of a key."""

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being both but by can could did do does
    doing done during each etc for from had has have having he her here him his how i if in into is it its just may
    me might more most must my no nor not of off on once only or other our out over own same shall she should so some
    such than that the their them then there these they this those through to too under until up us very was we were
    what when where which while who whom why will with would you your e.g i.e vs dont doesnt didnt isnt cant wont
    """.split()  # noqa: SIM905
)
"""Words that are too common to find anything by."""

EXTENSIONS = frozenset(
    """c cc cfg cjs cpp cs exs h hpp htm ini ipynb jl js jsonl jsx kt md mjs pl ps1 py pyi rb rs rst scss sh tf ts tsx
    txt yml zsh
    """.split()  # noqa: SIM905
)
"""File extensions that are no words: in `vendor_client.py` the words are vendor and client."""

_TOKEN = re.compile("[^\x00-,;-@\\[-^`{-\x7f]+|[!?;]")
_ALPHANUMERIC = (
    "[^\\x00-/:-@\\[-`{-\\x7f]"  # by excluding ASCII's other characters: compiles faster than listing letters
)
_APOSTROPHE = re.compile(f"(?<={_ALPHANUMERIC})'(?:[sS](?!_|{_ALPHANUMERIC})|(?={_ALPHANUMERIC}))")
_THOUSANDS = re.compile("(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_DOUBLED = re.compile(r"--+|\.\.+|//+|::+")
_NUMBER = re.compile("v?[0-9]+(?:[.-][0-9]+)*")
_GROUPED_DIGITS = re.compile("[0-9]{1,3}(?:_[0-9]{3})+")
_PARTS = re.compile("[^._-]+")
_JOINERS = str.maketrans("", "", "_-")
_CAMEL = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])")
# Scripts without spaces between words: their text is cut into overlapping pairs of characters.
_NO_SPACES = re.compile(
    "([\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]+)"
)
_BREAKS = frozenset("!?;")
_SENTENCE_ENDS = "。؟۔।॥։።"
_MAX_CACHED_CHARS = 64  # longer tokens are hashes and encoded data, which do not come again


class Token(NamedTuple):
    """The meaning of one token of a text."""

    concepts: tuple[str, ...]
    """Keys such as `service:gateway`."""
    identifiers: tuple[str, ...]
    """Complete names: `vendor_client.py`, `httpserver`."""
    words: tuple[str, ...]
    """Its words, in order, without stop words."""
    joined: tuple[str, ...]
    """Names of several words written as one: `vendorclient` of `vendor_client` and `VendorClient`, stemmed."""
    alone: str | None
    """Its key if it is the whole text."""
    last: bool
    """True if a sentence ends with it."""


_BREAK = Token((), (), (), (), None, True)


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text, in order."""
    if not text.isascii():
        text = clean(text)
    if "'" in text:
        text = _APOSTROPHE.sub("", text)
    if "," in text:
        text = _THOUSANDS.sub("", text)
    return [read_token(token) if len(token) <= _MAX_CACHED_CHARS else _analyse(token) for token in _TOKEN.findall(text)]


class _Reading:
    """The keys and words that were found in a token so far."""

    __slots__ = ("concepts", "identifiers", "joined", "words")

    def __init__(self) -> None:
        self.concepts: list[str] = []
        self.identifiers: list[str] = []
        self.words: list[str] = []
        self.joined: list[str] = []


def _analyse(token: str) -> Token:
    if token in _BREAKS:
        return _BREAK
    if token.isascii() and token.isalpha() and token.islower():  # most tokens are plain words
        word = _word(token)
        return Token((), (), (word,) if word else (), (), word, False)
    reading = _Reading()
    runs = [run for run in (part.strip("-./:") for part in _DOUBLED.split(token)) if run]
    alone: str | None = None
    for run in runs:
        if ":" in run:
            parts = [part.strip("-./") for part in run.split(":")]
            concept = _concept(run, parts)
            if concept:
                reading.concepts.append(concept)
            alone = concept
            for part in parts:
                _read_path(part, reading)
        else:
            alone = _read_path(run, reading)
    if len(runs) != 1:
        alone = None
    return Token(
        tuple(reading.concepts),
        tuple(reading.identifiers),
        tuple(reading.words),
        tuple(reading.joined),
        alone,
        token[-1] == ".",
    )


read_token = lru_cache(maxsize=8192)(_analyse)
"""Return the meaning of a token; cached, so for tokens that are not long."""


def _concept(run: str, parts: list[str]) -> str | None:
    """Return a key such as `service:gateway`; None for a path, a dotted name, or text that starts with a digit."""
    if run[0] in "0123456789_" or not all(parts) or "." in run or "/" in run:
        return None
    return ":".join(map(_fold, parts))


def _read_path(path: str, reading: _Reading) -> str | None:
    """Read the segments of a path; return the key of its only segment, or of a file name at its end."""
    if "/" not in path:
        return _read_name(path, reading)
    key = None
    for segment in path.split("/"):
        key = _read_name(segment.strip("-."), reading)
    return key if key is not None and "." in key and not _NUMBER.fullmatch(key) else None


def _read_name(name: str, reading: _Reading) -> str | None:
    """Read one segment; a file name is a key itself, and the part before its extension is read as a name."""
    stems, dot, extension = name.rpartition(".")
    if not dot or extension.lower() not in EXTENSIONS:
        return _read_plain(name, reading)
    folded = _fold(name)
    reading.identifiers.append(folded)
    _read_plain(stems.strip("-."), reading)
    return folded


def _read_plain(name: str, reading: _Reading) -> str | None:
    folded = _fold(name)
    if _GROUPED_DIGITS.fullmatch(folded):
        folded = folded.replace("_", "")
    if _NUMBER.fullmatch(folded):
        reading.words.append(folded)
        return folded
    parts = _PARTS.findall(name)
    if not parts or folded in STOP_WORDS:
        return None
    if parts[0] != name:
        for undotted in name.split("."):
            _read_undotted(undotted, reading)
        reading.identifiers.append(folded)
        return folded
    joined_before = len(reading.joined)
    key = _read_undotted(name, reading)
    reading.identifiers += reading.joined[joined_before:]
    return key


def _read_undotted(name: str, reading: _Reading) -> str | None:
    """Read a name without dots: its words, and all of them as one if they are several. Return them as one."""
    words = [word for part in _PARTS.findall(name) for piece in _CAMEL.split(part) for word in _words(_fold(piece))]
    reading.words += words
    joined = _words(_fold(name.translate(_JOINERS)))
    if len(joined) != 1:
        return None
    if joined != words and not _NUMBER.fullmatch(joined[0]):
        reading.joined += joined
    return joined[0]


def _words(text: str) -> list[str]:
    """Return the words of a piece without joiners: one, none, or character pairs of a script without spaces."""
    if text.isascii():
        word = _word(text) if text.isalpha() else text
        return [word] if word else []
    words: list[str] = []
    for position, run in enumerate(_NO_SPACES.split(text)):
        if position % 2:
            words += [run[index : index + 2] for index in range(max(len(run) - 1, 1))]
        elif run:
            words += _words(run) if run.isascii() else [run]
    return words


def _word(text: str) -> str | None:
    """Return the stem of a word of ASCII letters; None for a stop word and for the plural of one."""
    if text in STOP_WORDS or (
        text[-1] == "s" and len(text) > 3 and text[-2] not in "su" and text[:-1] in STOP_WORDS  # `others`, `yours`
    ):
        return None
    word = stem(text)
    if word in STOP_WORDS:  # `use` is not the pronoun `us`
        word += "e"
        return None if word in STOP_WORDS else word
    return word


class _Table(dict[int, str]):
    """A translation table that is filled on demand."""

    def __missing__(self, code: int) -> str:
        self[code] = replacement = self.replace(chr(code))
        return replacement

    def replace(self, character: str) -> str:
        raise NotImplementedError


class _Visible(_Table):
    def replace(self, character: str) -> str:
        if "\ufe00" <= character <= "\ufe0f":
            return ""
        category = ucd_3_2_0.category(character)
        return "" if category == "Cf" else " " if category == "Cs" else character


class _Separated(_Table):
    def replace(self, character: str) -> str:
        if character.isascii():
            return character
        if character in _SENTENCE_ENDS:
            return "!"
        if character in "\u2010\u2019":
            return "-" if character == "\u2010" else "'"
        category = ucd_3_2_0.category(character)
        return character if category[0] in "LMN" or category in ("Cn", "Co") else " "


class _Lower(_Table):
    def replace(self, character: str) -> str:
        if character == "ς":
            return "σ"
        if ucd_3_2_0.category(character) in ("Lu", "Lt"):
            return character.lower()[0]
        return character


_visible = _Visible()
_separated = _Separated()
_lower = _Lower()


def clean(text: str) -> str:
    """Return a text with the characters that only separate replaced by spaces, and the others in one form."""
    return _nfkc(text.translate(_visible)).translate(_separated)


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else _nfkc(text.translate(_lower))


def _nfkc(text: str) -> str:
    """Return the text in NFKC by Unicode 3.2; characters it does not know stay, and separate their neighbours."""
    return "".join(
        "".join(run) if unknown else ucd_3_2_0.normalize("NFKC", "".join(run))
        for unknown, run in groupby(text, lambda character: ucd_3_2_0.category(character) == "Cn")
    )
