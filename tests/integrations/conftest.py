"""A shell to install at, and what clients were recorded to say."""

from __future__ import annotations

from tests.cli.conftest import bare_shell, shell

__all__ = ["bare_shell", "shell"]
