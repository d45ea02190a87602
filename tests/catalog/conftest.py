"""Fixtures of the command-line tests, used here too."""

from __future__ import annotations

from tests.cli.conftest import bare_shell, shell

__all__ = ["bare_shell", "shell"]
