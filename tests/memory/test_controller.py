"""`memory.read` by the letter: every vector whole, and a second, patient reading of the contract."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engrambus.backends.episodes import FileStores, scanning
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
from engrambus.knowledge.memory import MemoryInput, read_block, read_memory, read_record
from tests.memory import literal

VECTORS = Path(__file__).parent / "vectors"
CASES = sorted(VECTORS.glob("case-*.json"))


def read(asked: dict[str, Any], folder: Path, **how: Any) -> dict[str, Any]:
    with FileStores(folder, **how) as stores:
        package = msgspec.to_builtins(read_memory(msgspec.convert(asked, MemoryInput), stores).package())
    assert isinstance(package, dict)
    return package


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_every_published_case_is_reproduced_byte_for_byte(case: Path) -> None:  # MC-01…07
    said = json.loads(case.read_bytes())
    package = read(said["input"], VECTORS)
    assert canonical(package) == canonical(said["package"])
    assert literal.package(said["input"], VECTORS) == said["package"]


words = st.sampled_from(["gateway", "Budget", "ÉTÉ", "retry", "x", "Σίσυφος", "İx", "ß", "budget", "予算"])
texts = st.lists(words, max_size=6).flatmap(
    lambda said: st.sampled_from([" ", "  ", "\n", "\t ", "\u00a0", "\u2028", '"', "\\", ""]).map(
        lambda between: between.join(said)
    )
)
times = st.sampled_from(
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T00:00:00.250000Z",
        "2026-01-01T00:00:00.25Z",
        "2026-01-01T00:00:00.000000Z",
        "2025-06-01 12:00:00Z",
        "2026-01-01T00:00:00+01:00",
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2024-02-29T00:00:00Z",
        "2026-01-01T00:00:00Z\n2026-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "2026-W01-1T00:00:00Z",
        "yesterday",
        "",
    ]
)
anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), texts, st.just([]), st.just([{}]), st.just({})
)
numbers = st.one_of(st.integers(-(2**54), 2**54), st.sampled_from([0.5, 0.0, 1e5, 1e-5, 1e16, -2.25]))
refs = st.lists(
    st.dictionaries(texts, st.one_of(numbers, st.none(), texts, st.lists(numbers, max_size=2)), max_size=2), max_size=2
)
records = st.fixed_dictionaries(
    {
        "memory_id": st.one_of(
            st.sampled_from(["m", "m1", "m!", "m 1", "m\\", "m\n", "m\0", "text", 'm"3', "µ", "{m"]), anything
        ),
        "text": st.one_of(texts, anything),
    },
    optional={
        "ts_utc": st.one_of(times, anything),
        "tags": st.one_of(st.lists(words, max_size=3), anything),
        "refs": st.one_of(refs, anything),
        "more": anything,
    },
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line as strangers write them."""
    record = draw(records)
    text = json.dumps(
        record, ensure_ascii=draw(st.booleans()), separators=draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    )
    twist = draw(
        st.sampled_from(["none"] * 6 + ["twice", "cut", "bytes", "surrogate", "huge", "blank", "space", "deep"])
    )
    if twist == "twice":
        text = text[:-1] + ',"text":"again"}'
    elif twist == "cut":
        text = text[: len(text) // 2]
    elif twist == "surrogate":
        text = '{"memory_id":"m","text":"\\ud800"}'
    elif twist == "huge":
        text = '{"memory_id":"m","text":"x","more":1e999}'
    elif twist == "blank":
        text = " \t"
    elif twist == "space":
        text = f"  {text}\r"
    elif twist == "deep":
        text = '{"memory_id":"m","text":"x","more":' + "[" * 40 + "]" * 40 + "}"
    body = text.encode("utf-8", "surrogatepass").replace(b"\n", b" ")
    return body.replace(b"e", b"\xff", 1) if twist == "bytes" else body


questions = st.fixed_dictionaries(
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
    first=st.lists(lines(), max_size=12), second=st.lists(lines(), max_size=6), asked=questions, ending=st.booleans()
)
@example(
    first=[b'{"memory_id":"text","ts_utc":"2026-01-01T00:00:00Z","text":"budget"}'] * 2,
    second=[],
    asked={"query": "budget", "budget": {"max_excerpt_tokens": 9}},
    ending=False,
)
@example(
    first=[
        b'{"memory_id":"m","text":"a","refs":[',
        b'{"a":"b"}]}',
        b'{"memory_id":"n","text":"b"}{"memory_id":"o","text":"c"}',
    ],
    second=[],
    asked={"query": "budget", "budget": {"max_excerpt_tokens": 9}},
    ending=True,
)
def test_the_controller_agrees_with_a_patient_reading(
    first: list[bytes], second: list[bytes], asked: dict[str, Any], ending: bool
) -> None:  # MC-02…06
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "a.jsonl").write_bytes(b"\n".join(first) + b"\n" * ending)
        (place / "b.jsonl").write_bytes(b"\n".join(second))
        asked = {**asked, "store_paths": ["b.jsonl", "./a.jsonl", "a.jsonl"]}
        assert read(asked, place) == literal.package(asked, place)


letters = st.text("abABé \n", max_size=200)


@given(st.lists(letters, min_size=1, max_size=6), st.lists(st.text("abAé", min_size=1, max_size=9), max_size=4))
def test_terms_are_found_wherever_they_stand(said: list[str], terms: list[str]) -> None:  # MC-04
    asked = {
        "query": "x",
        "store_paths": ["a.jsonl"],
        "budget": {"max_excerpt_tokens": 9},
        "scoring": {"query_terms": terms},
    }
    with tempfile.TemporaryDirectory() as folder:
        records = [json.dumps({"memory_id": str(number), "text": text}) for number, text in enumerate(said)]
        (Path(folder) / "a.jsonl").write_text("\n".join(records), "utf-8")
        assert read(asked, Path(folder)) == literal.package(asked, Path(folder))


plain = st.fixed_dictionaries(
    {"memory_id": st.sampled_from(["m", "n"]), "text": st.sampled_from(["budget", "}\\n{", ""])},
    optional={"refs": st.sampled_from([[], [{}], [{}, {}], [{"a": ["b"]}, {"c": None}]]), "tags": st.just(["Budget"])},
)


@given(st.lists(plain, min_size=1, max_size=8), st.data())
def test_a_line_feed_is_the_end_of_a_line_wherever_it_stands(said: list[dict[str, Any]], data: st.DataObject) -> None:
    between = st.sampled_from([b"", b"\n", b"\n", b"\n", b"\n\n", b" ", b"\r\n", b"\n "])
    body = b"".join(json.dumps(each, separators=(",", ":")).encode() + data.draw(between) for each in said)
    seams = [at for at in range(len(body)) if body[at : at + 1] in b"{},[]"]
    for at in sorted(data.draw(st.sets(st.sampled_from(seams), max_size=3)), reverse=True):
        body = body[:at] + data.draw(st.sampled_from([b"\n", b" \n", b""])) + body[at:]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.jsonl").write_bytes(body)
        asked = {"query": "budget", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 9}}
        assert read(asked, Path(folder)) == literal.package(asked, Path(folder))


@given(st.lists(lines(), min_size=1, max_size=60), questions, st.integers(1, 400))
def test_cutting_a_store_into_stretches_and_remembering_them_changes_nothing(
    said: list[bytes], asked: dict[str, Any], size: int
) -> None:  # MC-10
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "STRETCH", size)
        store, cache = Path(folder) / "a.jsonl", Path(folder) / "cache"
        asked = {**asked, "store_paths": ["a.jsonl"]}
        half = len(said) // 2
        store.write_bytes(b"".join(line + b"\n" for line in said[:half]))
        read(asked, Path(folder), cache=cache)
        store.write_bytes(b"".join(line + b"\n" for line in said))
        plain = literal.package(asked, Path(folder))
        assert read(asked, Path(folder), cache=cache) == plain
        assert read(asked, Path(folder), cache=cache) == plain
        for entry in cache.glob("*/*"):  # damage is noticed
            held = bytearray(entry.read_bytes())
            held[-1] ^= 1
            entry.write_bytes(held)
        assert read(asked, Path(folder), cache=cache) == plain
        store.write_bytes(b"".join(line + b"\n" for line in reversed(said)))
        assert read(asked, Path(folder), cache=cache) == literal.package(asked, Path(folder))


def test_only_what_was_added_or_changed_is_taken_apart_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # MC-10
    """What is kept of a stretch is a new file whenever the stretch was taken apart, and the same when it was found."""
    size = 4096
    monkeypatch.setattr(scanning, "STRETCH", size)
    lines = [b'{"memory_id":"m%05d","text":"gateway %s"}\n' % (n, b"word " * 20) for n in range(1000)]
    store, cache = tmp_path / "a.jsonl", tmp_path / "cache"
    asked = {"query": "gateway", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 50}}

    def entries(*, after: list[bytes]) -> dict[str, int]:
        store.write_bytes(b"".join(after))
        read(asked, tmp_path, cache=cache)
        return {entry.name: entry.stat().st_ino for entry in cache.glob("*/*")}

    first = entries(after=lines[:900])
    assert len(first) > 20
    again = entries(after=lines[:900])
    assert again == first
    grown = entries(after=lines)
    assert first.items() <= grown.items()
    added = sum(map(len, lines[900:])) // size
    assert added <= len(grown) - len(first) <= added + 2, "the added stretches, and the last, which grew"
    changed = entries(after=[lines[0].replace(b"word", b"lord"), *lines[1:]])
    assert grown.items() <= changed.items()
    assert len(changed) - len(grown) == 1


def test_a_large_store_is_read_by_several_processes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # MC-09
    (tmp_path / "msgspec.py").write_text("raise SystemExit('a project may call its modules what it likes')\n")
    monkeypatch.chdir(tmp_path)
    lines = [
        json.dumps({"memory_id": f"m{n}", "text": f"gateway {'word ' * (n % 50)}", "tags": ["Gateway"]}).encode()
        for n in range(60_000)
    ]
    lines[30_000] = b'{"memory_id": "broken'
    store = tmp_path / "large.jsonl"
    store.write_bytes(b"\n".join(lines * 4))
    assert store.stat().st_size > 32 * 1024 * 1024
    asked = {"query": "gateway", "store_paths": ["large.jsonl"], "budget": {"max_excerpt_tokens": 50}}
    together = read(asked, tmp_path, workers=2)
    assert together["selection"]["dropped"][:4] == [together["selection"]["dropped"][0]] * 4
    small = tmp_path / "part.jsonl"
    small.write_bytes(b"\n".join(lines))
    assert read({**asked, "store_paths": ["part.jsonl"]}, tmp_path) == literal.package(
        {**asked, "store_paths": ["part.jsonl"]}, tmp_path
    )
    assert together == read(asked, tmp_path, workers=3, cache=tmp_path / "cache")


def test_stores_are_only_read(tmp_path: Path) -> None:  # MC-09
    store = tmp_path / "a.jsonl"
    store.write_bytes((VECTORS / "a.jsonl").read_bytes())
    os.utime(store, (1, 1))
    store.chmod(0o400)
    before = (store.read_bytes(), store.stat().st_mtime_ns, sorted(path.name for path in tmp_path.iterdir()))
    read({"query": "budget", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 9}}, tmp_path)
    assert before == (store.read_bytes(), store.stat().st_mtime_ns, sorted(path.name for path in tmp_path.iterdir()))


def refusal(folder: Path, asked: dict[str, Any], **how: Any) -> EngramBusError:
    with pytest.raises(EngramBusError) as first:
        read(asked, folder, **how)
    with pytest.raises(EngramBusError) as second:
        read(asked, folder, **how)
    assert first.value.problem() == second.value.problem()  # MC-01: the same every time
    return first.value


ASKED: dict[str, Any] = {"query": "x", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 9}}


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
def test_what_cannot_be_read_is_refused_the_same_way_every_time(
    tmp_path: Path, change: dict[str, Any], kind: type[EngramBusError], field: str
) -> None:  # MC-01
    (tmp_path / "a.jsonl").write_bytes(b'{"memory_id":"m","text":"x"}\n{"memory_id":"n","text":"y"}\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "list.json").write_bytes(b"[]")
    (tmp_path / "item.json").write_bytes(b'{"items":[{"memory_id":"m"}]}')
    os.mkfifo(tmp_path / "pipe")
    problem = refusal(tmp_path, {**ASKED, **change})
    assert type(problem) is kind
    assert problem.field == field


def test_fenced_stores_lie_beneath_their_fence(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    for place in (project, elsewhere):
        (place / "a.jsonl").write_bytes(b'{"memory_id":"m","text":"x"}')
    (project / "link.jsonl").symlink_to(elsewhere / "a.jsonl")
    assert read(ASKED, project, fences=(project,))["selection"]["selected"]
    for path in ("../elsewhere/a.jsonl", str(elsewhere / "a.jsonl"), "link.jsonl", "../none.jsonl"):
        assert isinstance(refusal(project, {**ASKED, "store_paths": [path]}, fences=(project,)), MemoryStoreOutside)


def test_a_line_of_twenty_megabytes_is_a_record_and_one_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "a.jsonl"
    text = "x" * 20 * 1024 * 1024
    store.write_bytes(b'{"memory_id":"long","text":"%b"}\n' % text.encode())
    selected = read(ASKED, tmp_path)["selection"]["selected"]
    assert [(item["memory_id"], item["excerpt"]) for item in selected] == [("long", text[:36])]
    monkeypatch.setattr(scanning, "MAX_LINE", 1024 * 1024)
    assert isinstance(refusal(tmp_path, ASKED), MemoryLineTooLong)


def test_files_as_editors_leave_them_are_stores_too(tmp_path: Path) -> None:  # MC-02
    records = [b'{"memory_id":"m1","text":"x"}', b'{"memory_id":"m2","text":"x y","mine":{"a":[1e3]}}']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(records))
    plain = read(ASKED, tmp_path)["selection"]
    assert len(plain["selected"]) == 2
    for content in (
        b"\xef\xbb\xbf" + b"\n".join(records),
        b"\xef\xbb\xbf\r\n" + b"\r\n\r\n".join(records) + b"\r\n",
        b"\n \t\n" + b"\n\n".join(records) + b"\n\n\n",
    ):
        (tmp_path / "a.jsonl").write_bytes(content)
        assert read(ASKED, tmp_path)["selection"] == plain, content
    (tmp_path / "a.jsonl").write_bytes(records[0] + b"\n\xef\xbb\xbf" + records[1])  # in the middle it is damage
    assert [each["reason"] for each in read(ASKED, tmp_path)["selection"]["dropped"]] == ["invalid_record_schema"]


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
def test_both_ways_of_reading_a_line_agree(line: bytes) -> None:  # MC-02
    slowly, (quickly, _) = read_record(line), read_block(line)
    assert quickly.hashes == ([slowly.hash.hex()] if slowly else [])
    assert bool(quickly.invalid) == (slowly is None)
