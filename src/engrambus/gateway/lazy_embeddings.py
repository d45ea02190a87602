"""A project's embeddings: the model is loaded at first use, and so is the file of vectors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from engrambus.errors import EmbeddingsOff

if TYPE_CHECKING:
    from engrambus.knowledge.engrams import EngramVectors, TextEmbedder, VectorStore

    class VectorFiles(VectorStore, Protocol):
        """Stored vectors that can be removed."""

        def remove(self, refs: Sequence[str]) -> None:
            """Remove the vectors stored under these refs."""

        def close(self) -> None: ...


class LazyEmbeddings:
    """The model and the stored vectors of one project; a project may have neither."""

    def __init__(
        self,
        open_file: Callable[[], VectorFiles] | None = None,
        load_model: Callable[[], TextEmbedder] | None = None,
    ) -> None:
        """Without `load_model`, search by meaning is off."""
        self._open_file = open_file
        self._load_model = load_model
        self._file: VectorFiles | None = None
        self._vectors: EngramVectors | None = None
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """True if questions are answered by meaning as well as by words."""
        return self._load_model is not None and self._open_file is not None

    @property
    def vectors(self) -> EngramVectors:
        """The vectors of engrams; the model is loaded now if it is not loaded."""
        from engrambus.knowledge.engrams import EngramVectors

        with self._lock:
            if self._vectors is None:
                file = self._opened()
                if self._load_model is None or file is None:
                    raise EmbeddingsOff(
                        field="embedding_ref",
                        hint="Search by words: `less.query_engrams` with `q`. ENGRAMBUS_SEMANTIC=1 turns it on.",
                    )
                self._vectors = EngramVectors(self._load_model(), file)
            return self._vectors

    def forget(self, engram_id: str) -> None:
        """Remove the vector of an engram, also one that was stored before search by meaning was turned off."""
        from engrambus.knowledge.engrams import embedding_ref

        with self._lock:
            file = self._opened()
        if file is not None:
            file.remove([embedding_ref(engram_id)])

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = self._vectors = None

    def _opened(self) -> VectorFiles | None:
        if self._file is None and self._open_file is not None:
            self._file = self._open_file()
        return self._file
