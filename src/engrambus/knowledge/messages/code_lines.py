"""The score of a single line: lexical features, and the points that each of them is worth.

Every count has a cap and no pattern nests repetitions, so a line costs one linear pass for each pattern.
`docs/inline-code.md` is the definition; the points were fitted on the tuning half of the corpus in `tests/code` and
rounded to integers.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final

MAX_LINE_CHARS: Final = 240
"""A longer line is scored in pieces of at most this many characters."""

_STRING = re.compile(r'"[^"]*"|(?<![\w\'])\'[^\']*\'(?!\w)')
_NUMBERED = re.compile(r"[ \t]{0,8}\d{1,6}(?:[ \t]?[|:→│]|\t)(?=[ \t]|$)")
_QUOTE_MARK = re.compile(r"(?:[ \t]{0,3}>[ \t]?(?![>=]))+")
_COMMENT = re.compile(r"(?:^|[ \t;{}),])(?://|/\*|#[ \t]).*$|^--[ \t].*$")
_PLAIN = re.compile(r"(?<![\w./:@#$<>=*&\\-])(?:[A-Za-z][a-z]+|[AaI]|[A-Z]+)(?:['’-][a-z]+)?(?![\w/:@#$<>=*&\\({\[-])")

_WORD = re.compile(r"\w+")
_MARKS = re.compile(r"[^\w .,\-'’]")

_BLOCK = (
    "def|class|if|elif|else|for|while|try|except|finally|with|async|match|case|switch|do|catch|function|fn|func|sub|"
    "struct|enum|union|interface|impl|trait|module|namespace|begin|unless|loop|template|default|cdef|cpdef|foreach"
)
_STATEMENT = (
    "return|raise|import|from|assert|del|yield|await|lambda|global|nonlocal|break|continue|pass|let|const|var|public|"
    "private|protected|static|final|extern|typedef|unsigned|void|int|char|bool|float|double|auto|use|mod|pub|package|"
    "export|throw|new|goto|include|require|local|set|unset|echo|then|fi|done|esac|end|endif|source|test|alias|print|"
    "struct|enum|cimport|inline|type|defer|go|val|override|abstract|using|extends|elif"
)
_MODIFIER = "async|export|pub|public|private|static|default|abstract|inline|extern|cdef|cpdef"
_DECLARATIONS = "def|class|function|fn|func|struct|enum|interface|impl|trait|namespace|typedef|cdef|cpdef|type"
_BARE_BLOCK = "else|try|finally|do|begin|then|loop"
_IMPORTS = "import|from|use|using|#include|require|package|cimport|source"
_SQL = (
    "SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER|DROP|FROM|WHERE|GROUP BY|ORDER BY|JOIN|VALUES|PRIMARY KEY|"
    "NOT NULL|UNIQUE|REFERENCES|ON CONFLICT|RETURNING|TEXT|INTEGER|BIGINT|VARCHAR|LIMIT|INNER|LEFT"
)
COMMON = frozenset(
    re.findall(
        r"\w+",
        "the a an of to is are be that this it by was were can will which should when has have and on now or as at "
        "its not may must any all you we they their then than but only also because so there where who how what "
        "into does do such same one if no more been being would could your our these those",
    )
)
CODE_WORDS = frozenset(f"{_BLOCK}|{_STATEMENT}".split("|")) | {"in", "is", "not", "and", "or", "as", "self"}

# decision 39: the patterns below are strings; each is compiled for the first line that it could match.
# name → (pattern, cap). Counted on the line without its strings and its comment.
COUNTED: Final[dict[str, tuple[str, int]]] = {
    "call": (r"[\w\])>]\((?!\)|s\)|es\)|ies\))", 3),
    "empty call": (r"\w\(\)", 2),
    "method call": (r"\.\w+\((?!\))", 2),
    "operator": (
        r"===?|!==?|&&|\|\||->|=>|::|[-+*/|&^%:]=|\+\+|<<|>>|\?\.|\$[({]|\[\[|\]\]|\?\?",
        4,
    ),
    "spaced assignment": (r"[\w\])}\"'*] [-+*/|&:.?%]?= ?", 2),
    "tight assignment": (r"[\w\]]=[^\s=]", 3),
    "comparison": (r"[\w)\]] (?:[<>]=?|[+*/%^|&]) [\w(\"'-]", 2),
    "subscript": (r"[\w)]\[(?!\])", 2),
    "bracket list": (r"(?<![\w\])])\[[\w\"']", 1),
    "brace": (r"[{}]", 3),
    "semicolon": (r";(?=\s*$|\S)", 3),
    "sigil": (r"(?<![\w$])[$%@&][A-Za-z_{]|(?<![\w*])\*{1,2}[a-z_]\w*(?![\w*])|\bself\.", 2),
    "name": (r"[a-z0-9]_[a-z0-9]|[a-z][A-Z]|\b__\w|\b_[a-z]", 4),
    "constant": (r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]*", 2),
    "dotted": (r"[A-Za-z_]\w*\.[A-Za-z_]", 2),
    "tag": (r"</?[A-Za-z][\w:.-]*(?=[\s/>])[^<>]*/?>?|/>", 3),
    "attribute": (r"[\w-]=\"\"", 2),
    "annotated": (r"[\w)\]]: ?[A-Za-z_][\w.]*(?=[,)=\[|]| =|$)", 2),
    "arrow": (r"->|=>", 1),
    "pointer": (r"\w \*{1,2}\w|\w\* \w|\w\*\)", 2),
    "number": (r"\b0x[0-9a-fA-F]+|[\[(=,] ?-?\d", 2),
    "long flag": (r"(?:^| )--?[a-zA-Z][\w-]*", 2),
    "sql": (rf"\b(?:{_SQL})\b", 3),
    "tight comma": (r"[\w\"')\]],(?=[\w\"'(\[])", 2),
    "string and comma": (r"[\"'],", 2),
}

# name → pattern tried at the start of the line.
OPENING: Final[dict[str, str]] = {
    "directive": r"#[ \t]*(?:include|define|if|ifdef|ifndef|endif|else|elif|undef|pragma|error)\b",
    "declaration": (
        rf"(?:(?:{_MODIFIER})\s)*(?:{_DECLARATIONS})\s+[\w*&]+"
        r"\s*(?:[(<\[{:=]|[*&]|$|\w+[\[({])"
    ),
    "block": rf"(?:}}\s*)?(?:{_BLOCK})\b[^.?!]*[:{{(]$|(?:{_BARE_BLOCK}):?$",
    "statement": rf"(?:{_STATEMENT})\b(?=[ \t]*[\w\"'\[({{$*&!.<@-]*(?:[;,)]?$|[.([=:<>|]|[ \t][=|&?*]|[ \t]import\b))",
    "statement word": rf"(?:{_STATEMENT}|{_BLOCK})\b(?![-'’])",
    "import": (
        rf"(?:{_IMPORTS})\s+[\w.\"'<{{*:@/-]+[^ ]*"
        r"(?:;|$|\s+c?import\b)"
    ),
    "assignment": r"[\w.$\[\]\"'*&@-]+(?:: ?[^=]+)?\s*[-+*/|&^%:?.]?=(?![=>])\s*",
    "key": r"(?:- )?[\"']?[\w.@/$-]+[\"']?\s?:(?:\s|$)",
    "quoted key": r"\"\"\s*:|'[^']*'\s*:",
    "string": r"[rbfu]?[\"'].*[\"'][,;)\]:]*$",
    "decorator": r"@[A-Za-z_][\w.]*(?:\(|$)",
    "section": r"\[\[?[\w.\"-]+\]\]?$",
    "tag first": r"<[/!?A-Za-z]",
    "prompt": r"(?:>>>|\.\.\.|[$%]|PS>) \S",
    "call first": r"[\w.$:>-]+[!?]?\((?!\)$)",
    "lone call": r"[\w$]+\((?!\)).*\)[;,]?$|[\w$]+\.[\w.$]+\(.*\)[;,]?$|\w+\(\);$",
    "pipeline": r"[a-z][\w.-]* [^|]*\| ?(?:grep|awk|sed|sort|uniq|xargs|head|tail|tee|wc|cut|jq|less|tr|cat)\b",
    "query": r"(?:select|SELECT)\s.{1,80}\s(?:from|FROM)\s|(?:insert into|delete from|alter table|create table) \S",
    "closing": r"[)\]}]+[ \t;,.:({)\]}]*",
    "chained": r"\.\w+\(|&& |\|\| |\| \w|\+ [\"'\w]|\? |: [\w\"']",
    "trace": r"File \"\", line \d|at [\w.$<>]+\(|Traceback \(",
    "comment": r"//|/\*|\*/|<!--|--[ \t]|;;",
    "selector": r"[.#:\w\[\]=\"' >+~*,()-]+[{,]$",
    "capital": r"[\"'(*_]*[A-Z][a-z]+,? [a-z]",
    "item": r"(?:[-*+•]|\d{1,3}(?:\.\d{1,3})*[.)]?) ",
    "field": r":[\w* ]+:\s|[A-Z][A-Za-z_ -]+:(?:\s|$)|[a-z_]\w*: [A-Z][a-z]+ [a-z]",
}

# name → pattern searched before the end of the line.
ENDING: Final[dict[str, str]] = {
    "ends ;": r";$",
    "ends open": r"[{(\[]$",
    "ends }": r"\}[,;)]*$",
    "ends )": r"\)$",
    "ends );": r"\)+[,;:]$",
    "ends ],": r"\][,;:]?$",
    "ends ,": r",$",
    "ends :": r":$",
    "ends \\": r"\\$",
    "ends string": r"[\"'],?$",
    "ends operator": r"(?:[=+*/|&<?]|\band|\bor)$",
    "ends sentence": r"[^\s.][.!?][\"')*_]*$",
    "ends word": r"(?:^| )[a-z]+$",
}

SHAPES: Final = (
    "bias", "indent 2", "indent 4", "has comment", "no words", "strings", "unbalanced", "dense 10", "dense 20",
    "dense 30", "one word", "two words", "plain", "plain run 3", "plain run 5", "plain run 8", "common", "commas",
    "mostly plain",
)  # fmt: skip

# decision 14: name → literals without which its pattern matches nothing; it is tried only on lines with one of them.
# Strings are replaced before matching, so the literals are looked for in the original line. A pattern that is not
# listed is tried on every line.
NEEDED: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(literals.split())
    for name, literals in {
        "call": "(",
        "empty call": "(",
        "method call": "(",
        "operator": "= & | > : + < ? $ [ ]",
        "spaced assignment": "=",
        "tight assignment": "=",
        "comparison": "< > + * / % ^ | &",
        "subscript": "[",
        "bracket list": "[",
        "brace": "{ }",
        "semicolon": ";",
        "sigil": "$ % @ & * self.",
        "constant": "_",
        "dotted": ".",
        "tag": "< >",
        "attribute": "=",
        "annotated": ":",
        "arrow": ">",
        "pointer": "*",
        "number": "0x [ ( = ,",
        "long flag": "-",
        "sql": "E I O V",
        "tight comma": ",",
        "string and comma": ",",
        "directive": "#",
        "assignment": "=",
        "key": ":",
        "quoted key": ":",
        "string": "\" '",
        "decorator": "@",
        "section": "[",
        "tag first": "<",
        "prompt": "> . $ %",
        "call first": "(",
        "lone call": "(",
        "pipeline": "|",
        "closing": ") ] }",
        "chained": ". & | + ? :",
        "trace": "\" ' (",
        "comment": "/ * < - ;",
        "selector": "{ ,",
        "field": ":",
        "ends ;": ";",
        "ends open": "{ ( [",
        "ends }": "}",
        "ends )": ")",
        "ends );": ")",
        "ends ],": "]",
        "ends ,": ",",
        "ends :": ":",
        "ends \\": "\\",
        "ends string": "\" '",
        "ends sentence": ". ! ?",
    }.items()
}
# name → the words that a matching line can begin with, after an optional closing brace or #.
BEGINNING: Final[dict[str, frozenset[str]]] = {
    name: frozenset(words.replace("#", "").split("|"))
    for name, words in {
        "declaration": f"{_MODIFIER}|{_DECLARATIONS}",
        "block": f"{_BLOCK}|{_BARE_BLOCK}",
        "statement": _STATEMENT,
        "statement word": f"{_STATEMENT}|{_BLOCK}",
        "import": _IMPORTS,
        "query": "select|SELECT|insert|delete|alter|create",
    }.items()
}
_BEGINNINGS: Final = frozenset(word for words in BEGINNING.values() for word in words)
_LITERALS: Final = frozenset(literal for literals in NEEDED.values() for literal in literals)
_CHARACTERS: Final = frozenset(literal for literal in _LITERALS if len(literal) == 1)
_Counted = tuple[str, re.Pattern[str], int]
_Placed = tuple[str, re.Pattern[str]]
_LONGER: Final = tuple(sorted(_LITERALS - _CHARACTERS))


POINTS: Final[dict[str, int]] = {
    "bias": 4,
    "indent 2": 2,
    "indent 4": 5,
    "has comment": 3,
    "no words": 2,
    "strings": -2,
    "unbalanced": 3,
    "dense 10": 0,
    "dense 20": 0,
    "dense 30": 2,
    "one word": -3,
    "two words": 0,
    "plain": -2,
    "plain run 3": -2,
    "plain run 5": 0,
    "plain run 8": -2,
    "common": -3,
    "commas": 0,
    "mostly plain": 0,
    "call": 0,
    "empty call": 0,
    "method call": 3,
    "operator": 5,
    "spaced assignment": 6,
    "tight assignment": 4,
    "comparison": 3,
    "subscript": 3,
    "bracket list": 0,
    "brace": 5,
    "semicolon": 3,
    "sigil": 4,
    "name": 1,
    "constant": 3,
    "dotted": -3,
    "tag": 7,
    "attribute": 3,
    "annotated": 5,
    "arrow": -1,
    "pointer": 2,
    "number": 1,
    "long flag": 4,
    "sql": 10,
    "tight comma": 2,
    "string and comma": 2,
    "directive": 10,
    "declaration": 8,
    "block": 7,
    "statement": 6,
    "statement word": 5,
    "import": 8,
    "assignment": 9,
    "key": 4,
    "quoted key": 6,
    "string": 3,
    "decorator": 6,
    "section": 6,
    "tag first": 8,
    "prompt": 8,
    "call first": 3,
    "lone call": 8,
    "pipeline": 18,
    "query": 20,
    "closing": 4,
    "chained": 4,
    "trace": 12,
    "comment": 4,
    "selector": 2,
    "capital": -4,
    "item": -7,
    "field": -9,
    "ends ;": 8,
    "ends open": 6,
    "ends }": 6,
    "ends )": 1,
    "ends );": 4,
    "ends ],": 4,
    "ends ,": 2,
    "ends :": -2,
    "ends \\": 4,
    "ends string": 3,
    "ends operator": 2,
    "ends sentence": -10,
    "ends word": 0,
}


@lru_cache(maxsize=4096)
def score(line: str) -> int:
    """Return the points of a line: positive if it looks like code, negative if it looks like prose."""
    return sum(POINTS[name] * count for name, count in features(line).items())


def strip_prefix(line: str) -> str:
    """Return the line without a line number or quotation marks that people put before pasted lines."""
    mark = _NUMBERED.match(line) or _QUOTE_MARK.match(line)
    return line[mark.end() :] if mark else line


def features(line: str) -> dict[str, int]:
    """Return the features of a line with their counts; most that are zero are left out."""
    line = strip_prefix(line.expandtabs(4))
    text = line.strip()
    if not text:
        return {}
    counts = {"bias": 1}
    indent = len(line) - len(line.lstrip())
    if indent >= 2:
        counts["indent 2"] = 1
    if indent >= 4:
        counts["indent 4"] = 1
    bare = _STRING.sub('""', text) if '"' in text or "'" in text else text
    opening = bare if text[0] not in "\"'" else text
    counts["strings"] = min(bare.count('""'), 3)
    may_have_comment = not text.startswith("#") and ("#" in text or "/" in text or text.startswith("--"))
    uncommented = _COMMENT.sub("", bare).rstrip() if may_have_comment else bare
    if uncommented != bare and uncommented:
        counts["has comment"] = 1
        bare = uncommented
    counted, openings, endings = _possible_patterns(_literals_in(text), first_word(opening))
    for name, pattern, cap in counted:
        count = 0
        for _ in pattern.finditer(bare):
            count += 1
            if count == cap:
                break
        if count:
            counts[name] = count
    for name, pattern in openings:
        if pattern.match(opening):
            counts[name] = 1
    last = bare[-40:]
    for name, pattern in endings:
        if pattern.search(last):
            counts[name] = 1
    _count_shapes(bare, counts)
    return counts


def _literals_in(text: str) -> frozenset[str]:
    return _CHARACTERS.intersection(text).union([literal for literal in _LONGER if literal in text])


def first_word(opening: str) -> str:
    """Return the word that a line begins with if some pattern depends on it, else an empty string."""
    word = _WORD.match(opening.lstrip("}#").lstrip())
    return word[0] if word and word[0] in _BEGINNINGS else ""


@lru_cache(maxsize=1024)
def _possible_patterns(literals: frozenset[str], first: str) -> tuple[list[_Counted], list[_Placed], list[_Placed]]:
    """Return the patterns that can match a line with exactly these literals and this first word."""

    def is_possible(name: str) -> bool:
        if name in BEGINNING:
            return first in BEGINNING[name]
        return name not in NEEDED or not literals.isdisjoint(NEEDED[name])

    return (
        [(name, _compiled(pattern), cap) for name, (pattern, cap) in COUNTED.items() if is_possible(name)],
        [(name, _compiled(pattern)) for name, pattern in OPENING.items() if is_possible(name)],
        [(name, _compiled(pattern)) for name, pattern in ENDING.items() if is_possible(name)],
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@lru_cache(maxsize=8192)
def _classify_word(word: str) -> tuple[bool, bool, bool]:
    """Return if a word is plain prose, a keyword of programming languages, and a common English word."""
    core = word.strip(",.;:!?\"'()*_’“”")
    is_code = core in CODE_WORDS
    return bool(_PLAIN.fullmatch(core)) and "(" not in word[1:] and not is_code, is_code, core.lower() in COMMON


def _count_shapes(bare: str, counts: dict[str, int]) -> None:
    squeezed = len(bare) - bare.count(" ")
    marks = len(_MARKS.findall(bare))
    for share in (10, 20, 30):
        if marks * 100 >= squeezed * share:
            counts[f"dense {share}"] = 1
    if sum(map(bare.count, "([{")) != sum(map(bare.count, ")]}")):
        counts["unbalanced"] = 1
    words = bare.split()
    if not any(char.isalpha() for char in bare):
        counts["no words"] = 1
    elif len(words) == 1:
        counts["one word"] = 1
    elif len(words) == 2:
        counts["two words"] = 1
    run = longest = plain = common = commas = 0
    for word in words:
        is_plain, is_code, is_common = _classify_word(word)
        common += is_common
        if is_plain or (is_code and run):
            run += 1
            plain += is_plain
            longest = max(longest, run)
            commas += word.endswith(",")
        else:
            run = 0
        if word[-1:] in ";:":
            run = 0
    counts["plain"] = min(plain, 6)
    for least in (3, 5, 8):
        if longest >= least:
            counts[f"plain run {least}"] = 1
    counts["common"] = min(common, 4)
    counts["commas"] = min(commas, 3)
    if plain * 10 >= len(words) * 8 and len(words) >= 3:
        counts["mostly plain"] = 1
