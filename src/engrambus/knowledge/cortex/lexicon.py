"""The vocabulary of the contradiction detector: opposites, units, and values that exclude each other."""

from __future__ import annotations

# decision 34: the lists were made on labelled pairs of statements (`python -m tests.cortex`). A word is added only if
# the precision on the pairs stays where it is.

# fmt: off
NEGATIONS = frozenset({
    "not", "no", "never", "none", "nothing", "nobody", "neither", "nor", "without", "cannot", "cant", "dont", "doesnt",
    "didnt", "isnt", "arent", "wasnt", "werent", "wont", "wouldnt", "shouldnt", "couldnt", "mustnt", "hasnt", "havent",
    "hadnt", "neednt",
})
"""Words that negate the next significant word."""

STOP_WORDS = frozenset({
    "a", "an", "the", "of", "in", "on", "at", "to", "for", "by", "with", "from", "and", "or", "as", "is", "are", "was",
    "were", "be", "been", "being", "it", "its", "that", "this", "these", "those", "we", "our", "they", "their", "them",
    "you", "your", "do", "does", "did", "has", "have", "had", "will", "would", "should", "can", "could", "may", "might",
    "shall", "now", "then", "there", "here", "what", "which", "who", "when", "where", "while", "if", "unless", "any",
    "some", "each", "all", "so", "than", "into", "through", "between", "per", "also", "still", "always", "longer",
    "more", "most", "least", "about", "up", "down", "out", "only", "very", "too", "just", "already", "currently",
    "get", "gets", "got", "go", "goes", "went", "set", "called", "named", "one", "ones", "possible", "must", "over",
    "under", "above", "below", "anymore", "but", "because", "since", "fine", "ok", "okay", "else", "own", "such",
    "every", "using", "via", "anyone", "everyone", "anybody", "everybody",
})
"""Words that say nothing about the subject of a statement."""

VALUE_MARKERS = frozenset({
    "is", "are", "was", "were", "be", "in", "on", "by", "to", "as", "with", "from", "at", "under", "through", "for",
    "=", "called", "named", "uses", "use", "into", "of", "half", "using", "via", "over",
})
"""Words after which a value may follow."""

COPULAS = frozenset({"is", "are", "was", "were", "="})
PREDICATE_STARTS = COPULAS | {"can", "may", "must", "could", "should", "will", "cannot", "might", "do", "does"}
"""Words that separate the subject from the predicate."""

DETERMINERS = frozenset({"a", "an", "the", "our", "its", "their", "own"})

VALUE_PREPOSITIONS = frozenset({
    "in", "by", "with", "as", "on", "to", "at", "from", "through", "via", "over", "using", "into", "under", "per",
})
"""Prepositions between a participle and its value: stored in, built with, billed per."""

CONDITION_WORDS = frozenset({"for", "of", "with", "when", "if", "during"})
"""Words that introduce the condition under which a clause holds."""

IRREGULAR_PARTICIPLES = frozenset({
    "built", "held", "kept", "sent", "written", "made", "run", "drawn", "taken", "bound", "drained", "done", "given",
    "known", "sold", "paid", "led", "read", "shown", "thrown", "driven", "chosen", "frozen", "spread", "put", "cut",
})
"""Participles that do not end in -ed."""

CLAUSE_STARTS = frozenset({"and", "but", "because", "so", "while", "which", "unless", "since", "whereas", "although"})
"""Words that begin a new clause."""

_OPPOSITE_WORDS = (
    "enable enabled enables active activate activated | disable disabled disables off inactive deactivated",
    "allow allowed allows permit permits permitted accept accepts accepted tolerate tolerates tolerated | "
    "forbid forbidden forbids deny denies denied prohibit prohibited disallow disallowed reject rejects rejected "
    "refuse refuses refused",
    "require required requires mandatory necessary need needs needed compulsory | optional unnecessary unneeded",
    "safe harmless | unsafe dangerous",
    "public | private",
    "synchronous synchronously sync | asynchronous asynchronously async",
    "mutable writable | immutable readonly read-only",
    "true | false",
    "include includes included | exclude excludes excluded omit omits omitted",
    "keep keeps kept retain retains retained retention | "
    "drop drops dropped delete deletes deleted discard discards discarded",
    "support supported supports | unsupported",
    "stable | unstable",
    "sorted ordered | unsorted unordered",
    "valid | invalid",
    "blocking | nonblocking non-blocking",
    "encrypted | unencrypted plaintext",
    "strict | lenient",
    "pass passes passed succeed succeeds succeeded successful | fail fails failed unsuccessful broken",
    "minimum min | maximum max",
    "ascending | descending",
    "stateless | stateful",
    "optimistic | pessimistic",
    "eager eagerly | lazy lazily",
    "compatible | incompatible",
    "reversible | irreversible",
    "unique | non-unique nonunique",
    "nullable | non-nullable non-null",
    "bounded limited capped | unbounded unlimited uncapped",
    "known | unknown",
    "available | unavailable",
    "internal | external",
    "local | remote",
    "automatic automatically | manual manually",
    "first | last",
    "hard | soft",
    "left | right",
    "increase increases increased rose rises grew grows | decrease decreases decreased fell falls shrank shrinks",
    "faster quicker | slower",
    "larger bigger greater | smaller",
    "higher | lower",
    "newer | older",
    "cheaper | dearer",
    "before | after",
    "released freed frees | hold held holds",
    "share shared shares sharing | separate separately isolated",
    "used | unused removed retired decommissioned",
    "open opened opens | closed closes",
    "visible shown shows | hidden hides",
    "online | offline",
    "opt-in | opt-out",
    "sensitive case-sensitive | insensitive case-insensitive",
)
OPPOSITES: dict[str, tuple[str, int]] = {}
"""The concept of each word, and 1 if the word asserts it or -1 if it means the opposite."""
for _row in _OPPOSITE_WORDS:
    _sides = [side.split() for side in _row.split("|")]
    for _sign, _side in zip((1, -1), _sides, strict=True):
        for _word in _side:
            OPPOSITES[_word] = (_sides[0][0], _sign)

COMPARATIVES = frozenset({"faster", "larger", "higher", "newer", "cheaper", "before"})
"""Concepts that compare two things, so that their order matters."""

SWITCHES = frozenset({"enable", "allow", "support"})
"""Concepts that switch the rest of a clause on or off: what is forbidden is not done."""

QUALIFIERS = frozenset({"minimum", "first", "hard", "left", "internal", "local"})
"""Concepts that usually distinguish two things: the soft limit is another limit than the hard one."""

LENIENT_REACTIONS = frozenset({("skip", 1), ("ignor", 1)})
STRICT_REACTIONS = frozenset({
    ("pass", -1), ("allow", -1), ("abort", 1), ("stop", 1), ("crash", 1), ("halt", 1), ("rais", 1), ("throw", 1),
    ("error", 1), ("exception", 1),
})
"""Reactions to an error, as stems with their signs: ignore it, or stop."""

_VOWELS = frozenset("aeiouy")


def stem(word: str) -> str:
    """Remove the endings of a word; synonyms have the same stem."""
    word = SYNONYMS.get(word, word)
    if not word.isalpha():
        return word
    if word.endswith(("ies", "ied")) and len(word) > MIN_STEM_CHARS + 1:
        word = word[:-3] + "y"
    elif word.endswith(("ing", "ed")):
        cut = word[: -3 if word.endswith("ing") else -2]
        if len(cut) >= MIN_STEM_CHARS and not _VOWELS.isdisjoint(cut):
            word = cut[:-1] if cut[-1] == cut[-2] and cut[-1] not in "ls" else cut
    elif word.endswith(("able", "ible")) and len(word) > MIN_STEM_CHARS + 4:
        word = word[:-4]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > MIN_STEM_CHARS:
        word = word[:-1]
    word = SYNONYMS.get(word, word)
    return word[:-1] if word.endswith("e") and len(word) > MIN_STEM_CHARS else word


MIN_STEM_CHARS = 3
_SYNONYMS = (
    "database db", "configuration config", "repository repo", "production prod", "environment env",
    "postgresql postgres", "authentication auth", "kubernetes k8s", "javascript js", "typescript ts",
    "own belong owner", "percent percentage",
    "timeout time-out", "start begin", "run ran", "return give answer", "retain retention", "version release",
    "write written wrote", "cache caching", "megabyte mb",
)
SYNONYMS: dict[str, str] = {}
"""The preferred word for each synonym."""
for _row in _SYNONYMS:
    _preferred, *_synonyms = _row.split()
    for _word in _synonyms:
        SYNONYMS[_word] = _preferred

_UNITS = (
    ("time", 1, "s sec secs second seconds"), ("time", 0.001, "ms millisecond milliseconds"),
    ("time", 0.000001, "us µs microsecond microseconds"), ("time", 60, "min mins minute minutes"),
    ("time", 3600, "h hr hrs hour hours"), ("time", 86_400, "d day days night nights"),
    ("time", 604_800, "week weeks"),
    ("time", 2_592_000, "month months"), ("time", 31_536_000, "year years"),
    ("size", 1, "byte bytes"), ("size", 1024, "kb kib kilobyte kilobytes"),
    ("size", 1024**2, "mb mib megabyte megabytes"), ("size", 1024**3, "gb gib gigabyte gigabytes"),
    ("size", 1024**4, "tb tib terabyte terabytes"),
    ("share", 1, "% percent"),
)
UNITS: dict[str, tuple[str, float]] = {
    word: (measure, factor) for measure, factor, words in _UNITS for word in words.split()
}
"""The measure of each unit, and its factor to the base unit of that measure."""

PERIODS = {
    "hourly": 3600, "daily": 86_400, "nightly": 86_400, "weekly": 604_800, "monthly": 2_592_000, "yearly": 31_536_000,
}
FOREVER = frozenset({"forever", "indefinitely"})

PHRASES = {
    "times out": "timeout", "time out": "timeout", "by hand": "manually", "in the background": "asynchronously",
    "a background job": "asynchronously", "a background task": "asynchronously",
    "a background worker": "asynchronously", "read only": "read-only", "case sensitive": "case-sensitive",
    "case insensitive": "case-insensitive", "for ever": "forever", "exactly once": "exactly-once",
    "at least once": "at-least-once", "at most once": "at-most-once", "opt in": "opt-in", "opt out": "opt-out",
}
"""Phrases that mean the same as one word."""

NUMBERS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "dozen": 12, "twenty": 20, "thirty": 30, "fifty": 50, "hundred": 100,
    "thousand": 1000, "once": 1, "twice": 2,
}

_EXCLUSIVE_VALUES = (
    "monday tuesday wednesday thursday friday saturday sunday",
    "january february march april june july august september october november december",
    "postgresql mysql mariadb sqlite oracle redis dynamodb mongodb cassandra memcached clickhouse duckdb",
    "kafka rabbitmq nats sqs pulsar",
    "python rust go java kotlin c c++ c# ruby perl php scala swift elixir javascript typescript",
    "json protobuf xml yaml toml csv msgpack avro parquet cbor",
    "rest graphql grpc soap",
    "debug info warning error critical trace",
    "exponential linear constant",
    "utc local",
    "aws azure gcp",
    "mit apache-2.0 gpl bsd",
    "strict lax",
    "tabs spaces",
    "bcrypt argon2 scrypt pbkdf2 md5 sha-256",
    "integer float string decimal uuid bigint",
    "seconds milliseconds microseconds minutes",
    "architect director manager programmer",
    "main master trunk",
    "exactly-once at-least-once at-most-once",
)
EXCLUSIVE_VALUES: dict[str, int] = {
    stem(word): number for number, words in enumerate(_EXCLUSIVE_VALUES) for word in words.split()
}
"""Values with the number of their group; a thing has only one value of a group."""

_SINGLE_VALUED = (
    "own owned maintain written encoded stored published hosted rendered hashed partitioned sorted licence licensed "
    "located based deployed scheduled default database region branch format encoding language framework tool image "
    "style level key mode strategy policy library owner lead maintainer queue backend broker algorithm compiler host "
    "sent recorded talks keep rounded name type protocol timezone come run lives"
)
SINGLE_VALUED = frozenset(map(stem, _SINGLE_VALUED.split()))
"""Attributes with a single value, such as an owner, a format or a default."""

_MULTI_VALUED = "depend call read need require import support test affect follow include contain"
MULTI_VALUED = frozenset(map(stem, _MULTI_VALUED.split()))
"""Relations with several values: what depends on one thing may depend on another."""

OWNERSHIP_VERBS = frozenset(map(stem, ("own", "lead", "maintain", "head", "chair")))
"""Verbs that mean that somebody owns something."""
# fmt: on
