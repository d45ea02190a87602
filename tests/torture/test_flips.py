"""Damaged copies of the journals: each is noticed and made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.flips import run_flips

ROUNDS = 12


@pytest.mark.slow
def test_no_flip_or_truncation_of_a_derived_file_changes_an_answer(tmp_path: Path) -> None:  # YT-08 YT-10
    for counts in run_flips(tmp_path, ROUNDS, seed=1):
        assert counts.rounds == ROUNDS
        assert counts.wrong == []
        assert counts.raised == []
