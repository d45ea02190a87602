"""A manager and a programmer with a real repository, for the tests of the specifications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engrambus.errors import EngramBusError
from engrambus.gateway import Credential, Gateway
from engrambus.testing import GatewayClient, ManualClock
from tests.projects import Repository, make_gateway, make_repository, make_settings

CHILD = """ROLE: Programmer
TASK_STATUS: in_progress
ENGRAMS:
- kind: risk
  claim: "The parser trusts its input, and the design says so too."
  confidence: 0.72
  ttl: "P7D"
  scope: "project"
  pointers:
  - {{ type: "artifact", ref: "artifact:docs/design.md#sec=Parser@{sha}" }}
  - {{ type: "repo", ref: "repo:src/parser.py#L10-L20@{sha}" }}
POINTER_PACK:
- {{ type: "repo", ref: "repo:src/parser.py#L1-L5@{sha}" }}
DEREF_REQUESTS:
- pointer: {{ type: "repo", ref: "repo:src/parser.py#L1-L30@{sha}" }}
  reason: "Need to see how the input is taken."
OUTPUT:
  summary: "One risk found; need a grant for the parser."
  next: "Await the grant."
"""
PARENT = """ROLE: Manager
SHARED_BRIEF_MICRO:
- "Goal: make the parser distrust its input."
BUDGETS:
  max_engrams: 10
  max_repo_spans: 3
  max_sam_items: 2
  max_inline_tokens: 800
GRANTS:
- budget_token: "{token}"
  pointer: {{ type: "repo", ref: "repo:src/parser.py#L1-L30@{sha}" }}
  cap_tokens: 500
TARGET_POINTER_PACK:
- {{ type: "artifact", ref: "artifact:docs/design.md#sec=Parser@{sha}" }}
INSTRUCTIONS:
- "Confirm it; emit 3-5 Engrams max; no inline code."
"""
PASTED = "def parse(text):\n    for line in text.split():\n        yield line.strip()\n"


class Team:
    """A project with its repository, a manager and a programmer below it."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.repository: Repository = make_repository(folder / "repo")
        self.gateway: Gateway = make_gateway(self.repository.path, make_settings(folder / "home"), self.clock)
        self.client = GatewayClient(self)
        self.mia = self.client.add_agent("mia", "manager")
        self.paul = self.client.add_agent("paul", "programmer", self.mia)

    @property
    def sha(self) -> str:
        """The commit that all pointers name."""
        return self.repository.sha

    def lines(self, first: int = 1, last: int = 2, file: str = "src/parser.py") -> str:
        """The ref of some lines."""
        return f"repo:{file}#L{first}-L{last}@{self.sha}"

    def send(self, text: str, sender: Credential | None = None, **fields: Any) -> Any:
        """Send a child's message as it is written."""
        return self.client.call("send_message", sender or self.paul, text=text, **fields)

    def refusal(self, operation: str, caller: Credential, /, **fields: Any) -> EngramBusError:
        """The error that an operation fails with."""
        try:
            self.client.call(operation, caller, **fields)
        except EngramBusError as refusal:
            return refusal
        raise AssertionError(f"{operation} succeeded")

    def journal(self) -> bytes:
        """The content of the journal."""
        return (self.repository.path / ".catalog" / "memory.jsonl").read_bytes()
