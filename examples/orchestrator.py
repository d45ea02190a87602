"""A plain orchestrator: an architect and three programmers find out whether a shop's refunds are safe.

No model is called: what the agents say is scripted below, where your program would ask its models. Everything else is
real: the repository, the gateway, its budgets and its refusals.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from string import Template

import msgspec

from engrambus import (
    Accepted,
    Bus,
    DerefAnswer,
    EngramBusError,
    Found,
    Hooks,
    Rejected,
    Retrieved,
    Sent,
    Settings,
    init_project,
)
from engrambus.core import estimate_tokens

SHOP = Path(__file__).parent / "shop"
CHILDREN = ("ada", "ben", "cleo")

TASK = """\
ROLE: architect
SHARED_BRIEF_MICRO: "Are refunds safe? The page docs/refunds.md is what we promise; the code has to follow it."
BUDGETS: { max_engrams: 3, max_repo_spans: 2, max_inline_tokens: 400 }
TARGET_POINTER_PACK: [ "$promise", "$retries", "$limit" ]
INSTRUCTIONS:
  - "Ada: what happens when the provider times out? Ben: does the code keep the promise? Cleo: review what Ada finds."
"""

ADA_PASTES = """\
ROLE: programmer
TASK_STATUS: done
ENGRAMS:
  - kind: risk
    claim: "A refund that timed out is sent again without an idempotency key, so a customer can be refunded twice."
    pointers: [ "$retries" ]
OUTPUT:
  summary: |
    The retry loop is the problem:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return call()
            except ProviderTimeout:
                if attempt == ATTEMPTS:
                    raise
                self.sleep(PAUSE * attempt)
"""

CLEO_AGREES = """\
ROLE: programmer
TASK_STATUS: done
ENGRAMS:
  - kind: risk
    claim: "A refund that timed out is sent again without an idempotency key: a customer can be refunded twice."
    pointers: [ "$retries" ]
OUTPUT: "Ada is right; I read the same lines."
"""

BEN_FINDS = """\
ROLE: programmer
TASK_STATUS: done
ENGRAMS:
  - kind: risk
    claim: "Promise and code disagree: the page asks for a second approval above 100 euros, the code above 500."
    pointers: [ "$promise", "$limit" ]
  - kind: fact
    claim: "A reservation is made once per reference, so a repeated refund of an order is not posted twice."
    pointers: [ "$reserve" ]
OUTPUT: "One contradiction; the ledger itself is sound."
"""

CLOSING = """\
ROLE: architect
INSTRUCTIONS: [ "Ben: the page holds, lower the limit.", "Ada: send an idempotency key; Cleo reviews." ]
"""


def main() -> None:
    """Make a project in a temporary folder and let the team work on it."""
    with tempfile.TemporaryDirectory() as scratch:
        shop = Path(scratch) / "shop"
        sha = make_repository(shop)
        settings = Settings.from_environment({"HOME": scratch})
        init_project(shop, settings)
        with Bus.open(shop, settings=settings) as bus:
            bus.open_run("Refunds are safe")
            bus.add_agent("lead", role="architect")
            for name in CHILDREN:
                bus.add_agent(name, role="programmer", parent="lead")
            Orchestrator(bus, sha).work(shop)


class Orchestrator:
    """Asks, listens, hands back what was too large, and counts."""

    def __init__(self, bus: Bus, sha: str) -> None:
        self.bus = bus
        self.hooks = Hooks(bus)
        self.count = dict.fromkeys(("messages", "rejected", "sent again and accepted", "tokens moved"), 0)
        self.places = {
            "promise": f"repo:docs/refunds.md#L9-L12@{sha}",
            "retries": f"repo:payments.py#L71-L80@{sha}",
            "limit": f"repo:refunds.py#L12-L13@{sha}",
            "reserve": f"repo:ledger.py#L56-L69@{sha}",
        }

    def work(self, shop: Path) -> None:
        """One round: work out, answers, a grant, a broadcast, the bill."""
        print("== The lead hands out the work")
        self.tell(TASK)
        brief = self.bus.speak_as("ben").brief().lines
        self.count["tokens moved"] += estimate_tokens("\n".join(brief))
        print(f"   ben's brief ends: {brief[-1]}")

        print("\n== Ada reads, and pastes what she read")
        self.read("ada", "retries")
        template = self.answer("ada", ADA_PASTES)
        print("\n== Ada fills in the template")
        self.answer("ada", template.replace('"..."', '"Timed-out refunds are sent again; the pointer shows where."'))

        print("\n== Cleo looks, and says nearly the same")
        self.look_up("cleo", "A call that timed out is tried again, three times in all.")
        self.answer("cleo", CLEO_AGREES)

        print("\n== Ben needs to read more than his turn allows")
        self.read("ben", "promise")
        self.read("ben", "limit")
        if not self.read("ben", "reserve"):
            self.ask("ben", "reserve", "Does the ledger stop a second refund?")
            self.read("ben", "reserve")
        self.answer("ben", BEN_FINDS)

        print("\n== The lead decides, and the hook adds what the team knows")
        self.tell(CLOSING)
        print("   " + self.bus.speak_as("ada").inbox(k=100).mail[-1].text.replace("\n", "\n   ").rstrip())

        print("\n== What the team knows")
        for engram in self.bus.query_engrams(k=12, scope="project").engrams:
            where = ", ".join(pointer.ref.partition("@")[0] for pointer in engram.pointers)
            print(f"   {engram.kind}: {engram.claim}\n      {where}")
        self.bill(shop)

    def tell(self, text: str) -> None:
        """The lead speaks to all children."""
        outcome = self.hooks.on_parent_broadcast("lead", Template(text).safe_substitute(self.places))
        if not isinstance(outcome, Sent):
            raise SystemExit(f"the lead's message was not sent: {outcome}")
        self.count["messages"] += 1
        mail = self.bus.speak_as(outcome.to[0]).inbox(k=100).mail[-1].text
        self.count["tokens moved"] += len(outcome.to) * estimate_tokens(mail)
        print(f"   lead -> {', '.join(outcome.to)}: {estimate_tokens(mail)} tokens")

    def answer(self, child: str, text: str) -> str:
        """Take a child's answer; gives back the template when it has to be sent again."""
        text = Template(text).safe_substitute(self.places)
        self.count["messages"] += 1
        self.count["tokens moved"] += estimate_tokens(text)
        match self.hooks.on_child_response(child, text):
            case Accepted(to=to, engrams=engrams, turn=turn, resends=resends):
                self.count["sent again and accepted"] += resends is not None
                for engram_id in engrams:
                    author = self.bus.get_engram(engram_id).provenance.created_by.partition("/")[2]
                    print(f"   {engram_id} " + ("put" if author == child else f"confirmed, first said by {author}"))
                linked = f", makes good the rejection {resends}" if resends else ""
                print(f"   {child} -> {to}: accepted, turn {turn} begins{linked}")
            case Rejected(reason=reason, resend=resend):
                self.count["rejected"] += 1
                self.count["tokens moved"] += estimate_tokens(reason + resend)
                print(f"   {child} -> lead: rejected. {reason} To send instead:")
                print("      " + resend.rstrip().replace("\n", "\n      "))
                return resend
            case refused:
                raise SystemExit(f"{child} was refused: {refused}")
        return ""

    def read(self, child: str, place: str) -> bool:
        """Dereference for a child; whether its turn, or a grant, paid for it."""
        ref = self.places[place]
        try:
            answer = self.bus.speak_as(child).deref_pointer(ref, max_tokens=300)
        except EngramBusError as problem:
            print(f"   {child} may not read {ref.partition('@')[0]}: {problem.code}, {problem.detail}")
            return False
        print(f"   {child} reads {ref.partition('@')[0]}: {self.paid(answer)} tokens")
        return True

    def look_up(self, child: str, what: str) -> None:
        """A retrieval system found something: the child gets a pointer, and an excerpt if its turn allows."""
        result = Retrieved(text=what, pointer=self.places["retries"], score=0.9)
        for found in self.hooks.on_rag_result(child, [result], max_tokens=300):
            if isinstance(found, Found) and found.excerpt is not None:
                source, claim = found.engram.provenance.source, found.engram.claim
                print(f"   {source} for {child}: {claim} With the lines behind it: {self.paid(found.excerpt)} tokens")

    def paid(self, answer: DerefAnswer) -> int:
        """What a dereference cost: the whole answer, as the gateway counts it."""
        cost = estimate_tokens(msgspec.json.encode(answer).decode())
        self.count["tokens moved"] += cost
        return cost

    def ask(self, child: str, place: str, reason: str) -> None:
        """A child asks to read more, and the lead grants what waits for it."""
        asked = self.bus.speak_as(child).request_deref(self.places[place], reason=reason)
        print(f"   {child} asks {asked.asked}: {reason}")
        lead = self.bus.speak_as("lead")
        for request in lead.list_requests().requests:
            lead.approve_request(request.request_id, cap_tokens=300)
            print(f"   lead grants {request.agent} {request.ref.partition('@')[0]}: 300 tokens, once")

    def bill(self, shop: Path) -> None:
        """What it cost, next to copying the files to every child."""
        files = [path for path in shop.rglob("*") if path.suffix in (".py", ".md")]
        copied = len(CHILDREN) * sum(estimate_tokens(path.read_text("utf-8")) for path in files)
        self.count["tokens that copying the files would have moved"] = copied
        print("\n== The bill")
        for name, value in self.count.items():
            print(f"   {name:<48}{value:>6}")


def make_repository(path: Path) -> str:
    """Put the shop into a git repository of its own; gives its commit."""
    shutil.copytree(SHOP, path, ignore=shutil.ignore_patterns("__pycache__"))
    who = ["-c", "user.name=shop", "-c", "user.email=shop@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "The shop"]):
        subprocess.run(["git", *who, *command], cwd=path, check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=path, text=True).strip()


if __name__ == "__main__":
    main()
