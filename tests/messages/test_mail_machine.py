"""Mail as its receivers see it: nothing is lost and nothing is shown twice, whatever is sent, seen or reopened."""
# EB-34

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.testing import GatewayClient
from engrambus.testing.client import format_message
from tests.harness.stores import SqliteHarness

NAMES = ("ada", "kid", "kim", "ben")
CHILDREN = ("kid", "kim")


class MailMachine(RuleBasedStateMachine):
    """Two leads in two runs, one with two children, and a person."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="engrambus-"))
        self.harness = SqliteHarness(self.folder / "catalog")
        client = GatewayClient(self.harness)
        first, second = (Credential(local_admin=True, run=client.open_run()) for _ in range(2))
        ada = client.add_agent("ada", "manager", first)
        self.people = {
            "admin": LOCAL_ADMIN,
            "ada": ada,
            "kid": client.add_agent("kid", "programmer", ada),
            "kim": client.add_agent("kim", "programmer", ada),
            "ben": client.add_agent("ben", "manager", second),
        }
        self.sent = 0
        self.inboxes: defaultdict[str, list[str]] = defaultdict(list)
        self.seen: defaultdict[str, int] = defaultdict(int)

    def teardown(self) -> None:
        """Check that the index equals the journal."""
        assert self.harness.gateway.store.verify() == []
        self.harness.close()
        shutil.rmtree(self.folder)

    def call(self, operation: str, name: str, /, **fields: Any) -> Any:
        """Call an operation for one of them."""
        return GatewayClient(self.harness).call(operation, self.people[name], **fields)

    def words(self) -> str:
        """Return words that no other message has."""
        self.sent += 1
        return f"Matter {self.sent} stands."

    @rule(sender=st.sampled_from(("ada", "ben", "admin")), to=st.sampled_from(("ada", "ben")))
    def write(self, sender: str, to: str) -> None:
        """Write from one lead to the other, or from the person to a lead."""
        if sender != to:
            words = self.words()
            self.call("send_message", sender, text=words, to=to)
            self.inboxes[to].append(words)

    @rule(sender=st.sampled_from((*CHILDREN, "ben")))
    def report(self, sender: str) -> None:
        """Report to the parent, which is the person for a lead."""
        words, role = self.words(), "programmer" if sender in CHILDREN else "manager"
        self.call("send_message", sender, text=format_message(role=role, task_status="done", output=words))
        self.inboxes["ada" if sender in CHILDREN else "admin"].append(words)

    @rule(to=st.sampled_from((("kid",), ("role:programmer",), ())))
    def broadcast(self, to: tuple[str, ...]) -> None:
        """Send a message to one child, or to both."""
        words = self.words()
        self.call("broadcast", "ada", text=format_message(role="manager", instructions=[words]), to=list(to))
        for child in ("kid",) if to == ("kid",) else CHILDREN:
            self.inboxes[child].append(words)

    @rule(name=st.sampled_from(("admin", *NAMES)), k=st.integers(1, 5), max_tokens=st.sampled_from((None, 120, 300)))
    def see(self, name: str, k: int, max_tokens: int | None) -> None:
        """Have some mail shown: the oldest that was not, in order."""
        lines = self.call("inbox", name, unseen=True, short=True, k=k, max_tokens=max_tokens).lines
        expected = self.inboxes[name][self.seen[name] :][: len(lines)]
        assert [line.partition(": ")[2] for line in lines] == expected
        assert lines or self.seen[name] == len(self.inboxes[name]), "something is always shown while something waits"
        self.seen[name] += len(lines)

    @rule(name=st.sampled_from(NAMES))
    def look_for_another(self, name: str) -> None:
        """Page through an inbox, which shows nothing as seen."""
        mail = self.call("inbox", name, k=100).mail
        assert len(mail) == len(self.inboxes[name])

    @rule(index=st.booleans())
    def restart(self, index: bool) -> None:
        """Open the project again, or rebuild its index."""
        self.harness.reopen()
        if index:
            self.harness.delete_index()

    @invariant()
    def every_inbox_counts_what_waits(self) -> None:
        """Compare the counts of unseen mail."""
        for name in self.people:
            assert self.call("inbox", name, k=1).waiting == len(self.inboxes[name]) - self.seen[name], name


TestMail = MailMachine.TestCase
TestMail.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
