"""The file of the key that signs grants."""  # EB-11

from __future__ import annotations

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engrambus.errors import FormatUnknown
from engrambus.policy import TokenKey
from engrambus.policy.grants import GrantKey
from engrambus.policy.grants.tokens import read_token
from tests.grants.samples import make_token


def test_the_key_is_created_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "project"
    token = make_token(key=GrantKey.load(folder))
    assert read_token(GrantKey.load(folder), token)
    assert stat.S_IMODE((folder / "grant.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["grant.key"]


def test_the_grant_key_is_not_the_token_key(tmp_path: Path) -> None:
    GrantKey.load(tmp_path)
    TokenKey.load(tmp_path)
    assert (tmp_path / "grant.key").read_bytes() != (tmp_path / "token.key").read_bytes()


def test_concurrent_first_uses_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        names = set(pool.map(lambda _: GrantKey.load(tmp_path).name, range(64)))
    assert len(names) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["grant.key"]


def test_a_damaged_key_is_reported_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "grant.key").write_bytes(b"short")
    with pytest.raises(FormatUnknown, match=r"grant\.key"):
        GrantKey.load(tmp_path)


def test_importing_the_package_does_not_load_biscuit() -> None:
    code = "import sys, engrambus.policy, engrambus.policy.grants; sys.exit('biscuit_auth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
