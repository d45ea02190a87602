"""Marks: they tell an `as` a hook has set from one a model wrote, without asking anyone."""  # EB-31

from __future__ import annotations

from pathlib import Path

import pytest

from engrambus.policy.marks import LIFETIME_SECONDS, Mark, MarkKey

NOW_US = 1_800_000_000_000_000


def test_a_genuine_mark_is_found_again() -> None:
    key = MarkKey(b"k" * 32)
    mark = Mark("sess", "child")
    text = key.make(mark, NOW_US)
    assert key.check(text, NOW_US) == mark


def test_a_mark_may_name_a_descendant() -> None:
    key = MarkKey(b"k" * 32)
    mark = Mark("sess", "child", "grandchild")
    assert key.check(key.make(mark, NOW_US), NOW_US) == mark


def test_an_agent_without_a_place_speaks_for_its_own_token(tmp_path: Path) -> None:
    key = MarkKey.load(tmp_path)
    text = key.make(Mark("", ""), NOW_US)
    assert key.check(text, NOW_US) == Mark("", "")


def test_the_key_is_created_once_and_shared(tmp_path: Path) -> None:
    a = MarkKey.load(tmp_path)
    b = MarkKey.load(tmp_path)
    text = a.make(Mark("s", "c"), NOW_US)
    assert b.check(text, NOW_US) == Mark("s", "c")


def test_a_token_has_a_key_of_its_own() -> None:
    a, b = MarkKey.of_token("tok-a"), MarkKey.of_token("tok-b")
    text = a.make(Mark("", "c"), NOW_US)
    assert a.check(text, NOW_US) == Mark("", "c")
    assert b.check(text, NOW_US) is None


@pytest.mark.parametrize("tampered", [lambda t: t + "x", lambda t: "x" + t, lambda t: t[:-1]])
def test_a_changed_mark_is_not_found(tampered: object) -> None:
    key = MarkKey(b"k" * 32)
    text = key.make(Mark("s", "c"), NOW_US)
    assert key.check(tampered(text), NOW_US) is None  # type: ignore[operator]


def test_a_mark_of_another_key_is_not_found() -> None:
    a, b = MarkKey(b"a" * 32), MarkKey(b"b" * 32)
    text = a.make(Mark("s", "c"), NOW_US)
    assert b.check(text, NOW_US) is None


def test_an_expired_mark_is_not_found() -> None:
    key = MarkKey(b"k" * 32)
    text = key.make(Mark("s", "c"), NOW_US)
    just_before = NOW_US + LIFETIME_SECONDS * 1_000_000 - 1
    just_after = NOW_US + LIFETIME_SECONDS * 1_000_000 + 1
    assert key.check(text, just_before) == Mark("s", "c")
    assert key.check(text, just_after) is None


@pytest.mark.parametrize("garbage", ["", "~", "~~~", "a" * 200, "~a.b.c\x00"])
def test_garbage_is_never_a_mark(garbage: str) -> None:
    assert MarkKey(b"k" * 32).check(garbage, NOW_US) is None
