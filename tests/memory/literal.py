"""A slow, literal reading of the memory contract: the reference that the product is compared with."""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FIELD_LEVELS = 1000
REFS_LEVELS = 127
"""Canonical JSON nests up to 128 levels; the record around `refs` is one of them."""


def package(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make the package by following the contract sentence by sentence."""
    budget = request["budget"]
    max_tokens = budget["max_excerpt_tokens"]
    item_tokens = min(budget.get("per_item_max_excerpt_tokens", max_tokens), max_tokens)
    scoring = request.get("scoring", {})
    terms = [" ".join(term.lower().split()) for term in scoring.get("query_terms", [])]
    if "query_terms" not in scoring:
        terms = [term for term in request["query"].lower().split() if len(term) >= 2]
    terms = [term for term in dict.fromkeys(terms) if term]
    deny = _denied(request.get("trust_filter", {}), folder)
    invalid, denied, ranked = [], [], []
    files_read: list[Path] = []
    for path in sorted({str(Path(path)) for path in request["store_paths"]}):
        if any((folder / path).samefile(file) for file in files_read):
            continue
        files_read.append(folder / path)
        lines = (folder / path).read_bytes()
        if lines[:3] == "\ufeff".encode():  # a byte-order mark at the start is no part of the first line
            lines = lines[3:]
        for line in lines.split(b"\n"):
            if not line.strip():
                continue
            record = read_record(line)
            if record is None:
                invalid.append(_dropped("", hashlib.sha256(line).hexdigest(), path, "invalid_record_schema"))
                continue
            digest = record_hash(record)
            if record["memory_id"] in deny or digest in deny:
                denied.append(_dropped(record["memory_id"], digest, path, "trust_denied"))
                continue
            ranked.append((_score(record, terms, scoring, request.get("now_utc")), path, digest, record))
    ranked.sort(key=lambda row: (row[1], row[3]["memory_id"], row[2]))
    ranked.sort(key=lambda row: _time(row[3]["ts_utc"]) or datetime(1, 1, 1, tzinfo=UTC), reverse=True)
    ranked.sort(key=lambda row: row[3]["ts_utc"] is None)
    ranked.sort(key=lambda row: -row[0])
    selected: list[dict[str, Any]] = []
    dropped: list[dict[str, Any]] = []
    used, reason = 0, None
    for score, path, digest, record in ranked:
        cut = record["text"].strip().encode()[: item_tokens * 4]
        while True:
            try:
                excerpt = cut.decode()
                break
            except UnicodeDecodeError:
                cut = cut[:-1]
        tokens = -(-len(cut) // 4)
        if reason is None and len(selected) == budget.get("max_items", 50):
            reason = "max_items_reached"
        if reason is None and used + tokens > max_tokens:
            reason = "budget_exhausted"
        if reason is not None:
            dropped.append(_dropped(record["memory_id"], digest, path, reason))
            continue
        used += tokens
        selected.append({**_dropped(record["memory_id"], digest, path, ""), "score": score, "excerpt": excerpt})
        del selected[-1]["reason"]
        selected[-1]["excerpt_tokens"] = tokens
    content: dict[str, Any] = {
        "query": {
            "raw": request["query"],
            "query_hash": hashlib.sha256(" ".join(request["query"].split()).lower().encode()).hexdigest(),
        },
        "budget": {
            "max_excerpt_tokens": max_tokens,
            "used_excerpt_tokens": used,
            "remaining_excerpt_tokens": max_tokens - used,
            "per_item_max_excerpt_tokens": item_tokens,
            "max_items": budget.get("max_items", 50),
        },
        "selection": {"selected": selected, "dropped": [*invalid, *denied, *dropped]},
        "controller_version": "phase6-v1",
    }
    return {**content, "package_hash": hashlib.sha256(_canonical(content)).hexdigest()}


def record_hash(record: dict[str, Any]) -> str:
    """Return the hash of a record in its normal form."""
    return hashlib.sha256(_canonical(record)).hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _dropped(memory_id: str, digest: str, path: str, reason: str) -> dict[str, Any]:
    return {"memory_id": memory_id, "record_hash": digest, "store_path": path, "reason": reason}


def _denied(trust: dict[str, Any], folder: Path) -> set[str]:
    if "trust_snapshot_path" not in trust:
        return set()
    items = json.loads((folder / trust["trust_snapshot_path"]).read_bytes())["items"]
    classes = trust.get("deny_classifications", ["malicious"])
    return {item.get("memory_id", item.get("record_hash")) for item in items if item["classification"] in classes}


class _InvalidRecord(Exception):
    pass


def read_record(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line in its normal form; None when it is not a valid record."""

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise _InvalidRecord
        return dict(pairs)

    def refuse(_: str) -> None:
        raise _InvalidRecord

    def finite(digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise _InvalidRecord
        return value

    recursion_limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(recursion_limit, 20_000))  # this reader recurses; the limit of levels is checked below
    try:
        value = json.loads(
            line.decode(),
            object_pairs_hook=unique_keys,
            parse_constant=refuse,
            parse_float=finite,
            parse_int=lambda digits: int(digits[:20]),  # Python refuses to convert thousands of digits
        )
        for text in _texts(value):
            text.encode()  # half of a surrogate pair cannot be encoded
        if isinstance(value, dict):
            for name, item in value.items():
                if _levels(item) > (REFS_LEVELS if name == "refs" else FIELD_LEVELS):
                    return None
    except (ValueError, _InvalidRecord):
        return None
    finally:
        sys.setrecursionlimit(recursion_limit)
    if not isinstance(value, dict) or not all(isinstance(value.get(name), str) for name in ("memory_id", "text")):
        return None
    ts_utc, tags, refs = value.get("ts_utc"), value.get("tags") or [], value.get("refs") or []
    if not isinstance(ts_utc, str | None) or not isinstance(value.get("tags"), list | None):
        return None
    if not isinstance(value.get("refs"), list | None):
        return None
    if not all(isinstance(tag, str) for tag in tags) or not all(isinstance(ref, dict) for ref in refs):
        return None
    if any(abs(number) > 2**53 for number in _integers(refs)):  # it has no canonical form
        return None
    moment = _time(ts_utc)
    return {
        "memory_id": value["memory_id"],
        "ts_utc": None if moment is None else moment.isoformat().replace("+00:00", "Z"),
        "text": value["text"],
        "tags": sorted({tag.lower() for tag in tags}),
        "refs": refs,
    }


def _levels(value: Any) -> int:
    """Return how many lists and objects stand in each other."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return 1 + max(map(_levels, value), default=0)
    return 0


def _texts(value: Any) -> list[str]:
    """Return every text and every key in a value."""
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *_texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _integers(value: Any) -> list[int]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in _integers(item)]
    return [value] if isinstance(value, int) else []


DATES = {
    "####-##-##": "%Y-%m-%d",
    "########": "%Y%m%d",
    "####-W##-#": "%G-W%V-%u",
    "####W###": "%GW%V%u",
}
CLOCKS = {"##": "%H", "##:##": "%H:%M", "####": "%H%M", "##:##:##": "%H:%M:%S", "######": "%H%M%S"}
ZONES = ("Z", "+00", "+0000", "+00:00")
"""The forms of a UTC moment: a date, `T`, a clock and a zone; `#` is a digit."""


def _time(text: str | None) -> datetime | None:
    """Try every form one after the other."""
    for zone in ZONES:
        if text is None or not text.endswith(zone):
            continue
        date_text, separator, clock_text = text[: -len(zone)].partition("T")
        if not separator:
            continue
        for date_shape, date_format in DATES.items():
            for clock_shape, clock_format in CLOCKS.items():
                whole, fraction = clock_text, ""
                for mark in ".,":
                    if mark in clock_text and "%S" in clock_format:
                        whole, _, fraction = clock_text.partition(mark)
                        if not fraction or not all(letter in "0123456789" for letter in fraction):
                            fraction = "no digits"
                if fraction == "no digits" or _shape(date_text) != date_shape or _shape(whole) != clock_shape:
                    continue
                if "%S" in clock_format and whole[-2:] in ("60", "61"):  # strptime takes leap seconds
                    continue
                try:
                    moment = datetime.strptime(f"{date_text} {whole}", f"{date_format} {clock_format}")
                except (ValueError, OverflowError):
                    continue
                return moment.replace(microsecond=int((fraction + "000000")[:6]), tzinfo=UTC)
    return None


def _shape(text: str) -> str:
    return "".join("#" if letter in "0123456789" else letter for letter in text)


def _score(record: dict[str, Any], terms: list[str], scoring: dict[str, Any], now: str | None) -> float:
    text = " ".join(record["text"].split()).lower()
    score = float(sum(term in text for term in terms))
    if scoring.get("enable_tag_overlap", True):
        score += 0.5 * sum(term in record["tags"] for term in terms)
    then = _time(record["ts_utc"])
    if scoring.get("enable_recency_weight", False) and now is not None and then is not None:
        age = (_time(now) or then) - then
        score += min(1.0, 0.5 ** (age / timedelta(seconds=1) / 86400 / scoring.get("recency_half_life_days", 30)))
    return score
