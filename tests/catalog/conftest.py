"""Fixtures of the command-line tests, used here too."""

from __future__ import annotations

from tests.cli.conftest import bare_desk, desk

__all__ = ["bare_desk", "desk"]
