"""The folder a step runs with: its output, what it left, and what it says it spends."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from engrambus.errors import ArtifactPath, EngramBusError, FieldValue, StaleFence, TupleNotFound
from engrambus.evidence.receipts import EMPTY, JUNIT, Artifact, BodyStore
from engrambus.space.tuples import Fence, Price
from engrambus.space.work.identity import is_dead, worker_name
from engrambus.space.work.ports import StepOutcome, Told
from engrambus.space.work.refused import told_of
from engrambus.space.work.spending import CostFile

MAX_ARTIFACTS = 256
COST, OF = "cost.jsonl", "of.json"
_AT, _SWEPT = "@", "~"


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """Whose folder it is: a step, as it is executed under a claim of its tuple."""

    id: str
    fence: Fence
    step: int


_decode = msgspec.json.Decoder(Execution).decode
_encode = msgspec.json.Encoder().encode

Spend = Callable[[str, Fence, int, Price], object]
"""Counts what a step of a tuple, executed under a claim, has said it spent in all; refused for what there never was."""


class StepFolder:
    """A folder of one step's own, gone when the step is; named by its worker, so that others know whose it was."""

    def __init__(self, beside: Path, of: Execution | None = None) -> None:
        """`of` says whose spending it is, should this process not live to count it."""
        beside.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = Path(tempfile.mkdtemp(dir=beside, prefix=worker_name().replace("/", _AT) + _AT))
        self.artifacts = self.path / "artifacts"
        self.artifacts.mkdir()
        self.temporary = self.path / "tmp"
        """Where the step puts what it needs for a while; it counts, and goes with the folder."""
        self.temporary.mkdir()
        self.cost = self.path / COST
        self._of = of
        if of is not None:
            (self.path / OF).write_bytes(_encode(of))
        self.cost_file = CostFile(self.cost)
        """What it has said it spends."""
        self._told = Price()
        self.stdout, self.stderr = self.path / "stdout", self.path / "stderr"
        for each in (self.cost, self.stdout, self.stderr):
            each.touch()

    def __enter__(self) -> StepFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the folder away; not what could not be counted: that is counted by whoever sweeps when we are gone."""
        if self._of is None or (self.cost_file.said == self._told and not self.cost_file.has_more()):
            shutil.rmtree(self.path, ignore_errors=True)
            return
        for each in (self.artifacts, self.temporary):
            shutil.rmtree(each, ignore_errors=True)
        for each in (self.stdout, self.stderr):
            each.unlink(missing_ok=True)

    def note_spending(self, told: Told, *, last: bool = False) -> None:
        """Read what the step has said since the last time, and pass on what it has spent in all; at the very last also
        a line without an end.

        A line that cannot be read is refused when all the others are passed on: that money is spent."""
        refusal = self.cost_file.read(last=last)
        said = self.cost_file.said
        if said != self._told:
            must_stop = told(said)
            self._told = said
            if must_stop is not None:
                raise must_stop
        if refusal is not None:
            raise refusal

    def say(self, line: str) -> None:
        """Add a line to what the step said on its standard error."""
        with self.stderr.open("ab") as file:
            file.write(line.encode("utf-8", "backslashreplace") + b"\n")

    def size(self, enough: int) -> int:
        """Bytes in the folder; counted no further than a bound."""
        return _size(self.path, enough)

    def cut(self, most: int) -> bool:
        """Leave no more bytes to be kept than this: no artifacts if it is more, and the beginning of what was printed.
        Whether there was more."""
        printed = {each: each.lstat().st_size for each in (self.stderr, self.stdout) if each.exists()}
        if sum(printed.values()) + _size(self.artifacts, most) <= most:
            return False
        shutil.rmtree(self.artifacts, ignore_errors=True)
        for each, size in printed.items():
            with suppress(OSError):
                descriptor = os.open(each, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    os.ftruncate(descriptor, min(size, most))
                finally:
                    os.close(descriptor)
            most -= min(size, most)
        return True

    def keep(self, bodies: BodyStore, *, exit: int, error: str | None) -> StepOutcome:
        """Keep everything the step left; what escapes its folder makes it fail."""
        for each in (self.stdout, self.stderr):
            if not each.exists():  # the step took it away
                self.path.mkdir(exist_ok=True)
                each.touch()
        artifacts: tuple[Artifact, ...] = ()
        try:
            artifacts = tuple(self._kept(bodies, path) for path in self._left())
        except EngramBusError as refusal:
            exit, error = exit or 1, refusal.code
            self.say(f"refused: {told_of(refusal)}")
        stdout_sha, stderr_sha = _keep(bodies, self.stdout), _keep(bodies, self.stderr)
        size = self.stdout.stat().st_size + self.stderr.stat().st_size
        return StepOutcome(
            exit=exit,
            stdout_sha=stdout_sha,
            stderr_sha=stderr_sha,
            artifacts=artifacts,
            usd_micros=self.cost_file.micros,
            tokens_in=self.cost_file.tokens_in,
            tokens_out=self.cost_file.tokens_out,
            kept_bytes=size + sum(each.size for each in artifacts),
            error=error,
        )

    def _left(self) -> list[Path]:
        found = []
        for folder, folders, names in os.walk(self.artifacts):
            for name in sorted(folders):
                _check_real(Path(folder, name), stat.S_ISDIR)
            for name in sorted(names):
                found.append(_check_real(Path(folder, name), stat.S_ISREG))
        if len(found) > MAX_ARTIFACTS:
            raise FieldValue("A step left too many artifacts.", field="artifacts", limit=MAX_ARTIFACTS, used=len(found))
        return sorted(found)

    def _kept(self, bodies: BodyStore, path: Path) -> Artifact:
        place = path.relative_to(self.artifacts).as_posix()
        if not _is_unicode(place):
            raise ArtifactPath("The name of a file a step left is not UTF-8.", field="artifacts", used=ascii(place))
        return Artifact(kind=kind_of(place), path=place, sha=_keep(bodies, path), size=path.stat().st_size)


def _size(of: Path, enough: int) -> int:
    total = 0
    for folder, _, names in os.walk(of):
        for name in names:
            with suppress(OSError):
                total += Path(folder, name).lstat().st_size
            if total > enough:
                return total
    return total


def sweep(beside: Path, spend: Spend) -> None:
    """Take away the folders of steps whose workers were killed, each when what its step said it spent is counted."""
    for path in abandoned(beside):
        with suppress(EngramBusError, OSError):  # it cannot be written down, or another sweeps: later, then
            _count_left(path, spend)


def _count_left(path: Path, spend: Spend) -> None:
    # Out of the way first: should something of the step live for another moment, what it says now it says to nobody,
    # and is told so. What was said before is counted, here or by whoever sweeps next; the journal counts it once.
    if not path.name.endswith(_SWEPT):
        path = path.rename(path.with_name(path.name + _SWEPT))
    path.chmod(0o700)
    of = path / OF
    with suppress(FileNotFoundError, msgspec.MsgspecError):  # not even begun
        execution = _decode(of.read_bytes())
        said = CostFile(path / COST)
        said.read(last=True)
        if said.said:
            with suppress(TupleNotFound, StaleFence):  # of another journal, or lost with the machine
                spend(execution.id, execution.fence, execution.step, said.said)
    of.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def abandoned(beside: Path) -> list[Path]:
    """The folders of steps whose workers were killed."""
    found: dict[str, list[Path]] = {}
    for path in beside.iterdir() if beside.is_dir() else ():
        found.setdefault(path.name.rpartition(_AT)[0].replace(_AT, "/"), []).append(path)
    return [path for worker, left in found.items() if is_dead(worker) for path in left]


def kind_of(place: str) -> str:
    """What an artifact is, by its name."""
    name = place.rpartition("/")[2].lower()
    if name.endswith(".xml") and "junit" in name:
        return JUNIT
    return "coverage" if name.startswith("coverage") else "file"


def _check_real(path: Path, kind: object) -> Path:
    """A link, a device or a pipe could lead anywhere."""
    mode = path.lstat().st_mode
    if not (stat.S_ISDIR if kind is stat.S_ISDIR else stat.S_ISREG)(mode):
        raise ArtifactPath(f"'{path.name}' is not a regular file.", field="artifacts", used=path.name)
    return path


def _is_unicode(text: str) -> bool:
    """Whether a text can be written down as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _keep(bodies: BodyStore, path: Path) -> str:
    if path.stat().st_size == 0:
        return EMPTY
    with path.open("rb") as file:
        stream: BinaryIO = file
        return bodies.put(stream)
