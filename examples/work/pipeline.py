"""A pipeline in one file: its yools, and the worker that runs them. `docs/work.md` runs it."""

from __future__ import annotations

from engrambus import Bus, Worker, yool
from engrambus.space.work import step_context


@yool("agent.review.each", lane="review", cached=False)
def review_each(texts: list[str]) -> int:
    """Put a tuple for each text; they are parts of this one and spend its budget."""
    with Bus.open(".") as bus:
        for text in texts:
            part = {"yool": "agent.review.part", "args": {"text": text}}
            bus.tuple_out("review", payload=[part], parent_id=step_context.tuple_id())
    return len(texts)


@yool("agent.review.part", lane="review", effect="reads", inputs=[])
def review_part(text: str) -> dict[str, bool]:
    """Stand in for a model: report its cost, leave its text as an artifact, return its decision."""
    step_context.spend(usd=0.01, tokens_in=len(text))
    (step_context.artifacts() / "review.md").write_text(f"# Review\n\n{text}\n")
    return {"fine": True}


# A command has the same in its environment.
NOTE = """
date > "$ENGRAMBUS_ARTIFACTS/when.txt"
echo '{"usd": 0.01}' >> "$ENGRAMBUS_COST"
echo "a step of $ENGRAMBUS_TUPLE"
"""
yool("agent.note.time", lane="review", cached=False)(["sh", "-c", NOTE])


if __name__ == "__main__":
    steps = [{"yool": "agent.review.each", "args": {"texts": ["one", "two"]}}, {"yool": "agent.note.time", "args": {}}]
    with Bus.open(".") as bus, Worker.open(".", lane="review") as worker:
        put = bus.tuple_out("review", payload=steps, agent_terms={"budget_usd": 0.5})
        worker.run(until_empty=True)
        observed = bus.tuple_observe(put.id)
        print(f"{observed.state}, ${observed.usd} with its parts")
