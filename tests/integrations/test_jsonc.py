"""The editor of JSON as people keep it: what it does not mean to change, it does not change."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engrambus.edges.integrations import jsonc
from engrambus.edges.integrations.client_config import ClientFile, ConfigEntry
from engrambus.edges.integrations.config_files import ChangeRecord, plan_install, plan_uninstall, write

SERVER = {"command": "/opt/engrambus", "args": ["mcp"]}
HOOK = {"hooks": [{"type": "command", "command": "/opt/engrambus hook", "timeout": 5}]}
WISHES = (
    ConfigEntry(("mcpServers", "engrambus"), SERVER),
    ConfigEntry(("version",), 1),
    ConfigEntry(("hooks", "Stop"), HOOK, is_item=True),
    ConfigEntry(("hooks", "SubagentStop"), {**HOOK, "matcher": "*"}, is_item=True),
)
COMMENT = re.compile(r"// (?:changed|c|the end)|/\* [de]\s*\*/")

_words = st.text('abcüß \\"/{}[],:\u2028', max_size=6)
_scalars = (
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False) | _words
)


def _values(depth: int) -> st.SearchStrategy[Any]:
    if not depth:
        return _scalars
    inner = _values(depth - 1)
    return _scalars | st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3)


_servers = st.dictionaries(st.sampled_from(["other", "more", "ü"]), st.dictionaries(_words, _scalars), max_size=2)
_groups = st.lists(st.fixed_dictionaries({"matcher": _words, "hooks": st.just([{"command": "ls"}])}), max_size=2)
_hooks = st.dictionaries(st.sampled_from(["Stop", "SubagentStop", "PreToolUse"]), _groups, max_size=3)
_roots = st.fixed_dictionaries(
    {}, optional={"a": _values(2), "mcpServers": _servers, "z": _values(1), "hooks": _hooks, "version": st.just(2)}
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A JSON object written down by somebody with habits of their own."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    unit = draw(st.sampled_from(["", "  ", "\t", "    "]))
    trailing = draw(st.booleans())
    noise = draw(st.booleans())
    in_lines = draw(st.booleans())

    def blank() -> str:
        if not noise:
            return ""
        return draw(st.sampled_from(["", "", " ", newline, f" // c{newline}", "/* d */", f"{newline}/* e{newline} */"]))

    def container(parts: list[str], opening: str, closing: str, indent: str) -> str:
        if not parts:
            return opening + blank() + closing
        many = in_lines or draw(st.booleans())
        start, end = (newline + indent + unit, newline + indent) if many else ("", "")
        body = ",".join(blank() + start + part + blank() for part in parts)
        return opening + body + ("," + blank() if trailing else "") + end + closing

    def text(value: Any, indent: str) -> str:
        if isinstance(value, dict):
            parts = [
                f"{json.dumps(key, ensure_ascii=draw(st.booleans()))}{blank()}:{blank()}{text(item, indent + unit)}"
                for key, item in value.items()
            ]
            return container(parts, "{", "}", indent)
        if isinstance(value, list):
            return container([text(item, indent + unit) for item in value], "[", "]", indent)
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    bom = draw(st.sampled_from(["", "", "\ufeff"]))
    return bom + blank() + text(draw(_roots), "") + blank() + draw(st.sampled_from(["", newline, newline * 2]))


def _value(text: str) -> Any:
    node = jsonc.read(text.removeprefix("\ufeff"))
    assert node is not None
    return node.value


@pytest.fixture(scope="module")
def path() -> Path:
    return Path(tempfile.mkdtemp()) / "settings.json"


def _installed(path: Path, text: str) -> tuple[ClientFile, str, ChangeRecord]:
    path.write_bytes(text.encode())
    file = ClientFile(path, "json", WISHES)
    change = plan_install(file, None)
    write(change)
    assert change.record is not None
    return file, path.read_bytes().decode(), change.record


def _uninstalled(file: ClientFile, note: ChangeRecord | None) -> str:
    write(plan_uninstall(file, note))
    return file.path.read_bytes().decode()


@settings(deadline=None)
@given(documents())
def test_insertions_are_removed_byte_for_byte(path: Path, text: str) -> None:  # BX-06
    file, after, note = _installed(path, text)
    repeated = plan_install(file, note)
    assert repeated.old_content == repeated.new_content, "a second time changes nothing"
    assert COMMENT.findall(after) == COMMENT.findall(text)
    assert _uninstalled(file, note) == text


@settings(deadline=None)
@given(documents())
def test_all_other_values_are_unchanged(path: Path, text: str) -> None:  # BX-06
    original = _value(text)
    _, after, _ = _installed(path, text)
    now = _value(after)
    assert now["mcpServers"].pop("engrambus") == SERVER
    for event, group in (("Stop", HOOK), ("SubagentStop", {**HOOK, "matcher": "*"})):
        assert now["hooks"][event].pop() == group
    assert now["version"] == original.get("version", 1)
    for name in ("mcpServers", "hooks", "version"):
        if name not in original:
            now.pop(name)
    if "hooks" in now:
        now["hooks"] = {event: groups for event, groups in now["hooks"].items() if groups or event in original["hooks"]}
    assert now == original


EDITS: list[Callable[[str], str]] = [
    lambda text: text + "// the end\n",
    lambda text: text.replace("// c", "// changed"),
    lambda text: text.replace("/* d */", ""),
    lambda text: text.replace("\r\n", "\n"),
]


@settings(deadline=None)
@given(documents(), st.sampled_from(EDITS))
def test_edits_made_after_install_stay(path: Path, text: str, edit: Callable[[str], str]) -> None:
    file, after, note = _installed(path, text)
    assume(edit(after) != after)
    path.write_bytes(edit(after).encode())
    remaining = _uninstalled(file, note)
    assert _value(remaining) == _value(text)
    assert COMMENT.findall(remaining) == COMMENT.findall(edit(text))


@settings(deadline=None)
@given(documents())
def test_members_added_around_ours_stay_in_place(path: Path, text: str) -> None:
    file, after, note = _installed(path, text)
    root = jsonc.read(after.removeprefix("\ufeff"))
    assert root is not None
    servers = root.member("mcpServers")
    assert servers is not None
    shift = len(after) - len(after.removeprefix("\ufeff"))
    grown = after
    for edit in jsonc.insert(after.removeprefix("\ufeff"), servers.value, "later", {"command": "x"}):
        grown = edit._replace(offset=edit.offset + shift).apply(grown)
    path.write_bytes(grown.encode())
    remaining = _value(_uninstalled(file, note))
    assert remaining.pop("mcpServers") == {**_value(text).get("mcpServers", {}), "later": {"command": "x"}}
    assert remaining == {name: value for name, value in _value(text).items() if name != "mcpServers"}


@settings(deadline=None)
@given(documents())
def test_without_a_record_our_entries_are_recognised_by_their_command(path: Path, text: str) -> None:
    file, _, _ = _installed(path, text)
    remaining = _value(_uninstalled(file, None))
    original = _value(text)
    assert remaining.pop("mcpServers") == original.pop("mcpServers", {})
    hooks = {event: groups for event, groups in remaining.pop("hooks").items() if groups}
    assert hooks == {event: groups for event, groups in original.pop("hooks", {}).items() if groups}
    assert remaining.pop("version") == original.pop("version", 1)
    assert remaining == original


@settings(deadline=None)
@given(st.text('{}[]",:/*\n\\ tf0-.eE', max_size=30))
def test_valid_json_is_read_and_anything_else_raises_one_error(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    try:
        node = jsonc.read(text)
    except jsonc.ParseFailure as problem:
        place, node = problem.offset, None
    else:
        place = 0
    assert 0 <= place <= len(text)
    assert expected is None or (node is not None and node.value == expected)


def test_depth_is_bounded() -> None:
    with pytest.raises(jsonc.ParseFailure):
        jsonc.read("[" * 5000)
