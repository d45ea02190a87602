"""A desk to install at, and what clients were recorded to say."""

from __future__ import annotations

from tests.cli.conftest import bare_desk, desk

__all__ = ["bare_desk", "desk"]
