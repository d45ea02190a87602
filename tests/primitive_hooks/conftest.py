"""Fixtures of the tests about hooks of primitives."""

from tests.space.conftest import harness

__all__ = ["harness"]
