"""Limits of a step: the lowest that any source sets, and how they are enforced."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import PolicyInvalid
from engrambus.policy import read_policy
from engrambus.policy.guardrails import MB, Ceiling, Quotas, StepLimits, niceness, step_limits
from engrambus.space.work.guard.cgroups import Cgroup, Cgroups, CgroupsRefused
from engrambus.space.work.guard.duty_cycle import BURST_SECONDS, DutyCycle
from engrambus.space.work.guard.processes import ProcTable, PsTable

QUOTAS = st.builds(
    Quotas,
    cpu_quota_pct=st.none() | st.integers(1, 100),
    memory_mb=st.none() | st.integers(1, 10_000),
    disk_quota_mb=st.none() | st.integers(1, 10_000),
)


# YT-12: project default → tuple → yool, never raised.
@given(st.lists(QUOTAS, max_size=4), QUOTAS)
def test_no_source_raises_the_limit_of_another(sources: list[Quotas], another: Quotas) -> None:
    limits, lowered = step_limits(*sources), step_limits(*sources, another)
    assert lowered.cores <= limits.cores <= 1.0
    for name in ("ram_bytes", "disk_bytes"):
        limit, lowered_limit = getattr(limits, name), getattr(lowered, name)
        assert limit is None or lowered_limit <= limit


def test_limits_are_in_cores_and_bytes() -> None:
    limits = step_limits(Quotas(cpu_quota_pct=95), Quotas(cpu_quota_pct=60, disk_quota_mb=100), Quotas(memory_mb=2))
    assert limits == StepLimits(cores=0.6, disk_bytes=100 * MB, ram_bytes=2 * MB)


@pytest.mark.parametrize(("cores", "nice"), [(1.0, 0), (0.6, 7), (0.3, 12), (0.1, 15), (0.01, 16)])
def test_a_smaller_cpu_quota_means_a_higher_niceness(cores: float, nice: int) -> None:
    assert niceness(cores) == nice


@pytest.mark.parametrize(
    ("guardrails", "field"),
    [
        ({"cpu_quota_pct": 101}, "guardrails.cpu_quota_pct"),
        ({"cpu_quota_pct": 0}, "guardrails.cpu_quota_pct"),
        ({"memory_mb": -1}, "guardrails.memory_mb"),
        ({"gc": {"hot_days": -1}}, "guardrails.gc.hot_days"),
        ({"gc": {"hot_days": 30, "warm_days": 10}}, "guardrails.gc.warm_days"),
        ({"gc": {"nightly_hour": 24}}, "guardrails.gc.nightly_hour"),
        ({"cores": 2}, "guardrails.cores"),
        ({"memory_mb": "much"}, "policy.yaml"),
    ],
)
def test_guardrails_out_of_range_are_refused(guardrails: dict[str, object], field: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        read_policy({"guardrails": guardrails})
    assert refused.value.field == field


# YT-12
@given(st.floats(0.01, 1.0), st.lists(st.tuples(st.floats(0.01, 0.5), st.floats(0.0, 2.0)), min_size=1, max_size=60))
def test_over_any_period_no_more_cpu_is_used_than_the_quota_and_one_slice(
    cores: float, slices: list[tuple[float, float]]
) -> None:
    """Processes that use up to two cores whenever they may run, checked at irregular intervals."""
    duty_cycle = DutyCycle(cores, 0.0, 2)
    checks = [(0.0, 0.0)]
    spent = [0.0]
    for length, cores_used in slices:
        spent.append(length * cores_used if duty_cycle.runs else 0.0)
        checks.append((checks[-1][0] + length, checks[-1][1] + spent[-1]))
        duty_cycle.account(checks[-1][1], checks[-1][0])
        assert 0.01 <= duty_cycle.check_after() <= 0.1
    for first, (since, used_before) in enumerate(checks):
        for last in range(first + 1, len(checks)):
            wait_until, used = checks[last]
            longest = max(spent[first + 1 : last + 1])
            assert used - used_before <= cores * (wait_until - since + BURST_SECONDS) + longest + 1e-6


def test_stopped_processes_run_again() -> None:
    duty_cycle = DutyCycle(0.5, 0.0, 2)
    assert not duty_cycle.account(1.0, 0.5)
    now = 0.5
    while not duty_cycle.runs:
        now += duty_cycle.check_after()
        duty_cycle.account(1.0, now)
    assert now < 2.5


# For machines without /proc.
def test_ps_reports_this_process_as_proc_does() -> None:
    import os

    ps, proc = PsTable(), ProcTable()
    ps.refresh()
    from_ps, from_proc = ps.find(os.getpid()), proc.find(os.getpid())
    assert from_ps is not None
    assert from_proc is not None
    assert (from_ps.parent, from_ps.group) == (from_proc.parent, from_proc.group)
    assert abs(from_ps.cpu_seconds - from_proc.cpu_seconds) < 2
    assert os.getpid() in list(ps.children(os.getppid()))


class FakeCgroup:
    """A folder with the files of a control group; writing to them has no effect."""

    def __init__(self, folder: Path, controllers: str = "cpu io memory pids", procs: str = "") -> None:
        self.mount, self.membership = folder / "cgroup", folder / "own"
        self.folder = self.mount / "user.slice/work.scope"
        self.folder.mkdir(parents=True)
        (self.folder / "cgroup.controllers").write_text(controllers)
        (self.folder / "cgroup.procs").write_text(procs)
        (self.folder / "cgroup.subtree_control").write_text("")
        self.membership.write_text("4:memory:/x\n0::/user.slice/work.scope\n")


def test_a_step_gets_its_own_cgroup_where_cgroups_can_be_divided(tmp_path: Path) -> None:
    fake = FakeCgroup(tmp_path)
    group = Cgroups.find(fake.mount, fake.membership).create(StepLimits(cores=0.5, ram_bytes=200 * MB))
    assert (fake.folder / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    (folder,) = fake.folder.glob("engrambus-[0-9]*")
    assert (folder / "cpu.max").read_text() == "50000 100000"
    assert (folder / "memory.max").read_text() == str(200 * MB)
    group.add([1234])
    assert (folder / "cgroup.procs").read_text() == "1234"
    assert not group.out_of_memory()
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.out_of_memory()


# YT-20
def test_steps_below_a_ceiling_are_in_a_common_cgroup(tmp_path: Path) -> None:
    fake = FakeCgroup(tmp_path)
    groups = Cgroups.find(fake.mount, fake.membership)
    of_worker = Ceiling(scope="worker", key="", cores=2.5, ram_bytes=900 * MB, processes=10)
    of_tuple = Ceiling(scope="tuple", key="one", cores=0.5)
    for _ in range(2):
        groups.create(StepLimits(processes=3), [of_worker, of_tuple])
    (outer,) = fake.folder.glob("engrambus-[0-9]*")
    (inner,) = outer.glob("engrambus-[0-9]*")
    assert (outer / "cpu.max").read_text() == "250000 100000"
    assert (outer / "memory.max").read_text() == str(900 * MB)
    assert (outer / "pids.max").read_text() == "640"
    assert not (outer / "memory.oom.group").exists(), "only one step is killed"
    assert (inner / "cpu.max").read_text() == "50000 100000"
    assert not (inner / "memory.max").exists()
    assert [(folder / "cgroup.subtree_control").read_text() for folder in (outer, inner)] == ["+cpu +memory +pids"] * 2
    steps = list(inner.glob("engrambus-[0-9]*"))
    assert [(step / "pids.max").read_text() for step in steps] == ["192", "192"]
    assert [(step / "memory.oom.group").read_text() for step in steps] == ["1", "1"]


@pytest.fixture
def real_cgroup() -> Iterator[Path]:
    """A group of this machine's cgroup v2, of whatever controllers it has."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    mount = next((Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"), None)
    if mount is None or not os.access(mount, os.W_OK):
        pytest.skip("no cgroup v2 that may be written")
    folder = mount / f"engrambus-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as problem:
        pytest.skip(f"no cgroup v2 that may be divided: {problem}")
    yield folder
    folder.rmdir()


# YT-12: without CPU or memory controllers, what remains is adding, releasing and killing.
@pytest.mark.skipif(sys.platform != "linux", reason="needs cgroups")
def test_a_cgroup_kills_all_that_was_started_in_it(real_cgroup: Path) -> None:
    step, worker_group = real_cgroup / "step", real_cgroup / "worker"
    step.mkdir()
    worker_group.mkdir()
    group = Cgroup(step, worker_group)
    command = ["sh", "-c", "setsid sleep 60 & read go; setsid sleep 60 & echo started; wait"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first,
        subprocess.Popen(["sleep", "60"]) as kept,
    ):
        group.add([first.pid, kept.pid])
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(b"go\n")
        first.stdin.flush()
        first.stdout.readline()
        assert len((step / "cgroup.procs").read_text().split()) == 3  # not the one that was started before
        group.release(kept.pid)
        group.end()
        assert first.wait(10) == -9
        assert kept.poll() is None
        kept.kill()
    while (step / "cgroup.procs").read_text():
        time.sleep(0.01)
    group.end()
    assert not step.exists()
    worker_group.rmdir()


@pytest.mark.parametrize(
    ("controllers", "procs", "reason"),
    [("io pids", "", "does not offer cpu and memory"), ("cpu memory", "1\n", "other processes")],
)
def test_the_error_says_why_a_cgroup_cannot_be_used(tmp_path: Path, controllers: str, procs: str, reason: str) -> None:
    fake = FakeCgroup(tmp_path, controllers, procs)
    with pytest.raises(CgroupsRefused, match=reason):
        Cgroups.find(fake.mount, fake.membership)


def test_a_cgroup_that_is_not_writable_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCgroup(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)  # tests may run as root, who may write anywhere
    with pytest.raises(CgroupsRefused, match="not writable"):
        Cgroups.find(fake.mount, fake.membership)


def test_the_error_says_that_there_are_no_cgroups(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("4:memory:/x\n")
    with pytest.raises(CgroupsRefused, match="no cgroup v2"):
        Cgroups.find(tmp_path, tmp_path / "own")
