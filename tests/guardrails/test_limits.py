"""What a step may take: the least that anybody says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import PolicyInvalid
from engrambus.policy import read_policy
from engrambus.policy.guardrails import MB, Quotas, StepLimits, niceness, step_limits
from engrambus.space.work.guard.cgroups import Cgroups, CgroupsRefused
from engrambus.space.work.guard.limit_enforcer_process import BURST_SECONDS, DutyCycle
from engrambus.space.work.guard.processes import ProcTable, PsTable

LEVEL = st.builds(
    Quotas,
    cpu_quota_pct=st.none() | st.integers(1, 100),
    memory_mb=st.none() | st.integers(1, 10_000),
    disk_quota_mb=st.none() | st.integers(1, 10_000),
)


# YT-12: project default → tuple → yool, never raised.
@given(st.lists(LEVEL, max_size=4), LEVEL)
def test_no_level_raises_what_another_said(levels: list[Quotas], more: Quotas) -> None:
    before, after = step_limits(*levels), step_limits(*levels, more)
    assert after.cores <= before.cores <= 1.0
    for name in ("ram_bytes", "disk_bytes"):
        said, now = getattr(before, name), getattr(after, name)
        assert said is None or now <= said


def test_limits_are_in_the_units_they_are_measured_in() -> None:
    limits = step_limits(Quotas(cpu_quota_pct=95), Quotas(cpu_quota_pct=60, disk_quota_mb=100), Quotas(memory_mb=2))
    assert limits == StepLimits(cores=0.6, disk_bytes=100 * MB, ram_bytes=2 * MB)


@pytest.mark.parametrize(("cores", "nice"), [(1.0, 0), (0.6, 7), (0.3, 12), (0.1, 15), (0.01, 16)])
def test_the_smaller_the_quota_the_further_a_step_stands_back(cores: float, nice: int) -> None:
    assert niceness(cores) == nice


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"cpu_quota_pct": 101}, "guardrails.cpu_quota_pct"),
        ({"cpu_quota_pct": 0}, "guardrails.cpu_quota_pct"),
        ({"memory_mb": -1}, "guardrails.memory_mb"),
        ({"gc": {"hot_days": -1}}, "guardrails.gc.hot_days"),
        ({"gc": {"hot_days": 30, "warm_days": 10}}, "guardrails.gc.warm_days"),
        ({"gc": {"nightly_hour": 24}}, "guardrails.gc.nightly_hour"),
        ({"cores": 2}, "policy.yaml"),
        ({"memory_mb": "much"}, "policy.yaml"),
    ],
)
def test_a_policy_that_could_not_be_kept_is_refused(said: dict[str, object], field: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        read_policy({"guardrails": said})
    assert refused.value.field == field


# YT-12
@given(st.floats(0.01, 1.0), st.lists(st.tuples(st.floats(0.01, 0.5), st.floats(0.0, 2.0)), min_size=1, max_size=60))
def test_over_any_stretch_no_more_is_used_than_the_quota_and_one_slice(
    cores: float, slices: list[tuple[float, float]]
) -> None:
    """Processes that use up to two cores whenever they may run, looked at when it suits the machine."""
    governor = DutyCycle(cores, 0.0, 2)
    looks = [(0.0, 0.0)]
    spent = [0.0]
    for length, appetite in slices:
        spent.append(length * appetite if governor.runs else 0.0)
        looks.append((looks[-1][0] + length, looks[-1][1] + spent[-1]))
        governor.account(looks[-1][1], looks[-1][0])
        assert 0.01 <= governor.check_after() <= 0.1
    for first, (since, before) in enumerate(looks):
        for last in range(first + 1, len(looks)):
            until, used = looks[last]
            longest = max(spent[first + 1 : last + 1])
            assert used - before <= cores * (until - since + BURST_SECONDS) + longest + 1e-6


def test_processes_that_stood_still_run_again() -> None:
    governor = DutyCycle(0.5, 0.0, 2)
    assert not governor.account(1.0, 0.5)
    now = 0.5
    while not governor.runs:
        now += governor.check_after()
        governor.account(1.0, now)
    assert now < 2.5


# A machine without /proc: what `ps` tells about this very process is what /proc tells.
def test_ps_tells_the_same_processes() -> None:
    import os

    told, known = PsTable(), ProcTable()
    told.refresh()
    one, other = told.find(os.getpid()), known.find(os.getpid())
    assert one is not None
    assert other is not None
    assert (one.parent, one.group) == (other.parent, other.group)
    assert abs(one.cpu_seconds - other.cpu_seconds) < 2
    assert os.getpid() in list(told.children(os.getppid()))


class Kernel:
    """A folder with the files the kernel shows for a control group of ours; writing to them has no effect."""

    def __init__(self, folder: Path, controllers: str = "cpu io memory pids", procs: str = "") -> None:
        self.mount, self.own = folder / "cgroup", folder / "own"
        self.folder = self.mount / "user.slice/work.scope"
        self.folder.mkdir(parents=True)
        (self.folder / "cgroup.controllers").write_text(controllers)
        (self.folder / "cgroup.procs").write_text(procs)
        (self.folder / "cgroup.subtree_control").write_text("")
        self.own.write_text("4:memory:/x\n0::/user.slice/work.scope\n")


def test_a_step_gets_a_cgroup_of_its_own_where_there_is_one_to_divide(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    group = Cgroups.find(kernel.mount, kernel.own).create(StepLimits(cores=0.5, ram_bytes=200 * MB))
    assert (kernel.folder / "cgroup.subtree_control").read_text() == "+cpu +memory"
    (made,) = kernel.folder.glob("engrambus-[0-9]*")
    assert (made / "cpu.max").read_text() == "50000 100000"
    assert (made / "memory.max").read_text() == str(200 * MB)
    group.add([1234])
    assert (made / "cgroup.procs").read_text() == "1234"
    assert not group.out_of_memory()
    (made / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.out_of_memory()


@pytest.mark.parametrize(
    ("controllers", "procs", "reason"),
    [("io pids", "", "does not offer cpu and memory"), ("cpu memory", "1\n", "other processes")],
)
def test_it_is_said_why_a_cgroup_cannot_be_used(tmp_path: Path, controllers: str, procs: str, reason: str) -> None:
    kernel = Kernel(tmp_path, controllers, procs)
    with pytest.raises(CgroupsRefused, match=reason):
        Cgroups.find(kernel.mount, kernel.own)


def test_a_cgroup_that_is_not_writable_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)  # tests may run as root, who may write anywhere
    with pytest.raises(CgroupsRefused, match="not writable"):
        Cgroups.find(kernel.mount, kernel.own)


def test_without_cgroups_it_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("4:memory:/x\n")
    with pytest.raises(CgroupsRefused, match="no cgroup v2"):
        Cgroups.find(tmp_path, tmp_path / "own")
