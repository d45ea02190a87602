"""What words mean where statements are compared: opposites, units, and values that exclude each other."""

from __future__ import annotations

# fmt: off
NEGATIONS = frozenset({
    "not", "no", "never", "none", "nothing", "nobody", "neither", "nor", "without", "cannot", "cant", "dont", "doesnt",
    "didnt", "isnt", "arent", "wasnt", "werent", "wont", "wouldnt", "shouldnt", "couldnt", "mustnt", "hasnt", "havent",
    "hadnt", "neednt",
})
"""What turns the next telling word round."""

FILLERS = frozenset({
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
"""Words that do not tell what a statement is about."""

OPENERS = frozenset({
    "is", "are", "was", "were", "be", "in", "on", "by", "to", "as", "with", "from", "at", "under", "through", "for",
    "=", "called", "named", "uses", "use", "into", "of", "half", "using", "via", "over",
})
"""Words after which a value may stand."""

COPULAS = frozenset({"is", "are", "was", "were", "="})
PARTING = COPULAS | {"can", "may", "must", "could", "should", "will", "cannot", "might", "do", "does"}
"""Words between what is spoken of and what is said of it."""

ARTICLES = frozenset({"a", "an", "the", "our", "its", "their", "own"})

PLACING = frozenset({
    "in", "by", "with", "as", "on", "to", "at", "from", "through", "via", "over", "using", "into", "under", "per",
})
"""Words by which a value is brought in, after what is done: stored in, built with, billed per."""

NARROWING = frozenset({"for", "of", "with", "when", "if", "during"})
"""Words after which it is said for what all the rest holds."""

IRREGULAR = frozenset({
    "built", "held", "kept", "sent", "written", "made", "run", "drawn", "taken", "bound", "drained", "done", "given",
    "known", "sold", "paid", "led", "read", "shown", "thrown", "driven", "chosen", "frozen", "spread", "put", "cut",
})
"""What is done, where it does not end in -ed."""

CLAUSES = frozenset({"and", "but", "because", "so", "while", "which", "unless", "since", "whereas", "although"})
"""Words that begin a new clause."""

_OPPOSITES = (
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
SIGNS: dict[str, tuple[str, int]] = {}
"""What a word says, and whether it says it or its opposite."""
for _row in _OPPOSITES:
    _sides = [side.split() for side in _row.split("|")]
    for _sign, _side in zip((1, -1), _sides, strict=True):
        for _word in _side:
            SIGNS[_word] = (_sides[0][0], _sign)

COMPARED = frozenset({"faster", "larger", "higher", "newer", "cheaper", "before"})
"""Opposites that tell how two things stand to each other, so that it matters which of them comes first."""

WHETHER_AT_ALL = frozenset({"enable", "allow", "support"})
"""Opposites that say of all the rest whether it is so: what is forbidden is not done."""

KINDS_OF_ONE = frozenset({"minimum", "first", "hard", "left", "internal", "local"})
"""Opposites that mostly choose between two things: the soft limit is another limit than the hard one."""

LETS_PASS = frozenset({("skip", 1), ("ignor", 1)})
STOPS_AT = frozenset({
    ("pass", -1), ("allow", -1), ("abort", 1), ("stop", 1), ("crash", 1), ("halt", 1), ("rais", 1), ("throw", 1),
    ("error", 1), ("exception", 1),
})
"""What can be done about something wrong, as stems and opposites with their signs: pass it over, or make an end."""

_VOWELS = frozenset("aeiouy")


def stem(word: str) -> str:
    """A word without its endings; words for the same thing have the same stem."""
    word = SAME.get(word, word)
    if not word.isalpha():
        return word
    if word.endswith(("ies", "ied")) and len(word) > MIN_STEM + 1:
        word = word[:-3] + "y"
    elif word.endswith(("ing", "ed")):
        cut = word[: -3 if word.endswith("ing") else -2]
        if len(cut) >= MIN_STEM and not _VOWELS.isdisjoint(cut):
            word = cut[:-1] if cut[-1] == cut[-2] and cut[-1] not in "ls" else cut
    elif word.endswith(("able", "ible")) and len(word) > MIN_STEM + 4:
        word = word[:-4]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > MIN_STEM:
        word = word[:-1]
    word = SAME.get(word, word)
    return word[:-1] if word.endswith("e") and len(word) > MIN_STEM else word


MIN_STEM = 3
_SAME = (
    "database db", "configuration config", "repository repo", "production prod", "environment env",
    "postgresql postgres", "authentication auth", "kubernetes k8s", "javascript js", "typescript ts",
    "own belong owner", "percent percentage",
    "timeout time-out", "start begin", "run ran", "return give answer", "retain retention", "version release",
    "write written wrote", "cache caching", "megabyte mb",
)
SAME: dict[str, str] = {}
"""Words for the same thing."""
for _row in _SAME:
    _first, *_others = _row.split()
    for _word in _others:
        SAME[_word] = _first

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
UNITS: dict[str, tuple[str, float]] = {word: (what, times) for what, times, words in _UNITS for word in words.split()}

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
"""Several words that say what one does."""

NUMBERS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "dozen": 12, "twenty": 20, "thirty": 30, "fifty": 50, "hundred": 100,
    "thousand": 1000, "once": 1, "twice": 2,
}

_VALUES = (
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
VALUES: dict[str, int] = {stem(word): number for number, words in enumerate(_VALUES) for word in words.split()}
"""Values of which a thing has one: those of the same number exclude each other."""

_SLOTS = (
    "own owned maintain written encoded stored published hosted rendered hashed partitioned sorted licence licensed "
    "located based deployed scheduled default database region branch format encoding language framework tool image "
    "style level key mode strategy policy library owner lead maintainer queue backend broker algorithm compiler host "
    "sent recorded talks keep rounded name type protocol timezone come run lives"
)
SLOTS = frozenset(map(stem, _SLOTS.split()))
"""Of what these tell there is one: an owner, a format, a default. Two values for it exclude each other."""

_MANY = "depend call read need require import support test affect follow include contain"
MANY = frozenset(map(stem, _MANY.split()))
"""Of what these tell there may be many: what depends on one thing may depend on another."""

OWNING = frozenset(map(stem, ("own", "lead", "maintain", "head", "chair")))
"""What one does with a thing that is one's own."""
# fmt: on
