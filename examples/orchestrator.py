"""A plain orchestrator: an architect and three programmers find out whether a shop's refunds are safe.

No model is called: what the agents say is scripted below, where your program would ask its models. Everything else is
real: the repository, the gateway, its budgets and its refusals.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from stigmergy import (
    Accepted,
    Bus,
    DerefAnswer,
    Found,
    Hooks,
    Rejected,
    Retrieved,
    Sent,
    Settings,
    StigmergyError,
    init_project,
)

SHOP = Path(__file__).parent / "shop"
LEAD = "lead"
CHILDREN = ("ada", "ben", "cleo")

TASK = """\
ROLE: architect
SHARED_BRIEF_MICRO:
  - "Goal: find out whether refunds are safe before the release."
  - "The page docs/refunds.md is what we promise; the code has to follow it."
BUDGETS:
  max_engrams: 3
  max_repo_spans: 2
  max_inline_tokens: 400
TARGET_POINTER_PACK:
  - { type: "repo", ref: "{promise}" }
  - { type: "repo", ref: "{retries}" }
  - { type: "repo", ref: "{limit}" }
INSTRUCTIONS:
  - "Ada: what happens when the provider times out? Ben: does the code keep the promise? Cleo: review what Ada finds."
"""

ADA_PASTES = """\
ROLE: programmer
TASK_STATUS: done
ENGRAMS:
  - kind: risk
    claim: "A refund that timed out is sent again without an idempotency key, so a customer can be refunded twice."
    pointers: [ "{retries}" ]
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
    pointers: [ "{retries}" ]
OUTPUT:
  summary: "Ada is right; I read the same lines."
"""

BEN_FINDS = """\
ROLE: programmer
TASK_STATUS: done
ENGRAMS:
  - kind: risk
    claim: "Promise and code disagree: the page asks for a second approval above 100 euros, the code above 500."
    confidence: 0.95
    pointers: [ "{promise}", "{limit}" ]
  - kind: fact
    claim: "A reservation is made once per reference, so a repeated refund of an order is not posted twice."
    pointers: [ "{reserve}" ]
OUTPUT:
  summary: "One contradiction; the ledger itself is sound."
  next: "Decide which limit holds."
"""

CLOSING = """\
ROLE: architect
INSTRUCTIONS:
  - "The page holds: lower the limit to 100 euros. Ben."
  - "Send an idempotency key with every refund. Ada; Cleo reviews."
"""


def main() -> None:
    """Make a project in a temporary folder and let the team work on it."""
    with tempfile.TemporaryDirectory() as scratch:
        shop, sha = make_repository(Path(scratch) / "shop")
        settings = Settings.from_environment({"HOME": scratch})
        init_project(shop, settings)
        with Bus.open(shop, settings=settings) as bus:
            bus.open_run("Refunds are safe")
            bus.add_agent(LEAD, role="architect")
            for name in CHILDREN:
                bus.add_agent(name, role="programmer", parent=LEAD)
            Orchestrator(bus, sha).work(shop)


class Orchestrator:
    """Asks, listens, hands back what was too large, and counts."""

    def __init__(self, bus: Bus, sha: str) -> None:
        self.bus = bus
        self.hooks = Hooks(bus)
        self.count: Counter[str] = Counter()
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
        print("   ben is told:", self.bus.speak_as("ben").brief().lines[-1])

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
            self.decide_requests()
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
        outcome = self.hooks.on_parent_broadcast(LEAD, self.filled(text))
        if not isinstance(outcome, Sent):
            raise SystemExit(f"the lead's message was not sent: {outcome}")
        self.count["messages"] += 1
        mail = self.bus.speak_as(outcome.to[0]).inbox(k=100).mail[-1].text
        self.count["moved"] += len(outcome.to) * tokens(mail)
        print(f"   lead -> {', '.join(outcome.to)}: {tokens(mail)} tokens")

    def answer(self, child: str, text: str) -> str:
        """Take a child's answer; gives back the template when it has to be sent again."""
        text = self.filled(text)
        self.count["messages"] += 1
        self.count["moved"] += tokens(text)
        match self.hooks.on_child_response(child, text):
            case Accepted(to=to, engrams=engrams, turn=turn, resends=resends):
                self.count["resends"] += resends is not None
                for engram_id in engrams:
                    author = self.bus.get_engram(engram_id).provenance.created_by.partition("/")[2]
                    print(f"   {engram_id} " + ("put" if author == child else f"confirmed, first said by {author}"))
                linked = f", makes good the rejection {resends}" if resends else ""
                print(f"   {child} -> {to}: accepted, turn {turn} begins{linked}")
                return ""
            case Rejected(reason=reason, resend=resend):
                self.count["rejections"] += 1
                self.count["moved"] += tokens(reason + resend)
                print(f"   {child} -> {LEAD}: rejected. {reason} To send instead:")
                print("      " + resend.rstrip().replace("\n", "\n      "))
                return resend
            case refused:
                raise SystemExit(f"{child} was refused: {refused}")

    def read(self, child: str, place: str) -> bool:
        """Dereference for a child; whether its turn, or a grant, paid for it."""
        ref = self.places[place]
        try:
            answer = self.bus.speak_as(child).deref_pointer(ref, max_tokens=300)
        except StigmergyError as problem:
            print(f"   {child} may not read {ref.partition('@')[0]}: {problem.code}, {problem.detail}")
            return False
        print(f"   {child} reads {ref.partition('@')[0]}: {self.paid(answer)} tokens")
        return True

    def look_up(self, child: str, what: str) -> None:
        """A retrieval system found something: the child gets a pointer, and an excerpt if its turn allows."""
        result = Retrieved(text=what, pointer=self.places["retries"], score=0.9)
        for found in self.hooks.on_rag_result(child, [result], max_tokens=300):
            if isinstance(found, Found) and found.excerpt is not None:
                print(f"   {found.engram.provenance.source} tells {child}: {found.engram.claim}")
                print(f"   with the lines behind it: {self.paid(found.excerpt)} tokens")

    def paid(self, answer: DerefAnswer) -> int:
        """What a dereference cost: the whole answer, as the gateway counts it."""
        cost = tokens(msgspec.json.encode(answer).decode())
        self.count["moved"] += cost
        return cost

    def ask(self, child: str, place: str, reason: str) -> None:
        """A child asks its parent to let it read more."""
        asked = self.bus.speak_as(child).request_deref(self.places[place], reason=reason)
        print(f"   {child} asks {asked.asked}: {reason}")

    def decide_requests(self) -> None:
        """The lead answers what waits for it."""
        lead = self.bus.speak_as(LEAD)
        for request in lead.list_requests().requests:
            lead.approve_request(request.request_id, cap_tokens=300)
            print(f"   lead grants {request.agent} {request.ref.partition('@')[0]}, 300 tokens, once")

    def filled(self, text: str) -> str:
        """A scripted text with the pointers it names."""
        for name, ref in self.places.items():
            text = text.replace(f"{{{name}}}", ref)
        return text

    def bill(self, shop: Path) -> None:
        """What it cost, next to copying the files to every child."""
        files = [path for path in shop.rglob("*") if path.suffix in (".py", ".md")]
        copied = len(CHILDREN) * sum(tokens(path.read_text("utf-8")) for path in files)
        print("\n== The bill")
        print(f"   {'messages':<48}{self.count['messages']:>6}")
        print(f"   {'rejected':<48}{self.count['rejections']:>6}")
        print(f"   {'sent again and accepted':<48}{self.count['resends']:>6}")
        print(f"   {'tokens moved':<48}{self.count['moved']:>6}")
        print(f"   {'tokens that copying the files would have moved':<48}{copied:>6}")


def tokens(text: str) -> int:
    """How many tokens a text counts for."""
    return -(-len(text.encode()) // 4)


def make_repository(path: Path) -> tuple[Path, str]:
    """The shop in a git repository of its own, and its commit."""
    shutil.copytree(SHOP, path, ignore=shutil.ignore_patterns("__pycache__"))
    who = ["-c", "user.name=shop", "-c", "user.email=shop@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "The shop"]):
        subprocess.run(["git", *who, *command], cwd=path, check=True)
    sha = subprocess.run(["git", "rev-parse", "HEAD"], cwd=path, capture_output=True, text=True, check=True).stdout
    return path, sha.strip()


if __name__ == "__main__":
    main()
