"""The score of a single line: lexical features, and the points that each of them is worth.

Every count has a cap and no pattern nests repetitions, so a line costs one linear pass for each pattern.
`docs/inline-code.md` is the definition.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final

from engrambus.knowledge.messages.code_formulas import is_formula
from engrambus.knowledge.messages.code_points import POINTS
from engrambus.knowledge.messages.code_statements import find_statement

MAX_LINE_CHARS: Final = 240
"""A longer line is scored in pieces of at most this many characters."""

_STRING = re.compile(r'"[^"]*"|(?<![\w\'])\'[^\']*\'(?!\w)')
_NUMBERED = re.compile(r"[ \t]{0,8}\d{1,6}(?:[ \t]?[|:→│]|\t)(?=[ \t]|$)")
_QUOTE_MARK = re.compile(r"(?:[ \t]{0,3}>[ \t]?(?![>=]))+")
_COMMENT = re.compile(r"(?:^|[ \t;{}),])(?://|/\*|#[ \t]).*$|^--[ \t].*$")
# Letters of any language: in most of them a capital inside a word is not what tells code from prose.
_PLAIN = re.compile(r"(?:[A-Za-z][a-z]+|[AaI]|[A-Z]+|[^\W\d_A-Z]*[^\x00-\x7f\W\d_][^\W\d_A-Z]*)(?:['’-][^\W\d_]+)?")

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
_IMPORTS = "import|use|using|#include|require|package|cimport|source"
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
_ONLY_IN_PROSE = frozenset(
    re.findall(
        r"\w+",
        "the The a A an of to are be that this This it It was were can will which should has have their they we We you "
        "but only because there these would could than been being also its into our your then when",
    )
)
"""Words of sentences that no programming language has."""
MIN_PROSE_WORDS: Final = 3
MAX_PROSE_MARKS: Final = 4
PROSE_POINTS: Final = -12
"""Points of a line with several words of sentences and few marks; its other features are not counted."""
_WITHOUT_MARKS = str.maketrans("", "", "{}()[]=;<>$|&+*^\"'@#\\~%_")
CODE_WORDS = frozenset(f"{_BLOCK}|{_STATEMENT}".split("|")) | {"in", "is", "not", "and", "or", "as", "self"}

# decision 39: the patterns below are strings; each is compiled for the first line that it could match.
# name → (pattern, cap). Counted on the line without its strings and its comment.
COUNTED: Final[dict[str, tuple[str, int]]] = {
    "call": (r"[\w\])>]\((?!\)|s\)|es\)|ies\))", 3),
    "empty call": (r"\w\(\)", 2),
    "method call": (r"\.\w+\((?!\))", 2),
    "operator": (
        r"===?|!==?|&&|\|\||->|=>|[-+*/|&^%:]=|\+\+|<<|>>|\?\.|\$[({]|\[\[|\]\]|\?\?",
        4,
    ),
    "path": (r"\w::\w", 3),
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
    "arrow": (r" (?:->|=>|==>) ", 2),
    "pointer": (r"\w \*{1,2}\w|\w\* \w|\w\*\)", 2),
    "number": (r"\b0x[0-9a-fA-F]+|[\[(=,] ?-?\d", 2),
    "long flag": (r"(?:^| )--?[a-zA-Z][\w-]*", 2),
    "sql": (rf"\b(?:{_SQL})\b", 3),
    "math sign": (r"[±≈≤≥≠∈∉∑Σ∏√∞∀∃·×÷⇒⇔→∂∇∪∩⊂⊆πσμλθ²³ⁿ₀-₉ⁱ]|\^[({]?\w|\b\d+[a-z](?![\w.])|\bO\([a-z]", 3),
    "prose word": (r"[^\x00-\x7f\W\d_]{2,}", 4),
    "masked": (r"\bx{4,}\b", 2),
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
    # Words that prose ends a line with, before an example, need a mark of code after them.
    "block": (
        rf"(?:}}\s*)?(?:{_BLOCK})\b(?:[^.?!]*[{{(]$|(?<!\bwith)(?<!\bfor)(?<!\bdo)(?<!default)(?<!template)(?<!function)"
        r"(?<!module)(?<!class)(?<!match)(?<!case)(?<!interface)[^.?!]*:$|[^.?!]*(?:[(\[{=_\"'.]| in | as )[^.?!]*:$)"
        rf"|(?:{_BARE_BLOCK}):?$"
    ),
    "statement": rf"(?:{_STATEMENT})\b(?=[ \t]*[\w\"'\[({{$*&!.<@-]*(?:[;,)]?$|[.([=:<>|]|[ \t][=|&?*]|[ \t]import\b))",
    "statement word": rf"(?:{_STATEMENT}|{_BLOCK})\b(?![-'’])",
    "import": rf"(?:{_IMPORTS})\s+[\w.\"'<{{*:@/-]+[^ ]*(?:;|(?<!\.)$|\s+c?import\b)|from\s+[\w.]+\s+c?import\b",
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
    "heading": r"#{1,6} \S",
    "numbered": (
        r"(?:(?:line|step|item|part|section|chapter|page|phase|stage|round|version|v) ?)?"
        r"\d{1,4}(?:\.\d{1,4}){0,4}[.):]?(?: |$)"
    ),
    "option": r"-{1,2}[A-Za-z][\w-]*(?:[,=\[ ]|$)",
    "log level": r"(?:FAILED|PASSED|ERROR|WARN|WARNING|INFO|DEBUG|FATAL|E  )\b",
    "scope": r"[a-z]+\([^()]{1,60}\)!?: ",
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
    "ends numbers": r"(?: {2,}-?[\d.,]+ ?[%\w]{0,2}){1,12}$",
    "ends sentence": r"[^\s.][.!?][\"')*_]*$",
    "ends word": r"(?:^| )[a-z]+$",
}

SHAPES: Final = (
    "bias", "indent 2", "indent 4", "has comment", "no words", "strings", "unbalanced", "dense 10", "dense 20",
    "dense 30", "one word", "two words", "plain", "plain run 3", "plain run 5", "plain run 8", "common", "commas",
    "mostly plain", "formula", "whole statement",
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
        "path": ":",
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
        "heading": "#",
        "option": "-",
        "scope": "(",
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
        "import": f"{_IMPORTS}|from",
        "query": "select|SELECT|insert|delete|alter|create",
    }.items()
}
_BEGINNINGS: Final = frozenset(word for words in BEGINNING.values() for word in words)
_LITERALS: Final = frozenset(literal for literals in NEEDED.values() for literal in literals)
_CHARACTERS: Final = frozenset(literal for literal in _LITERALS if len(literal) == 1)
_Counted = tuple[str, re.Pattern[str], int]
_Placed = tuple[str, re.Pattern[str]]
_LONGER: Final = tuple(sorted(_LITERALS - _CHARACTERS))


def count_marks(line: str) -> int:
    """Return how many characters of a line are of those that operators, brackets and quotes are made of."""
    return len(line) - len(line.translate(_WITHOUT_MARKS))


def score(line: str) -> int:
    """Return the points of a line: positive if it looks like code, negative if it looks like prose."""
    return PROSE_POINTS if is_plain_prose(line) else _score(line)  # spares most lines the patterns


def is_plain_prose(line: str) -> bool:
    """True if a line has several words that only sentences have, and few marks."""
    return len(_ONLY_IN_PROSE.intersection(line.split())) >= MIN_PROSE_WORDS and count_marks(line) <= MAX_PROSE_MARKS


@lru_cache(maxsize=4096)
def _score(line: str) -> int:
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
    if is_formula(bare):
        counts["formula"] = 1
    statement = find_statement(text)
    if statement is not None and statement[0] <= len(text) - len(text.lstrip("-*+•> 0123456789.):")):
        counts["whole statement"] = 1
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
