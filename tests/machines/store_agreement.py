"""Two back ends driven side by side by Hypothesis: same clock, same randomness, and they must never differ.

Every step calls both and compares answers, refusals and journals byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.policy import SHARED_SCOPES
from engrambus.testing.client import NOTE, GatewayClient, format_message, ref_to_test
from engrambus.testing.clock import ManualClock
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness
from tests.harness.stores import MemoryHarness

WORDS = ("alpha", "beta", "gamma", "delta", "retryPolicy", "config.yaml", "service:gateway", "ключ", "日本", "x9.py")
OWN_IDS = tuple(f"01KDVP9R0000000000000000{number:02}" for number in range(4))
TTLS = ("PT1S", "PT10S", "PT1M", "P1D", "P30D")
REPO_REFS = (repo_ref("src/a.py"), repo_ref("src/b.py", 3, 30), repo_ref("src/b.py", 12, 17))
PATHS = ("src/a.py", "src/**", "src/*.py", "docs", "**/a.py", "**", "../x")
TURNS = (-3600, -1, 0, 1, 9, 10, 59, 3600, 86_400)

claims = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
questions = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
scopes = st.sampled_from(("run", "project"))
kinds = st.sampled_from(("fact", "risk", "test"))


def drafts() -> st.SearchStrategy[dict[str, Any]]:
    """Generate engrams as authors send them; some with an id, some invalid."""
    refs = ((NOTE,), (ref_to_test("x9.py"),), (ref_to_test("y.py"), NOTE), REPO_REFS[1:2], (REPO_REFS[2], NOTE))
    return st.fixed_dictionaries(
        {"claim": claims, "pointers": st.sampled_from(refs)},
        optional={
            "scope": st.sampled_from(("run", "project", "project", "org")),
            "kind": kinds,
            "ttl": st.sampled_from((*TTLS, "P1M", "P999D")),
            "confidence": st.sampled_from((0.0, 0.4, 0.5, 0.9, 1.0)),
            "id": st.sampled_from(OWN_IDS),
            "tags": st.lists(st.sampled_from(("service:gateway", "c++", "naïve", "*", "p:alpha")), max_size=2),
        },
    ).map(_with_pointers)


def _with_pointers(draft: dict[str, Any]) -> dict[str, Any]:
    refs = draft["pointers"]
    return {**draft, "pointers": [{"type": ref.partition(":")[0], "ref": ref} for ref in refs]}


class StoreAgreement(RuleBasedStateMachine):
    """The reference and another back end. A subclass says which by `make_other`."""

    make_candidate: Callable[[ManualClock], Harness]

    people = Bundle("people")
    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.reference: Harness = MemoryHarness(self.clock)
        self.candidate = type(self).make_candidate(self.clock)
        self.runs = [GatewayClient(self.reference).call("list_agents").run_id]

    def teardown(self) -> None:
        """Check that the index equals the journal."""
        assert self.candidate.gateway.store.verify() == []
        for scope in SHARED_SCOPES:
            if self.candidate.shared_bytes(scope):
                assert self.candidate.gateway.shared.store(scope).verify() == []
        self.reference.close()
        self.candidate.close()

    @initialize(target=people)
    def the_admin(self) -> Credential:
        """The local admin."""
        return LOCAL_ADMIN

    @initialize(target=ids)
    def ids_of_callers(self) -> Any:
        """Ids that may or may not be in use."""
        return multiple(*OWN_IDS[:2])

    def both(self, operation: str, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> Any:
        """Call both and require the same outcome; return the answer, or None if both refused."""
        expected = GatewayClient(self.reference).try_call(operation, caller, **fields)
        actual = GatewayClient(self.candidate).try_call(operation, caller, **fields)
        assert actual == expected, (operation, fields)
        return msgspec.json.decode(actual[1]) if actual[0] == "ok" else None

    @rule(target=ids, caller=people, draft=drafts(), key=st.sampled_from((None, None, "k1", "k2")))
    def put(self, caller: Credential, draft: dict[str, Any], key: str | None) -> Any:
        """Put one engram."""
        answer = self.both("put_engram", msgspec.structs.replace(caller, idempotency_key=key), **draft)
        return answer["id"] if answer else multiple()

    @rule(target=ids, caller=people, batch=st.lists(drafts(), min_size=1, max_size=40))
    def put_many(self, caller: Credential, batch: list[dict[str, Any]]) -> Any:
        """Put several in one commit."""
        answer = self.both("put_engrams", caller, engrams=batch)
        return multiple(*answer["ids"][:2]) if answer else multiple()

    @rule(target=ids, caller=people, count=st.integers(25, 70), scope=scopes, ttl=st.sampled_from(TTLS))
    def import_many(self, caller: Credential, count: int, scope: str, ttl: str) -> Any:
        """Put enough that postings are written and a key has more engrams than a query ranks."""
        engrams = [
            {"claim": f"alpha {WORDS[number % 5]} {number}", "pointers": [{"type": "sam", "ref": NOTE}], "ttl": ttl}
            for number in range(count)
        ]
        answer = self.both("put_engrams", caller, engrams=[{**engram, "scope": scope} for engram in engrams])
        return multiple(answer["ids"][0], answer["ids"][-1]) if answer else multiple()

    @rule(
        caller=people,
        q=questions,
        keys=st.lists(st.sampled_from((*WORDS, "c++", "*", "p:alpha", '"', "r1:alpha")), max_size=3),
        k=st.sampled_from((1, 3, 12, 100)),
        scope=st.sampled_from((None, "run", "project", "org")),
        kind=st.sampled_from((None, "fact", "risk")),
        max_tokens=st.sampled_from((None, None, 5, 200, 1000)),
    )
    def query(self, caller: Credential, **question: Any) -> None:
        """Query engrams."""
        self.both("query_engrams", caller, **question)

    @rule(caller=people, k=st.sampled_from((1, 7, 60)), kind=st.sampled_from((None, "fact")))
    def page_through_all(self, caller: Credential, k: int, kind: str | None) -> None:
        """Read all pages of the newest engrams."""
        answer = self.both("query_engrams", caller, k=k, kind=kind)
        for _ in range(5):
            if not answer or not answer.get("cursor"):
                break
            answer = self.both("query_engrams", caller, k=k, kind=kind, cursor=answer["cursor"])

    @rule(target=ids, caller=people, claim=claims, used=st.lists(ids, min_size=1, max_size=4))
    def decide(self, caller: Credential, claim: str, used: list[str]) -> Any:
        """Put a decision that names what it used, and look at both."""
        pointers = [{"type": "sam", "ref": NOTE}]
        put = self.both("put_engram", caller, claim=claim, kind="decision", pointers=pointers, used=used)
        for engram in (*([put["id"]] if put else []), used[0]):
            self.both("show_engram", caller, id=engram)
        return put["id"] if put else multiple()

    @rule(target=ids, caller=people, claim=claims, older=ids, scope=scopes)
    def replace(self, caller: Credential, claim: str, older: str, scope: str) -> Any:
        """Replace one engram by another, or be refused; look at both."""
        pointers = [{"type": "sam", "ref": NOTE}]
        put = self.both("put_engram", caller, claim=claim, pointers=pointers, scope=scope, replaces=older)
        for engram in (*([put["id"]] if put else []), older):
            self.both("show_engram", caller, id=engram)
        return put["id"] if put else multiple()

    @rule(target=ids, caller=people, number=st.integers(1, 4), kind=st.sampled_from(("decision", "fact")), scope=scopes)
    def state_a_limit(self, caller: Credential, number: int, kind: str, scope: str) -> Any:
        """Put a claim that contradicts others of its sort."""
        pointers = [{"type": "repo", "ref": REPO_REFS[number % 2]}]
        claim = f"The alpha limit is {number} lines."
        put = self.both("put_engram", caller, claim=claim, kind=kind, pointers=pointers, scope=scope)
        return put["id"] if put else multiple()

    @rule(caller=people, keep=st.sampled_from(("new", "old", "both")))
    def decide_what_holds(self, caller: Credential, keep: str) -> None:
        """Decide the newest contradiction, allowed or not."""
        self.both("list_contradictions", caller, all=True, k=3)
        answer = self.both("list_contradictions", caller)
        for row in answer["contradictions"][:1] if answer else ():
            self.both("decide_contradiction", caller, id=row["contradiction_id"], keep=keep, reason="Because.")

    @rule(text=st.sampled_from(("The alpha limit is 2 lines.", "Beta is slow.")), pinned=st.booleans())
    def keep_a_memory(self, text: str, pinned: bool) -> None:
        """Keep a memory that claims may contradict."""
        self.both("keep_episode", text=text, kind="decision", slug="alpha", pinned=pinned)

    @rule(
        caller=people, q=questions, ago=st.sampled_from(("PT1S", "PT9S", "PT1M", "PT1H", "P1D")), k=st.integers(1, 70)
    )
    def ask_the_past(self, caller: Credential, q: str, ago: str, k: int) -> None:
        """Ask what was known then, with words or without."""
        self.both("query_engrams", caller, q=q, as_of=ago, k=k)

    @rule(caller=people, engram=ids)
    def get(self, caller: Credential, engram: str) -> None:
        """Get one engram."""
        self.both("get_engram", caller, id=engram)

    @rule(caller=people, engram=consumes(ids))
    def forget(self, caller: Credential, engram: str) -> None:
        """Forget one engram."""
        self.both("forget_engram", caller, id=engram)

    @rule(caller=people, engram=ids)
    def confirm(self, caller: Credential, engram: str) -> None:
        """Confirm one engram."""
        self.both("confirm_engram", caller, id=engram)

    @rule(caller=people, engram=ids, scope=st.sampled_from(("project", "project", "org", "org", "global", "run")))
    def promote(self, caller: Credential, engram: str, scope: str) -> None:
        """Promote one engram."""
        self.both("promote_engram", caller, id=engram, scope=scope)

    @rule(target=ids, claim=claims, steps=st.integers(1, 2))
    def send_beyond(self, claim: str, steps: int) -> Any:
        """Open every scope and promote an engram to the shared stores."""
        self.both("apply_policy", policy={"scopes": ("run", "project", *SHARED_SCOPES)})
        pointers = [{"type": "sam", "ref": NOTE}]
        put = self.both("put_engram", claim=claim, pointers=pointers, scope="project", confidence=1.0)
        for scope in SHARED_SCOPES[:steps] if put else ():
            self.both("promote_engram", id=put["id"], scope=scope)
        return put["id"] if put else multiple()

    @rule(seconds=st.sampled_from(TURNS), microseconds=st.sampled_from((0, 0, 1, 999_999)))
    def turn_the_clock(self, seconds: int, microseconds: int) -> None:
        """Move the clock, also backwards."""
        self.clock.advance(seconds=seconds, microseconds=microseconds)

    @rule(
        target=people,
        by=people,
        name=st.sampled_from(("ada", "bob", "cyd", "dee", "admin", "Ada", None)),
        role=st.sampled_from(("architect", "director", "manager", "programmer", "tool", "admin")),
        parent=st.sampled_from((None, None, "ada", "bob")),
        client_id=st.sampled_from((None, None, "one", "two")),
    )
    def add_agent(self, by: Credential, name: str | None, role: str, parent: str | None, client_id: str | None) -> Any:
        """Add an agent, allowed or not."""
        answer = self.both("add_agent", by, name=name, role=role, parent=parent, client_id=client_id)
        return Credential(token=answer["token"]) if answer else multiple()

    @rule(target=people, by=people, session=st.sampled_from((None, "one", "two")), turns=st.integers(1, 4))
    def add_lead(self, by: Credential, session: str | None, turns: int) -> Any:
        """Add the lead of a session, again or not."""
        answer = self.both("add_lead", by, goal="a session", session=session, session_turns=turns)
        return Credential(token=answer["token"]) if answer else multiple()

    @rule(caller=people, name=st.sampled_from(("ada", "adda", "bob", "nobody")))
    def sign_in(self, caller: Credential, name: str) -> None:
        """Get a token for an agent of this run, of another run or of none."""
        self.both("agent_token", caller, name=name)

    @rule(target=people, speaker=people, name=st.sampled_from(("ada", "bob", "cyd", "dee")))
    def speak_for(self, speaker: Credential, name: str) -> Credential:
        """Speak for another agent, allowed or not."""
        return msgspec.structs.replace(speaker, speak_as=name)

    @rule(target=people)
    def open_run(self) -> Any:
        """Open a run; the admin can still act in the previous one."""
        answer = self.both("open_run", goal="another")
        previous, self.runs = self.runs[-1], [*self.runs, answer["run_id"]]
        return Credential(local_admin=True, run=previous)

    @rule(which=st.integers(0, 3))
    def end_run(self, which: int) -> None:
        """End a run that may be ended or unknown."""
        self.both("end_run", run_id=[*self.runs, "nothing"][which % (len(self.runs) + 1)])

    @rule(
        caller=people,
        ref=st.sampled_from(REPO_REFS),
        max_tokens=st.sampled_from((90, 250, 400)),
        tail=st.booleans(),
    )
    def deref(self, caller: Credential, ref: str, max_tokens: int, tail: bool) -> None:
        """Dereference a pointer."""
        self.both("deref_pointer", caller, pointer=ref, max_tokens=max_tokens, tail=tail)

    @rule(
        target=ids,
        caller=people,
        role=st.sampled_from(("manager", "programmer")),
        engrams=st.lists(drafts(), max_size=3),
    )
    def report(self, caller: Credential, role: str, engrams: list[dict[str, Any]]) -> Any:
        """Send a message, which closes the turn, or is refused."""
        text = format_message(role=role, task_status="done", engrams=engrams, output={"summary": "So far."})
        answer = self.both("send_message", caller, text=text)
        return multiple(*answer["engrams"]) if answer else multiple()

    @rule(caller=people, name=st.sampled_from(("ada", "bob", "cyd", "admin", "nobody")))
    def write_to(self, caller: Credential, name: str) -> None:
        """Write a note to another agent, or be refused."""
        self.both("send_message", caller, text="So far, so good.", to=name)

    @rule(
        caller=people,
        role=st.sampled_from(("manager", "architect")),
        to=st.sampled_from(((), ("programmer",), ("role:manager", "ada"))),
        pack=st.sampled_from(((), ("ada",), ("programmer",))),
    )
    def broadcast(self, caller: Credential, role: str, to: tuple[str, ...], pack: tuple[str, ...]) -> None:
        """Send a message with pointers to children, or be refused."""
        pointers = [{"type": "repo", "ref": repo_ref("src/a.py")} | ({"for": pack} if pack else {})]
        text = format_message(role=role, instructions=["Go on."], target_pointer_pack=pointers)
        self.both("broadcast", caller, text=text, to=list(to))

    @rule(caller=people, k=st.sampled_from((1, 20)), unseen=st.booleans(), short=st.booleans())
    def read_the_mail(self, caller: Credential, k: int, unseen: bool, short: bool) -> None:
        """Read the inbox and the brief."""
        answer = self.both("inbox", caller, k=k, unseen=unseen, short=short, recent=3)
        for row in answer["mail"] if answer else ():
            self.both("read_mail", caller, id=row["item"][:13])
        self.both("brief", caller)

    @rule(
        floor=st.sampled_from((0.1, 0.95)),
        ttl=st.sampled_from(("P365D", "PT10S", "nonsense")),
        reach=st.sampled_from((2, 3, 4, 4)),
    )
    def apply_policy(self, floor: float, ttl: str, reach: int) -> None:
        """Apply a policy with other limits and scopes."""
        scopes = ("run", "project", *SHARED_SCOPES)[:reach]
        floors = {scope: floor for scope in scopes if scope != "run"}
        self.both("apply_policy", policy={"promotion_floor": floors, "max_ttl": ttl, "scopes": scopes})

    @rule(
        caller=people,
        paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=3),
        expires_in=st.sampled_from((None, "PT9S", "PT1M", "PT9H")),
        process=st.sampled_from((None, None, "another-host/1.1")),
    )
    def reserve(self, caller: Credential, **terms: Any) -> None:
        """Reserve paths, free or not, and check them."""
        self.both("reserve", caller, **terms)
        self.both("check_reservations", caller, paths=terms["paths"])

    @rule(caller=people, paths=st.lists(st.sampled_from(PATHS), max_size=2), everyone=st.booleans())
    def release(self, caller: Credential, paths: list[str], everyone: bool) -> None:
        """Release some paths or all."""
        self.both("release_reservations", caller, paths=paths, all=everyone)
        self.both("list_reservations", caller)

    @rule(by=people, name=st.sampled_from(("ada", "bob")))
    def remove_agent(self, by: Credential, name: str) -> None:
        """Remove an agent with its descendants; what they have reserved is free then."""
        self.both("remove_agent", by, name=name)
        self.both("list_reservations")

    @rule(caller=people)
    def look_around(self, caller: Credential) -> None:
        """List agents and figures."""
        self.both("list_agents", caller)
        self.both("stats", caller)

    @rule()
    def restart(self) -> None:
        """Reopen both stores."""
        self.reference.reopen()
        self.candidate.reopen()

    @rule()
    def delete_the_index(self) -> None:
        """Delete the index of both open stores."""
        self.reference.delete_index()
        self.candidate.delete_index()

    @invariant()
    def the_journals_are_the_same(self) -> None:
        """Compare the journals byte for byte."""
        assert self.candidate.journal_bytes() == self.reference.journal_bytes()
        for scope in SHARED_SCOPES:
            assert self.candidate.shared_bytes(scope) == self.reference.shared_bytes(scope)
