"""`memory.read` compared with the published vectors and with a literal reading of the contract."""

from __future__ import annotations

import json
import os
import tempfile
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engrambus.backends import jsonl_stores
from engrambus.backends.jsonl_stores import FileStores
from engrambus.core import canonical
from engrambus.errors import (
    EngramBusError,
    FieldMissing,
    FieldValue,
    MemoryLineTooLong,
    MemoryStoreNotAFile,
    MemoryStoreNotFound,
    MemoryStoreOutside,
    TrustSnapshotInvalid,
)
from engrambus.knowledge.memory import MemoryInput, read_memory
from engrambus.knowledge.memory.records import read_record, read_text
from tests.memory import literal

VECTORS = Path(__file__).parent / "vectors"
CASES = sorted(VECTORS.glob("case-*.json"))


def read(request: dict[str, Any], folder: Path, **options: Any) -> dict[str, Any]:
    with FileStores(folder, **options) as stores:
        package = msgspec.to_builtins(read_memory(msgspec.convert(request, MemoryInput), stores))
    assert isinstance(package, dict)
    return package


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_every_published_case_is_reproduced_byte_for_byte(case: Path) -> None:  # MC-01…07
    vector = json.loads(case.read_bytes())
    package = read(vector["input"], VECTORS)
    assert canonical(package) == canonical(vector["package"])
    assert literal.package(vector["input"], VECTORS) == vector["package"]


words = st.sampled_from(["gateway", "Budget", "ÉTÉ", "retry", "x", "Σίσυφος", "İx", "ß", "budget", "予算"])
texts = st.lists(words, max_size=6).flatmap(
    lambda chosen: st.sampled_from([" ", "  ", "\n", "\t ", "\u00a0", "\u2028", '"', "\\", ""]).map(
        lambda separator: separator.join(chosen)
    )
)
dates = st.sampled_from(
    [
        *(
            "2026-01-01",
            "20260101",
            "2026-W01-4",
            "2026W014",
            "2024-02-29",
            "2026-02-30",
            "0001-01-01",
        ),
        *(
            "9999-12-31",
            "2020-W53-7",
            "2026-W54-1",
            "9999-W53-1",
            "2026-W01",
            "2026-01",
            "2026-001",
        ),
        *(
            "0000-01-01",
            "2026-0101",
            "٢026-01-01",
        ),
    ]
)
clocks = st.sampled_from(
    [
        *(
            "00",
            "04:05",
            "0405",
            "04:05:06",
            "040506",
            "04:05:06.25",
            "04:05:06,250000",
            "040506.123456789",
        ),
        *(
            "23:59:59.999999",
            "24:00:00",
            "04:60",
            "04:05:60",
            "04:0506",
            "04.5",
            "04:05.5",
            "04:05:06.",
        ),
        *(
            "4:05",
            "",
            "04:05:06.2.5",
        ),
    ]
)
zones = st.sampled_from(["Z", "+00", "+0000", "+00:00", "-00:00", "+01:00", "+00:00:00", "z", "", "Z ", "UTC"])
times = st.one_of(
    st.builds("{}{}{}{}".format, dates, st.sampled_from(["T", "T", "T", " ", "t", ""]), clocks, zones),
    st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z\n2026-01-01T00:00:00Z", "yesterday", ""]),
)
json_values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), texts, st.just([]), st.just([{}]), st.just({})
)
numbers = st.one_of(st.integers(-(2**54), 2**54), st.sampled_from([0.5, 0.0, 1e5, 1e-5, 1e16, -2.25]))
refs = st.lists(
    st.dictionaries(texts, st.one_of(numbers, st.none(), texts, st.lists(numbers, max_size=2)), max_size=2), max_size=2
)
records = st.fixed_dictionaries(
    {
        "memory_id": st.one_of(
            st.sampled_from(["m", "m1", "m!", "m 1", "m\\", "m\n", "m\0", "text", 'm"3', "µ", "{m"]), json_values
        ),
        "text": st.one_of(texts, json_values),
    },
    optional={
        "ts_utc": st.one_of(times, json_values),
        "tags": st.one_of(st.lists(words, max_size=3), json_values),
        "refs": st.one_of(refs, json_values),
        "extra": json_values,
        "\udc00": json_values,
        "surrogates": st.sampled_from(["\ud83e\uddea", "\udc00", {"\ud800": 1}, [["\udfff"]], ["\\ud800"]]),
    },
)
CLOSING = {"[": "]", '{"a":': "}"}
LEVELS = (40, 62, 63, 64, 126, 127, 128, 999, 1000, 1001)
nested = st.builds(
    lambda levels, opening, inner, field: f'"{field}":{opening * levels}{inner}{CLOSING[opening] * levels}',
    st.sampled_from(LEVELS),
    st.sampled_from(["[", '{"a":']),
    st.sampled_from(["1", '"\\udc00"', "NaN", "tru", "9" * 5000, '{"a":1,"a":2}', "1]", '{"b" 1}', "[1,]", "[]"]),
    st.sampled_from(["extra", "refs", "tags"]),
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Draw a line, valid or damaged in one of several ways."""
    record = draw(records)
    text = json.dumps(
        record, ensure_ascii=draw(st.booleans()), separators=draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    )
    damage = draw(
        st.sampled_from(["none"] * 6 + ["twice", "cut", "bytes", "surrogate", "huge", "blank", "space", "deep", "mark"])
    )
    if damage == "twice":
        text = text[:-1] + ',"text":"again"}'
    elif damage == "cut":
        text = text[: len(text) // 2]
    elif damage == "surrogate":
        text = '{"memory_id":"m","text":"\\ud800"}'
    elif damage == "huge":
        text = '{"memory_id":"m","text":"x","extra":1e999}'
    elif damage == "blank":
        text = " \t"
    elif damage == "space":
        text = f"  {text}\r"
    elif damage == "deep":
        text = '{"memory_id":"m","text":"x",' + draw(nested) + "}"
    elif damage == "mark":
        text = f"\ufeff{text}"
    body = text.encode("utf-8", "surrogatepass").replace(b"\n", b" ")
    return body.replace(b"e", b"\xff", 1) if damage == "bytes" else body


requests = st.fixed_dictionaries(
    {
        "query": st.sampled_from(
            ["gateway budget", "ÉTÉ été", "  retry\n budget x", "Σίσυφος", "İX ß 予算", '"', "text"]
        ),
        "budget": st.fixed_dictionaries(
            {"max_excerpt_tokens": st.integers(1, 40)},
            optional={"per_item_max_excerpt_tokens": st.integers(1, 50), "max_items": st.integers(1, 6)},
        ),
    },
    optional={
        "now_utc": st.just("2026-03-01T00:00:00Z"),
        "scoring": st.fixed_dictionaries(
            {},
            optional={
                "enable_recency_weight": st.booleans(),
                "recency_half_life_days": st.integers(1, 400),
                "enable_tag_overlap": st.booleans(),
                "query_terms": st.lists(st.one_of(words, st.just("gateway  Budget"), st.just("")), max_size=3),
            },
        ),
    },
)


@given(
    first=st.lists(lines(), max_size=12),
    second=st.lists(lines(), max_size=6),
    request=requests,
    last_newline=st.booleans(),
    mark=st.sampled_from(["", "", "\ufeff", "\ufeff\ufeff"]),
)
@example(
    first=[b'{"memory_id":"text","ts_utc":"2026-01-01T00:00:00Z","text":"budget"}'] * 2,
    second=[],
    request={"query": "budget", "budget": {"max_excerpt_tokens": 9}},
    last_newline=False,
    mark="",
)
@example(
    first=[
        b'{"memory_id":"m","text":"a","refs":[',
        b'{"a":"b"}]}',
        b'{"memory_id":"n","text":"b"}{"memory_id":"o","text":"c"}',
    ],
    second=[],
    request={"query": "budget", "budget": {"max_excerpt_tokens": 9}},
    last_newline=True,
    mark="\ufeff",
)
def test_the_controller_agrees_with_the_literal_reading(
    first: list[bytes], second: list[bytes], request: dict[str, Any], last_newline: bool, mark: str
) -> None:  # MC-02…06, MC-11
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.jsonl").write_bytes(mark.encode() + b"\n".join(first) + b"\n" * last_newline)
        (folder / "b.jsonl").write_bytes(b"\n".join(second))
        (folder / "z.jsonl").symlink_to("a.jsonl")
        request = {**request, "store_paths": ["z.jsonl", "b.jsonl", "./a.jsonl", "a.jsonl"]}
        assert read(request, folder) == literal.package(request, folder)


letters = st.text("abABé \n", max_size=200)


@given(st.lists(letters, min_size=1, max_size=6), st.lists(st.text("abAé ", min_size=1, max_size=9), max_size=4))
def test_terms_are_found_anywhere_in_a_text(texts: list[str], terms: list[str]) -> None:  # MC-04
    request = {
        "query": "x",
        "store_paths": ["a.jsonl"],
        "budget": {"max_excerpt_tokens": 9},
        "scoring": {"query_terms": terms},
    }
    with tempfile.TemporaryDirectory() as folder:
        records = [json.dumps({"memory_id": str(number), "text": text}) for number, text in enumerate(texts)]
        (Path(folder) / "a.jsonl").write_text("\n".join(records), "utf-8")
        assert read(request, Path(folder)) == literal.package(request, Path(folder))


simple_records = st.fixed_dictionaries(
    {"memory_id": st.sampled_from(["m", "n"]), "text": st.sampled_from(["budget", "}\\n{", ""])},
    optional={"refs": st.sampled_from([[], [{}], [{}, {}], [{"a": ["b"]}, {"c": None}]]), "tags": st.just(["Budget"])},
)


@given(st.lists(simple_records, min_size=1, max_size=8), st.data())
def test_a_line_feed_ends_a_line_even_inside_a_value(records: list[dict[str, Any]], data: st.DataObject) -> None:
    separators = st.sampled_from([b"", b"\n", b"\n", b"\n", b"\n\n", b" ", b"\r\n", b"\n "])
    body = b"".join(json.dumps(record, separators=(",", ":")).encode() + data.draw(separators) for record in records)
    brackets = [index for index in range(len(body)) if body[index : index + 1] in b"{},[]"]
    for index in sorted(data.draw(st.sets(st.sampled_from(brackets), max_size=3)), reverse=True):
        body = body[:index] + data.draw(st.sampled_from([b"\n", b" \n", b""])) + body[index:]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.jsonl").write_bytes(body)
        request = {"query": "budget", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 9}}
        assert read(request, Path(folder)) == literal.package(request, Path(folder))


@given(st.lists(lines(), min_size=1, max_size=60), requests, st.integers(1, 400))
def test_segments_and_their_cache_do_not_change_the_package(
    content: list[bytes], request: dict[str, Any], segment_bytes: int
) -> None:  # MC-10
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl_stores, "SEGMENT_BYTES", segment_bytes)
        store, cache = Path(folder) / "a.jsonl", Path(folder) / "cache"
        request = {**request, "store_paths": ["a.jsonl"]}
        half = len(content) // 2
        store.write_bytes(b"".join(line + b"\n" for line in content[:half]))
        read(request, Path(folder), cache=cache)
        store.write_bytes(b"".join(line + b"\n" for line in content))
        expected = literal.package(request, Path(folder))
        assert read(request, Path(folder), cache=cache) == expected
        assert read(request, Path(folder), cache=cache) == expected
        for entry in cache.glob("*/*"):  # damage is noticed
            body = bytearray(entry.read_bytes())
            body[-1] ^= 1
            entry.write_bytes(body)
        assert read(request, Path(folder), cache=cache) == expected
        store.write_bytes(b"".join(line + b"\n" for line in reversed(content)))
        assert read(request, Path(folder), cache=cache) == literal.package(request, Path(folder))


def test_only_added_or_changed_segments_are_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # MC-10
    """A decoded segment leaves a new file in the cache; one that was found there leaves the file alone."""
    size = 4096
    monkeypatch.setattr(jsonl_stores, "SEGMENT_BYTES", size)
    lines = [b'{"memory_id":"m%05d","text":"gateway %s"}\n' % (n, b"word " * 20) for n in range(1000)]
    store, cache = tmp_path / "a.jsonl", tmp_path / "cache"
    (tmp_path / "trust.json").write_bytes(b'{"items":[{"memory_id":"none","classification":"malicious"}]}')
    request = {
        "query": "gateway",
        "store_paths": ["a.jsonl"],
        "budget": {"max_excerpt_tokens": 50},
        "trust_filter": {"trust_snapshot_path": "trust.json"},  # so that no ranks are stored
    }

    def cached_after_reading(content: list[bytes]) -> dict[str, int]:
        store.write_bytes(b"".join(content))
        read(request, tmp_path, cache=cache)
        return {entry.name: entry.stat().st_ino for entry in cache.glob("*/*")}

    first = cached_after_reading(lines[:900])
    assert len(first) > 20
    second = cached_after_reading(lines[:900])
    assert second == first
    grown = cached_after_reading(lines)
    assert first.items() <= grown.items()
    added = sum(map(len, lines[900:])) // size
    assert added <= len(grown) - len(first) <= added + 2, "the added segments, and the last, which grew"
    changed = cached_after_reading([lines[0].replace(b"word", b"lord"), *lines[1:]])
    assert grown.items() <= changed.items()
    assert len(changed) - len(grown) == 1


def test_the_same_question_to_a_store_that_grew_reads_only_what_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # MC-10
    """Lines that are read leave a file in the cache; there are none for lines whose ranks were found."""
    monkeypatch.setattr(jsonl_stores, "SEGMENT_BYTES", 4096)
    lines = [b'{"memory_id":"m%05d","text":"gateway %s"}\n' % (n, b"word " * (n % 20)) for n in range(2000)]
    store, cache = tmp_path / "a.jsonl", tmp_path / "cache"
    request = {"query": "gateway", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 50}}

    def segments_read(content: list[bytes]) -> int:
        store.write_bytes(b"".join(content))
        kinds = {path: path.read_bytes().startswith(RANKS, HEADER_BYTES) for path in cache.glob("*/*")}
        for path, holds_ranks in kinds.items():
            if not holds_ranks:
                path.unlink()
        assert read(request, tmp_path, cache=cache) == literal.package(request, tmp_path)
        return sum(not path.read_bytes().startswith(RANKS, HEADER_BYTES) for path in cache.glob("*/*"))

    segments = segments_read(lines[:1900])
    assert segments >= 40
    assert segments_read(lines[:1900]) == 0
    assert segments_read(lines[:1920]) <= 1
    assert 0 < segments_read(lines) <= 5
    assert segments_read([lines[0].replace(b"gateway", b"highway"), *lines[1:]]) >= segments, "changed at the beginning"
    assert segments_read([*lines[:1000], lines[0], *lines[1001:]]) >= segments, "changed in the middle"
    assert segments_read(lines[:1000]) > 10, "cut"
    assert segments_read(lines[:10]) == 0, "replaced by a store of less than a segment"


RANKS = b"\x93"
"""The first byte of stored ranks: a list of three. The lines of a segment are more than three here."""
HEADER_BYTES = len(jsonl_stores.CACHE_FORMAT) + 32


def test_the_cache_removes_the_entries_used_least_recently(tmp_path: Path) -> None:
    cache = jsonl_stores.SegmentCache(tmp_path)
    keys = [f"{number:064x}" for number in range(4)]
    for age, key in enumerate(keys):
        cache.put(key, [])
        (entry,) = tmp_path.glob(f"{key[:2]}/{key[2:]}")
        os.utime(entry, (age, age))
    size = entry.stat().st_size
    assert cache.get(keys[0], bytes) is not None
    cache.trim(max_bytes=2 * size)
    assert [cache.get(key, bytes) is not None for key in keys] == [True, False, False, True]


def test_stores_are_only_read(tmp_path: Path) -> None:  # MC-09
    store = tmp_path / "a.jsonl"
    store.write_bytes((VECTORS / "a.jsonl").read_bytes())
    os.utime(store, (1, 1))
    store.chmod(0o400)
    before_reading = (store.read_bytes(), store.stat().st_mtime_ns, sorted(path.name for path in tmp_path.iterdir()))
    read({"query": "budget", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 9}}, tmp_path)
    assert before_reading == (
        store.read_bytes(),
        store.stat().st_mtime_ns,
        sorted(path.name for path in tmp_path.iterdir()),
    )


def refusal(folder: Path, request: dict[str, Any], **options: Any) -> EngramBusError:
    with pytest.raises(EngramBusError) as first:
        read(request, folder, **options)
    with pytest.raises(EngramBusError) as second:
        read(request, folder, **options)
    assert first.value.problem() == second.value.problem()  # MC-01: the same every time
    return first.value


REQUEST: dict[str, Any] = {"query": "x", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 9}}


@pytest.mark.parametrize(
    ("change", "kind", "field"),
    [
        ({"query": " \n"}, FieldMissing, "query"),
        ({"store_paths": []}, FieldMissing, "store_paths"),
        ({"store_paths": ["a.jsonl", ""]}, FieldValue, "store_paths[1]"),
        ({"store_paths": ["a\0b"]}, FieldValue, "store_paths[0]"),
        ({"store_paths": ["none.jsonl"]}, MemoryStoreNotFound, "store_paths"),
        ({"store_paths": ["a.jsonl/x"]}, MemoryStoreNotFound, "store_paths"),
        ({"store_paths": ["folder"]}, MemoryStoreNotAFile, "store_paths"),
        ({"store_paths": ["pipe"]}, MemoryStoreNotAFile, "store_paths"),
        ({"store_paths": ["/dev/zero"]}, MemoryStoreNotAFile, "store_paths"),
        ({"now_utc": "today"}, FieldValue, "now_utc"),
        ({"now_utc": "2026-01-01T00:00:00+02:00"}, FieldValue, "now_utc"),
        ({"trust_filter": {"trust_snapshot_path": "none"}}, MemoryStoreNotFound, "trust_filter.trust_snapshot_path"),
        (
            {"trust_filter": {"trust_snapshot_path": "a.jsonl"}},
            TrustSnapshotInvalid,
            "trust_filter.trust_snapshot_path",
        ),
        (
            {"trust_filter": {"trust_snapshot_path": "list.json"}},
            TrustSnapshotInvalid,
            "trust_filter.trust_snapshot_path",
        ),
        (
            {"trust_filter": {"trust_snapshot_path": "item.json"}},
            TrustSnapshotInvalid,
            "trust_filter.trust_snapshot_path",
        ),
    ],
)
def test_a_bad_request_is_refused_the_same_way_every_time(
    tmp_path: Path, change: dict[str, Any], kind: type[EngramBusError], field: str
) -> None:  # MC-01
    (tmp_path / "a.jsonl").write_bytes(b'{"memory_id":"m","text":"x"}\n{"memory_id":"n","text":"y"}\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "list.json").write_bytes(b"[]")
    (tmp_path / "item.json").write_bytes(b'{"items":[{"memory_id":"m"}]}')
    os.mkfifo(tmp_path / "pipe")
    problem = refusal(tmp_path, {**REQUEST, **change})
    assert type(problem) is kind
    assert problem.field == field


def test_stores_outside_the_allowed_folders_are_refused(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    for folder in (project, elsewhere):
        (folder / "a.jsonl").write_bytes(b'{"memory_id":"m","text":"x"}')
    (project / "link.jsonl").symlink_to(elsewhere / "a.jsonl")
    assert read(REQUEST, project, allowed_folders=(project,))["selection"]["selected"]
    for path in ("../elsewhere/a.jsonl", str(elsewhere / "a.jsonl"), "link.jsonl", "../none.jsonl"):
        problem = refusal(project, {**REQUEST, "store_paths": [path]}, allowed_folders=(project,))
        assert isinstance(problem, MemoryStoreOutside)


def test_a_line_of_twenty_megabytes_is_read_and_an_endless_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "a.jsonl"
    text = "x" * 20 * 1024 * 1024
    store.write_bytes(b'{"memory_id":"long","text":"%b"}\n' % text.encode())
    selected = read(REQUEST, tmp_path)["selection"]["selected"]
    assert [(item["memory_id"], item["excerpt"]) for item in selected] == [("long", text[:36])]
    monkeypatch.setattr(jsonl_stores, "MAX_LINE_BYTES", 1024 * 1024)
    assert isinstance(refusal(tmp_path, REQUEST), MemoryLineTooLong)


def test_byte_order_marks_crlf_and_blank_lines_are_accepted(tmp_path: Path) -> None:  # MC-02
    records = [b'{"memory_id":"m1","text":"x"}', b'{"memory_id":"m2","text":"x y","mine":{"a":[1e3]}}']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(records))
    expected = read(REQUEST, tmp_path)["selection"]
    assert len(expected["selected"]) == 2
    for content in (
        b"\xef\xbb\xbf" + b"\n".join(records),
        b"\xef\xbb\xbf\r\n" + b"\r\n\r\n".join(records) + b"\r\n",
        b"\n \t\n" + b"\n\n".join(records) + b"\n\n\n",
    ):
        (tmp_path / "a.jsonl").write_bytes(content)
        assert read(REQUEST, tmp_path)["selection"] == expected, content
    (tmp_path / "a.jsonl").write_bytes(records[0] + b"\n\xef\xbb\xbf" + records[1])  # in the middle it is damage
    assert [item["reason"] for item in read(REQUEST, tmp_path)["selection"]["dropped"]] == ["invalid_record_schema"]


NORMAL_FORMS = {
    "2026-02-03T04:05:06Z": "2026-02-03T04:05:06Z",
    "20260203T040506Z": "2026-02-03T04:05:06Z",
    "2026-W06-2T04:05:06+00:00": "2026-02-03T04:05:06Z",
    "2026W062T040506+0000": "2026-02-03T04:05:06Z",
    "2026-02-03T04:05Z": "2026-02-03T04:05:00Z",
    "2026-02-03T0405+00": "2026-02-03T04:05:00Z",
    "2026-02-03T04Z": "2026-02-03T04:00:00Z",
    "2026-02-03T04:05:06.5Z": "2026-02-03T04:05:06.500000Z",
    "20260203T040506,000001+00:00": "2026-02-03T04:05:06.000001Z",
    "2026-02-03T04:05:06.0000009Z": "2026-02-03T04:05:06Z",
    "2020-W53-7T00Z": "2021-01-03T00:00:00Z",
}
NO_MOMENTS = [
    *("2026-02-03", "2026-02-03T04:05:06", "2026-02-03 04:05:06Z", "2026-02-03t04:05:06z", "2026-034T04:05:06Z"),
    *("2026-02-03T04:05:06-00:00", "2026-02-03T04:05:06+01:00", "2026-02-03T24:00:00Z", "2026-02-03T04:05:60Z"),
    *("2026-02-03T04.5Z", "2026-02-03T04:05.5Z", "2026-02-03T04:05:06.Z", "2026-02-30T00Z", "2026-W54-1T00Z"),
    *("2026-W06T04Z", "2026-0203T04Z", "2026-02-03T04:0506Z", "+002026-02-03T04Z", "2026-02-03T04:05:06 Z", ""),
]


@pytest.mark.parametrize("form", [*NORMAL_FORMS, *NO_MOMENTS])
def test_every_form_of_a_utc_moment_and_nothing_else_is_one(form: str) -> None:  # MC-11
    record = read_record(json.dumps({"memory_id": "m", "text": "x", "ts_utc": form}).encode())
    normal: dict[str, Any] = {"memory_id": "m", "text": "x", "tags": [], "refs": [], "ts_utc": NORMAL_FORMS.get(form)}
    assert record is not None
    assert record.record_hash == literal.record_hash(normal)


def nested_field(levels: int) -> bytes:
    return b'{"memory_id":"m","text":"x","mine":' + b'{"a":[' * (levels // 2) + b"]}" * (levels // 2) + b"}"


def nested_refs(levels: int) -> bytes:
    inner = b"[" * (levels - 2) + b"]" * (levels - 2)
    return b'{"memory_id":"m","text":"x","refs":[{"a":%b}]}' % inner


@pytest.mark.parametrize(
    ("line", "is_valid"),
    [
        (b'{"memory_id":"","text":"x"}', True),
        (b'{"memory_id":"m","text":"x","ts_utc":null,"tags":null,"refs":null,"mine":null}', True),
        (b'{"memory_id":null,"text":"x"}', False),
        (b'{"memory_id":"m","text":"x","ts_utc":5}', False),
        (b'{"memory_id":"m","text":"x","mine":"\\udc00"}', False),
        (b'{"memory_id":"m","text":"x","\\ud800":1}', False),
        (b'{"memory_id":"m","text":"x","mine":[{"\\udfff":1}]}', False),
        (b'{"memory_id":"m","text":"x","mine":"\\ud83e\\uddea"}', True),
        (b'{"memory_id":"m","text":"x","mine":"\\\\ud800"}', True),
        (b'{"memory_id":"m","text":"x","mine":NaN}', False),
        (b'{"memory_id":"m","text":"x","mine":-Infinity}', False),
        (b'{"memory_id":"m","text":"x","mine":{"a":1,"a":1}}', False),
        (b'{"memory_id":"m","text":"x","mine":%b}' % (b"9" * 5000), True),
        (b'\xef\xbb\xbf{"memory_id":"m","text":"x"}', False),
        ('{"memory_id":"\ufeffm","text":"\ufeffx"}'.encode(), True),
        (nested_field(64), True),
        (nested_field(1000), True),
        (nested_field(1002), False),
        (nested_refs(127), True),
        (nested_refs(128), False),
    ],
)
def test_what_a_record_may_hold(line: bytes, is_valid: bool) -> None:  # MC-11
    record = read_record(line)
    assert (record is not None) == is_valid
    assert (literal.read_record(line) is not None) == is_valid
    if record is not None:
        assert read_text(line) == record.text


def test_a_byte_order_mark_is_no_part_of_the_hash_of_an_invalid_first_line(tmp_path: Path) -> None:  # MC-11
    hashes = []
    for mark in (b"", b"\xef\xbb\xbf"):
        (tmp_path / "a.jsonl").write_bytes(mark + b"{broken\n")
        hashes.append(read(REQUEST, tmp_path)["selection"]["dropped"][0]["record_hash"])
    assert hashes[0] == hashes[1]


def test_one_file_by_several_paths_is_read_once_under_the_first_of_them(tmp_path: Path) -> None:  # MC-02
    (tmp_path / "notes.jsonl").write_bytes(b'{"memory_id":"m","text":"x"}')
    (tmp_path / "link.jsonl").symlink_to("notes.jsonl")
    os.link(tmp_path / "notes.jsonl", tmp_path / "other.jsonl")
    (tmp_path / "copy.jsonl").write_bytes(b'{"memory_id":"m","text":"x"}')
    absolute = str(tmp_path / "notes.jsonl")

    def stores_read(*paths: str) -> list[str]:
        packages = [read({**REQUEST, "store_paths": list(order)}, tmp_path) for order in permutations(paths)]
        assert all(package == packages[0] for package in packages)
        return [item["store_path"] for item in packages[0]["selection"]["selected"]]

    assert stores_read("notes.jsonl", "link.jsonl", "./x/../notes.jsonl") == ["link.jsonl"]
    assert stores_read("notes.jsonl", "other.jsonl") == ["notes.jsonl"]
    assert stores_read(absolute, "notes.jsonl", "link.jsonl") == [absolute]
    assert stores_read("notes.jsonl", "copy.jsonl") == ["copy.jsonl", "notes.jsonl"]


@pytest.mark.parametrize(
    "line",
    [
        *(b'{"memory_id":"m","text":"a%bb"}' % bytes([code]) for code in range(0x20) if code != 0x0A),
        *(b'{"memory_id":"m%b","text":"ab"}' % bytes([code]) for code in range(0x20) if code != 0x0A),
        b'{"memory_id":"m","text":null}',
        b'{"memory_id":"m","text":5}',
        b'{"memory_id":"m","text":["a"]}',
        b'{"memory_id":"m","text":{"a":"b"}}',
        b'{"memory_id":"m","text": "a" }',
        b'{"memory_id":"m" , "text"  :  "a","tags":[]}',
        b'{"memory_id":"text","text":"a"}',
        b'{"text":"text","memory_id":"m"}',
        b'{"memory_id":"m","text":"a","text":"b"}',
        b'{"memory_id":"m","text":tru}',
    ],
)
def test_a_single_line_agrees_with_the_literal_reading(line: bytes) -> None:  # MC-02
    record, expected = read_record(line), literal.read_record(line)
    assert (record is None) == (expected is None)
    if record is not None and expected is not None:
        assert record.record_hash == literal.record_hash(expected)
        assert read_text(line) == expected["text"]
