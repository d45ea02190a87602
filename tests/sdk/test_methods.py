"""The client's methods are the declared operations, written out."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from sdk_methods import TARGET, generate

import engrambus
from engrambus import Bus
from engrambus.gateway import Operation
from engrambus.operations import OPERATIONS

OFFERED = [operation for operation in OPERATIONS.values() if "client" not in operation.absent_from]


def test_the_methods_match_the_declarations() -> None:
    assert TARGET.read_text("utf-8") == generate(), "run tools/generate.py"


@pytest.mark.parametrize("operation", OFFERED, ids=lambda operation: operation.name)
def test_a_method_has_the_operations_fields_and_words(operation: Operation[Any, Any]) -> None:
    method = getattr(Bus, operation.name)
    signature = inspect.signature(method)
    accepted = [name for name in signature.parameters if name not in ("self", "idempotency_key")]
    assert sorted(accepted) == sorted(operation.request.__struct_fields__)
    assert ("idempotency_key" in signature.parameters) == operation.writes
    assert (method.__doc__ or "").startswith(operation.summary)
    by_position = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and name != "self"
    ]
    if operation.command and operation.command.arguments:
        assert tuple(by_position) == operation.command.arguments


def test_importing_the_package_loads_none_of_its_packages() -> None:
    script = "import sys, engrambus; print(sorted(name for name in sys.modules if name.startswith('engrambus.')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['engrambus.lazy_imports', 'engrambus.version']"


def test_every_exported_name_exists() -> None:
    assert dir(engrambus) == sorted(engrambus.__all__)
    for name in engrambus.__all__:
        assert getattr(engrambus, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        getattr(engrambus, "nothing_like_it")  # noqa: B009 - the type checker knows that it is not there
