"""The folder a step runs with: its output, what it left, and what it says it spends."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from stigmergy.errors import ArtifactPath, FieldValue, StigmergyError
from stigmergy.evidence.receipts import EMPTY, JUNIT, Artifact, BodyStore
from stigmergy.space.tuples import Price
from stigmergy.space.work.identity import is_dead, worker_name
from stigmergy.space.work.ports import StepOutcome, Told
from stigmergy.space.work.refused import told_of

MAX_ARTIFACTS = 256
MAX_USD, MAX_TOKENS = 1_000_000, 1_000_000_000
"""What one line may say was spent."""
NANOS = 1_000_000_000
_AT = "@"


class Spending(msgspec.Struct):
    """A line of what a step says it spends."""

    usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0


_decode = msgspec.json.Decoder(Spending).decode


class StepFolder:
    """A folder of one step's own, gone when the step is; named by its worker, so that others know whose it was."""

    def __init__(self, beside: Path) -> None:
        beside.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = Path(tempfile.mkdtemp(dir=beside, prefix=worker_name().replace("/", _AT) + _AT))
        self.artifacts = self.path / "artifacts"
        self.artifacts.mkdir()
        self.temporary = self.path / "tmp"
        """Where the step puts what it needs for a while; it counts, and goes with the folder."""
        self.temporary.mkdir()
        self.cost = self.path / "cost.jsonl"
        self.stdout, self.stderr = self.path / "stdout", self.path / "stderr"
        self.micros = self.tokens_in = self.tokens_out = self._nanos = 0
        self._read = 0
        for each in (self.cost, self.stdout, self.stderr):
            each.touch()

    def __enter__(self) -> StepFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def note_spending(self, told: Told, *, last: bool = False) -> None:
        """Read what the step has said since the last time, and pass it on; at the very last also a line without an end.

        A line that cannot be read is refused when all the others are passed on: that money is spent."""
        try:
            with self.cost.open("rb") as file:
                file.seek(self._read)
                said = file.read()
        except FileNotFoundError:  # the step took it away: it says nothing more
            return
        whole = said if last else said[: said.rfind(b"\n") + 1]
        self._read += len(whole)
        tokens_in = tokens_out = 0
        refusal: FieldValue | None = None
        for line in whole.splitlines():
            try:
                spent = _spending(line)
            except FieldValue as problem:
                refusal = refusal or problem
                continue
            self._nanos += round(spent.usd * NANOS)  # prices of single tokens are finer than micro-dollars
            tokens_in += spent.tokens_in
            tokens_out += spent.tokens_out
        micros = -(-self._nanos // 1000) - self.micros
        self.micros += micros
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        if micros or tokens_in or tokens_out:
            told(Price(micros=micros, tokens=tokens_in + tokens_out))
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
        except StigmergyError as refusal:
            exit, error = exit or 1, refusal.code
            self.say(f"refused: {told_of(refusal)}")
        stdout_sha, stderr_sha = _keep(bodies, self.stdout), _keep(bodies, self.stderr)
        size = self.stdout.stat().st_size + self.stderr.stat().st_size
        return StepOutcome(
            exit=exit,
            stdout_sha=stdout_sha,
            stderr_sha=stderr_sha,
            artifacts=artifacts,
            usd_micros=self.micros,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
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


def sweep(beside: Path) -> None:
    """Take away the folders of steps whose workers were killed."""
    for path in beside.iterdir() if beside.is_dir() else ():
        worker, _, _ = path.name.rpartition(_AT)
        if is_dead(worker.replace(_AT, "/")):
            shutil.rmtree(path, ignore_errors=True)


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


def _spending(line: bytes) -> Spending:
    try:
        spent = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise FieldValue("A line of cost is not JSON as it should be.", field="cost") from None
    for name, value, most in (
        ("usd", spent.usd, MAX_USD),
        ("tokens_in", spent.tokens_in, MAX_TOKENS),
        ("tokens_out", spent.tokens_out, MAX_TOKENS),
    ):
        if not 0 <= value <= most:
            raise FieldValue("No step can spend that.", field=f"cost.{name}", limit=most, used=value)
    return spent
