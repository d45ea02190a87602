"""Stands in for Jira: one JSON file for each sprint, in the folder `jira` beside this module."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

SPRINTS = Path(__file__).with_name("jira")


class Item(NamedTuple):
    """An item of a sprint as lists show it."""

    id: str
    module: str
    """The module of the project that it is about."""


def list_items(sprint_id: str) -> list[Item]:
    """Return the items of a sprint."""
    return [Item(item["id"], item["module"]) for item in _read(sprint_id)]


def fetch(sprint_id: str, item: str) -> dict[str, Any]:
    """Return what is asked for in an item."""
    return next((found for found in _read(sprint_id) if found["id"] == item), None) or sys.exit(
        f"There is no item {item} in {sprint_id}."
    )


def _read(sprint_id: str) -> list[dict[str, Any]]:
    path = SPRINTS / f"{sprint_id}.json"
    if not re.fullmatch(r"[A-Z]+-\d+", sprint_id) or not path.is_file():
        known = ", ".join(sorted(file.stem for file in SPRINTS.glob("*.json")))
        sys.exit(f"There is no sprint {sprint_id}; there are {known}.")
    items: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["items"]
    return items
