"""Asserts of the shipped suite explain themselves like those of a test."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("stigmergy.testing")
