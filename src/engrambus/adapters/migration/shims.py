"""Shims that record what an existing orchestrator does, in addition to what it writes itself.

They write through the real tuple space, so that `engrambus runs`, `board` and `receipt list` show the old work. Nothing
they meet breaks the code around them, unless they are `strict`.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import msgspec

from engrambus.core import MICROS_PER_DOLLAR, SECOND_US, SystemClock, print_time
from engrambus.core.process_names import is_dead, process_name
from engrambus.errors import EngramBusError, StaleFence
from engrambus.evidence.receipts import EMPTY_DIGEST, Artifact, Cost, Receipt, new_receipt
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.settings import Settings
from engrambus.space.catalog import parse_name
from engrambus.space.tuples import Claim, Completion, TupleSpace, stamp_authority, tuple_receipt

P = ParamSpec("P")
T = TypeVar("T")

UNIT_YOOL = "op.migration.unit"
"""Yool in the tuples of old work. It is in no catalog, so no worker ever runs it; receipts name the unit's own yool."""
ARTIFACT_YOOL = "op.migration.artifact"
LANE = "migration"
MAX_ERROR = 300


class RecordedUnit:
    """A unit of work that is being recorded: what it left behind, and what it cost."""

    def __init__(self, yool: str, args: Mapping[str, Any]) -> None:
        self.yool = yool
        self.args = args
        self.started_us = SystemClock().now()
        self.artifacts: list[Artifact] = []
        self.result: Any = msgspec.UNSET
        """What the unit returned; stored with the receipt if it is JSON."""
        self.usd = 0.0
        self.tokens_in = self.tokens_out = 0
        self.claim: Claim | None = None

    def spend(self, usd: float = 0.0, tokens_in: int = 0, tokens_out: int = 0) -> None:
        """Add to what the unit has spent."""
        self.usd += usd
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out


_unit: ContextVar[RecordedUnit | None] = ContextVar("recorded unit", default=None)


class _Opened(msgspec.Struct, frozen=True):
    """A project that is open for recording."""

    gateway: Gateway
    authority: Mapping[str, Any]
    run: str

    @property
    def space(self) -> TupleSpace:
        return self.gateway.tuple_space.space


class _Shim:
    """What the shims share: the project, opened at first use, and one place where trouble ends."""

    def __init__(
        self,
        path: Path | str = ".",
        *,
        orchestrator: str,
        enabled: bool = True,
        strict: bool = False,
        settings: Settings | None = None,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        """
        Args:
            path: A folder of the project
            orchestrator: Name of the program whose work is recorded
            enabled: False does nothing at all; the flag of the step
            strict: Raise what goes wrong instead of reporting it
            settings: By default those of the environment
            on_trouble: Called with a line for each thing that went wrong; by default it is printed on standard error
        """
        self.orchestrator = orchestrator
        self.enabled = enabled
        self.strict = strict
        self.troubles = 0
        """How often something could not be recorded."""
        self._path, self._settings = Path(path), settings
        self._on_trouble = on_trouble or (lambda line: print(f"{orchestrator}: {line}", file=sys.stderr))
        self._lock = threading.RLock()
        self._opened: _Opened | None = None

    def _attempt(self, what: str, act: Callable[[_Opened], T]) -> T | None:
        """Record something; report what goes wrong, so that the old code never notices."""
        if not self.enabled:
            return None
        try:
            return act(self._open())
        except Exception as problem:
            if self.strict:
                raise
            self.troubles += 1
            code = problem.code if isinstance(problem, EngramBusError) else type(problem).__name__
            with suppress(Exception):
                self._on_trouble(f"{what} was not recorded: {code}: {problem}")
            return None

    def _open(self) -> _Opened:
        from engrambus.app import open_project

        with self._lock:
            if self._opened is None:
                gateway = open_project(self._path, self._settings or Settings.from_environment())
                try:
                    caller = gateway.identify(LOCAL_ADMIN)
                    authority = stamp_authority(caller, ci=gateway.tuple_space.ci)
                    self._opened = _Opened(gateway, authority, caller.run.run_id)
                    self._begin(self._opened)
                except BaseException:
                    self._opened = None
                    gateway.close()
                    raise
            return self._opened

    def _begin(self, opened: _Opened) -> None:
        """Prepare a project that was just opened."""

    def close(self) -> None:
        """Write the files of new receipts, and close the project."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            with suppress(EngramBusError, OSError):  # only copies; `receipt get` writes a missing one
                opened.space.write_receipts(opened.gateway.project_files.receipts)
            opened.gateway.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _store(self, opened: _Opened, data: bytes) -> str:
        return opened.gateway.tuple_space.bodies.put(data)

    def _receipt(
        self, opened: _Opened, unit: RecordedUnit, tuple_id: str, exit: int, error: str | None, **members: Any
    ) -> Receipt:
        ended_us = max(SystemClock().now(), unit.started_us)
        return new_receipt(
            yool=full_name(unit.yool),
            tuple_id=tuple_id,
            started_at=print_time(unit.started_us),
            ended_at=print_time(ended_us),
            exit=exit,
            stdout_sha=self._result_sha(opened, unit),
            artifacts=tuple(unit.artifacts),
            cost=Cost(
                usd=round(unit.usd * MICROS_PER_DOLLAR) / MICROS_PER_DOLLAR,
                tokens_in=unit.tokens_in,
                tokens_out=unit.tokens_out,
                wall_ms=(ended_us - unit.started_us) // 1000,
            ),
            step=0,
            error=error,
            **members,
        )

    def _result_sha(self, opened: _Opened, unit: RecordedUnit) -> str:
        if unit.result is msgspec.UNSET:
            return EMPTY_DIGEST
        try:
            return self._store(opened, msgspec.json.encode(unit.result) + b"\n")
        except (TypeError, ValueError):  # not JSON: the receipt goes without it
            return EMPTY_DIGEST

    def _draft(self, unit: RecordedUnit) -> dict[str, Any]:
        args = {"unit": unit.yool, "args": _plain(unit.args)}
        return {
            "lane": LANE,
            "map_pos": {"orchestrator": self.orchestrator, "unit": unit.yool},
            "payload": [{"yool": UNIT_YOOL, "args": args}],
        }

    def _record_whole(self, opened: _Opened, unit: RecordedUnit, exit: int, error: str | None) -> None:
        """Record a unit that has ended, in one commit."""
        opened.space.record_finished(
            self._draft(unit),
            lambda tuple_id, now_us: self._receipt(opened, unit, tuple_id, exit, error),
            authority=opened.authority,
            run=opened.run,
        )


class ArtifactShim(_Shim):
    """The receipt shim: what the old code writes is stored by its content and gets a receipt, besides."""

    def write_artifact(self, path: Path | str, data: bytes | str, *, yool: str = ARTIFACT_YOOL) -> None:
        """Write a file as before, and only then store a copy by its content."""
        file, content = Path(path), data.encode() if isinstance(data, str) else data
        file.write_bytes(content)
        self._attempt(f"the artifact {file}", lambda opened: self._keep(opened, {file: content}, yool))

    @contextmanager
    def capture(self, *paths: Path | str, yool: str = ARTIFACT_YOOL) -> Iterator[None]:
        """Store those of these files that the code inside wrote; folders stand for the files in them."""
        earlier = self._attempt("the state of the files", lambda opened: _states(paths)) or {}
        yield
        self._attempt("the artifacts", lambda opened: self._keep(opened, _written(paths, earlier), yool))

    def step(self, yool: str, *, outputs: Sequence[Path | str] = ()) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Decorate a step function: its result and the files it wrote get a receipt, and so does its failure."""

        def decorate(function: Callable[P, T]) -> Callable[P, T]:
            @functools.wraps(function)
            def run(*args: P.args, **kwargs: P.kwargs) -> T:
                if not self.enabled:
                    return function(*args, **kwargs)
                return self._run_step(yool, outputs, lambda: function(*args, **kwargs))

            return run

        return decorate

    def _run_step(self, yool: str, outputs: Sequence[Path | str], function: Callable[[], T]) -> T:
        outer = _unit.get()
        unit = outer or RecordedUnit(yool, {})
        earlier = self._attempt("the state of the files", lambda opened: _states(outputs)) or {}
        token = _unit.set(unit)
        exit, error = 0, None
        try:
            result = function()
            unit.result = result
            return result
        except BaseException as problem:
            exit, error = 1, _describe(problem)
            raise
        finally:
            _unit.reset(token)
            written = self._attempt("the artifacts", lambda opened: _written(outputs, earlier)) or {}
            self._attempt("the artifacts", lambda opened: self._add(opened, unit, written))
            if outer is None:  # else the unit's own end records it
                self._attempt(f"the step {yool}", lambda opened: self._record_whole(opened, unit, exit, error))

    def _keep(self, opened: _Opened, files: Mapping[Path, bytes], yool: str) -> None:
        if not files:
            return
        current = _unit.get()
        unit = current or RecordedUnit(yool, {})
        self._add(opened, unit, files)
        if current is None:
            self._record_whole(opened, unit, 0, None)

    def _add(self, opened: _Opened, unit: RecordedUnit, files: Mapping[Path, bytes]) -> None:
        root = opened.gateway.project_files.root
        for file, data in files.items():
            opened.space.check_disk_space()
            place = file.resolve()
            path = place.relative_to(root).as_posix() if place.is_relative_to(root) else file.name
            unit.artifacts.append(Artifact(kind="file", path=path, sha=self._store(opened, data), size=len(data)))


class TupleLog(_Shim):
    """The tuple-log shim: start, end and failure of each unit of work, besides what the orchestrator itself keeps."""

    def __init__(self, path: Path | str = ".", **options: Any) -> None:
        super().__init__(path, **options)
        self.lost: list[str] = []
        """Ids of units that an earlier process of this orchestrator began and never ended; they are cancelled."""
        self._open_units: dict[str, RecordedUnit] = {}
        self._closing = threading.Event()
        self._heartbeat: threading.Thread | None = None

    @contextmanager
    def unit(self, yool: str, args: Mapping[str, Any] | None = None) -> Iterator[RecordedUnit]:
        """Record a unit of work while the code inside does it; an exception is recorded as its failure."""
        unit = RecordedUnit(yool, args or {})
        if not self.enabled:  # artifacts then have receipts of their own
            yield unit
            return
        self._attempt(f"the start of {yool}", lambda opened: self._start(opened, unit))
        token = _unit.set(unit)
        exit, error = 0, None
        try:
            yield unit
        except BaseException as problem:
            exit, error = 1, _describe(problem)
            raise
        finally:
            _unit.reset(token)
            self._attempt(f"the end of {yool}", lambda opened: self._end(opened, unit, exit, error))

    def close(self) -> None:
        self._closing.set()
        if self._heartbeat is not None:
            self._heartbeat.join()
        super().close()

    def _begin(self, opened: _Opened) -> None:
        """End what an earlier process left unfinished: no one else can run it, and this one does it from the start."""
        space = opened.space
        for state in ("claimed", "waiting"):
            for record in space.rd_all({"lane": LANE, "state": state, "map_pos.orchestrator": self.orchestrator}):
                if state == "waiting" or (record.worker is not None and is_dead(record.worker)):
                    with suppress(EngramBusError):  # ended by another process of the orchestrator
                        space.cancel(record.id)
                        self.lost.append(record.id)
        self._closing.clear()
        self._heartbeat = threading.Thread(target=self._renew, args=(space,), name="tuple log", daemon=True)
        self._heartbeat.start()

    def _start(self, opened: _Opened, unit: RecordedUnit) -> None:
        _, unit.claim = opened.space.out_claimed(
            self._draft(unit), authority=opened.authority, run=opened.run, worker=process_name(), recorded=True
        )
        if unit.claim is not None:
            with self._lock:
                self._open_units[unit.claim.id] = unit

    def _end(self, opened: _Opened, unit: RecordedUnit, exit: int, error: str | None) -> None:
        claim = unit.claim
        if claim is None:  # its start was not recorded
            self._record_whole(opened, unit, exit, error)
            return
        with self._lock:
            self._open_units.pop(claim.id, None)
        receipt = self._receipt(opened, unit, claim.id, exit, error, attempt=1, worker=claim.worker)
        receipt = opened.space.check_result(claim, receipt)
        ending: dict[str, Any] = {"failure": f"exit {receipt.exit}"}
        if not receipt.exit:
            now = print_time(SystemClock().now())
            final = tuple_receipt(claim.id, executed=[receipt], receipts=[receipt.id], exit=0, now=now, attempt=1)
            ending = {"final_receipt": final}
        answers, _ = opened.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(receipt,), **ending)])
        if answers[0] == StaleFence.code:  # the machine slept through the lease: the work was done all the same
            self._record_whole(opened, unit, exit, error)
            with suppress(EngramBusError):
                opened.space.cancel(claim.id)

    def _renew(self, space: TupleSpace) -> None:
        """Renew the leases of open units, as a worker does."""
        while not self._closing.wait(space.settings.lease_us / SECOND_US / 3):
            with self._lock:
                claims = [unit.claim for unit in self._open_units.values() if unit.claim is not None]
            if claims:
                with suppress(Exception):  # the end of the unit reports a broken store
                    space.renew([(claim.id, claim.fence) for claim in claims])


def full_name(yool: str) -> str:
    """Return the full name for receipts; a unit whose name is no yool's is recorded under that of all units."""
    try:
        parsed = parse_name(yool)
    except EngramBusError:
        return f"{UNIT_YOOL}.v1"
    return f"{parsed.base}.v{parsed.version or 1}"


def _plain(value: Any) -> Any:
    """Return arguments as JSON; what is none as its `repr`."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)


def _describe(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"[:MAX_ERROR]


def _states(paths: Sequence[Path | str]) -> dict[Path, tuple[int, int, int]]:
    return {file: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for file in _files(paths) if (stat := file.stat())}


def _files(paths: Sequence[Path | str]) -> Iterator[Path]:
    for path in map(Path, paths):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                yield file


def _written(paths: Sequence[Path | str], before: Mapping[Path, tuple[int, int, int]]) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file, state in _states(paths).items() if before.get(file) != state}
