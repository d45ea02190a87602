"""A desk to run commands at."""

from __future__ import annotations

from tests.cli.conftest import bare_desk, desk

__all__ = ["bare_desk", "desk"]
