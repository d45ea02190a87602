"""Where hooks come from: the operator, and never a repository. # YT-16"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engrambus import Bus, PrimitiveHook, Veto
from engrambus.errors import EngramBusError
from engrambus.settings import Settings
from engrambus.space.hook_sources import find_hooks
from tests.primitive_hooks.hooks import Scripted
from tests.projects import Repository, make_gateway

PACKAGE = """
from engrambus import PrimitiveHook, Veto

class Freeze(PrimitiveHook):
    primitives = ("out",)
    def before(self, call):
        return Veto("frozen")
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for packages, on the path as `site-packages` is."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def install(folder: Path, name: str, code: str, points: str = "") -> None:
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(points)


def test_an_entry_point_of_an_installed_package_is_a_hook(
    repository: Repository, settings: Settings, installed: Path
) -> None:
    install(installed, "freeze_one", PACKAGE, "[engrambus.hooks]\nfreeze = freeze_one:Freeze\n")
    make_gateway(repository.path, settings).close()
    with Bus.open(repository.path, settings=settings) as bus, pytest.raises(EngramBusError, match="frozen") as caught:
        bus.tuple_out("notes")
    assert caught.value.code == "HOOK_VETO"


@pytest.mark.parametrize(
    "point", ["missing_module:Freeze", "freeze_two:Missing", "freeze_two:raises", "freeze_two:wrong"]
)
def test_a_hook_that_cannot_be_loaded_closes_the_work(
    repository: Repository, settings: Settings, installed: Path, point: str
) -> None:
    code = PACKAGE + "\ndef raises():\n    raise LookupError\n\ndef wrong():\n    return [len]\n"
    install(installed, "freeze_two", code, f"[engrambus.hooks]\nfreeze = {point}\n")
    make_gateway(repository.path, settings).close()
    with Bus.open(repository.path, settings=settings) as bus:
        with pytest.raises(EngramBusError) as caught:
            bus.tuple_out("notes")
        assert caught.value.code == "HOOK_INVALID"
        assert bus.put_engram("Knowledge goes on.", at=["src/parser.py:1-5"])
    assert not (repository.path / ".catalog" / "tuples.jsonl").exists()
    sys.modules.pop("freeze_two", None)


def test_a_module_of_the_repository_is_no_source(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the repository on the path, its module could take the name that the operator meant."""
    ran = tmp_path / "ran"
    (repository.path / "acme_hooks.py").write_text(f"__import__('pathlib').Path({str(ran)!r}).touch()\nHOOKS = []\n")
    package = repository.path / "acme_package"
    package.mkdir()
    (package / "__init__.py").write_text(f"__import__('pathlib').Path({str(ran)!r}).touch()\n")
    (package / "hooks.py").write_text("HOOKS = []\n")
    monkeypatch.syspath_prepend(str(repository.path))
    for name in ("acme_hooks", "acme_package.hooks"):
        with pytest.raises(EngramBusError, match="lies in the project") as caught:
            find_hooks([name], [], repository.path)
        assert caught.value.code == "HOOK_INVALID"
    assert not ran.exists()
    assert find_hooks(["acme_hooks"], [], tmp_path / "another project") == []


def test_names_are_checked() -> None:
    with pytest.raises(EngramBusError, match="called 'friday'"):
        find_hooks([], [Scripted("veto"), Scripted("veto")], Path())
    with pytest.raises(EngramBusError, match="no primitive 'dispatch'") as caught:
        find_hooks([], [Scripted("veto", "dispatch")], Path())  # type: ignore[arg-type]
    assert "out" in str(caught.value.problem()["limit"])
    with pytest.raises(EngramBusError, match="not a PrimitiveHook"):
        find_hooks([], [object()], Path())  # type: ignore[list-item]
    with pytest.raises(EngramBusError, match="no such module"):
        find_hooks(["no_such_module_here"], [], Path())
    for value in ("a b", "../x", "a;b", "-m"):
        with pytest.raises(EngramBusError) as refused:
            Settings.from_environment({"HOME": "/", "ENGRAMBUS_HOOKS": value})
        assert refused.value.field == "ENGRAMBUS_HOOKS"
    for seconds in ("0", "-1", "nan", "soon"):
        with pytest.raises(EngramBusError) as refused:
            Settings.from_environment({"HOME": "/", "ENGRAMBUS_HOOK_SECONDS": seconds})
        assert refused.value.field == "ENGRAMBUS_HOOK_SECONDS"


def test_a_hook_without_a_name_is_called_by_its_class(repository: Repository, settings: Settings) -> None:
    class Quiet(PrimitiveHook):
        def before(self, call: object) -> Veto | None:
            return Veto("x" * 10_000 + "\u202e")

    make_gateway(repository.path, settings).close()
    opened = Bus.open(repository.path, settings=settings, hooks=[Quiet()])
    with opened as bus, pytest.raises(EngramBusError) as caught:
        bus.tuple_out("notes")
    assert caught.value.problem()["hook"] == "Quiet"
    assert len(str(caught.value.problem()["reason"])) == 500


def test_without_hooks_no_hook_code_is_loaded(repository: Repository, settings: Settings) -> None:
    make_gateway(repository.path, settings).close()
    code = (
        "import sys; from engrambus import Bus\n"
        f"with Bus.open({str(repository.path)!r}) as bus: bus.tuple_out('notes')\n"
        "assert 'engrambus.space.tuples.hooked_space' not in sys.modules\n"
        "assert 'importlib.metadata' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"HOME": str(settings.home)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
