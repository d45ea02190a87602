"""What was delivered to agents as pointers, and how much of it they read: the page's first figure (decision 80).

Copied would have been: the content behind each pointer that a message brought to an agent, once for each agent and
content. Spent instead: what that agent then read of it, at most its size. What an agent reads beyond that is its own
exploration and is not compared. A back end stores what was delivered and adds the counts while it applies facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from engrambus.gateway.tallies import Count, Tally
from engrambus.knowledge.messages import BroadcastSent, MessageAccepted, PointedContent
from engrambus.policy import ADMIN, DerefProved


class DeliveredContent(msgspec.Struct, frozen=True, kw_only=True):
    """Content that an agent was pointed at."""

    run: str
    agent: str
    content: PointedContent
    read_tokens: int = 0
    """Tokens that the agent has read of it since, at most its size."""


FindDelivered = Callable[[str, str, str, Sequence[str]], Sequence[DeliveredContent]]
"""Returns what an agent of a run was pointed at with this digest or in one of these files, in the order of digests."""


def changed_delivered(fact: object, find: FindDelivered) -> Iterator[tuple[DeliveredContent, Count]]:
    """Yield what a fact delivers or reads of it, as it is then, and what that adds to the agent's counters.

    The caller stores each before it takes the next: a message can bring an agent the same content twice.
    """
    match fact:
        case DerefProved():
            yield from _read(fact, find)
        case MessageAccepted() | BroadcastSent():
            for run, agent, content in _contents_of(fact):
                if agent == ADMIN or any(
                    known.content.digest == content.digest for known in find(run, agent, content.digest, ())
                ):
                    continue
                tally = Tally(pointed_tokens=content.tokens)
                yield DeliveredContent(run=run, agent=agent, content=content), Count(run=run, agent=agent, tally=tally)


def _contents_of(fact: MessageAccepted | BroadcastSent) -> Iterator[tuple[str, str, PointedContent]]:
    """Yield run and name of each receiver with each content that a message points it at."""
    if isinstance(fact, MessageAccepted):
        for content in fact.pointed:
            yield fact.to_run or fact.run, fact.to, content
        return
    for pack, contents in zip(fact.packs, fact.pointed, strict=False):  # older journals have no contents
        for agent in pack.to:
            for content in contents:
                yield fact.run, agent, content


def _read(proof: DerefProved, find: FindDelivered) -> Iterator[tuple[DeliveredContent, Count]]:
    """Yield what was delivered that a read returned lines of. Each token that was read counts once."""
    left = proof.tokens
    found = find(proof.run, proof.agent, proof.digest, [span.of for span in proof.spans])
    # The very content that was read comes before content that only shares lines with it.
    for delivered in sorted(found, key=lambda delivered: delivered.content.digest != proof.digest):
        tokens = min(left, delivered.content.tokens - delivered.read_tokens)
        if tokens > 0 and _shares_lines(proof, delivered.content):
            left -= tokens
            count = Count(run=proof.run, agent=proof.agent, tally=Tally(pointed_read_tokens=tokens))
            yield msgspec.structs.replace(delivered, read_tokens=delivered.read_tokens + tokens), count


def _shares_lines(proof: DerefProved, content: PointedContent) -> bool:
    """True if a read returned the content, or some of its lines with others of its file."""
    return content.digest == proof.digest or any(
        span.of == content.file
        and span.unit == "lines"
        and span.last >= content.first
        and (content.last is None or span.first <= content.last)
        for span in proof.spans
    )
