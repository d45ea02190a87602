"""A vector store as a baseline, with the model of the optional extra; otherwise the reason why it is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engrambus.adapters.semantic import load_model
from engrambus.errors import EngramBusError
from eval.baselines import Search

if TYPE_CHECKING:
    from engrambus.adapters.semantic import MiniLm

NOT_REQUESTED = "it was not asked for (--model)"


def find_model(*, requested: bool) -> MiniLm | str:
    """Return the model, or why there is none."""
    if not requested:
        return NOT_REQUESTED
    try:
        return load_model()
    except EngramBusError as refusal:
        return refusal.detail.rstrip(".")


def vector_search(model: MiniLm) -> Callable[[Sequence[str]], Search]:
    """Return a function that makes a search by cosine similarity over all texts."""

    def make_search(texts: Sequence[str]) -> Search:
        vectors = model.embed(texts)

        def search(question: str, k: int) -> list[int]:
            (vector,) = model.embed([question])
            scores = model.similarities(vector, vectors)
            return sorted(range(len(texts)), key=lambda index: (-scores[index], index))[:k]

        return search

    return make_search
