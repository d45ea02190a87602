"""A small writer that goes through every kind of write, and says after each answer what was acknowledged.

It writes notes to a pipe, each a line: `put? ID` before an action and `put ID` after its answer, so that whoever kills
it knows what was acknowledged and what may or may not have happened. An action that is refused notes `refused`, its
kind, the code and the id; one that ends with any other exception notes `traceback`.
"""

from __future__ import annotations

import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engrambus.app import open_project
from engrambus.core import SystemClock, digest, new_ulid, print_time
from engrambus.errors import EngramBusError
from engrambus.evidence.receipts import Cost, new_receipt, receipt_id
from engrambus.gateway import Gateway
from engrambus.settings import Settings
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from engrambus.space.tuples import Claim, Completion, Price, TupleSpace, tuple_receipt
from engrambus.testing import GatewayClient
from tests.projects import make_gateway, make_repository, make_settings

FAR_FUTURE_US = 1 << 60
TEXT_LINES = 200
LANE, NOTES_LANE, LATER_LANE, REUSE_LANE = "build", "facts", "later", "again"
SPENT_MICROS = 7
REUSED_KEY = "agent.lint.ruff.v1@again"
LINT = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane=LANE)
PERSON = {"user": "admin", "agent": None, "ci": False}


class TortureProject(NamedTuple):
    """A project in a folder of its own, with its account's home beside it."""

    folder: Path

    @property
    def root(self) -> Path:
        """The repository."""
        return self.folder / "repository"

    @property
    def catalog(self) -> Path:
        """The folder that everything the bus stores lies in."""
        return self.root / ".catalog"

    @property
    def settings(self) -> Settings:
        """Settings that keep everything inside the folder."""
        return make_settings(self.folder / "home")

    @property
    def pointer(self) -> str:
        """The artifact that every engram points into, without its lines."""
        return (self.folder / "pointer").read_text()

    def copy(self, folder: Path) -> TortureProject:
        """Copy everything into another folder, which is emptied first."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        return TortureProject(folder)


def create_torture_project(folder: Path) -> TortureProject:
    """Create a project with a text to point at and a yool."""
    project = TortureProject(folder)
    repository = make_repository(project.root)
    with closing(make_gateway(repository.path, project.settings)) as gateway:
        write_catalog(project.catalog / CAPABILITIES, Catalog([LINT]))
        text = "\n".join(f"line {number} of a text to point at" for number in range(TEXT_LINES))
        pointer = GatewayClient(OpenProject(gateway)).call("store_artifact", text=text, name="a.txt").pointer
        (folder / "pointer").write_text(pointer.partition("#")[0])
    return project


class OpenProject(NamedTuple):
    """An open gateway, for a client."""

    gateway: Gateway


class Writer:
    """Writes to a project and notes what it tries and what was acknowledged."""

    def __init__(self, gateway: Gateway, pointer: str, notes: int) -> None:
        self._gateway = gateway
        self._client = GatewayClient(OpenProject(gateway))
        self._pointer = pointer
        self._notes = notes
        self._lines = 0
        self._promotable: list[str] = []
        self._stored: list[str] = []

    @property
    def _space(self) -> TupleSpace:
        return self._gateway.tuple_space.space

    def note(self, text: str) -> None:
        """Write one line to the pipe."""
        os.write(self._notes, text.encode() + b"\n")

    @contextmanager
    def _attempt(self, kind: str, name: str) -> Iterator[None]:
        """Note that an action begins, and how it fails if it does."""
        self.note(f"{kind}? {name}")
        try:
            yield
        except EngramBusError as refusal:
            self.note(f"refused {kind} {refusal.code} {name}")
        except Exception:
            self.note(f"traceback {kind} {traceback.format_exc()!r}")

    def put(self, scope: str = "run") -> None:
        """Put one engram."""
        engram = self._draft()
        with self._attempt("put", engram["id"]):
            self._client.call("put_engram", scope=scope, **engram)
            self.note(f"put {engram['id']}")
            self._promotable.append(engram["id"])
            self._stored.append(engram["id"])

    def put_many(self, count: int = 4) -> None:
        """Put several engrams in one commit."""
        engrams = [self._draft() for _ in range(count)]
        ids = ",".join(engram["id"] for engram in engrams)
        with self._attempt("put", ids):
            self._client.call("put_engrams", engrams=engrams)
            self.note(f"put {ids}")

    def _draft(self) -> dict[str, Any]:
        self._lines = self._lines % TEXT_LINES + 1
        pointers = [{"type": "artifact", "ref": f"{self._pointer}#L{self._lines}-L{self._lines}"}]
        engram_id = new_ulid(time.time_ns() // 1000)
        return {"id": engram_id, "claim": f"Matter {engram_id} is written down", "pointers": pointers}

    def promote(self) -> None:
        """Promote the oldest engram of the run."""
        if self._promotable:
            engram_id = self._promotable.pop(0)
            with self._attempt("promote", engram_id):
                self._client.call("promote_engram", id=engram_id)
                self.note(f"promote {engram_id}")

    def forget(self) -> None:
        """Forget the newest engram."""
        if self._promotable:
            engram_id = self._promotable.pop()
            self._stored.remove(engram_id)
            with self._attempt("forget", engram_id):
                self._client.call("forget_engram", id=engram_id)
                self.note(f"forget {engram_id}")

    def store(self) -> None:
        """Store a text, which is a body, a receipt and a commit."""
        text = f"text {os.urandom(8).hex()}\n" * 40
        with self._attempt("body", "-"):
            self.note(f"body {self._client.call('store_artifact', text=text, name='b.txt').pointer}")

    def out(self) -> None:
        """Put a tuple."""
        name = os.urandom(8).hex()
        step = {"yool": "agent.lint.ruff", "args": {"name": name}}
        with self._attempt("out", name):
            draft = {"lane": LANE, "payload": [step]}
            tuple_id = self._space.out(draft, authority=PERSON, run=self._run())[0].id
            self.note(f"out {tuple_id}")

    def _run(self) -> str:
        with self._gateway.store.read() as view:
            run = view.current_run()
        assert run is not None
        return str(run.run_id)

    def complete(self) -> None:
        """Claim a tuple and complete it, as a worker does, with a body and files of receipts."""
        with self._attempt("end", "-"):
            claims = self._space.claim({"lane": LANE}, worker="torture", timeout=0)
            for claim in claims[:1]:
                self._space.complete([self._finished(claim)])
                self.note(f"end {claim.id} {self._space.public_tuple(claim.id)['receipts'][-1]}")
        with self._attempt("files", "-"):
            self._space.write_receipts(self._gateway.project_files.receipts)

    def _finished(self, claim: Claim, key: str | None = None) -> Completion:
        now = print_time(SystemClock().now())
        output = self._gateway.tuple_space.bodies.put(f"output of {claim.id}\n".encode())
        done = new_receipt(
            yool="agent.lint.ruff.v1",
            tuple_id=claim.id,
            started_at=now,
            ended_at=now,
            exit=0,
            step=0,
            attempt=claim.attempt,
            worker=claim.worker,
            stdout_sha=output,
            cost=Cost(usd=0.001),
            key=key,
        )
        last = tuple_receipt(
            claim.id,
            executed=[done],
            receipts=[done.id],
            exit=0,
            now=now,
            attempt=claim.attempt,
            worker=claim.worker,
        )
        return Completion(id=claim.id, fence=claim.fence, receipts=(done,), final_receipt=last)

    def take(self) -> None:
        """Put a tuple and take it, under an idempotency key."""
        name = os.urandom(8).hex()
        with self._attempt("take", name):
            draft = {"lane": NOTES_LANE, "map_pos": {"name": name}}
            asked = (name, digest(name.encode()))
            self._space.out(draft, authority=PERSON, run=self._run(), idempotency=asked)
            taken = self._space.in_({"lane": NOTES_LANE, "map_pos.name": name}, by="torture")
            assert taken is not None
            self.note(f"take {name}")

    def spend(self) -> None:
        """Start a step, count what it spent, renew the claim, and hand the tuple back for later."""
        name = os.urandom(8).hex()
        with self._attempt("spend", name):
            step = {"yool": "agent.lint.ruff", "args": {"name": name}}
            draft = {"lane": LATER_LANE, "payload": [step], "agent_terms": {"budget_usd": 1}}
            tuple_id = self._space.out(draft, authority=PERSON, run=self._run())[0].id
            (claim,) = self._space.claim({"id": tuple_id}, worker="torture", timeout=0)
            self._space.start_step(claim, 0, Price(micros=SPENT_MICROS), yool="agent.lint.ruff.v1")
            for _ in range(2):  # the same total counts once
                self._space.record_cost(claim.id, claim.fence, 0, Price(micros=SPENT_MICROS), synced=True)
            self._space.renew([(claim.id, claim.fence)])
            self._space.release([(claim.id, claim.fence)], counts_attempt=True, delay_us=FAR_FUTURE_US >> 4)
            self.note(f"spend {tuple_id}")

    def reuse(self) -> None:
        """Complete a tuple with the receipt of an equal step."""
        with self._attempt("reuse", "-"):
            draft = {"lane": REUSE_LANE, "payload": [{"yool": "agent.lint.ruff", "args": {"name": "again"}}]}
            tuple_id = self._space.out(draft, authority=PERSON, run=self._run())[0].id
            (claim,) = self._space.claim({"id": tuple_id}, worker="torture", timeout=0)
            with self._space.store.read() as view:
                cached = view.cached_receipt(REUSED_KEY)
            done = self._finished(claim, key=REUSED_KEY)
            if cached is not None and done.final_receipt is not None:
                last = msgspec.structs.replace(done.final_receipt, receipts=(cached.id,), id="")
                last = msgspec.structs.replace(last, id=receipt_id(last))
                done = msgspec.structs.replace(done, receipts=(), hits=((0, cached.id),), final_receipt=last)
            self._space.complete([done])
            self.note(f"end {claim.id} {self._space.public_tuple(claim.id)['receipts'][-1]}")

    def rotate(self) -> None:
        """Continue the journal of work in a new file, as garbage collection does for a long one."""
        with self._attempt("rotate", "-"):
            self._space.store.rotate(least_bytes=1, before_us=FAR_FUTURE_US)
            self.note("rotate -")

    def collect(self) -> None:
        """Collect garbage."""
        with self._attempt("gc", "-"):
            self._client.call("collect_garbage")
            self.note("gc -")

    def rebuild(self) -> None:
        """Delete the index of knowledge and read: the reader builds it again."""
        with suppress(OSError):  # the test's own call, which the failing disk hits as well
            for path in self._gateway.project_files.state_path("").glob("derived-*/index.db*"):
                path.unlink(missing_ok=True)
        self.read()

    def read(self) -> None:
        """Query, and list tuples."""
        with self._attempt("read", "-"):
            self._client.call("query_engrams", q="matter written", k=20)
            self.note("read -")
        with self._attempt("list", "-"):
            self._space.rd_all({"lane": LANE}, limit=100)

    def read_back(self) -> None:
        """Read every engram that was acknowledged to this writer, while whatever ails the disk goes on."""
        for engram_id in self._stored:
            with self._attempt("get", engram_id):
                self._client.call("get_engram", id=engram_id)
                self.note(f"get {engram_id}")

    def verify(self) -> None:
        """Verify everything; note what is found."""
        with self._attempt("verify", "-"):
            answer = self._client.call("verify")
            told = [finding for finding in answer.findings if any(words in finding.what for words in UNREAD_WORDS)]
            wrong = [finding for finding in answer.findings if finding not in told]
            self.note(f"unsound {wrong!r}" if wrong else f"unread {told!r}" if told else "verify -")


Actions = tuple[Callable[[Writer], None], ...]

UNREAD_WORDS = ("could not be read", "cannot be read", "was not compared")
"""What `verify` says of a file that the disk does not return."""
READS: Actions = (Writer.put, Writer.read, Writer.verify, Writer.read_back, Writer.put)
"""Reading calls, between puts: their errors must not stop writing for good."""

WRITES: Actions = (
    Writer.put,
    Writer.out,
    Writer.put_many,
    Writer.complete,
    Writer.reuse,
    Writer.promote,
    Writer.store,
    Writer.take,
    Writer.rotate,
    Writer.out,
    Writer.put,
    Writer.complete,
    Writer.forget,
    Writer.rebuild,
    Writer.spend,
    Writer.reuse,
    Writer.put,
    Writer.collect,
    Writer.put,
    Writer.read_back,
)
"""Every kind of write once or more; a rotation and a rebuild of the index lie between others."""


def run_actions(project: TortureProject, actions: Actions, notes: int) -> None:
    """Open a project and do some actions; note when everything is done."""
    try:
        gateway = open_project(project.root, project.settings)
    except EngramBusError as refusal:
        os.write(notes, f"refused open {refusal.code} -\n".encode())
        return
    except Exception:
        os.write(notes, f"traceback open {traceback.format_exc()!r}\n".encode())
        return
    with closing(gateway):
        writer = Writer(gateway, project.pointer, notes)
        for action in actions:
            action(writer)
        writer.note("finish -")
