"""LightRAG over a small shop: what it retrieves for an agent becomes pointers into the repository.

The embedding and the model below are small deterministic functions, so that the example needs no key and no network.
Use your own: nothing else changes.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from lightrag import LightRAG, QueryParam
from lightrag.utils import EmbeddingFunc, Tokenizer
from orchestrator import make_repository

from engrambus import Bus, Settings, init_project
from engrambus.adapters.lightrag import LightRagBridge

DIMENSIONS = 256
_WORD = re.compile(r"[a-z]{3,}")
_SECTION = re.compile(r"^## ([^\n]+)\n\n(.+?[.])(?:\s|$)", re.MULTILINE | re.DOTALL)
_FUNCTION = re.compile(r'def (\w{4,})\([^"]*?"""(.+?[.])', re.DOTALL)


async def embed(texts: list[str]) -> Any:
    """Return a vector for each text: which words it has, by the hash of their beginnings."""
    vectors: Any = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
    for row, text in enumerate(texts):
        for stem in {word[:6] for word in _WORD.findall(text.lower())}:
            place = int.from_bytes(blake2b(stem.encode(), digest_size=2).digest(), "big")
            vectors[row, place % DIMENSIONS] = len(stem)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


async def answer(prompt: str, system_prompt: str | None = None, **_: object) -> str:
    """Answer the two prompts of LightRAG: name the entities of a chunk, and the keywords of a question."""
    if "keyword extractor" in prompt:
        question = prompt.rpartition("User Query:")[2].partition("\n")[0]
        words = _WORD.findall(question.lower())
        return json.dumps({"high_level_keywords": words[:2] or ["shop"], "low_level_keywords": words or ["shop"]})
    text = prompt.rpartition("---Input Text---")[2]
    found = [(name, " ".join(said.split())) for name, said in (*_SECTION.findall(text), *_FUNCTION.findall(text))]
    rows = [f"entity<|#|>{name}<|#|>concept<|#|>{said}" for name, said in found]
    rows += [
        f"relation<|#|>{one}<|#|>{other}<|#|>shop<|#|>{one} and {other} are described together."
        for (one, _), (other, _) in pairwise(found)
    ]
    return "\n".join([*rows, "<|COMPLETE|>"])


class Characters:
    """A tokenizer that needs no download: a token is a character."""

    def encode(self, content: str) -> list[int]:
        """Return the code of each character."""
        return [ord(char) for char in content]

    def decode(self, tokens: list[int]) -> str:
        """Return the characters of these codes."""
        return "".join(map(chr, tokens))


async def make_index(folder: Path, *, chunk_chars: int = 400) -> LightRAG:
    """Return an empty index in a folder."""
    rag = LightRAG(
        working_dir=str(folder),
        workspace=folder.name,
        embedding_func=EmbeddingFunc(embedding_dim=DIMENSIONS, func=embed, max_token_size=8192, model_name="words"),
        llm_model_func=answer,
        llm_model_name="script",
        tokenizer=Tokenizer("characters", Characters()),
        chunk_token_size=chunk_chars,
        chunk_overlap_token_size=chunk_chars // 7,
        entity_extract_max_gleaning=0,
        vector_db_storage_cls_kwargs={"cosine_better_than_threshold": 0.1},  # the texts here are short
    )
    await rag.initialize_storages()
    return rag


async def insert_files(rag: LightRAG, root: Path) -> None:
    """Insert the Markdown and Python files below a folder."""
    paths = sorted(path for path in root.rglob("*") if path.suffix in (".md", ".py") and path.stat().st_size)
    await rag.ainsert(
        [path.read_text("utf-8") for path in paths],
        file_paths=[str(path.relative_to(root)) for path in paths],
    )


async def main() -> None:
    """Index the shop, ask for an agent, and show what the agent got."""
    with tempfile.TemporaryDirectory() as scratch:
        shop = Path(scratch) / "shop"
        make_repository(shop)
        settings = Settings.from_environment({"HOME": scratch})
        init_project(shop, settings)
        rag = await make_index(Path(scratch) / "index")
        await insert_files(rag, shop)
        with Bus.open(shop, settings=settings) as bus:
            bus.open_run("Refunds are safe")
            bus.add_agent("ada", role="programmer")
            bridge = LightRagBridge(bus, rag)
            question = "Which employee approves a refund of more than 100 euros?"
            param = QueryParam(mode="mix", top_k=4, chunk_top_k=4, enable_rerank=False)
            result = await bridge.query("ada", question, param, max_tokens=400, max_chunks=2, max_entities=2)
            for item, found in zip(result.items, result.found, strict=True):
                print(f"{item.sort}: {found.engram.claim}")
                for pointer in found.engram.pointers:
                    print(f"   {pointer.ref.partition('@')[0]}")
                if found.excerpt is not None:
                    print(f"   read: {found.excerpt.excerpt.strip().splitlines()[0][:40]}")
            print(f"skipped: {result.skip_counts}")
            best = bus.speak_as("ada").query_engrams("who approves refunds").engrams[0]
            print(f"found again, from {best.provenance.source}: {best.claim}")
        await rag.finalize_storages()


if __name__ == "__main__":
    import logging

    logging.disable(logging.WARNING)
    asyncio.run(main())
