"""What a brief may show: pins, the newest engrams of the kinds that matter to a role, and pointer bundles.

A table says which kinds of engram a role sees and in which order. Pins come first of all, in every role's brief. Then,
for one agent, the engrams come first that point at the files it works on, then those in the same folders (decision
61). Of equals, the newest come first, then the more confident. A line is one engram: its kind, its claim and its
first pointer. Claims are never reworded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, Protocol

import msgspec

from engrambus.core import print_time
from engrambus.evidence.pointers import EvidenceState, Staleness, compact_ref, describe_state, pointed_path
from engrambus.knowledge.brief.layout import MAX_LINES, BriefItem, BriefSection
from engrambus.knowledge.brief.values import BriefReads
from engrambus.knowledge.cortex import CortexReads, Episode, memory_engram
from engrambus.knowledge.engrams import Engram, EngramReads, engram_of_memory, has_evidence, is_memory
from engrambus.knowledge.messages import MessageReads, SentPack
from engrambus.policy import ROLE_PREFIX, Caller, IdentityReads, parent_of, visible_spaces
from engrambus.policy.grants import GrantReads

MAX_LINE_CHARS = 160
PER_KIND = 40
"""Newest engrams of each kind that are read; if there are more, the brief says so without their number."""
MAX_PINS = 200
"""Pinned engrams, and pinned memories, that are read."""
MIN_IMPORTANCE = 0.5
"""Importance from which on an unpinned memory may stand in a brief: the default of `memory keep`."""
MAX_PATHS = 8
"""Files that an agent used last, and as many that it was sent or granted last, whose engrams come first."""
MAX_PACKS = 20
"""Pointer packs of a run that are read, the newest."""
PER_PATH = 24
"""Newest engrams that name a file which are looked at."""
PINS_WEIGHT = 6
"""The share of pins: about as much as that of all engrams of a role together."""
PINNED = "pinned"
LEARNED_MARK = "learned"
LEARNED_WEIGHT = 1
MAX_LEARNED_LINES = 6
"""Lines of a brief that quote the repository, with the one that counts the others (decision 83)."""
PINNED_MEMORY = f"{PINNED} memory"


class SectionKinds(NamedTuple):
    """One part of a role's brief: the kinds it shows, and its share of the lines."""

    kinds: tuple[str, ...]
    weight: int


_LEADING = (
    SectionKinds(("constraint", "policy"), 2),
    SectionKinds(("risk",), 3),
    SectionKinds(("decision", "diff", "fact"), 3),
)
_BUILDING = (
    SectionKinds(("constraint", "policy"), 3),
    SectionKinds(("risk",), 2),
    SectionKinds(("todo", "decision", "test", "diff", "fact", "perf"), 3),
)
SECTIONS: dict[str, tuple[SectionKinds, ...]] = {
    "admin": _LEADING,
    "architect": _LEADING,
    "director": _LEADING,
    "manager": _BUILDING,
    "programmer": _BUILDING,
    "tool": _BUILDING,
}
"""The sections of each role: roles that lead see risks and decisions first, roles that build see what is to be done."""


class ContentsView(EngramReads, CortexReads, IdentityReads, GrantReads, MessageReads, BriefReads, Protocol):
    """The reads of a store that the contents of a brief are taken from."""


class UsedPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent works: files it read, pointed at or may read by a grant, as refs write their paths."""

    files: tuple[str, ...] = ()
    """The last used first."""
    folders: frozenset[str] = frozenset()

    def distance(self, engram: Engram) -> int:
        """Return 0 for an engram that points at one of the files, 1 for one in the same folder, 2 for any other."""
        paths = [path for pointer in engram.pointers if (path := pointed_path(pointer.ref)) is not None]
        if any(path in self.files for path in paths):
            return 0
        return 1 if any(_folder(path) in self.folders for path in paths) else 2


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """The engrams and memories a role's brief chooses from."""

    pinned: Sequence[Engram]
    memories: Sequence[Episode]
    """Pinned memories."""
    open_pins: frozenset[str]
    """Labels of pins of which the store has more than were read."""
    engrams: Sequence[Engram]
    """The newest of each kind, without the pinned ones; the newest first, then the more confident."""
    open_kinds: frozenset[str]
    """Kinds of which the store has more than were read."""
    learned_ids: frozenset[str] = frozenset()
    """Those that quote the repository: they stand after what was stated."""
    unread_learned: Mapping[str, int] = {}
    """Number of further engrams of each kind that quote the repository."""
    items: dict[str, BriefItem] = msgspec.field(default_factory=dict)
    """The lines made so far, by the engram's id: a brief may be put together several times."""

    def item(self, engram: Engram) -> BriefItem:
        """Return the line of an engram that is not pinned."""
        if engram.id not in self.items:
            self.items[engram.id] = _engram_item(engram)
        return self.items[engram.id]


def used_paths(view: ContentsView, reader: Caller) -> UsedPaths:
    """Return where an agent works; nowhere for a role."""
    if not reader.name:
        return UsedPaths()
    run_id = reader.run.run_id
    granted = (issued.pointer or issued.prefix or "" for issued in reversed(view.grants_for(run_id, reader.name)))
    given = (path for ref in chain(sent_refs(view, reader), granted) if (path := pointed_path(ref)) is not None)
    own = view.agent_paths(run_id, reader.name, limit=MAX_PATHS)
    files = tuple(dict.fromkeys((*own, *islice(dict.fromkeys(given), MAX_PATHS))))
    return UsedPaths(files=files, folders=frozenset(map(_folder, files)) - {""})


def sent_refs(view: ContentsView, reader: Caller) -> list[str]:
    """Return the pointers that were sent to an agent by name or as one of its role, or to a role; the newest first."""
    run_id, role = reader.run.run_id, reader.role
    # An agent that was added later gets what its parent sent to its role before.
    parent = parent_of(view, reader) if reader.name else None
    return [
        pointer.ref
        for sent in view.pointer_packs(run_id, limit=MAX_PACKS)
        if reader.name in sent.pack.to or (is_for_role(sent, role) and parent in (None, sent.sender))
        for pointer in sent.pack.pointers
    ]


def is_for_role(sent: SentPack, role: str) -> bool:
    """True if a pointer pack was sent to a role as such."""
    return any(target.removeprefix(ROLE_PREFIX) == role for target in sent.pack.target)


def read_candidates(view: ContentsView, reader: Caller) -> Candidates:
    """Return what the brief of the reader's role chooses from."""
    spaces = visible_spaces(reader)
    ordinals = view.pinned(spaces)
    pinned = [engram for engram in view.engrams(ordinals[:MAX_PINS]) if has_evidence(engram)]  # decision 55
    memories = view.pins(limit=MAX_PINS + 1)
    known_ids, known_claims = {engram.id for engram in pinned}, {_one_line(memory.text) for memory in memories}
    engrams: list[Engram] = []
    open_kinds: list[str] = []
    learned = view.learned_ordinals(spaces)
    learned_ids: set[str] = set()
    unread_learned: Counter[str] = Counter()
    for kind in kinds_of(reader.role):
        # decision 83: what people and agents said is read first, however much was learned after it
        newest = view.newest(spaces, kind=kind, limit=PER_KIND + 1 + len(learned), older_than=None)
        stated = [ordinal for ordinal in newest if ordinal not in learned]
        quoted = [ordinal for ordinal in newest if ordinal in learned]
        if len(stated) > PER_KIND:
            open_kinds.append(kind)
        engrams += view.engrams(stated[:PER_KIND])
        unread_learned[kind] += max(0, len(quoted) - PER_KIND)
        quotations = view.engrams(quoted[: -PER_KIND - 1 : -1])  # put best first, so the best are the oldest
        learned_ids.update(engram.id for engram in quotations)
        engrams += quotations
    # A memory that was contributed with pointers is an engram, too.
    eligible = [
        engram
        for engram in [*engrams, *_important_memories(view, reader.role)]
        if has_evidence(engram) and engram.id not in known_ids and engram.claim not in known_claims
    ]
    opened = ((f"{PINNED} engram", len(ordinals) > MAX_PINS), (PINNED_MEMORY, len(memories) > MAX_PINS))
    return Candidates(
        pinned=pinned,
        memories=memories[:MAX_PINS],
        open_pins=frozenset(label for label, is_open in opened if is_open),
        engrams=newest_first(eligible),
        open_kinds=frozenset(open_kinds),
        learned_ids=frozenset(learned_ids),
        unread_learned=+unread_learned,
    )


def _important_memories(view: ContentsView, role: str) -> list[Engram]:
    """Return unpinned memories that matter to a role, without those that are engrams, too."""
    # decision 81: what was kept on purpose stands among the engrams of its kind, unless it was kept as unimportant
    memories = map(memory_engram, view.important(MIN_IMPORTANCE, categories=frozenset(), limit=PER_KIND))
    kinds = kinds_of(role)
    return [memory for memory in memories if memory.kind in kinds and engram_of_memory(view, memory) is None]


def add_engrams_about(view: ContentsView, reader: Caller, candidates: Candidates, paths: UsedPaths) -> Candidates:
    """Return the candidates with older engrams that point at the files an agent uses."""
    from engrambus.knowledge.engrams import name_keys  # loads the rules of words, which the first brief of a session
    # must not wait for

    spaces, kinds = visible_spaces(reader), frozenset(kinds_of(reader.role))
    ordinals: dict[int, None] = {}
    for key in name_keys(f"repo:{path}@" for path in paths.files):
        ordinals.update(dict.fromkeys(view.postings(spaces, key, kind=None, limit=PER_PATH)))
    known = {engram.id for engram in (*candidates.pinned, *candidates.engrams)}
    learned_ids = candidates.learned_ids | view.learned([engram.id for engram in view.engrams(list(ordinals))]).keys()
    older = [
        engram
        for engram in view.engrams(list(ordinals))
        if engram.id not in known and engram.kind in kinds and has_evidence(engram) and not paths.distance(engram)
    ]
    engrams = newest_first([*candidates.engrams, *older])
    return msgspec.structs.replace(candidates, engrams=engrams, learned_ids=learned_ids)


def engram_sections(
    candidates: Candidates, role: str, paths: UsedPaths, stale: Mapping[str, Staleness]
) -> list[BriefSection]:
    """Return the sections of a brief that show pins and engrams, without `stale` ones that are not pinned."""
    current = [engram for engram in candidates.engrams if engram.id not in stale]
    # decision 61: sorting is stable, so what is equally near stays ordered by time
    nearest = sorted(current, key=paths.distance) if paths.files else current
    sections = [_pins_section(candidates, stale)]
    stated = [engram for engram in nearest if engram.id not in candidates.learned_ids]
    for section in SECTIONS[role]:
        engrams = [engram for engram in stated if engram.kind in section.kinds]
        sections.append(
            BriefSection(
                items=list(map(candidates.item, engrams[:MAX_LINES])),
                weight=section.weight,
                further=Counter(engram.kind for engram in engrams[MAX_LINES:]),
                open_labels=candidates.open_kinds.intersection(section.kinds),
            )
        )
    sections.append(_learned_section(candidates, current, paths))
    return sections


def _learned_section(candidates: Candidates, current: Sequence[Engram], paths: UsedPaths) -> BriefSection:
    """Return what quotes the repository, after everything that was stated: few lines, of several kinds and files."""
    learned = (engram for engram in current if engram.id in candidates.learned_ids)
    engrams = sorted(_spread(sorted(learned, key=lambda engram: (-engram.confidence, engram.id))), key=paths.distance)
    count = len(engrams) + sum(candidates.unread_learned.values())
    shown = MAX_LEARNED_LINES if count <= MAX_LEARNED_LINES else MAX_LEARNED_LINES - 1
    further = Counter(engram.kind for engram in engrams[shown:]) + Counter(candidates.unread_learned)
    return BriefSection(
        items=[_engram_item(engram, LEARNED_MARK) for engram in engrams[:shown]],
        weight=LEARNED_WEIGHT,
        further={f"{LEARNED_MARK} {kind}": number for kind, number in further.items()},
        max_lines=MAX_LEARNED_LINES,
    )


def _spread(best_first: Sequence[Engram]) -> list[Engram]:
    """Return engrams so that kinds take turns, and inside a kind the files that they point at."""
    turns: Counter[tuple[str, str]] = Counter()
    by_file: list[tuple[int, Engram]] = []
    for engram in best_first:
        place = engram.kind, pointed_path(first_ref(engram)) or ""
        by_file.append((turns[place], engram))
        turns[place] += 1
    of_kind: Counter[str] = Counter()
    by_kind: list[tuple[int, Engram]] = []
    for _, engram in sorted(by_file, key=lambda ranked: ranked[0]):
        by_kind.append((of_kind[engram.kind], engram))
        of_kind[engram.kind] += 1
    return [engram for _, engram in sorted(by_kind, key=lambda ranked: ranked[0])]


def kinds_of(role: str) -> tuple[str, ...]:
    """Return the kinds of engram that matter to a role."""
    return tuple(chain.from_iterable(section.kinds for section in SECTIONS[role]))


def shorten(text: str) -> str:
    """Return a text on one line, shortened."""
    line = _one_line(text)
    return line if len(line) <= MAX_LINE_CHARS else line[: MAX_LINE_CHARS - 1].rstrip() + "…"


def newest_first(engrams: Iterable[Engram]) -> list[Engram]:
    """Return engrams by time, and of equally new ones the more confident first."""
    return sorted(
        engrams, key=lambda engram: (engram.provenance.created_at, engram.confidence, engram.id), reverse=True
    )


def first_ref(engram: Engram) -> str:
    """Return the ref of the first pointer behind which content was found."""
    return next(pointer.ref for pointer in engram.pointers if pointer.digest is not None)


def _one_line(text: str) -> str:
    return " ".join(text.split())  # what an agent wrote must not begin a line of its own


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _pins_section(candidates: Candidates, stale: Mapping[str, Staleness]) -> BriefSection:
    # decision 17: a person pins what everybody must read first, whatever its kind
    engrams, memories = candidates.pinned, candidates.memories
    labels = [*(f"{PINNED} {engram.kind}" for engram in engrams), *[PINNED_MEMORY] * len(memories)]
    # decision 84: what a person pinned stays until the person unpins it, and says that its lines are not the same
    pinned = [_engram_item(engram, PINNED, stale.get(engram.id)) for engram in engrams[:MAX_LINES]]
    items = [*pinned, *map(_memory_item, memories[:MAX_LINES])]
    return BriefSection(
        items=items[:MAX_LINES],
        weight=PINS_WEIGHT,
        further=Counter(labels[MAX_LINES:]),
        open_labels=candidates.open_pins,
    )


def _engram_item(engram: Engram, mark: str = "", state: Staleness | None = None) -> BriefItem:
    label = f"{mark} {engram.kind}".strip()
    ref = first_ref(engram)
    extra = f" +{len(engram.pointers) - 1}" if len(engram.pointers) > 1 else ""
    # Without the share that is left and the place now: each edit would make another version of the brief.
    words = f", {describe_state(EvidenceState(state=state))}" if state is not None else ""
    return BriefItem(
        text=f"[{label}] {shorten(engram.claim)} ({compact_ref(ref)}{extra}{words})",
        label=label,
        ref=ref,
        id="" if is_memory(engram.id) else engram.id,
        author=engram.provenance.created_by,
        created_at=engram.provenance.created_at,
        is_pinned=mark == PINNED,
        state=state,
        engram=engram,
    )


def _memory_item(memory: Episode) -> BriefItem:
    return BriefItem(
        text=f"[{PINNED_MEMORY}] {shorten(memory.text)} ({memory.ref})",
        label=PINNED_MEMORY,
        ref=memory.ref,
        author=memory.by,
        created_at=print_time(memory.created_us),
        is_pinned=True,
    )
