"""Storing new text as an artifact, so that a claim, a request or a message can point at it instead of holding it."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from engrambus.core import estimate_tokens, print_time
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.ports import View

# decision 39: the detector is loaded with its first use
from engrambus.knowledge import messages
from engrambus.policy import TurnCharged, charge_text, payers_of

if TYPE_CHECKING:
    from engrambus.evidence.receipts import Receipt

MAX_ARTIFACT_CHARS = 65_536
STORE_ARTIFACT = "op.artifact.store"
"""The yool that a stored artifact is a receipt of."""
LANE = "artifacts"


class StoreArtifact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New text to point at."""

    text: Annotated[
        str, Meta(min_length=1, max_length=MAX_ARTIFACT_CHARS, description="New code or other text, to point at")
    ]
    name: Annotated[str, Meta(min_length=1, max_length=200, description="A file name for it")] = "block.txt"


class ArtifactAnswer(Struct, frozen=True, kw_only=True):
    pointer: str
    """The ref of all its lines."""
    tokens: int
    """Tokens that a reader of all of it spends."""
    receipt_id: str
    """The receipt that names it."""


@operation(
    "less.store_artifact",
    writes=True,
    route=Route("POST", "/artifact", body_limit=512 * 1024),
    command=Command(
        "artifact add",
        section="knowledge",
        example="engrambus artifact add proposal.py",
        renderer="evidence:stored_artifact",
        rank=46,
        arguments=("text",),
        override="knowledge:artifact_add",
    ),
    tool=Tool(hidden=("name",)),
    prose=("name",),
    raw_fields=("text",),
    span="create_memory",
)
def store_artifact(context: Context, request: StoreArtifact) -> ArtifactAnswer:
    """Store new code to point at.

    The pointer follows from the content: the same text always has the same one. Blank lines around it are left out.
    It is kept like the output of a step, and longer while an engram points at it.
    """
    body = messages.artifact_body(request.text)
    charge_bodies(context, [body])
    receipt = store_bodies(context, [body], request.name)
    return ArtifactAnswer(pointer=messages.artifact_ref(body), tokens=estimate_tokens(body), receipt_id=receipt.id)


def charge_bodies(context: Context, bodies: Sequence[bytes]) -> None:
    """Charge artifacts to the tokens that the caller's turn has for engrams."""
    tokens = sum(map(estimate_tokens, bodies))

    def decide(view: View) -> tuple[list[TurnCharged], None]:
        payers = payers_of(
            view, context.caller, context.limits, lambda agent: context.policy.turn_budget(agent.session_turns)
        )
        return charge_text(payers, tokens), None

    context.commit(decide, NoneType, remember=False)


def store_bodies(context: Context, bodies: Sequence[bytes], name: str) -> Receipt:
    """Store texts as the artifacts of one receipt, which garbage collection and the page know them by."""
    from engrambus.evidence.receipts import Artifact, new_receipt
    from engrambus.space.tuples import stamp_authority

    space = context.tuple_space.space
    run = context.caller.run.run_id
    space.check_disk_space()  # a full disk is refused before anything is stored
    artifacts = tuple(
        Artifact(kind="file", path=name, sha=context.tuple_space.bodies.put(body), size=len(body)) for body in bodies
    )

    def seal_receipt(tuple_id: str, now_us: int) -> Receipt:
        now = print_time(now_us)
        return new_receipt(
            yool=f"{STORE_ARTIFACT}.v1",
            tuple_id=tuple_id,
            started_at=now,
            ended_at=now,
            exit=0,
            artifacts=artifacts,
            step=0,
        )

    args = {"artifacts": [artifact.sha for artifact in artifacts]}
    _, receipt = space.record_finished(
        {"lane": LANE, "payload": [{"yool": STORE_ARTIFACT, "args": args}]},
        seal_receipt,
        authority=stamp_authority(context.caller, ci=context.tuple_space.ci),
        run=run,
    )
    return receipt
