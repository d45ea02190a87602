"""Reading a repository to learn from it: its files and its commits become drafts, and what was read is remembered.

A file is read again only if its content has changed, and a commit is read once. What is remembered lies in a file that
may be deleted at any time: the next run reads everything and finds the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from engrambus.core import files
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import (
    GitRepository,
    RepoAddress,
    commit_time_s,
    is_ancestor,
    line_times,
    print_address,
    read_history,
)
from engrambus.evidence.pointers.addresses import BodyAddress, DiffAddress
from engrambus.gateway.project_files import ProjectFiles
from engrambus.knowledge.learning import (
    CLAUDE_MEMORY,
    MAX_FILES,
    MAX_LEARNED,
    Chosen,
    ClaimSelection,
    Draft,
    FileDrafts,
    LearnedClaim,
    SourceCommit,
    commit_draft,
    coverage_drafts,
    plan_of,
    read_file,
    select,
)

CACHE = "learned.cache"
CACHE_FORMAT = 3
"""Raised when drafts are made otherwise: what was remembered is then read again."""
MAX_COMMIT_DRAFTS = 2000
"""Commits that are remembered, the best."""
MAX_REF_CHARS = 300

Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and of how much; a total of 0 means that it is not earlier."""


class RepositoryMemory(msgspec.Struct, kw_only=True):
    """What was read of a repository before."""

    format: int = CACHE_FORMAT
    commit: str = ""
    files: dict[str, FileDrafts] = {}
    commits: list[Draft] = []


class ReadRepository(msgspec.Struct, frozen=True, kw_only=True):
    """What a repository says at a commit."""

    commit: str
    time_s: int
    """When that commit was made."""
    drafts: list[Draft]
    paths: frozenset[str]
    read_files: int
    """Files that were read in this run."""
    read_commits: int
    """Commits that were read in this run."""
    bodies: dict[str, str] = {}
    """Digests of the files of Claude's memory, by name: claims point at lines of these."""
    unread: dict[str, int]
    """Files of which nothing was learned, by reason."""


def read_repository(
    project: ProjectFiles, *, fresh: bool = False, remember: bool = True, progress: Progress | None = None
) -> ReadRepository:
    """Read what has changed since the last run, or everything if `fresh`; return all drafts.

    Refused without a repository or a commit. With `remember=False` nothing is written.
    """
    repository = project.repositories.select()
    head = project.head()
    repository.check_commit(head)
    show = progress or (lambda part, done, total: None)
    place = project.derived_path(CACHE)
    memory = RepositoryMemory() if fresh or place is None else _load(place)
    unread: Counter[str] = Counter()
    paths = repository.files(head)
    read = _read_files(repository, paths, memory.files, unread, show)
    since = memory.commit if memory.commit and is_ancestor(repository, memory.commit, head) else None
    commits, read_commits = _read_commits(repository, head, since, memory.commits if since else [], show)
    fresh_files = sum(drafts_of_file is not memory.files.get(path) for path, drafts_of_file in read.items())
    if (
        remember
        and place is not None
        and (fresh_files or read_commits or memory.commit != head or len(read) != len(memory.files))
    ):
        _save(place, RepositoryMemory(commit=head, files=read, commits=commits))
    drafts = [draft for drafts_of_file in read.values() for draft in drafts_of_file.drafts]
    return ReadRepository(
        commit=head,
        time_s=commit_time_s(repository, head),
        drafts=[*drafts, *coverage_drafts(read, paths), *commits],
        paths=frozenset(paths),
        read_files=fresh_files,
        read_commits=read_commits,
        unread=dict(sorted(unread.items())),
    )


def choose(read: ReadRepository, limit: int = MAX_LEARNED) -> ClaimSelection:
    """Choose what is learned from what was read."""
    # A folder that was renamed around a file does not make its history worthless.
    endings = {_ending(path) for path in read.paths}
    return select(read.drafts, paths=lambda path: _ending(path) in endings, newest_s=read.time_s, limit=limit)


def _ending(path: str) -> str:
    """Return the last two parts of a path."""
    return "/".join(path.split("/")[-2:])


def make_claims(
    project: ProjectFiles, read: ReadRepository, chosen: Sequence[Chosen], earlier: frozenset[str] = frozenset()
) -> list[LearnedClaim]:
    """Return the chosen claims with their pointers; comments get their age unless the store knows them."""
    unknown = (item.draft for item in chosen if item.draft.key not in earlier)
    ages = _ages(project.repositories.select(), read.commit, unknown)
    claims = []
    for item in chosen:
        draft, key = item.draft, item.draft.key
        ref = pointer_of(draft, read)
        if len(ref) > MAX_REF_CHARS:
            continue
        since_s = draft.time_s or ages.get((draft.path, draft.first), 0)
        claims.append(
            LearnedClaim(
                key=key,
                source=draft.source,
                kind=draft.kind,
                claim=_dated(item, since_s),
                ref=ref,
                since_s=since_s,
                place=draft.path if draft.source == CLAUDE_MEMORY else "",
            )
        )
    return claims


def pointer_of(draft: Draft, read: ReadRepository) -> str:
    """Return the ref of what a draft quotes: lines at the commit that was read, or an earlier commit's change."""
    if draft.source == CLAUDE_MEMORY:
        return print_address(BodyAddress(digest=read.bodies[draft.path], lines=(draft.first, draft.last)))
    if not draft.commit:
        return print_address(RepoAddress(path=draft.path, revision=read.commit, lines=(draft.first, draft.last)))
    if draft.parent:
        return print_address(DiffAddress(path=draft.path, base=draft.parent, head=draft.commit))
    return print_address(RepoAddress(path=draft.path, revision=draft.commit))


def _dated(item: Chosen, since_s: int) -> str:
    """Return a claim; a marked comment with the day since which it stands there, which git's blame tells."""
    from engrambus.knowledge.engrams import MAX_CLAIM_CHARS, day_of

    if item.draft.source != "todo" or not since_s:
        return item.claim
    mark, _, text = item.claim.partition(": ")
    dated = f"{mark} since {day_of(since_s)}: {text}"
    return dated if len(dated) <= MAX_CLAIM_CHARS else item.claim


def _ages(repository: GitRepository, commit: str, drafts: Iterable[Draft]) -> dict[tuple[str, int], int]:
    by_path: dict[str, list[int]] = {}
    for draft in drafts:
        if draft.source == "todo":
            by_path.setdefault(draft.path, []).append(draft.first)
    return {
        (path, line): time_s
        for path, lines in by_path.items()
        for line, time_s in line_times(repository, commit, path, lines).items()
    }


def _read_files(
    repository: GitRepository,
    paths: dict[str, str],
    earlier: dict[str, FileDrafts],
    unread: Counter[str],
    show: Progress,
) -> dict[str, FileDrafts]:
    """Return what each file says, reading those whose content was not read before."""
    plans = {path: plan for path in paths if (plan := plan_of(path)) is not None and _is_text_path(path)}
    ordered = sorted(plans, key=lambda path: (plans[path].rank, path))
    if len(ordered) > MAX_FILES:
        unread["too many files"] += len(ordered) - MAX_FILES
        ordered = ordered[:MAX_FILES]
    read: dict[str, FileDrafts] = {}
    missing: dict[str, list[str]] = {}
    for path in ordered:
        remembered = earlier.get(path)
        if remembered is not None and remembered.blob == paths[path]:
            read[path] = remembered
        else:
            missing.setdefault(paths[path], []).append(path)
    sizes = repository.sizes(missing) if missing else {}
    readable = {}
    for blob, its_paths in missing.items():
        allowed = [path for path in its_paths if sizes.get(blob, 0) <= plans[path].max_bytes]
        unread["too large"] += len(its_paths) - len(allowed)
        if allowed:
            readable[blob] = allowed
    done, blobs = 0, list(readable)

    def take(blob: str, data: bytes) -> None:
        nonlocal done
        done += 1
        show("files", done, len(blobs))
        for path in readable.pop(blob, ()):
            read[path] = read_file(path, blob, data)

    repository.blobs(blobs, take)
    unread["missing"] += sum(map(len, readable.values()))
    for drafts_of_file in read.values():
        if drafts_of_file.problem:
            unread[drafts_of_file.problem] += 1
    unread += Counter()  # drops what is 0
    return {path: read[path] for path in ordered if path in read}


def _read_commits(
    repository: GitRepository, head: str, since: str | None, earlier: list[Draft], show: Progress
) -> tuple[list[Draft], int]:
    """Return what the commits explain, the best, and how many were read."""
    drafts = []
    count = 0
    for commit in read_history(repository, head, since):
        count += 1
        if count % 200 == 0:
            show("commits", count, 0)
        draft = commit_draft(SourceCommit(**commit._asdict()))
        if draft is not None and _is_text_path(draft.path):
            drafts.append(draft)
    ordered = sorted([*drafts, *earlier], key=lambda draft: (-draft.points, -draft.time_s, draft.commit))
    return list(islice(ordered, MAX_COMMIT_DRAFTS)), count


def _is_text_path(path: str) -> bool:
    """True if a path can be written into a pointer."""
    return path.isprintable() and "\\" not in path and not any("\udc80" <= character <= "\udcff" for character in path)


def _load(place: Path) -> RepositoryMemory:
    try:
        memory = msgspec.msgpack.decode(files.read_file(place), type=RepositoryMemory)
    except (
        OSError,
        EngramBusError,
        msgspec.MsgspecError,
        UnicodeDecodeError,
    ):  # none yet, damaged, or of another version
        return RepositoryMemory()
    return memory if memory.format == CACHE_FORMAT else RepositoryMemory()


def _save(place: Path, memory: RepositoryMemory) -> None:
    files.make_folder(place.parent)
    files.replace_file(place, msgspec.msgpack.encode(memory))
