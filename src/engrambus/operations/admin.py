"""Administration of a project: its policy, and the integrity of its files."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

import engrambus.policy as policy
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, Command, operation
from engrambus.gateway.ports import Finding, View
from engrambus.policy import PolicyApplied

_LOCAL_ONLY = {"http": "for the admin at the machine", "mcp": "for the admin at the machine"}


class ApplyPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    policy: Annotated[dict[str, Any], Meta(description="The content of .catalog/policy.yaml")]


class PolicyAnswer(Struct, frozen=True, kw_only=True):
    policy: dict[str, Any]
    """The settings that differ from the defaults."""


@operation(
    "policy.apply",
    roles=ADMINS,
    writes=True,
    command=Command(
        "policy apply",
        section="maintenance",
        example="engrambus policy apply",
        renderer="maintenance:policy",
        rank=60,
        override="maintenance:policy_apply",
    ),
    absent_from=_LOCAL_ONLY,
)
def apply_policy(context: Context, request: ApplyPolicy) -> PolicyAnswer:
    """Apply the project's policy file, .catalog/policy.yaml: its limits and permissions.

    Until it is applied, a changed file has no effect.
    """
    applied = policy.apply_policy(request.policy, caller=context.caller)

    def decide(view: View) -> tuple[list[PolicyApplied], PolicyAnswer]:
        return [applied], PolicyAnswer(policy=applied.policy)

    return context.commit(decide, PolicyAnswer, in_run=False)


class Verify(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class VerifyAnswer(Struct, frozen=True, kw_only=True):
    sound: bool
    commits: int
    """Lines of both journals: memory.jsonl and tuples.jsonl."""
    findings: list[Finding]


@operation(
    "verify",
    roles=ADMINS,
    command=Command(
        "verify",
        section="maintenance",
        example="engrambus verify",
        renderer="maintenance:verification",
        rank=30,
        override="maintenance:verify",
    ),
    absent_from=_LOCAL_ONLY,
)
def verify(context: Context, request: Verify) -> VerifyAnswer:
    """Check every checksum, and compare the index with a rebuild from the journal.

    The journal, .catalog/memory.jsonl, is the record of everything; the index only makes it searchable.
    """
    findings = [*context.store.verify(), *context.tuple_space.verify()]
    commits = context.view.counts().commits + context.tuple_space.commits()
    return VerifyAnswer(sound=not findings, commits=commits, findings=findings)
