"""A literal and slow implementation of docs/hash-keys.md, which the product's keys are compared with.

It shares nothing with the product and avoids regular expressions; each function is one passage of the document.
`python -m tests.knowledge.literal_keys` rewrites the vectors.
"""

from __future__ import annotations

import json
from pathlib import Path
from unicodedata import ucd_3_2_0 as unicode_3_2

from .literal_stem import stem

VECTORS = Path(__file__).with_name("vectors") / "hash_keys.json"
DIGITS = "0123456789"
SMALL = "abcdefghijklmnopqrstuvwxyz"
CAPITAL = SMALL.upper()
EXTENSIONS = """c cc cfg cjs cpp cs exs h hpp htm ini ipynb jl js jsonl jsx kt md mjs pl ps1 py pyi rb rs rst scss sh tf
    ts tsx txt yml zsh""".split()  # noqa: SIM905
STOP = """a about after all also am an and any are as at be because been before being both but by can could did do
    does doing done during each etc for from had has have having he her here him his how i if in into is it its just
    may me might more most must my no nor not of off on once only or other our out over own same shall she should so
    some such than that the their them then there these they this those through to too under until up us very was we
    were what when where which while who whom why will with would you your
    e.g i.e vs dont doesnt didnt isnt cant wont""".split()  # noqa: SIM905
WITHOUT_SPACES = [
    (0x0E01, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3005, 0x3007),
    (0x3041, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
]


def is_ascii(text: str) -> bool:
    return all(ord(c) < 128 for c in text)


def is_alphanumeric(c: str) -> bool:
    return c in DIGITS or c in SMALL or c in CAPITAL or ord(c) >= 128


def strip(text: str, off: str) -> str:
    while text and text[0] in off:
        text = text[1:]
    while text and text[-1] in off:
        text = text[:-1]
    return text


# 1. Cleaning a text


def normalise(text: str) -> str:
    out, stretch = "", ""
    for c in text:
        if unicode_3_2.category(c) == "Cn":
            out += unicode_3_2.normalize("NFKC", stretch) + c
            stretch = ""
        else:
            stretch += c
    return out + unicode_3_2.normalize("NFKC", stretch)


def clean(text: str) -> str:
    if is_ascii(text):
        return text
    seen = ""
    for c in text:
        category = unicode_3_2.category(c)
        if category == "Cf" or 0xFE00 <= ord(c) <= 0xFE0F:
            continue
        seen += " " if category == "Cs" else c
    out = ""
    for c in normalise(seen):
        category = unicode_3_2.category(c)
        if ord(c) < 128:
            out += c
        elif c in "。؟۔।॥։።":
            out += "!"
        elif ord(c) == 0x2010:
            out += "-"
        elif ord(c) == 0x2019:
            out += "'"
        elif category[0] in "LMN" or category == "Co" or category == "Cn":
            out += c
        else:
            out += " "
    return out


# 2. Tokens and sentences


def char_at(text: str, place: int) -> str:
    return text[place] if 0 <= place < len(text) else " "


def apostrophes(text: str) -> str:
    out, i = "", 0
    while i < len(text):
        if text[i] == "'" and is_alphanumeric(char_at(text, i - 1)):
            if (
                char_at(text, i + 1) in "sS"
                and not is_alphanumeric(char_at(text, i + 2))
                and char_at(text, i + 2) != "_"
            ):
                i += 2
                continue
            if is_alphanumeric(char_at(text, i + 1)):
                i += 1
                continue
        out += text[i]
        i += 1
    return out


def commas(text: str) -> str:
    out = ""
    for i, c in enumerate(text):
        three = all(char_at(text, i + n) in DIGITS for n in (1, 2, 3)) and char_at(text, i + 4) not in DIGITS
        if not (c == "," and char_at(text, i - 1) in DIGITS and three):
            out += c
    return out


def tokens(text: str) -> list[str]:
    """Tokens, and a "" wherever a sentence ends."""
    out: list[str] = []
    token = ""
    for c in commas(apostrophes(clean(text))) + " ":
        if is_alphanumeric(c) or c in "_-./:":
            token += c
            continue
        if token:
            out.append(token)
            if token.endswith("."):
                out.append("")
        token = ""
        if c in "!?;":
            out.append("")
    return out


# 3. The keys and words of a token


def fold(text: str) -> str:
    out = ""
    for c in text:
        if c == "ς":
            out += "σ"
        elif unicode_3_2.category(c) in ("Lu", "Lt"):
            out += c.lower()[0]
        else:
            out += c
    return out if is_ascii(text) else normalise(out)


class Meaning:
    def __init__(self) -> None:
        self.concepts: list[str] = []
        self.names: list[str] = []
        self.words: list[str] = []
        self.joined: list[str] = []
        self.key: str | None = None


def pieces_of(token: str) -> list[str]:
    pieces, piece, i = [], "", 0
    while i < len(token):
        if token[i] in "-./:" and char_at(token, i + 1) == token[i]:
            same = token[i]
            while char_at(token, i) == same:
                i += 1
            pieces.append(piece)
            piece = ""
        else:
            piece += token[i]
            i += 1
    return [stripped for stripped in (strip(p, "-./:") for p in [*pieces, piece]) if stripped]


def read_token(token: str) -> Meaning:
    meaning = Meaning()
    pieces = pieces_of(token)
    for piece in pieces:
        if ":" not in piece:
            meaning.key = read_path(piece, meaning)
            continue
        parts = [strip(part, "-./") for part in piece.split(":")]
        is_concept = "" not in parts and "." not in piece and "/" not in piece and piece[0] not in DIGITS + "_"
        meaning.key = None
        if is_concept:
            meaning.key = ":".join(fold(part) for part in parts)
            meaning.concepts.append(meaning.key)
        for part in parts:
            read_path(part, meaning)
    if len(pieces) != 1:
        meaning.key = None
    return meaning


def read_path(path: str, meaning: Meaning) -> str | None:
    if "/" not in path:
        return read_name(path, meaning)
    key = None
    for segment in path.split("/"):
        key = read_name(strip(segment, "-."), meaning)
    return key if key and "." in key and not is_number(key) else None


def read_name(name: str, meaning: Meaning) -> str | None:
    if "." in name:
        cut = name.rindex(".")
        extension = name[cut + 1 :]
        if is_ascii(extension) and extension.lower() in EXTENSIONS:
            meaning.names.append(fold(name))
            read_other_name(strip(name[:cut], "-."), meaning)
            return fold(name)
    return read_other_name(name, meaning)


def is_number(text: str) -> bool:
    if text.startswith("v"):
        text = text[1:]
    groups = text.replace("-", ".").split(".")
    return all(group and all(c in DIGITS for c in group) for group in groups)


def is_grouped(text: str) -> bool:
    first, *groups = text.split("_")
    digits = all(c in DIGITS for c in text.replace("_", ""))
    return digits and 1 <= len(first) <= 3 and groups != [] and all(len(group) == 3 for group in groups)


def read_other_name(name: str, meaning: Meaning) -> str | None:
    folded = fold(name)
    if is_grouped(folded):
        folded = folded.replace("_", "")
    if is_number(folded):
        meaning.words.append(folded)
        return folded
    if folded in STOP or all(c in "_-." for c in name):
        return None
    is_plain = "_" not in name and "-" not in name and "." not in name
    for undotted in name.split("."):
        part_words: list[str] = []
        for part in undotted.replace("_", "-").split("-"):
            for piece in camel_pieces(part):
                part_words += words_of(fold(piece))
        meaning.words += part_words
        joined = words_of(fold(undotted.replace("_", "").replace("-", "")))
        if len(joined) == 1 and joined != part_words and not is_number(joined[0]):
            meaning.joined += joined
            if is_plain:
                meaning.names += joined
    if not is_plain:
        meaning.names.append(folded)
        return folded
    return joined[0] if len(joined) == 1 else None


def camel_pieces(part: str) -> list[str]:
    pieces = [""]
    for i, c in enumerate(part):
        previous, following, second_next = char_at(part, i - 1), char_at(part, i + 1), char_at(part, i + 2)
        if c in CAPITAL:
            plural = following == "s" and second_next not in SMALL
            if previous in SMALL + DIGITS or (previous in CAPITAL and following in SMALL and not plural):
                pieces.append("")
        pieces[-1] += c
    return [piece for piece in pieces if piece]


def writes_no_spaces(c: str) -> bool:
    return any(first <= ord(c) <= last for first, last in WITHOUT_SPACES)


def words_of(piece: str) -> list[str]:
    runs: list[str] = []
    for i, c in enumerate(piece):
        if i and writes_no_spaces(piece[i - 1]) == writes_no_spaces(c):
            runs[-1] += c
        else:
            runs.append(c)
    words: list[str] = []
    for run in runs:
        if writes_no_spaces(run[0]):
            words += [run] if len(run) == 1 else [run[i] + run[i + 1] for i in range(len(run) - 1)]
        elif not is_ascii(run) or not all(c in SMALL for c in run):
            words.append(run)
        elif run not in STOP and not is_plural_of_stop_word(run):
            word = stem(run)
            if word in STOP:
                word += "e"
            if word not in STOP:
                words.append(word)
    return words


def is_plural_of_stop_word(word: str) -> bool:
    return len(word) >= 4 and word[-1] == "s" and word[-2] not in ("s", "u") and word[:-1] in STOP


# 4. Normalising a given key


def given_key(text: str) -> str | None:
    meanings = [read_token(token) for token in tokens(text) if token]
    meanings = [meaning for meaning in meanings if meaning.words or meaning.key]
    if len(meanings) == 1 and meanings[0].key is not None:
        key = meanings[0].key
    else:
        key = "+".join(word for meaning in meanings for word in meaning.words)
    return key if 1 <= len(key) <= 80 else None


# 5. The names a pointer leads to


def decode(text: str) -> str:
    raw, i = b"", 0
    while i < len(text):
        pair = text[i + 1 : i + 3]
        if text[i] == "%" and len(pair) == 2 and all(c in DIGITS + "abcdefABCDEF" for c in pair):
            raw += bytes([int(pair, 16)])
            i += 3
        else:
            raw += text[i].encode()
            i += 1
    return raw.decode(errors="replace")


def pointer_texts(ref: str) -> list[str]:
    scheme, _, address = ref.partition(":")
    if scheme == "artifact" and address.startswith("sha256:"):
        return []
    place = address[: address.rindex("@")]
    if scheme == "sam":
        return [decode(place)]
    if scheme == "test":
        first, *others = decode(place).split("::")
        return [first.split("/")[-1], *others]
    if scheme == "url":
        host, *segments = place[len("https://") :].split("?")[0].split("/")
        return [decode(segments[-1]), host] if segments and segments[-1] else [host]
    path, mark, fragment = place.partition("#")
    headings = fragment[len("sec=") :].split("/") if scheme == "artifact" and mark else []
    return [decode(text) for text in [path.split("/")[-1], *headings]]


# 6. and 7. The keys of an engram and of a query


class Reading:
    def __init__(self, text: str) -> None:
        self.concepts: list[str] = []
        self.names: list[str] = []
        self.both: list[str] = []
        self.joined: list[str] = []
        self.sentences: list[list[str]] = [[]]
        for token in tokens(text):
            if not token:
                self.sentences.append([])
                continue
            meaning = read_token(token)
            self.concepts += meaning.concepts
            self.names += meaning.names
            self.both += meaning.concepts + meaning.names
            self.joined += meaning.joined
            self.sentences[-1] += meaning.words


def phrases(sentences: list[list[str]]) -> list[str]:
    out = []
    for length in (2, 3, 4, 5):
        for sentence in sentences:
            for start in range(len(sentence)):
                if start + length <= len(sentence):
                    out.append("+".join(sentence[start : start + length]))
    return out


def distinct(keys: list[str]) -> list[str]:
    out: list[str] = []
    for key in keys:
        if key not in out and len(key) <= 80:
            out.append(key)
    return out


def engram_keys(claim: str, refs: list[str], tags: list[str], own_texts: list[str]) -> tuple[list[str], list[str]]:
    own_keys = [key for text in own_texts if (key := given_key(text)) is not None]
    reading = Reading(claim)
    concepts, names, sentences = list(reading.concepts), list(reading.names), list(reading.sentences)
    joined = list(reading.joined)
    for tag in tags:
        key = given_key(tag)
        reading = Reading(tag)
        concepts += ([key] if key is not None else []) + reading.concepts
        names += reading.names
        joined += reading.joined
        sentences += reading.sentences
    files: list[str] = []
    for ref in refs:
        for i, text in enumerate(pointer_texts(ref)):
            key = given_key(text)
            reading = Reading(text)
            files += ([key] if key is not None and i == 0 else []) + reading.both
            joined += reading.joined
            sentences += reading.sentences
    words = [word for sentence in sentences for word in sentence]
    singles = distinct(own_keys + concepts + names + files + words + joined)
    public = distinct(singles + phrases(sentences))[:32]
    return public, [key for key in singles[32:] if "+" not in key]


def question_keys(text: str) -> list[str]:
    reading = Reading(text)
    words = [word for sentence in reading.sentences for word in sentence]
    return distinct(reading.concepts + reading.names + words + reading.joined + phrases(reading.sentences))[:32]


def main() -> None:
    """Rewrite the expected keys of every case in the vectors."""
    cases = json.loads(VECTORS.read_text("utf-8"))
    for case in cases["engrams"]:
        public, extra = engram_keys(case["claim"], case.get("refs", []), case.get("tags", []), case.get("given", []))
        case["public"], case["more"] = public, extra
    for case in cases["questions"]:
        case["keys"] = question_keys(case["text"])
    for case in cases["given"]:
        case["key"] = given_key(case["text"])
    VECTORS.write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
