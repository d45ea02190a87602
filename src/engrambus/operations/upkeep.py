"""Looking after a project: its policy and its soundness."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, Command, operation
from engrambus.gateway.ports import Finding, View
from engrambus.policy import PolicyApplied, read_policy

_ON_THE_MACHINE = {"http": "an admin does this at the machine", "mcp": "an admin does this at the machine"}


class ApplyPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    policy: Annotated[dict[str, Any], Meta(description="What .catalog/policy.yaml says")]


class PolicyAnswer(Struct, frozen=True, kw_only=True):
    policy: dict[str, Any]
    """Every setting that differs from the default."""


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
    absent_from=_ON_THE_MACHINE,
)
def apply_policy(context: Context, request: ApplyPolicy) -> PolicyAnswer:
    """Apply the project's policy file, .catalog/policy.yaml: its limits and permissions."""
    policy = msgspec.to_builtins(read_policy(request.policy))

    def decide(view: View) -> tuple[list[PolicyApplied], PolicyAnswer]:
        return [PolicyApplied(policy=policy, by=context.caller.full_name)], PolicyAnswer(policy=policy)

    return context.commit(decide, PolicyAnswer, in_run=False)


class Verify(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class VerifyAnswer(Struct, frozen=True, kw_only=True):
    sound: bool
    commits: int
    """Of both journals: what is known, and what is done."""
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
    absent_from=_ON_THE_MACHINE,
)
def verify(context: Context, request: Verify) -> VerifyAnswer:
    """Check every checksum, and compare the index with a rebuild from the journal."""
    findings = [*context.store.verify(), *context.tuple_space.verify()]
    commits = context.view.counts().commits + context.tuple_space.commits()
    return VerifyAnswer(sound=not findings, commits=commits, findings=findings)
