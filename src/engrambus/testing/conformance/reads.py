"""Readers of the evidence of an engram, how much they read, and which digests may be cited."""  # EB-05, EB-22

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.evidence.pointers import DerefAnswer, Pointer
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.policy import DerefProved
from engrambus.testing.client import GatewayClient, catch_refusal, expect_refusal
from engrambus.testing.fakes import SHA, repo_ref
from engrambus.testing.harness import Harness

PATH = "src/ledger.py"


class Readers:
    """Two agents of a run, and an engram about twenty lines that no agent has read."""

    def __init__(self, harness: Harness) -> None:
        self.client = GatewayClient(harness)
        self.client.call("apply_policy", policy={"deref": {"repo": 50, "sam": 50, "tokens": 20_000, "run_turns": 50}})
        self.ada = self.client.add_agent("ada", "architect")
        self.bob = self.client.add_agent("bob", "architect")
        self.ref = repo_ref(PATH, 11, 30)
        self.engram = self.client.put("The ledger is append-only.", self.ada, refs=[self.ref])

    def read(self, caller: Credential, first: int, last: int, **fields: Any) -> DerefAnswer:
        """Read lines of the file."""
        return self.client.deref(
            caller, repo_ref(PATH, first, last), max_tokens=fields.pop("max_tokens", 5000), **fields
        )

    def read_by(self, engram_id: str | None = None, caller: Credential = LOCAL_ADMIN) -> list[dict[str, Any]]:
        """Return the readers of an engram: the same in a query, in the feed and for the engram alone."""
        engram_id = engram_id or self.engram.id
        shown = self.client.call("show_engram", caller, id=engram_id).about[engram_id].read_by
        (row,) = self.client.call("feed", caller, id=engram_id).rows
        assert row.about.read_by == shown
        about = self.client.query("", caller, k=100).about
        assert about[engram_id].read_by == shown
        readers: list[dict[str, Any]] = msgspec.to_builtins(shown)
        return readers


class ReadConformance:
    """Reads are recorded by agent and lines, and shown with every engram."""

    def test_an_engram_that_nobody_read_says_so_although_it_has_a_digest(self, harness: Harness) -> None:
        readers = Readers(harness)
        assert readers.engram.pointers[0].digest is not None
        assert readers.read_by() == []

    def test_the_author_comes_first_then_those_who_read_all_of_it(self, harness: Harness) -> None:
        readers = Readers(harness)
        readers.read(readers.bob, 1, 40)
        readers.read(readers.ada, 11, 20)
        readers.read(LOCAL_ADMIN, 25, 26)
        readers.read(LOCAL_ADMIN, 28, 40)
        assert readers.read_by() == [
            {"agent": "ada", "pointer": 0, "lines": "11-20"},
            {"agent": "bob"},
            {"agent": "admin", "pointer": 0, "lines": "25-26,28-30"},
        ]
        readers.read(readers.ada, 21, 35)
        assert readers.read_by()[0] == {"agent": "ada"}

    def test_three_agents_are_named(self, harness: Harness) -> None:
        readers = Readers(harness)
        for name in ("dan", "cyd", "eve"):
            readers.read(readers.client.add_agent(name, "architect"), 11, 30)
        readers.read(readers.bob, 11, 12)
        assert [reader["agent"] for reader in readers.read_by()] == ["cyd", "dan", "eve"]

    def test_each_pointer_has_its_own_lines(self, harness: Harness) -> None:
        readers = Readers(harness)
        note = "sam:note:anything@2026-01-01"
        refs = [repo_ref("src/other.py"), readers.ref, note]
        engram = readers.client.put("Three things prove it.", readers.ada, refs=refs)
        readers.read(readers.ada, 11, 13)
        readers.client.deref(readers.ada, note)
        assert readers.read_by(engram.id) == [
            {"agent": "ada", "pointer": 1, "lines": "11-13"},
            {"agent": "ada", "pointer": 2},
        ]
        readers.read(readers.ada, 14, 30)
        readers.client.deref(readers.ada, refs[0])
        assert readers.read_by(engram.id) == [{"agent": "ada"}]

    def test_a_cut_read_counts_for_the_lines_that_it_returned(self, harness: Harness) -> None:
        readers = Readers(harness)
        head = readers.read(readers.ada, 1, 40, max_tokens=300)
        assert head.truncated
        last = head.excerpt.count("\n")
        assert 11 < last < 30
        assert head.excerpt_span == f"L1-L{last}"
        assert readers.read_by() == [{"agent": "ada", "pointer": 0, "lines": f"11-{last}"}]
        tail = readers.read(readers.bob, 1, 40, max_tokens=300, tail=True)
        first = 41 - tail.excerpt.count("\n")
        assert tail.excerpt_span == f"L{first}-L40"
        assert readers.read_by()[1] == {"agent": "bob", "pointer": 0, "lines": f"{first}-30"}

    def test_the_lines_of_a_cut_read_can_be_cited_by_their_own_digest(self, harness: Harness) -> None:
        readers = Readers(harness)
        cut = readers.read(readers.ada, 1, 40, max_tokens=300)
        part = cut.excerpt_pointer
        assert part is not None
        assert part.digest == cut.excerpt_digest != cut.content_digest
        cited = _put(readers.client, readers.ada, "This much was seen.", part)
        assert readers.read_by(cited.id) == [{"agent": "ada"}]
        whole = msgspec.structs.replace(cut.pointer, digest=cut.content_digest)
        cited = _put(readers.client, readers.ada, "All of it is claimed.", whole)
        assert readers.read_by(cited.id) == [{"agent": "ada", "pointer": 0, "lines": f"1-{cut.excerpt.count(chr(10))}"}]

    def test_the_same_file_at_another_commit_was_read(self, harness: Harness) -> None:
        readers = Readers(harness)
        readers.read(readers.ada, 1, 20)
        later = readers.ref.replace(SHA, "6" * 40)
        engram = readers.client.put("It holds at a later commit.", readers.ada, refs=[later])
        assert readers.read_by(engram.id) == [{"agent": "ada", "pointer": 0, "lines": "11-20"}]

    def test_a_digest_copied_from_an_engram_is_a_phantom_read(self, harness: Harness) -> None:
        readers = Readers(harness)
        stamped = readers.engram.pointers[0]
        (found,) = readers.client.query("ledger append-only", readers.bob).engrams
        assert found.pointers == (stamped,)
        for caller in (readers.ada, readers.bob):
            with expect_refusal("PHANTOM_READ", "pointers[0].digest"):
                _put(readers.client, caller, "I have seen it too.", stamped)
        readers.read(readers.bob, 1, 40)  # a wider read returns another digest
        with expect_refusal("PHANTOM_READ", "pointers[0].digest"):
            _put(readers.client, readers.bob, "I have seen it too.", stamped)
        readers.read(readers.bob, 11, 30)
        engram = _put(readers.client, readers.ada, "Another of the run has read it.", stamped)
        assert readers.read_by(engram.id) == [{"agent": "bob"}]

    def test_a_wrong_digest_is_refused_without_the_right_one(self, harness: Harness) -> None:
        readers = Readers(harness)
        right = readers.engram.pointers[0].digest or ""
        wrong = msgspec.structs.replace(readers.engram.pointers[0], digest="sha256:" + "0" * 64)
        refusal = catch_refusal(lambda: _put(readers.client, readers.bob, "It is so.", wrong))
        assert (refusal.code, refusal.field, refusal.limit) == ("DIGEST_MISMATCH", "pointers[0].digest", None)
        assert "less.deref_pointer" in str(refusal.hint)
        assert right[len("sha256:") :] not in msgspec.json.encode(refusal.problem()).decode()

    def test_readers_of_another_run_are_named_only_to_their_own(self, harness: Harness) -> None:
        readers = Readers(harness)
        first_run = readers.client.call("list_agents").run_id
        second_run = readers.client.open_run()
        eve = readers.client.add_agent("eve", "architect")
        dan = readers.client.add_agent("dan", "architect")
        readers.read(eve, 11, 30)
        readers.read(readers.ada, 11, 12)
        assert readers.read_by(caller=readers.bob) == [{"agent": "ada", "pointer": 0, "lines": "11-12"}]
        assert readers.read_by(caller=dan) == [
            {"agent": "ada", "pointer": 0, "lines": "11-12"},
            {"agent": f"{second_run}/eve"},
        ]
        engram = readers.client.put("Said in the second run.", dan, refs=[readers.ref])
        assert readers.read_by(engram.id, readers.bob) == [
            {"agent": "eve"},
            {"agent": f"{first_run}/ada", "pointer": 0, "lines": "11-12"},
        ]

    def test_reads_of_the_memory_and_of_lists_are_no_reads_of_the_evidence(self, harness: Harness) -> None:
        readers = Readers(harness)
        readers.client.call("keep_episode", text="The ledger is append-only.", pinned=True)
        engram = readers.client.put("It is remembered.", readers.ada, refs=["sam:note:anything@2026-01-01"])
        readers.client.call("inherit", readers.ada)
        readers.client.call("brief", readers.ada)
        assert readers.read_by(engram.id) == []

    def test_readers_survive_a_restart_and_a_deleted_index(self, harness: Harness) -> None:
        readers = Readers(harness)
        cut = readers.read(readers.ada, 1, 40, max_tokens=300)
        readers.read(readers.bob, 11, 30)
        before = readers.read_by()
        assert len(before) == 2
        harness.reopen()
        assert readers.read_by() == before
        harness.delete_index()
        assert readers.read_by() == before
        assert harness.gateway.store.verify() == []
        assert cut.excerpt_pointer is not None
        _put(readers.client, readers.bob, "Its digest still counts.", cut.excerpt_pointer)

    def test_a_proof_of_an_older_journal_is_a_read_of_all_of_its_content(self, harness: Harness) -> None:
        readers = Readers(harness)
        digest = readers.engram.pointers[0].digest or ""
        run = readers.client.call("list_agents").run_id
        proof = DerefProved(run=run, agent="bob", turn=1, type="repo", ref=readers.ref, digest=digest, tokens=120)
        harness.gateway.store.commit(lambda view: ([proof], None))
        assert b'"spans"' not in harness.journal_bytes()
        assert readers.read_by() == [{"agent": "bob"}]
        _put(readers.client, readers.ada, "The digest may be cited.", readers.engram.pointers[0])


def _put(client: GatewayClient, caller: Credential, claim: str, pointer: Pointer) -> Any:
    """Put an engram with a pointer as it is."""
    return client.call("put_engram", caller, claim=claim, pointers=[msgspec.to_builtins(pointer)])
