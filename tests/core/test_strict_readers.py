"""Strict JSON and YAML: bounded, unambiguous, and refused with a code."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import read_json, read_json_with_lines, read_yaml, read_yaml_with_lines
from engrambus.core.strict_json import MAX_BYTES, MAX_DEPTH
from engrambus.core.strict_yaml import MAX_BYTES as MAX_YAML_BYTES
from engrambus.core.strict_yaml import MAX_DEPTH as MAX_YAML_DEPTH
from engrambus.errors import EngramBusError

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc:{}[]\"\\", max_size=6), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def code_of(read: Any, text: Any) -> str:
    """Return the code of a refusal, or `ok`; any other exception is a bug and passes through."""
    try:
        read(text)
    except EngramBusError as refusal:
        return refusal.code
    return "ok"


@given(values)
def test_json_values_are_read(value: Any) -> None:
    for ascii_only in (True, False):
        assert read_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "BAD_JSON"),
        (b"{", "BAD_JSON"),
        (b"{}x", "BAD_JSON"),
        (b"{'a': 1}", "BAD_JSON"),
        (b'{"a": 1,}', "BAD_JSON"),
        (b"01", "BAD_JSON"),
        (b'"\n"', "BAD_JSON"),
        (b'"\\x"', "BAD_JSON"),
        (b"\xef\xbb\xbf{}", "BAD_JSON"),
        (b'{"a":1,"a":2}', "DUPLICATE_KEY"),
        (b'{"x":[{"a":1,"\\u0061":2}]}', "DUPLICATE_KEY"),
        (b"NaN", "NUMBER_RANGE"),
        (b"[Infinity]", "NUMBER_RANGE"),
        (b"-Infinity", "NUMBER_RANGE"),
        (b"1e999", "NUMBER_RANGE"),
        (b"-1e999", "NUMBER_RANGE"),
        (b"10000000000000000000000", "NUMBER_RANGE"),
        (b"9007199254740993", "NUMBER_RANGE"),
        (b"1" * 5000, "NUMBER_RANGE"),
        (b'"\\ud800"', "BAD_TEXT"),
        (b'{"\\udc00":1}', "BAD_TEXT"),
        (b'"\xff"', "BAD_TEXT"),
        (b'"\xed\xa0\x80"', "BAD_TEXT"),
        (b"[" * 33 + b"]" * 33, "TOO_DEEP"),
        (b"[" * 100_000, "TOO_DEEP"),
        (b'{"a":' * 100_000, "TOO_DEEP"),
        (b"9007199254740992", "ok"),
        (b"[" * 32 + b"]" * 32, "ok"),
        (b'"' + b"[{" * 1000 + b'"', "ok"),
        (b'"\\"' + b"[{" * 1000 + b'"', "ok"),
        (b'"\\ud83d\\ude42"', "ok"),
        (b" {} ", "ok"),
    ],
)
def test_invalid_json_is_refused(body: bytes, code: str) -> None:
    assert code_of(read_json, body) == code


def test_json_is_bounded_before_it_is_parsed() -> None:
    assert code_of(read_json, b" " * (MAX_BYTES - 2) + b"{}") == "ok"
    assert code_of(read_json, b"[" * (MAX_BYTES + 1)) == "BODY_TOO_LARGE"
    assert code_of(read_json, b'"' * MAX_BYTES) == "BAD_JSON"
    assert code_of(read_json, b'[{"\\' * (MAX_BYTES // 5)) in ("BAD_JSON", "TOO_DEEP")


@given(st.binary(max_size=200))
def test_any_bytes_are_json_or_refused(body: bytes) -> None:
    code_of(read_json, body)


@given(st.text('{}[]",:\\u0d81e-9. \nNaInfity', max_size=80))
def test_text_like_json_is_json_or_refused(text: str) -> None:
    if code_of(read_json, text.encode()) == "ok":
        assert read_json(text.encode()) == json.loads(text)


def depth_of(value: Any) -> int:
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 1 + max(map(depth_of, value.values()), default=0) if isinstance(value, dict) else 0


@given(st.text('[]{}"\\a', max_size=120))
def test_depth_is_counted_as_the_parser_counts_it(text: str) -> None:
    """Brackets inside strings do not count."""
    body = text.encode()
    try:
        value = read_json(body, max_depth=3)
    except EngramBusError as refusal:
        if refusal.code == "TOO_DEEP":
            with contextlib.suppress(ValueError):
                assert depth_of(json.loads(body)) > 3
    else:
        assert depth_of(value) <= 3
    assert MAX_DEPTH == 32


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("true", True), ("false", False), ("10", 10), ("-1.5", -1.5),
        ("1e3", 1000.0), (".inf", ".inf"),
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("Yes", "Yes"), ("TRUE", "TRUE"), ("Null", "Null"),
        ("2026-01-08", "2026-01-08"), ("2026-01-08T09:30:00Z", "2026-01-08T09:30:00Z"), ("12:30:45", "12:30:45"),
        ("0x10", "0x10"), ("0o7", "0o7"), ("010", "010"), ("1_000", "1_000"), (".5", ".5"), ("+1", "+1"),
        (".nan", ".nan"), ("'10'", "10"), ('"true"', "true"), ("a: 1\nb: [x, 2]", {"a": 1, "b": ["x", 2]}),
        ("1: x", {"1": "x"}), ("true: x", {"true": "x"}), ("- a\n-\n- b: c", ["a", None, {"b": "c"}]),
        ("|\n  two\n  lines\n", "two\nlines\n"), ("<<: x", {"<<": "x"}), ("a: =", {"a": "="}), ("--- a\n", "a"),
    ],
)  # fmt: skip
def test_yaml_has_the_types_of_json_only(text: str, value: Any) -> None:
    parsed = read_yaml(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &x 1\nb: *x", "BAD_YAML"),
        ("&x a", "BAD_YAML"),
        ("*x", "BAD_YAML"),
        ("!!python/object/apply:os.system ['true']", "BAD_YAML"),
        ("!!str 1", "BAD_YAML"),
        ("!custom x", "BAD_YAML"),
        ("a: !!binary aGk=", "BAD_YAML"),
        ("!!set {a}", "BAD_YAML"),
        ("&k a: 1", "BAD_YAML"),
        ("? [a]\n: b", "BAD_YAML"),
        ("? {a: b}\n: c", "BAD_YAML"),
        ("a: 1\n---\nb: 2", "BAD_YAML"),
        ("a: [1", "BAD_YAML"),
        ("a: b: c", "BAD_YAML"),
        ("\t- a", "BAD_YAML"),
        ("@x", "BAD_YAML"),
        ("\x00", "BAD_YAML"),
        ("%YAML 9.9\n---\na", "BAD_YAML"),
        ("a: 1\na: 2", "DUPLICATE_KEY"),
        ("{x: {a: 1, 'a': 2}}", "DUPLICATE_KEY"),
        ("10000000000000000000000", "NUMBER_RANGE"),
        ("9007199254740993", "NUMBER_RANGE"),
        ("1e999", "NUMBER_RANGE"),
        ("\ud800", "BAD_TEXT"),
        ("[" * 17 + "]" * 17, "TOO_DEEP"),
        ("[" * 5000, "TOO_DEEP"),
        ("- " * 5000 + "a", "TOO_DEEP"),
        ("[" * 16 + "]" * 16, "ok"),
        ("a: " + "x" * MAX_YAML_BYTES, "BODY_TOO_LARGE"),
        ("й" * (MAX_YAML_BYTES // 2 + 1), "BODY_TOO_LARGE"),
    ],
)
def test_invalid_yaml_is_refused(text: str, code: str) -> None:
    assert code_of(read_yaml, text) == code
    assert MAX_YAML_DEPTH == 16


def test_exponential_aliases_are_refused() -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert code_of(read_yaml, "\n".join(layers)) == "BAD_YAML"


def test_yaml_refusals_name_the_line() -> None:
    with pytest.raises(EngramBusError, match="line 3, column 4"):
        read_yaml("a: 1\nb: 2\nc: *x\n")


@given(st.text(max_size=200))
def test_any_text_is_yaml_or_refused(text: str) -> None:
    code_of(read_yaml, text)


@given(st.text("-:[]{}&*!|>'\"%@`#,? \n\tab1~\\x00", max_size=100))
def test_text_like_yaml_is_yaml_or_refused(text: str) -> None:
    code_of(read_yaml, text)


def test_every_field_has_its_line() -> None:
    text = '{\n "a": [1,\n {"b": "x\\n",\n "c": null}],\n "d": {"e":\n "f"}}'
    lines = {"": 1, "a": 2, "a[0]": 2, "a[1]": 3, "a[1].b": 3, "a[1].c": 4, "d": 5, "d.e": 5}
    assert read_json_with_lines(text) == (read_json(text.encode()), lines)
    assert read_yaml_with_lines(text) == (read_json(text.encode()), lines)
    block = "# first\na:\n  - 1\n  -\n    b: |\n      x\n\n    c:\nd:\n  e:\n    f\n"
    lines = {"": 2, "a": 2, "a[0]": 3, "a[1]": 5, "a[1].b": 5, "a[1].c": 8, "d": 9, "d.e": 10}
    assert read_yaml_with_lines(block) == ({"a": [1, {"b": "x\n", "c": None}], "d": {"e": "f"}}, lines)


@given(values, st.sampled_from([None, 1]))
def test_json_and_yaml_agree_on_values_and_lines(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    parsed, lines = read_json_with_lines(text)
    assert parsed == value
    with contextlib.suppress(EngramBusError):  # YAML has no surrogate pairs, and keys of at most 1,024 characters
        assert read_yaml_with_lines(text)[1] == lines


@pytest.mark.parametrize(
    ("text", "code", "field", "line"),
    [
        ('{"a": 1,\n"a": 2}', "DUPLICATE_KEY", "a", 2),
        ('[{"a": 1}, {"a": 1,\n\n"a": 2}]', "DUPLICATE_KEY", "a", 3),
        ('{"a":\n1e999}', "NUMBER_RANGE", "a", 2),
        ('["1e999",\nNaN]', "NUMBER_RANGE", "[1]", 2),
        ('{"a": [1, {"b": 1}],\n"c": {"d": [0, -Infinity]}}', "NUMBER_RANGE", "c.d[1]", 2),
        ("[\n99999999999999999999]", "NUMBER_RANGE", "[0]", 2),
        ("[1,\n", "BAD_JSON", None, 1),
        ("[1,\n}", "BAD_JSON", None, 2),
    ],
)
def test_json_refusals_name_the_line(text: str, code: str, field: str | None, line: int) -> None:
    with pytest.raises(EngramBusError) as caught:
        read_json_with_lines(text)
    assert (caught.value.code, caught.value.field, caught.value.line) == (code, field, line)


@pytest.mark.parametrize("text", ["a: see #12", "a: [x #y\n]", "a: x\n  y #z", "- 5 #x", "a: x\t#y", "é: 😀 #1"])
def test_a_text_that_yaml_would_cut_is_refused_by_the_reader_with_lines(text: str) -> None:
    assert code_of(read_yaml_with_lines, text) == "TEXT_CUT"
    assert code_of(read_yaml, text) == "ok"


@pytest.mark.parametrize(
    "text", ["a: x # note", 'a: "x" #y', "a: x ## y", "#x\na: b", "a: x#y", "a: #x\n  b", "a: x\n#y"]
)
def test_other_comments_are_accepted(text: str) -> None:
    assert code_of(read_yaml_with_lines, text) == "ok"


def test_long_field_names_get_no_line() -> None:
    text = '{"' + "k" * 50_000 + '": ' + "[" + "1," * 50_000 + "1]}"
    assert max(map(len, read_json_with_lines(text)[1])) <= 200
    assert max(map(len, read_yaml_with_lines("? " + "k" * 50_000 + "\n: [" + "1," * 50_000 + "]")[1])) <= 200
