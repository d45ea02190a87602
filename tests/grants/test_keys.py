"""Where the key of the grants is kept."""  # EB-11

from __future__ import annotations

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engrambus.errors import FormatUnknown
from engrambus.policy import TokenKey
from engrambus.policy.grants import GrantKey, read
from tests.grants.tree import make


def test_it_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "project"
    token = make(key=GrantKey.at(folder))
    assert read(GrantKey.at(folder), token)
    assert stat.S_IMODE((folder / "grant.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["grant.key"]


def test_it_is_not_the_key_of_the_tokens(tmp_path: Path) -> None:
    GrantKey.at(tmp_path)
    TokenKey.at(tmp_path)
    assert (tmp_path / "grant.key").read_bytes() != (tmp_path / "token.key").read_bytes()


def test_those_who_come_at_once_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        names = set(pool.map(lambda _: GrantKey.at(tmp_path).name, range(64)))
    assert len(names) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["grant.key"]


def test_a_damaged_key_is_not_replaced_in_silence(tmp_path: Path) -> None:
    (tmp_path / "grant.key").write_bytes(b"short")
    with pytest.raises(FormatUnknown, match=r"grant\.key"):
        GrantKey.at(tmp_path)


def test_commands_that_see_no_grant_do_not_load_biscuit() -> None:
    code = "import sys, engrambus.policy, engrambus.policy.grants; sys.exit('biscuit_auth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
