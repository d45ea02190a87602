"""The editor of TOML: one table comes and goes, nothing else moves."""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.edges.integrations import toml_edit
from engrambus.edges.integrations.client_config import ClientFile, ConfigEntry
from engrambus.edges.integrations.config_files import plan_install, plan_uninstall, write

SERVER = {"command": "/opt/a b/engrambus", "args": ["mcp", 'quote"d', "ü"]}
WISH = ConfigEntry(("mcp_servers", "engrambus"), {"command": "/opt/engrambus", "args": ["mcp"]})

_TOP = ['model = "x"', "n = 1_000 # one", "a.b = [1,\n  2, # two\n]", "t = 1979-05-27T07:32:00Z", '"k y" = """\nx"""']
_TABLES = [
    "[tools]\n# nothing",
    '[mcp_servers.other]\ncommand = "npx"',
    "[mcp_servers.third.env]\nA = '1'",
    "[[rows]]\nx = { y = 1 }",
    "[[rows]]",
    '[projects."/home/a"]\ntrust_level = "trusted"',
]
_INLINE = ["mcp_servers = { other = { command = 'x' } }", "mcp_servers.other.command = 'x'"]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A configuration somebody grew over the years."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    inline = draw(st.sampled_from(["", "", *_INLINE]))
    tables = draw(st.lists(st.sampled_from(_TABLES), unique=True))
    if inline:
        tables = [table for table in tables if "mcp_servers" not in table]
    parts = [*draw(st.lists(st.sampled_from(_TOP), unique=True)), *([inline] if inline else []), *tables]
    blanks = st.sampled_from(["\n", "\n\n", "\n# a word\n", "\n   \n\n"])
    text = "".join(part + draw(blanks) for part in parts)
    if draw(st.booleans()):
        text = text.rstrip("\n")
    return draw(st.sampled_from(["", "# begin\n"])).replace("\n", newline) + text.replace("\n", newline)


@pytest.fixture(scope="module")
def path() -> Path:
    return Path(tempfile.mkdtemp()) / "config.toml"


@settings(deadline=None)
@given(documents(), st.booleans())
def test_insertions_are_removed_byte_for_byte(path: Path, text: str, later: bool) -> None:  # BX-06
    path.write_bytes(text.encode())
    file = ClientFile(path, "toml", (WISH,))
    change = plan_install(file, None)
    write(change)
    now = tomllib.loads(path.read_bytes().decode())
    assert now["mcp_servers"].pop("engrambus") == WISH.value
    if "mcp_servers" not in tomllib.loads(text):
        assert now.pop("mcp_servers") == {}
    assert now == tomllib.loads(text)
    repeated = plan_install(file, change.record)
    assert repeated.new_content == repeated.old_content
    more = "\n[later]\nx = 1\n" if later else ""
    path.write_bytes(path.read_bytes() + more.encode())
    write(plan_uninstall(file, change.record))
    remaining = path.read_bytes().decode()
    assert change.record is not None
    if change.record.edits[0].offset == len(text):  # put at the end, as everywhere but between braces
        assert remaining == text + more
    assert tomllib.loads(remaining) == tomllib.loads(text + more)


@settings(deadline=None)
@given(documents())
def test_without_a_record_the_table_is_found_by_its_name(path: Path, text: str) -> None:
    path.write_bytes(text.encode())
    file = ClientFile(path, "toml", (WISH,))
    write(plan_install(file, None))
    write(plan_uninstall(file, None))
    remaining = tomllib.loads(path.read_bytes().decode())
    original = tomllib.loads(text)
    remaining.setdefault("mcp_servers", {})
    original.setdefault("mcp_servers", {})
    assert remaining == original


def test_written_values_are_read_back_unchanged() -> None:
    edit = toml_edit.insert("", ("mcp_servers", "engrambus"), SERVER)
    assert tomllib.loads(edit.apply("")) == {"mcp_servers": {"engrambus": SERVER}}


def test_a_table_is_removed_with_keys_the_user_added_to_it() -> None:
    ours = '[mcp_servers.engrambus]\ncommand = "engrambus"\n[mcp_servers.engrambus.env]\nA = "1"\n'
    text = f"[a]\nx = 1\n\n{ours}[z]\ny = 2\n"
    assert toml_edit.remove(text, ("mcp_servers", "engrambus")) == "[a]\nx = 1\n[z]\ny = 2\n"
