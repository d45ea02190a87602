"""The folder a step runs with: its output, its artifacts, and the file in which it reports what it spends."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType

import msgspec

from engrambus.core import files
from engrambus.core.process_names import is_dead, process_name
from engrambus.errors import ArtifactPath, EngramBusError, FieldValue, StaleFence, TupleNotFound, error_line
from engrambus.evidence.receipts import EMPTY_DIGEST, Artifact, BodyStore, artifact_kind
from engrambus.space.tuples import Fence, Price
from engrambus.space.work.ports import ReportSpending, StepOutcome

MAX_ARTIFACTS = 256
MAX_END_BYTES = 16_384
"""Bytes of an output's end in which the reason of a failure is looked for."""
COST_FILE, EXECUTION_FILE = "cost.jsonl", "of.json"
MAX_LINE_USD, MAX_LINE_TOKENS = 1_000_000, 1_000_000_000
"""Most that one line of the cost file may report."""
NANOS_PER_USD = 1_000_000_000
NO_KINDS: Mapping[str, str] = MappingProxyType({})
_SEPARATOR, _SWEPT_SUFFIX = "@", "~"


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """A step executed under one claim of its tuple."""

    id: str
    """Id of the tuple."""
    fence: Fence
    step: int


CountSpending = Callable[[str, Fence, int, Price], object]
"""Records the total a step has spent, by tuple, claim and step; raises if there is no such tuple or claim."""


class SpendingLine(msgspec.Struct):
    """One line of the cost file."""

    usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0


_decode_execution = msgspec.json.Decoder(Execution).decode
_decode_line = msgspec.json.Decoder(SpendingLine).decode
_encode = msgspec.json.Encoder().encode


class CostFile:
    """Running total of the file a step appends its spending to; every reader that reaches its end gets the same."""

    def __init__(self, path: Path) -> None:
        self.micros = self.tokens_in = self.tokens_out = self._nanos = 0
        self._path = path
        self._offset = 0

    @property
    def total(self) -> Price:
        """Money and tokens of all lines read so far."""
        return Price(micros=self.micros, tokens=self.tokens_in + self.tokens_out)

    def read(self, *, last: bool = False) -> FieldValue | None:
        """Add up the lines written since the previous call; with `last`, also one without a line end.

        Returns the error of the first invalid line. The valid ones count all the same: that money is spent.
        """
        unread = self._read_unread()
        complete = unread if last else unread[: unread.rfind(b"\n") + 1]
        self._offset += len(complete)
        refusal: FieldValue | None = None
        for line in complete.splitlines():
            try:
                spent = _parse_line(line)
            except FieldValue as problem:
                refusal = refusal or problem
                continue
            self._nanos += round(spent.usd * NANOS_PER_USD)  # the price of one token is finer than a micro-dollar
            self.tokens_in += spent.tokens_in
            self.tokens_out += spent.tokens_out
        self.micros = -(-self._nanos // 1000)
        return refusal

    def has_unread(self) -> bool:
        return bool(self._read_unread())

    def _read_unread(self) -> bytes:
        # A step may have replaced its file: a pipe opened without O_NONBLOCK, or a link, would block or mislead us.
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return b""
            with open(descriptor, "rb", closefd=False) as file:
                file.seek(self._offset)
                return file.read()
        finally:
            os.close(descriptor)


def _parse_line(line: bytes) -> SpendingLine:
    try:
        spent = _decode_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise FieldValue(
            "A line of the cost file is not a JSON object with usd, tokens_in and tokens_out.", field="cost"
        ) from None
    for name, value, most in (
        ("usd", spent.usd, MAX_LINE_USD),
        ("tokens_in", spent.tokens_in, MAX_LINE_TOKENS),
        ("tokens_out", spent.tokens_out, MAX_LINE_TOKENS),
    ):
        if not 0 <= value <= most:
            raise FieldValue("A step cannot spend that much.", field=f"cost.{name}", limit=most, used=value)
    return spent


class StepFolder:
    """A temporary folder for one execution of a step, named after its worker so that others can sweep it."""

    def __init__(self, parent: Path, execution: Execution | None = None) -> None:
        """`execution` is written down, so that another worker can count the spending if this process dies."""
        files.make_folder(parent)
        prefix = process_name().replace("/", _SEPARATOR) + _SEPARATOR
        self.path = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        self.artifacts = self.path / "artifacts"
        files.make_folder(self.artifacts)
        self.temporary = self.path / "tmp"
        """TMPDIR of the step; what it holds counts towards the disk quota."""
        files.make_folder(self.temporary)
        self.cost = self.path / COST_FILE
        self._execution = execution
        if execution is not None:
            with files.open_writer(self.path / EXECUTION_FILE, "xb") as file:
                file.write(_encode(execution))
        self.cost_file = CostFile(self.cost)
        self._reported = Price()
        self.written_bytes = 0
        """Bytes the step wrote, wherever; known once it has ended."""
        self.stdout, self.stderr = self.path / "stdout", self.path / "stderr"
        for path in (self.cost, self.stdout, self.stderr):
            files.open_writer(path, "xb").close()

    def __enter__(self) -> StepFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete the folder; spending that could not be reported stays on disk for the next sweep to count."""
        if self._execution is None or (self.cost_file.total == self._reported and not self.cost_file.has_unread()):
            shutil.rmtree(self.path, ignore_errors=True)
            return
        for folder in (self.artifacts, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
        for path in (self.stdout, self.stderr):
            path.unlink(missing_ok=True)

    def report_spending(self, report: ReportSpending, *, last: bool = False) -> None:
        """Report the step's total spending if it has changed; raise if the step must stop because of it.

        An invalid line of the cost file raises only after the valid ones are reported: that money is spent.
        """
        invalid_line = self.cost_file.read(last=last)
        total = self.cost_file.total
        if total != self._reported:
            stop_reason = report(total)
            self._reported = total
            if stop_reason is not None:
                raise stop_reason
        if invalid_line is not None:
            raise invalid_line

    def add_error_line(self, line: str) -> None:
        """Append a line to the step's standard error."""
        self._restore_output()
        with files.open_writer(self.stderr, "ab") as file:
            file.write(line.encode("utf-8", "backslashreplace") + b"\n")

    def read_ends(self) -> str:
        """Return the ends of what the step printed, its errors last."""
        self._restore_output()
        ends = []
        for path in (self.stdout, self.stderr):
            with files.open_reader(path) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_END_BYTES))
                ends.append(file.read(MAX_END_BYTES).decode("utf-8", "replace"))
        return "\n".join(ends)

    def size(self, limit: int) -> int:
        """Return the bytes in the folder, counted no further than just above `limit`."""
        return _folder_size(self.path, limit)

    def truncate(self, limit: int) -> bool:
        """If output and artifacts exceed `limit` bytes, drop the artifacts and the end of the output; True if so."""
        printed = {path: path.lstat().st_size for path in (self.stderr, self.stdout) if path.exists()}
        if sum(printed.values()) + _folder_size(self.artifacts, limit) <= limit:
            return False
        shutil.rmtree(self.artifacts, ignore_errors=True)
        for path, size in printed.items():
            with suppress(OSError):
                descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    os.ftruncate(descriptor, min(size, limit))
                finally:
                    os.close(descriptor)
            limit -= min(size, limit)
        return True

    def store(
        self, bodies: BodyStore, *, exit: int, error: str | None, kinds: Mapping[str, str] = NO_KINDS
    ) -> StepOutcome:
        """Store output and artifacts as bodies; an artifact that is a link or no regular file fails the step.

        `kinds` are the kinds of artifacts that the yool declares, by pattern of their path.
        """
        self._restore_output()
        artifacts: tuple[Artifact, ...] = ()
        try:
            artifacts = tuple(self._store_artifact(bodies, path, kinds) for path in self._artifact_files())
        except EngramBusError as refusal:
            exit, error = exit or 1, refusal.code
            self.add_error_line(f"refused: {error_line(refusal)}")
        stdout_sha, stderr_sha = _store_file(bodies, self.stdout), _store_file(bodies, self.stderr)
        printed_bytes = self.stdout.lstat().st_size + self.stderr.lstat().st_size
        return StepOutcome(
            exit=exit,
            stdout_sha=stdout_sha,
            stderr_sha=stderr_sha,
            artifacts=artifacts,
            usd_micros=self.cost_file.micros,
            tokens_in=self.cost_file.tokens_in,
            tokens_out=self.cost_file.tokens_out,
            stored_bytes=printed_bytes + sum(artifact.size for artifact in artifacts),
            written_bytes=self.written_bytes,
            error=error,
        )

    def _restore_output(self) -> None:
        """Create the files of the output again, where the step has deleted them or put something else there."""
        for path, is_type, create in (
            (self.path, stat.S_ISDIR, files.make_folder),
            (self.stdout, stat.S_ISREG, lambda path: files.open_writer(path, "xb").close()),
            (self.stderr, stat.S_ISREG, lambda path: files.open_writer(path, "xb").close()),
        ):
            with suppress(FileNotFoundError):
                if is_type(path.lstat().st_mode):
                    continue
                _remove_any(path)
            create(path)

    def _artifact_files(self) -> list[Path]:
        files = []
        for folder, subfolders, names in os.walk(self.artifacts):
            for name in sorted(subfolders):
                _check_type(Path(folder, name), stat.S_ISDIR)
            for name in sorted(names):
                files.append(_check_type(Path(folder, name), stat.S_ISREG))
        if len(files) > MAX_ARTIFACTS:
            raise FieldValue("A step left too many artifacts.", field="artifacts", limit=MAX_ARTIFACTS, used=len(files))
        return sorted(files)

    def _store_artifact(self, bodies: BodyStore, path: Path, kinds: Mapping[str, str]) -> Artifact:
        name = path.relative_to(self.artifacts).as_posix()
        if not _is_unicode(name):
            raise ArtifactPath("The name of an artifact is not UTF-8.", field="artifacts", used=ascii(name))
        size = path.lstat().st_size
        with files.open_reader(path) as file:
            kind = artifact_kind(name, file, size, kinds)
        return Artifact(kind=kind, path=name, sha=_store_file(bodies, path), size=size)


def _folder_size(root: Path, limit: int) -> int:
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(OSError):
                total += Path(folder, name).lstat().st_size
            if total > limit:
                return total
    return total


def sweep(parent: Path, count_spending: CountSpending) -> None:
    """Delete the folders of steps whose workers died, each after its reported spending is counted."""
    for path in abandoned(parent):
        with suppress(EngramBusError, OSError):  # the journal refuses, or another worker sweeps: tried again later
            _sweep_folder(path, count_spending)


def _sweep_folder(path: Path, count_spending: CountSpending) -> None:
    # Renamed first: a process of the step that is still alive then fails to report more. What it reported before is
    # counted here or by the next sweep; decision 24: the journal counts a total once.
    if not path.name.endswith(_SWEPT_SUFFIX):
        swept = path.with_name(path.name + _SWEPT_SUFFIX)
        files.rename(path, swept)
        path = swept
    folder = files.open_folder(path)
    try:
        os.fchmod(folder, files.PRIVATE_FOLDER)  # the step may have taken our rights away
    finally:
        os.close(folder)
    execution_file = path / EXECUTION_FILE
    with suppress(FileNotFoundError, msgspec.MsgspecError):  # the step had not begun
        execution = _decode_execution(files.read_file(execution_file))
        costs = CostFile(path / COST_FILE)
        costs.read(last=True)
        if costs.total:
            with suppress(TupleNotFound, StaleFence):  # from another journal, or the claim was lost in a power cut
                count_spending(execution.id, execution.fence, execution.step, costs.total)
    files.remove(execution_file)
    shutil.rmtree(path, ignore_errors=True)


def abandoned(parent: Path) -> list[Path]:
    """Return the folders of steps whose workers died."""
    by_worker: dict[str, list[Path]] = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        for name in files.folder_names(parent):
            worker = name.rpartition(_SEPARATOR)[0].replace(_SEPARATOR, "/")
            by_worker.setdefault(worker, []).append(parent / name)
    return [path for worker, paths in by_worker.items() if is_dead(worker) for path in paths]


def _check_type(path: Path, is_type: Callable[[int], bool]) -> Path:
    # A link, a device or a pipe could lead outside the folder.
    if not is_type(path.lstat().st_mode):
        raise ArtifactPath(f"'{path.name}' is not a regular file.", field="artifacts", used=path.name)
    return path


def _remove_any(path: Path) -> None:
    if stat.S_ISDIR(path.lstat().st_mode):
        shutil.rmtree(path, ignore_errors=True)
    else:
        files.remove(path)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _store_file(bodies: BodyStore, path: Path) -> str:
    with files.open_reader(path) as file:
        return bodies.put(file) if os.fstat(file.fileno()).st_size else EMPTY_DIGEST
