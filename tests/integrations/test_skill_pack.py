"""The skill pack can be handed on whole, out of the wheel or the plugin, with its tests."""  # EB-25, EB-38

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel, unpacked."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_the_packs_tests_pass_where_it_was_copied_to(unpacked: Path, tmp_path: Path) -> None:
    """Out of the wheel; the plugin holds the same files, as the next test says."""
    pack = unpacked / "engrambus" / "skills" / "less"
    shutil.copytree(pack, tmp_path / "less", ignore=shutil.ignore_patterns("__pycache__"))
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "less/tests"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout


def test_the_wheel_and_the_plugin_hold_the_same_pack(unpacked: Path) -> None:
    folders = (unpacked / "engrambus" / "skills" / "less", ROOT / "plugin" / "skills" / "less")
    first, second = (
        {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        for folder in folders
    )
    assert first == second
    assert {"SKILL.md", "manifest.json", "runtime/less.py", "tests/test_skill.py"} <= set(first)
