"""A slow reading of the contract, line by line, to hold the controller against."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any


def package(asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The package a patient reader would make."""
    budget = asked["budget"]
    most = budget["max_excerpt_tokens"]
    item = min(budget.get("per_item_max_excerpt_tokens", most), most)
    scoring = asked.get("scoring", {})
    terms = [" ".join(term.lower().split()) for term in scoring.get("query_terms", [])]
    if "query_terms" not in scoring:
        terms = [term for term in asked["query"].lower().split() if len(term) >= 2]
    terms = [term for term in dict.fromkeys(terms) if term]
    deny = _denied(asked.get("trust_filter", {}), folder)
    invalid, denied, rest = [], [], []
    for path in sorted({str(Path(path)) for path in asked["store_paths"]}):
        for line in (folder / path).read_bytes().split(b"\n"):
            if not line.strip():
                continue
            record = _record(line)
            if record is None:
                invalid.append(_dropped("", hashlib.sha256(line).hexdigest(), path, "invalid_record_schema"))
                continue
            name = hashlib.sha256(_canonical(record)).hexdigest()
            if record["memory_id"] in deny or name in deny:
                denied.append(_dropped(record["memory_id"], name, path, "trust_denied"))
                continue
            rest.append((_score(record, terms, scoring, asked.get("now_utc")), path, name, record))
    rest.sort(key=lambda row: (row[1], row[3]["memory_id"], row[2]))
    rest.sort(key=lambda row: _time(row[3]["ts_utc"]) or datetime(1, 1, 1, tzinfo=UTC), reverse=True)
    rest.sort(key=lambda row: row[3]["ts_utc"] is None)
    rest.sort(key=lambda row: -row[0])
    selected: list[dict[str, Any]] = []
    dropped: list[dict[str, Any]] = []
    used, reason = 0, None
    for score, path, name, record in rest:
        cut = record["text"].strip().encode()[: item * 4]
        while True:
            try:
                excerpt = cut.decode()
                break
            except UnicodeDecodeError:
                cut = cut[:-1]
        tokens = -(-len(cut) // 4)
        if reason is None and len(selected) == budget.get("max_items", 50):
            reason = "max_items_reached"
        if reason is None and used + tokens > most:
            reason = "budget_exhausted"
        if reason is not None:
            dropped.append(_dropped(record["memory_id"], name, path, reason))
            continue
        used += tokens
        selected.append({**_dropped(record["memory_id"], name, path, ""), "score": score, "excerpt": excerpt})
        del selected[-1]["reason"]
        selected[-1]["excerpt_tokens"] = tokens
    whole: dict[str, Any] = {
        "query": {
            "raw": asked["query"],
            "query_hash": hashlib.sha256(" ".join(asked["query"].split()).lower().encode()).hexdigest(),
        },
        "budget": {
            "max_excerpt_tokens": most,
            "used_excerpt_tokens": used,
            "remaining_excerpt_tokens": most - used,
            "per_item_max_excerpt_tokens": item,
            "max_items": budget.get("max_items", 50),
        },
        "selection": {"selected": selected, "dropped": [*invalid, *denied, *dropped]},
        "controller_version": "phase6-v1",
    }
    return {**whole, "package_hash": hashlib.sha256(_canonical(whole)).hexdigest()}


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _dropped(memory_id: str, name: str, path: str, reason: str) -> dict[str, Any]:
    return {"memory_id": memory_id, "record_hash": name, "store_path": path, "reason": reason}


def _denied(trust: dict[str, Any], folder: Path) -> set[str]:
    if "trust_snapshot_path" not in trust:
        return set()
    items = json.loads((folder / trust["trust_snapshot_path"]).read_bytes())["items"]
    classes = trust.get("deny_classifications", ["malicious"])
    return {item.get("memory_id", item.get("record_hash")) for item in items if item["classification"] in classes}


class _Bad(Exception):
    pass


def _record(line: bytes) -> dict[str, Any] | None:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in found}) != len(found):
            raise _Bad
        return dict(found)

    def constant(_: str) -> None:
        raise _Bad

    def number(digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise _Bad
        return value

    try:
        said = json.loads(line.decode(), object_pairs_hook=pairs, parse_constant=constant, parse_float=number)
        json.dumps(said, ensure_ascii=False).encode()
    except (ValueError, _Bad):
        return None
    if not isinstance(said, dict) or not all(isinstance(said.get(name), str) for name in ("memory_id", "text")):
        return None
    when, tags, refs = said.get("ts_utc"), said.get("tags") or [], said.get("refs") or []
    if not isinstance(when, str | None) or not isinstance(said.get("tags"), list | None):
        return None
    if not isinstance(said.get("refs"), list | None):
        return None
    if not all(isinstance(tag, str) for tag in tags) or not all(isinstance(ref, dict) for ref in refs):
        return None
    if any(abs(number) > 2**53 for number in _integers(refs)):  # it has no canonical form
        return None
    moment = _time(when)
    return {
        "memory_id": said["memory_id"],
        "ts_utc": None if moment is None else moment.isoformat().replace("+00:00", "Z"),
        "text": said["text"],
        "tags": sorted({tag.lower() for tag in tags}),
        "refs": refs,
    }


def _integers(value: Any) -> list[int]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for each in value for number in _integers(each)]
    return [value] if isinstance(value, int) else []


def _time(text: str | None) -> datetime | None:
    if text is None or not re.fullmatch(r"[0-9-]{10}[T ][0-9:]{8}(\.[0-9]{1,6})?(Z|\+00:00)", text, re.ASCII):
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


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
