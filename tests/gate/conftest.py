"""A shell in a repository with a project."""

from tests.cli.conftest import bare_shell, shell

__all__ = ["bare_shell", "shell"]
