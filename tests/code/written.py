"""Texts written for these tests: claims, answers, formulas, log lines, tables, and code of many languages.

A file holds sections `=== kind`. A sample is a line, or in a section with lines `###` what stands between those.
"""

from __future__ import annotations

from pathlib import Path

from tests.code.snippets import Sample

FOLDER = Path(__file__).parent / "written"


def written(name: str) -> list[Sample]:
    samples: list[Sample] = []
    for section in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").removeprefix("=== ").split("\n=== "):
        kind, _, body = section.strip("\n").partition("\n")
        texts = body.split("\n###\n") if "\n###\n" in body else body.split("\n")
        samples.extend(Sample(kind=kind, text=text, origin=name) for text in texts if text.strip())
    return samples
