"""Shells in a repository, as the tests of the command line have them."""

from tests.cli.conftest import bare_shell

__all__ = ["bare_shell"]
