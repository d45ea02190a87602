"""The model computes what its authors publish, and the same bytes every time."""  # EB-14

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engrambus.adapters.semantic import MiniLm, find_weights
from engrambus.adapters.semantic.minilm import MAX_TOKENS
from engrambus.adapters.semantic.weights import VOCABULARY, WEIGHTS
from engrambus.adapters.semantic.wordpiece import WordPieces
from engrambus.errors import EmbeddingsUnavailable
from tests.semantic.conftest import CLAIMS

# fmt: off
TOKENIZED = [
    ("", []),
    ("Authentication tokens expire after one hour.", [27280, 19204, 2015, 4654, 20781, 2044, 2028, 3178, 1012]),
    ("VendorClient.retry_count = 3", [21431, 20464, 11638, 1012, 2128, 11129, 1035, 4175, 1027, 1017]),
    ("It's a re-run: 1,000 rows?", [2009, 1005, 1055, 1037, 2128, 1011, 2448, 1024, 1015, 1010, 2199, 10281, 1029]),
    ("Café Müller, naïve İstanbul", [7668, 12304, 1010, 15743, 9960]),
    ("ΑΣ ΟΔΟΣ straße", [1155, 29733, 1169, 29722, 29730, 29733, 2358, 27807]),
    ("東京 is 首都", [1879, 1755, 2003, 100, 1961]),
    ("かな カナ 한글", [1651, 30193, 1700, 30241, 1469, 30006, 30021, 29991, 30017, 30022]),
    ("tab\tnew\nline\u00a0nbsp\u200bzero", [21628, 2047, 2240, 1050, 5910, 2361, 6290, 2080]),
    ("\U0001f600 ok", [100, 7929]),
    ("x" * 101, [100]),
    ("a\u0301bc \ufb01ne ½", [5925, 1984, 2638, 1092]),
    ("“quoted” — dash…", [1523, 9339, 1524, 1517, 11454, 1529]),
    ("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen",
     [2028, 2048, 2093, 2176, 2274, 2416, 2698, 2809, 3157, 2702, 5408, 4376, 7093, 7426]),
]
# fmt: on
"""Texts and the numbers of their pieces, as the tokenizer's reference implementation gives them."""


@pytest.fixture(scope="module")
def weights() -> Path:
    """The folder of the weights."""
    folder = find_weights()
    assert folder is not None
    return folder


@pytest.fixture(scope="module")
def pieces(weights: Path) -> WordPieces:
    """The model's tokenizer."""
    return WordPieces((weights / VOCABULARY).read_text("utf-8"))


@pytest.mark.parametrize(("text", "numbers"), TOKENIZED)
def test_texts_are_cut_into_the_models_pieces(pieces: WordPieces, text: str, numbers: list[int]) -> None:
    assert pieces.encode(text, 16) == [101, *numbers, 102]


def test_marks_in_a_text_are_text(pieces: WordPieces) -> None:
    assert pieces.encode("[SEP] [CLS]", 32).count(102) == 1


@pytest.mark.parametrize(
    ("first", "second", "published"),
    [
        ("The weather is lovely today.", "It's so sunny outside!", 0.6660),
        ("The weather is lovely today.", "He drove to the stadium.", 0.1046),
        ("It's so sunny outside!", "He drove to the stadium.", 0.1411),
        ("That is a happy person", "That is a happy dog", 0.6946),
        ("That is a happy person", "That is a very happy person", 0.9429),
        ("That is a happy person", "Today is a sunny day", 0.2569),
    ],
)
def test_similarities_are_the_published_ones(model: MiniLm, first: str, second: str, published: float) -> None:
    one, other = model.embed([first, second])
    assert model.similarities(one, [other])[0] / 1_000_000 == pytest.approx(published, abs=0.004)


def test_a_vector_does_not_depend_on_the_texts_beside_it(model: MiniLm) -> None:
    together = model.embed([*CLAIMS, "x " * 500])
    assert together[: len(CLAIMS)] == [model.embed([claim])[0] for claim in CLAIMS]
    assert all(len(vector) == model.dimensions for vector in together)


def test_the_end_of_a_long_text_is_not_read(model: MiniLm) -> None:
    beginning = "word " * MAX_TOKENS
    assert model.embed([beginning + "cats"]) == model.embed([beginning + "dogs"])


def test_similarity_to_itself_is_1_and_to_nothing_is_nothing(model: MiniLm) -> None:
    (vector,) = model.embed(["Authentication tokens expire after one hour."])
    assert model.similarities(vector, [vector])[0] == pytest.approx(1_000_000, abs=3_000)
    assert model.similarities(vector, []) == []


PRINT_VECTORS = """
import sys
from engrambus.adapters.semantic import load_model
sys.stdout.write(b"".join(load_model().embed(sys.argv[1:])).hex())
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_another_process_computes_the_same_bytes(model: MiniLm, threads: str) -> None:
    command = [sys.executable, "-c", PRINT_VECTORS, *CLAIMS]
    done = subprocess.run(
        command, env={**os.environ, "OPENBLAS_NUM_THREADS": threads}, capture_output=True, text=True, check=True
    )
    assert done.stdout == b"".join(model.embed(CLAIMS)).hex()


def test_other_weights_are_refused(weights: Path, tmp_path: Path) -> None:
    shutil.copy(weights / VOCABULARY, tmp_path)
    data = bytearray((weights / WEIGHTS).read_bytes())
    data[-1] ^= 1
    (tmp_path / WEIGHTS).write_bytes(data)
    with pytest.raises(EmbeddingsUnavailable, match="its digest is another"):
        MiniLm(tmp_path)
