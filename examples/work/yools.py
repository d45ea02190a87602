"""Three yools of a small project, which `docs/work.md` runs."""

from __future__ import annotations

from engrambus.space.catalog import yool
from engrambus.space.work import step_context

EVERYONE = ("user", "agent", "ci")


@yool("agent.count.words", lane="build", effect="pure", authority=EVERYONE, inputs=[])
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


@yool("agent.review.text", lane="build", effect="reads", authority=EVERYONE, cost_usd=0.02, inputs=[])
async def review(text: str) -> str:
    """Stand in for a model that costs money."""
    step_context.spend(usd=0.02, tokens_in=len(text), tokens_out=2)
    (step_context.artifacts() / "review.md").write_text(f"# Review\n\n{text}\n")
    return "fine"


yool("agent.hash.file", lane="build", effect="reads", inputs=["${path}"], authority=EVERYONE)(["sha256sum", "${path}"])
