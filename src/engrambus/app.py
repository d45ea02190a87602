"""The only wiring: settings → back end → domain packages → operations."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from engrambus.backends.cortex_files import CortexFolder
from engrambus.backends.sqlite import SqliteStore, check_remains, create_store
from engrambus.core import Clock, Randomness, SystemClock, new_ulid
from engrambus.core.disk_errors import naming_the_disk
from engrambus.core.files import check_folder, is_file, make_folder, remove
from engrambus.core.journal import (
    UNMARKED_FORMAT,
    JournalKey,
    check_not_moved,
    derived_folder,
    foreign_journal,
    read_header,
)
from engrambus.core.project_clock import ClockAccepted, ClockCorrected, ClockState
from engrambus.errors import (
    EngramBusError,
    FieldValue,
    FormatUnknown,
    JournalForeign,
    JournalMissing,
    NoRepository,
    ProjectElsewhere,
    ProjectExists,
    ProjectNotFound,
)
from engrambus.evidence import pointers
from engrambus.evidence.pointers import Evidence, GitRepository, Repositories, Resolver
from engrambus.evidence.receipts import BodyFolder, BodyStore
from engrambus.gateway import Gateway, LazyEmbeddings, LazyTupleSpace, ProjectFiles, SharedStores, Store, View
from engrambus.gateway.events import ActivityChannel
from engrambus.gateway.lazy_tuple_space import CALLER
from engrambus.gateway.project_files import ALIGNMENTS, ANCHORS
from engrambus.knowledge import cortex, engrams
from engrambus.policy import (
    CATALOG as CATALOG_FOLDER,
)
from engrambus.policy import (
    COMMITTED_FILES,
    JOURNAL,
    SHARED_SCOPES,
    Project,
    RunOpened,
    SigningKey,
    TokenKey,
    check_folders,
    create_journal_key,
    create_project,
    create_signing_key,
    exclude_from_git,
    find_catalog,
    find_project,
    load_journal_key,
    load_signing_key,
)
from engrambus.policy.grants import GrantKey
from engrambus.settings import Settings

if TYPE_CHECKING:
    from engrambus.backends.backup import Manifest
    from engrambus.backends.derived_caches import DerivedCaches
    from engrambus.backends.jsonl_stores import FileStores
    from engrambus.backends.moving import Moved, MovedStore
    from engrambus.backends.postgres.connections import Database
    from engrambus.backends.postgres.migrations import Migration
    from engrambus.backends.postgres.store import PostgresStore
    from engrambus.backends.postgres.work import PostgresWork
    from engrambus.backends.shared_folder import LinesOf, WrittenFiles
    from engrambus.backends.shared_ref import SyncedRef
    from engrambus.backends.sqlite.work import SqliteWork
    from engrambus.backends.vector_file import VectorFile
    from engrambus.core.journal import Damage, ForeignJournal, SyncFailure
    from engrambus.evidence.receipts import Receipt
    from engrambus.knowledge.engrams import TextEmbedder
    from engrambus.knowledge.sharing import ExportedFiles
    from engrambus.operations.adoption import ForeignSource
    from engrambus.policy.guardrails import Quotas, Retention
    from engrambus.space.tuples import TupleSpace, WorkView
    from engrambus.space.tuples.primitive_hooks import HookState, PrimitiveHook
    from engrambus.space.work import GarbageCollector, GcWorker, WorkerDependencies

T = TypeVar("T")

WORK_JOURNAL = "tuples.jsonl"
DEFAULT_GOAL = "first run"
CORTEX_LOG = "shared-cortex.log"
VECTORS = "vectors.db"
"""Embeddings of engrams; it can be deleted at any time."""
MEMORY_CACHE = "memory-cache"
"""Decoded lines of memory stores; it can be deleted at any time."""


class ForeignState(NamedTuple):
    """What a project's folder of private state holds that this machine did not write."""

    state: Path
    journals: list[Path]
    """The journals that are not ours."""
    unfinished: list[Path]
    """Folders that were set aside, and whose knowledge is not taken on yet."""


@naming_the_disk()
def init_project(
    start: Path,
    settings: Settings,
    *,
    clock: Clock | None = None,
    randomness: Randomness = os.urandom,
    project_id: str | None = None,
) -> Project:
    """Create a project: an empty store, its keys and a first run; `project_id` is that of a team's project.

    A project that came with a checkout gets its journal on this machine; one that was only partly created is completed.
    """
    clock = clock or SystemClock()
    existing: ProjectExists | None = None
    try:
        project = create_project(start, project_id or new_ulid(clock.now(), randomness), settings.private_home)
    except ProjectExists as refusal:
        project, existing = find_project(start, settings.private_home), refusal
    check_folders(project)
    if settings.store_url is not None:
        _create_in_database(project, settings, clock)
    elif not is_file(project.state / JOURNAL):
        check_remains(project.state, JOURNAL, load_journal_key(settings.key_folder(project.project_id)))
        key = create_journal_key(settings.key_folder(project.project_id))
        create_store(project.state, key, project=project.project_id, now_us=clock.now())
    # decision 36: if two processes create it at once, the id in the journal counts
    project = find_project(start, settings.private_home)
    exclude_from_git(project)
    TokenKey.load(settings.key_folder(project.project_id))
    run = new_ulid(clock.now(), randomness)

    def open_first_run(view: View) -> tuple[list[RunOpened], None]:
        if existing is not None and view.current_run() is not None:
            raise existing
        return [RunOpened(run=run, goal=DEFAULT_GOAL, by=f"{run}/admin")], None

    store = _open_store(project, settings, clock)
    try:
        store.commit(open_first_run)
    finally:
        store.close()
    return project


def init_files(start: Path, settings: Settings, *, randomness: Randomness = os.urandom) -> Project:
    """Create only the files of a project that are committed, for a gateway under another account (decision 66)."""
    return create_project(start, new_ulid(SystemClock().now(), randomness), settings.private_home, files_only=True)


@naming_the_disk()
def open_project(
    start: Path,
    settings: Settings,
    *,
    clock: Clock | None = None,
    randomness: Randomness = os.urandom,
    progress: Callable[[int, int], None] | None = None,
    hooks: Sequence[PrimitiveHook] = (),
) -> Gateway:
    """Open the project that a folder belongs to and return its gateway.

    `hooks` are those of the program; the ones of installed packages and of `ENGRAMBUS_HOOKS` are always there.
    """
    project = _find_local_project(start, settings)
    journal_key = _key_of(project, settings)
    store = _open_store(project, settings, clock or SystemClock(), progress)
    derived = derived_folder(project.state, journal_key)
    repositories = Repositories(
        GitRepository(project.git_folder) if project.git_folder else None,
        project.repositories,
        name=project.name,
        root=project.root,
    )
    shared = _shared_stores(settings, clock or SystemClock(), randomness)
    project_files = ProjectFiles(
        project.root,
        repositories,
        project.catalog,
        project.state,
        derived,
        _memory_stores(project, derived, start),
        lambda: _caches(derived),
    )
    tuple_space = _tuple_space(
        project, settings, journal_key, clock or SystemClock(), project_files, store, progress, hooks
    )
    shared.deliver(store)  # decision 10: finish what a process that died had promoted and not delivered
    return Gateway(
        store=store,
        evidence=_evidence(project, settings, repositories, store, tuple_space),
        project_files=project_files,
        # decision 4: keys are outside the project, so that a copy of its files cannot sign tokens
        key=TokenKey.load(settings.key_folder(project.project_id)),
        grant_key=GrantKey.load(settings.key_folder(project.project_id)),
        randomness=randomness,
        shared=shared,
        cortex=CortexFolder(project.state / "sam", project.state / CORTEX_LOG, derived),
        tuple_space=tuple_space,
        activity=ActivityChannel(project.state / "activity", project.project_id),
        embeddings=_embeddings(derived, settings),
    )


def _embeddings(derived: Path, settings: Settings) -> LazyEmbeddings:
    def open_file() -> VectorFile:
        from engrambus.backends.vector_file import VectorFile

        return VectorFile(derived / VECTORS)

    def load() -> TextEmbedder:
        from engrambus.adapters.semantic import load_model

        return load_model()

    return LazyEmbeddings(open_file, load if settings.semantic else None)


def _tuple_space(
    project: Project,
    settings: Settings,
    journal_key: JournalKey,
    clock: Clock,
    project_files: ProjectFiles,
    knowledge: Store,
    progress: Callable[[int, int], None] | None,
    hooks: Sequence[PrimitiveHook],
) -> LazyTupleSpace:
    def retention() -> Retention:
        with knowledge.read() as view:
            return view.policy().guardrails.gc

    @naming_the_disk()
    def open_space() -> TupleSpace:
        from engrambus.policy.guardrails import DiskBreaker
        from engrambus.space.hook_sources import find_hooks
        from engrambus.space.tuples import TupleSpace

        space = settings.space()
        # decision 114: before anything is opened; a hook that cannot be loaded may be there to forbid something.
        active_hooks = find_hooks(settings.hook_modules, hooks, project.root)
        store, boot = _open_work(project, settings, journal_key, clock, progress)
        options: dict[str, Any] = {
            "settings": space,
            "lookup": lambda name: project_files.catalog().lookup(name),
            "boot": boot,
            "breaker": DiskBreaker(project.state, lambda: retention().free_mb_floor).check,
        }
        if not active_hooks:
            return TupleSpace(store, **options)
        from engrambus.space.tuples.hooked_space import HookedSpace
        from engrambus.space.tuples.primitive_hooks import PrimitiveHooks

        primitive_hooks = PrimitiveHooks(active_hooks, limit_seconds=settings.hook_seconds, report=_report_hook)
        return HookedSpace(store, hooks=primitive_hooks, caller=CALLER.get, **options)

    def open_collector(space: TupleSpace) -> GarbageCollector:
        from engrambus.operations import pinned_by_engrams
        from engrambus.space.work import GarbageCollector

        return GarbageCollector(
            space,
            bodies,
            project_files.receipts,
            project.state,
            clock,
            retention=retention,
            pinned=lambda: pinned_by_engrams(knowledge),
        )

    def has_run_ended(run: str) -> bool:
        with knowledge.read() as view:
            record = view.run(run)
        return record is None or record.ended

    bodies = _bodies(project, settings)

    return LazyTupleSpace(
        open_space,
        bodies,
        ci=settings.ci,
        open_collector=open_collector,
        on_progress=progress,
        has_journal=lambda: _has_work(project, settings, journal_key),
        has_run_ended=has_run_ended,
    )


def _clock_of_work(gateway: Gateway, settings: Settings) -> Clock:
    """Return the clock by which steps meet deadlines: this machine's, or that of the database server."""
    if settings.store_url is not None:
        from engrambus.backends.postgres.work import PostgresWork

        store = gateway.tuple_space.space.store
        if isinstance(store, PostgresWork):
            return store.clock
    return SystemClock()


def _open_work(
    project: Project,
    settings: Settings,
    journal_key: JournalKey,
    clock: Clock,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[SqliteWork | PostgresWork, Callable[[], str] | None]:
    """Open the work store of a project, which is created if there is none.

    Besides, return what names the boot that claims belong to; None for this machine's.
    """
    indexed = settings.space().indexed_fields
    if settings.store_url is None:
        from engrambus.backends.sqlite.work import SqliteWork, create_work

        check_remains(project.state, WORK_JOURNAL, journal_key)
        create_work(project.state, journal_key, project=project.project_id, now_us=clock.now())
        seconds = settings.lock_seconds
        store = SqliteWork(
            project.state, journal_key, clock, indexed=indexed, on_progress=progress, lock_seconds=seconds
        )
        return store, None
    from engrambus.backends.postgres.work import PostgresWork, create_work_in

    database = _open_database(settings.store_url, settings)
    try:
        create_work_in(database, journal_key, project=project.project_id, now_us=clock.now())
        # decision 123: the clocks of hosts may differ, and the server's is that of all of them
        its_clock = None if isinstance(clock, SystemClock) else clock
        work = PostgresWork(database, journal_key, project.project_id, its_clock, indexed=indexed)
    except BaseException:
        database.close()
        raise
    return work, work.boot


def _has_work(project: Project, settings: Settings, journal_key: JournalKey) -> bool:
    """True if anything was ever put in a project, so that there is a journal of work; none is created."""
    if settings.store_url is None:
        check_remains(project.state, WORK_JOURNAL, journal_key)
        return is_file(project.state / WORK_JOURNAL)
    from engrambus.backends.postgres.work import has_work

    with closing(_open_database(settings.store_url, settings)) as database:
        return has_work(database, project.project_id)


def _bodies(
    project: Project, settings: Settings, purged: Callable[[str], int | None] = lambda digest: None
) -> BodyStore:
    """Return the store of bodies: the project's folder, a shared folder, or an object store."""
    if settings.bodies is None:
        return BodyFolder(project.state / "cas", purged=purged)
    if settings.bodies.startswith("/"):
        return BodyFolder(Path(settings.bodies) / project.project_id / "cas", purged=purged)
    from engrambus.backends.object_bodies import ObjectBodies

    return ObjectBodies(settings.bodies, project.project_id, settings.environment, purged=purged)


def active_hooks(gateway: Gateway) -> list[HookState]:
    """Return the hooks that a project's work passes in this process."""
    from engrambus.space.tuples.hooked_space import HookedSpace

    space = gateway.tuple_space.space
    return space.hooks.states if isinstance(space, HookedSpace) else []


def _report_hook(line: str) -> None:
    print(f"engrambus: {line}", file=sys.stderr)


def open_worker_dependencies(
    gateway: Gateway,
    settings: Settings,
    *,
    modules: Sequence[str] = (),
    clock: Clock | None = None,
    worker_quotas: Quotas | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> WorkerDependencies:
    """Return what workers of a project need; these modules, and entry points, define the yools they run.

    `worker_quotas` is what all steps together may use; the environment may set lower ones. `warn` is told about entry
    points that are broken.
    """
    from importlib import import_module

    from engrambus.policy.guardrails import Quotas, ceiling, lowest_quotas
    from engrambus.space.catalog import REGISTRY, load_entry_points
    from engrambus.space.work import ProcessRunner, SingleFlight, WorkerDependencies

    for module in modules:
        import_module(module)
    load_entry_points(warn)
    clock = clock or _clock_of_work(gateway, settings)
    space = settings.space()
    from_environment = Quotas(cpu_quota_pct=space.cpu_quota_pct, max_processes=space.max_processes)
    of_worker = lowest_quotas(
        worker_quotas or Quotas(),
        Quotas(
            cpu_quota_pct=space.worker_cpu_quota_pct,
            memory_mb=space.worker_memory_mb,
            max_processes=space.worker_max_processes,
        ),
    )

    def quotas() -> tuple[Quotas, ...]:
        with gateway.store.read() as view:
            return from_environment, of_worker, view.policy().guardrails.quotas

    root = gateway.project_files.root
    bodies = gateway.tuple_space.bodies
    return WorkerDependencies(
        space=gateway.tuple_space.space,
        registry=REGISTRY,
        catalog=gateway.project_files.catalog,
        runner=ProcessRunner(
            bodies,
            gateway.project_files.state_path("scratch"),
            clock,
            modules,
            ceiling=ceiling("worker", "", of_worker),
        ),
        bodies=bodies,
        receipts=gateway.project_files.receipts,
        clock=clock,
        root=root,
        environment=settings.environment,
        single_flight=SingleFlight(gateway.project_files.state_path("flights")),
        quotas=quotas,
    )


def _open_gc_worker(gateway: Gateway, dependencies: WorkerDependencies) -> GcWorker:
    """Return what frees disk space for a worker: when the disk is almost full, and every night."""
    from engrambus.space.work import GcWorker

    with gateway.store.read() as view:
        hour = view.policy().guardrails.gc.nightly_hour
    return GcWorker(dependencies, hour=hour)


@contextmanager
def background_work(gateway: Gateway, dependencies: WorkerDependencies, *, until_empty: bool) -> Iterator[None]:
    """Do, next to a worker, what someone has to do: put the tasks of schedules, collect garbage.

    A worker that exits by itself only puts what is due when it starts, and leaves the disk to others.
    """
    from engrambus.space.schedules import emit_schedules

    schedules = gateway.tuple_space.schedules
    if until_empty:
        with suppress(EngramBusError):  # a disk that is full is told by the tasks themselves
            schedules.emit_due()
        yield
        return
    with emit_schedules(lambda: schedules), _open_gc_worker(gateway, dependencies):
        yield


def find_project_damage(start: Path, settings: Settings) -> list[Damage]:
    """Return the first damage in each of a project's journals; nothing for a sound one."""
    from engrambus.backends.sqlite import over_journals
    from engrambus.core.journal import find_damage

    project = _find_local_project(start, settings)
    damages = over_journals(project.state, _key_of(project, settings), find_damage)
    return [damage for damage in damages if damage is not None]


def find_failed_syncs(start: Path, settings: Settings) -> dict[Path, SyncFailure]:
    """Return the failed syncs because of which a project's journals take no writes, by journal."""
    from engrambus.backends.sqlite.store import journals_in
    from engrambus.core.journal import read_note

    notes = {file.path: read_note(file.path) for file in journals_in(_find_local_project(start, settings).state)}
    return {path: note for path, note in notes.items() if note is not None}


def renew_journals(start: Path, settings: Settings) -> None:
    """Write the journals of which a sync has failed into new files, so that they take writes again."""
    from engrambus.backends.sqlite.store import renew_journals_in

    project = _find_local_project(start, settings)
    renew_journals_in(project.state, _key_of(project, settings))


def find_lost_work(start: Path, settings: Settings) -> JournalMissing | None:
    """Return why a project's journal of work is taken for lost; None if it is there or never was."""
    project = _find_local_project(start, settings)
    try:
        check_remains(project.state, WORK_JOURNAL, _key_of(project, settings))
    except JournalMissing as missing:
        return missing
    return None


def begin_lost_work_anew(start: Path, settings: Settings, *, clock: Clock | None = None) -> Path | None:
    """Set aside what remains of a journal of work that is gone; return the folder, None if the journal is there."""
    from engrambus.backends.sqlite.store import begin_anew

    project = _find_local_project(start, settings)
    return begin_anew(project.state, WORK_JOURNAL, _key_of(project, settings), (clock or SystemClock()).now())


class JournalClock(NamedTuple):
    """How the clock and the time of one journal stand to each other, and what was done about it."""

    journal: str
    """The journal's path; in a database, the URL without a password."""
    is_knowledge: bool
    """True if it is a journal of what the team knows, not of work."""
    state: ClockState
    change: Literal["accepted", "corrected"] | None


def set_project_time(
    start: Path, settings: Settings, *, accept: bool, clock: Clock | None = None
) -> list[JournalClock]:
    """Take the machine's time for every journal that cannot follow it: a person has said that it is right.

    With `accept`, journals that a clock far ahead of them is refused for; else those that are ahead of the clock.
    """
    project = _find_local_project(start, settings)
    changed: list[JournalClock] = []
    for journal, is_knowledge, store in _stores_with_time(project, settings, clock or SystemClock()):
        with closing(store):
            state = store.clock_state()
            change: Literal["accepted", "corrected"] | None = None
            if accept and state.is_ahead:
                store.set_time(ClockAccepted(was_us=state.last_us))
                change = "accepted"
            elif not accept and state.is_behind:
                store.set_time(ClockCorrected(was_us=state.last_us))
                change = "corrected"
            changed.append(JournalClock(journal, is_knowledge, state, change))
    return changed


def _stores_with_time(
    project: Project, settings: Settings, clock: Clock
) -> Iterator[tuple[str, bool, SqliteStore | PostgresStore | SqliteWork | PostgresWork]]:
    """Yield the stores of a project and the shared ones that there are, each with its journal and if that is knowledge.

    The journal is named by its path; in a database, by the URL without a password.
    """
    seconds = settings.lock_seconds
    yield _store_name(project, settings), True, _open_store(project, settings, clock)
    key = _key_of(project, settings)
    if _has_work(project, settings, key):
        name = store_name(settings) if settings.store_url else str(project.state / WORK_JOURNAL)
        yield name, False, _open_work(project, settings, key, clock)[0]
    for scope in SHARED_SCOPES:
        folder = settings.shared_folder(scope)
        if is_file(folder / JOURNAL):
            shared_key = _journal_key(folder / JOURNAL, settings)
            yield str(folder / JOURNAL), True, SqliteStore(folder, shared_key, clock, lock_seconds=seconds)


def recover_project(start: Path, settings: Settings, *, clock: Clock | None = None) -> list[Damage]:
    """Rewrite damaged journals with every line that still checks; return what was damaged."""
    from engrambus.backends.sqlite.recovery import recover_journals

    project = _find_local_project(start, settings)
    return recover_journals(project.state, _key_of(project, settings), (clock or SystemClock()).now())


def back_up(start: Path, settings: Settings, target: Path, *, with_keys: bool, clock: Clock | None = None) -> Manifest:
    """Write a backup of a project, which may be in use, to a new file; a mirror's commits are in it."""
    from engrambus.backends.backup import write_backup
    from engrambus.evidence.pointers.mirror import bundle_mirror
    from engrambus.policy import export_keys

    if settings.store_url is not None:
        raise FieldValue(
            "The project's journals are in a database, which makes its own backups.",
            field="ENGRAMBUS_STORE",
            hint="Copy the database with pg_dump, and the keys with `engrambus keys export`: docs/operations.md.",
        )
    project = _find_local_project(start, settings)
    now_us = (clock or SystemClock()).now()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".backup-") as folder:
        keys: bytes | None = None
        if with_keys:
            export_keys(Path(folder, "keys"), key_folders(project, settings, shared=False))
            keys = Path(folder, "keys").read_bytes()
        return write_backup(
            target,
            project=project.project_id,
            state=project.state,
            catalog=project.catalog,
            now_us=now_us,
            keys=keys,
            bundle=bundle_mirror(project.git_folder, Path(folder)) if project.git_folder is not None else None,
        )


def restore_backup(start: Path, settings: Settings, source: Path) -> Manifest:
    """Put a backup of a project into a folder without one: its mirror, its files, its journals and its keys."""
    from engrambus.backends.backup import BUNDLE, KEYS, STATE, extract_file, read_manifest, restore_files
    from engrambus.evidence.pointers.mirror import fetch_bundle, make_mirror
    from engrambus.policy import import_keys

    manifest = read_manifest(source)
    with tempfile.TemporaryDirectory(dir=start, prefix=".restore-") as folder:
        keys, bundle = (extract_file(source, name, Path(folder)) for name in (KEYS, BUNDLE))
        if keys is not None:
            import_keys(keys, settings.key_folder, replace=False)
        if bundle is not None:
            make_mirror(start, ignored=Path(folder))
            fetch_bundle(start, bundle)
        catalog = find_catalog(start) or start / CATALOG_FOLDER
        state = catalog if settings.private_home is None else settings.private_home / manifest.project
        if is_file(state / JOURNAL):
            raise ProjectExists(f"{state} has a project already.", hint="A backup is restored into an empty folder.")
        make_folder(catalog)
        for name in COMMITTED_FILES:
            with suppress(FileNotFoundError):  # a clone has them, too; those of the backup belong to its journals
                remove(catalog / name)
        restore_files(source, catalog=catalog)
        for place in (state.parent, state) if settings.private_home is not None else ():
            make_folder(place)
        restore_files(source, catalog=catalog, names=(STATE,), state=state)
    return manifest


def check_semantic(settings: Settings) -> bool:
    """Return whether search by meaning is on; refuse if its packages are not installed."""
    if settings.semantic:
        from engrambus.adapters.semantic import check_packages

        check_packages()
    return settings.semantic


def find_foreign_journals(start: Path, settings: Settings) -> list[ForeignJournal]:
    """Return the journals of a project that were not written with this machine's key."""
    from engrambus.backends.sqlite.ownership import foreign_journals

    project = find_project(start, settings.private_home)
    return foreign_journals(project.state, load_journal_key(settings.key_folder(project.project_id)))


def own_project(start: Path, settings: Settings, *, clock: Clock | None = None) -> None:
    """Take the journals of a project as one's own: a person vouches for everything in them."""
    from engrambus.backends.sqlite.ownership import own_journals

    project = find_project(start, settings.private_home)
    key = create_journal_key(settings.key_folder(project.project_id))
    own_journals(project.state, key, project=project.project_id, now_us=(clock or SystemClock()).now())


def find_foreign_state(start: Path, settings: Settings) -> ForeignState:
    """Return which of a project's journals are not ours, and what a process that died has set aside."""
    from engrambus.backends.foreign_files import unfinished
    from engrambus.backends.sqlite.ownership import journals_not_ours

    try:
        project = find_project(start, settings.private_home)
    except FormatUnknown:
        catalog = find_catalog(start)
        if catalog is None or settings.private_home is not None or not is_file(catalog / JOURNAL):
            raise
        # The journal is no journal at all; it can be set aside like any other that is not ours.
        journals = [catalog / name for name in (JOURNAL, WORK_JOURNAL) if is_file(catalog / name)]
        return ForeignState(state=catalog, journals=journals, unfinished=[])
    return ForeignState(
        state=project.state,
        journals=journals_not_ours(project.state, load_journal_key(settings.key_folder(project.project_id))),
        unfinished=unfinished(project.state),
    )


def set_foreign_aside(start: Path, settings: Settings, foreign: ForeignState, *, clock: Clock | None = None) -> Path:
    """Move the journals that are not ours aside, and begin our own; return the folder they are in now."""
    from engrambus.backends.foreign_files import set_aside

    now_us = (clock or SystemClock()).now()
    whole = len(foreign.journals) == sum((foreign.state / name).exists() for name in (JOURNAL, WORK_JOURNAL))
    folder = set_aside(foreign.state, foreign.journals, whole=whole, name=new_ulid(now_us))
    if not (foreign.state / JOURNAL).exists():
        init_project(start, settings, clock=clock)
    return folder


def finish_adoption(folder: Path) -> Path:
    """Mark a folder that was set aside as taken on, or left out; return its new name."""
    from engrambus.backends.foreign_files import finish

    return finish(folder)


def read_foreign_knowledge(
    folder: Path, *, clock: Clock | None = None, progress: Callable[[int, int], None] | None = None
) -> ForeignSource:
    """Read the journals of another project in a folder, as hostile input."""
    from engrambus.backends.foreign_knowledge import ForeignKnowledge

    return ForeignKnowledge(folder, (clock or SystemClock()).now(), progress)


def open_signing_key(start: Path, settings: Settings, *, create: bool) -> SigningKey | None:
    """Return the key that signs what this machine exports of a project; without `create`, None if there is none."""
    folder = settings.key_folder(_find_local_project(start, settings).project_id)
    return create_signing_key(folder) if create else load_signing_key(folder)


def read_shared_folder(folder: Path, *, clock: Clock | None = None) -> ExportedFiles:
    """Read the exported files in a folder, as hostile input."""
    from engrambus.backends.shared_folder import read_folder

    return read_folder(folder, (clock or SystemClock()).now())


def read_shared_commit(start: Path, settings: Settings, revision: str, *, clock: Clock | None = None) -> ExportedFiles:
    """Read the exported files in a commit of a project's repository, as hostile input."""
    from engrambus.backends.shared_ref import read_commit

    return read_commit(_git_folder(start, settings), revision, (clock or SystemClock()).now())


def write_shared_folder(folder: Path, lines: LinesOf) -> WrittenFiles:
    """Add the lines of exported events to the files of a folder."""
    from engrambus.backends.shared_folder import write_folder

    return write_folder(folder, lines)


def sync_shared_ref(
    start: Path, settings: Settings, lines: LinesOf, *, worktree: Path, remote: str, ref: str
) -> SyncedRef:
    """Merge the lines of exported events into a ref that a team shares, here and at a remote."""
    from engrambus.backends.shared_ref import SharedRef, sync

    return sync(SharedRef(_git_folder(start, settings), worktree, remote, ref, settings.environment), lines)


def _git_folder(start: Path, settings: Settings) -> Path:
    folder = find_project(start, settings.private_home).git_folder
    if folder is None:
        raise NoRepository("The project is in no git repository.", hint="Make one: git init.")
    return folder


def key_folders(project: Project, settings: Settings, *, shared: bool) -> list[Path]:
    """Return the folders of a project's keys and, with `shared`, of the stores that projects share."""
    stores = [settings.shared_folder(scope) / JOURNAL for scope in SHARED_SCOPES] if shared else []
    ids = [project.project_id, *(read_header(journal).project for journal in stores if journal.exists())]
    return [settings.key_folder(project_id) for project_id in ids]


def _find_local_project(start: Path, settings: Settings) -> Project:
    """Return the project that a folder belongs to, if its journal is on this machine or in a database."""
    project = find_project(start, settings.private_home)
    check_folders(project)
    if settings.store_url is None:
        check_not_moved(project.state / JOURNAL)
    if settings.store_url is None and not is_file(project.state / JOURNAL):
        check_remains(project.state, JOURNAL, load_journal_key(settings.key_folder(project.project_id)))
        raise ProjectNotFound(
            f"{project.catalog} names a project, but there is no journal of it on this machine.",
            hint="Create one: engrambus init.",
        )
    return project


def _open_store(
    project: Project, settings: Settings, clock: Clock, progress: Callable[[int, int], None] | None = None
) -> SqliteStore | PostgresStore:
    """Open the knowledge store of a project: in its files, or in the database of ENGRAMBUS_STORE."""
    key = _key_of(project, settings)
    if settings.store_url is None:
        return SqliteStore(project.state, key, clock, progress, lock_seconds=settings.lock_seconds)
    from engrambus.backends.postgres.store import PostgresStore

    database = _open_database(settings.store_url, settings)
    try:
        return PostgresStore(database, key, project.project_id, clock)
    except BaseException:
        database.close()
        raise


def _open_database(url: str, settings: Settings) -> Database:
    from engrambus.backends.postgres import open_database

    return open_database(url, lock_seconds=settings.lock_seconds)


def _store_name(project: Project, settings: Settings) -> str:
    """Return where the knowledge of a project is: the path of its journal, or a URL without a password."""
    if settings.store_url is None:
        return str(project.state / JOURNAL)
    return store_name(settings)


def store_name(settings: Settings) -> str:
    """Return the database of ENGRAMBUS_STORE as messages show it: without a password."""
    from engrambus.backends.postgres import shown_url

    return shown_url(settings.store_url or "")


def describe_store(settings: Settings) -> str:
    """Connect to the database of ENGRAMBUS_STORE and describe it; refuse one that cannot be used."""
    from engrambus.backends.postgres import describe

    with closing(_open_database(settings.store_url or "", settings)) as database:
        return describe(database)


def migrate_store(settings: Settings) -> list[Migration]:
    """Bring the tables in the database of ENGRAMBUS_STORE up to this version; return what was applied."""
    from engrambus.backends.postgres import migrate_database

    return migrate_database(settings.store_url or "", lock_seconds=settings.lock_seconds)


def move_project(
    start: Path,
    settings: Settings,
    url: str,
    *,
    restart: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    clock: Clock | None = None,
) -> Moved:
    """Move a project from its files into the database at a URL; what an earlier attempt has copied is not sent again.

    With `restart` that is taken back first. `progress` is called with the lines done and the total.
    """
    from engrambus.backends.moving import move_files
    from engrambus.backends.sqlite.work import SqliteWork

    clock = clock or SystemClock()
    settings = msgspec.structs.replace(settings, store_url=None)
    project = _find_local_project(start, settings)
    key, seconds = _key_of(project, settings), settings.lock_seconds
    with ExitStack() as opened:
        store = SqliteStore(project.state, key, clock, lock_seconds=seconds)
        opened.callback(store.close)
        sources: dict[Path, MovedStore] = {project.state / JOURNAL: store}
        if is_file(project.state / WORK_JOURNAL):
            indexed = settings.space().indexed_fields
            work = SqliteWork(project.state, key, clock, indexed=indexed, lock_seconds=seconds)
            opened.callback(work.close)
            sources[project.state / WORK_JOURNAL] = work
        database = _open_database(url, settings)
        opened.callback(database.close)
        local, shared = BodyFolder(project.state / "cas"), _bodies(project, settings)
        return move_files(
            sources,
            database,
            key,
            project=project.project_id,
            now_us=clock.now(),
            bodies=(local, shared) if settings.bodies is not None else None,
            restart=restart,
            progress=progress,
        )


def _create_in_database(project: Project, settings: Settings, clock: Clock) -> None:
    """Create an empty store of a project in the database of ENGRAMBUS_STORE; leave an existing one alone."""
    if is_file(project.state / JOURNAL):
        raise ProjectElsewhere(
            f"ENGRAMBUS_STORE is set, but this project's journal is a file here: {project.state / JOURNAL}.",
            field="ENGRAMBUS_STORE",
            hint="Unset ENGRAMBUS_STORE to go on with the file.",
        )
    with closing(_open_database(settings.store_url or "", settings)) as database:
        from engrambus.backends.postgres.store import create_store, has_store

        if has_store(database, project.project_id):
            key = _key_of(project, settings)
        else:
            key = create_journal_key(settings.key_folder(project.project_id))
        create_store(database, key, project=project.project_id, now_us=clock.now())


def _key_of(project: Project, settings: Settings) -> JournalKey:
    """Return the key of a project's journals."""
    if settings.store_url is None:
        return _journal_key(project.state / JOURNAL, settings)
    key = load_journal_key(settings.key_folder(project.project_id))
    if key is None:
        raise JournalForeign(
            f"This machine does not have the keys of project {project.project_id}, whose journal is in "
            f"{store_name(settings)}.",
            field="ENGRAMBUS_STORE",
            hint="Bring them from a machine that has them: engrambus keys export, engrambus keys import. A project "
            "that is not there yet is created by engrambus init.",
        )
    return key


def _journal_key(journal: Path, settings: Settings) -> JournalKey:
    """Return the key that a journal must have been written with."""
    header = read_header(journal)
    key = load_journal_key(settings.key_folder(header.project))
    if key is None:
        raise foreign_journal(journal, header)
    return key


def _shared_stores(settings: Settings, clock: Clock, randomness: Randomness) -> SharedStores:
    def opener(scope: str) -> Callable[[], Store]:
        def open_store() -> Store:
            folder = settings.shared_folder(scope)
            make_folder(folder)
            check_folder(folder)
            if not is_file(folder / JOURNAL):
                project = new_ulid(clock.now(), randomness)
                key = create_journal_key(settings.key_folder(project))
                create_store(folder, key, project=project, now_us=clock.now())
            header = read_header(folder / JOURNAL)
            if header.format == UNMARKED_FORMAT:
                # decision 67: no repository can write to this folder, so an older version of ours did
                from engrambus.backends.sqlite.ownership import own_journals

                key = create_journal_key(settings.key_folder(header.project))
                own_journals(folder, key, project=header.project, now_us=clock.now())
            return SqliteStore(
                folder, _journal_key(folder / JOURNAL, settings), clock, lock_seconds=settings.lock_seconds
            )

        return open_store

    return SharedStores({scope: opener(scope) for scope in SHARED_SCOPES})


def _caches(derived: Path) -> DerivedCaches:
    from engrambus.backends.derived_caches import DerivedCaches

    return DerivedCaches([derived / name for name in (ANCHORS, ALIGNMENTS, VECTORS)], derived / MEMORY_CACHE)


def _memory_stores(project: Project, derived: Path, start: Path) -> Callable[[tuple[Path, ...] | None], FileStores]:
    """Return what opens memory stores: paths start at the project's root; for a person at the machine, at `start`."""

    def open_stores(allowed_folders: tuple[Path, ...] | None) -> FileStores:
        from engrambus.backends.jsonl_stores import FileStores

        return FileStores(
            start if allowed_folders is None else project.root,
            allowed_folders=allowed_folders,
            cache=derived / MEMORY_CACHE,
        )

    return open_stores


def _evidence(
    project: Project,
    settings: Settings,
    repositories: Repositories,
    store: Store,
    tuple_space: LazyTupleSpace,
) -> Evidence:
    def url_settings() -> pointers.UrlSettings | None:
        with store.read() as view:
            urls = view.policy().urls
        return pointers.UrlSettings(hosts=frozenset(urls.hosts)) if urls.enabled else None

    def read_work(read: Callable[[WorkView], T]) -> T | None:
        if not tuple_space.has_journal():  # opening the tuple space would create it
            return None
        with tuple_space.space.store.read() as view:
            return read(view)

    def receipt(receipt_id: str) -> Receipt | None:
        return read_work(lambda view: view.receipt(receipt_id))

    bodies = _bodies(project, settings, lambda sha: read_work(lambda view: view.purged_at_us(sha)))
    # Factories, so that a call loads the resolvers of the pointers it meets and no others (decision 39).
    resolvers: dict[type[Any], Callable[[], Resolver[Any]]] = {
        pointers.RepoAddress: lambda: pointers.RepoResolver(repositories),
        pointers.ArtifactAddress: lambda: pointers.ArtifactResolver(repositories),
        pointers.BodyAddress: lambda: pointers.BodyResolver(bodies),
        pointers.DiffAddress: lambda: pointers.DiffResolver(repositories),
        pointers.SamAddress: lambda: cortex.SamResolver(store.read),
        pointers.TestAddress: lambda: pointers.TestResolver(receipt, bodies),
        pointers.UrlAddress: lambda: pointers.UrlResolver(url_settings),
    }
    return Evidence(resolvers, words_of=lambda text: engrams.line_keys((text,), ()))
