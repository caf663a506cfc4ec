# SPDX-License-Identifier: GPL-2.0-only
"""Figures out of measurements: goals, pairing with the bare hand-over, what is missing; and the process with probes."""

import math
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from asa import paths
from asa.core.errors import AsaError
from asa.core.sample import CpuCounters
from asa.status import Status
from calibration import overhead, overhead_probes
from calibration.estimates import Slope
from calibration.overhead import BCC, CORE, SAMPLED, Costs, Options, Pair, Result
from calibration.overhead_agent import Look, Window
from calibration.overhead_figures import GOALS, Figure, Name


def window(*, cpu_ms, switches=0, ticks=60, overruns=0, mb=40.0):
    """A minute."""

    def look(second, share):
        ticks_by_mode = (0, 0, 0, 0, 0, 0, 0, 0)
        host = CpuCounters(
            total=ticks_by_mode,
            cores=((0, ticks_by_mode),),
            interrupts=0,
            context_switches=int(share * switches * 60),
            forks=0,
            softirqs=(0,) * 10,
            runnable=0,
            blocked=0,
        )
        return Look(
            monotonic_ns=second * 10**9,
            cpu_ns=int(share * cpu_ms * 10**6),
            resident_bytes=int(mb * 1e6),
            ticks=int(share * ticks),
            overruns=int(share * overruns),
            host=host,
            load_1min=0.0,
        )

    return Window(looks=(look(0, 0.0), look(60, 1.0)))


class FakeStatus:
    """What figures look at."""

    def __init__(self, *, missing=None, backend="core"):
        self.missing_sources = missing or {}
        self.backends = {"ebpf": backend} if backend else {}
        self.cost_us = {"cpu": 100.0, **({"ebpf": 50.0} if backend else {})}


def result(**parts):
    found = {"began_s": 0.0, "status": FakeStatus(), "costs": costs(), "idle": window(cpu_ms=150), **parts}
    return Result(**found)


def costs(**pairs):
    given = pairs or {CORE: [Pair(bare_ns=1_000.0, full_ns=1_000.0 + more) for more in (200.0, 240.0, 230.0)]}
    return Costs(pairs=given)


def test_the_figures_names_are_those_agreed_on():
    assert list(Name) == [
        "agent_cpu_pct",
        "agent_rss_mb",
        "probes_rss_mb",
        "agent_cpu_pct_20k",
        "probe_ns_per_switch",
        "probe_ns_per_switch_bcc",
        "probe_ns_per_switch_sampled",
        "rss_slope_kb_per_min",
        "tick_overrun_pct",
    ]
    budgets = {"agent_cpu_pct": 0.5, "agent_rss_mb": 80, "probes_rss_mb": 30, "agent_cpu_pct_20k": 1.0}
    assert {name: GOALS[Name(name)].value for name in budgets} == budgets
    assert GOALS[Name.PROBE_NS].value == GOALS[Name.PROBE_NS_BCC].value == 250.0
    assert set(GOALS) == set(Name)


@pytest.mark.parametrize(
    ("value", "reason", "ok"),
    [(0.5, "", True), (0.51, "", False), (None, "gone", False), (0.1, "not the whole agent", False)],
)
def test_a_figure_is_ok_within_its_goal_and_whole(value, reason, ok):
    assert Figure(name=Name.AGENT_CPU, value=value, reason=reason).ok is ok


def test_the_paced_figure_adds_both_sides():
    loaded = window(cpu_ms=180, switches=33_000)  # 0.3 % of a core, beside loads of others
    figure = overhead._loaded_cpu(result(loaded=loaded))
    assert figure.value == pytest.approx(0.3 + 230e-9 * 20_000 * 100, rel=1e-3)
    assert "0.300 the process, 0.460 the kernel side" in figure.detail
    assert figure.ok


def test_the_kernel_side_is_that_of_the_agents_own_backend():
    both = costs(core=[Pair(bare_ns=0.0, full_ns=200.0)], bcc=[Pair(bare_ns=0.0, full_ns=400.0)])
    loaded = window(cpu_ms=0, switches=20_000)
    figure = overhead._loaded_cpu(result(loaded=loaded, costs=both, status=FakeStatus(backend="bcc")))
    assert figure.value == pytest.approx(0.8, rel=1e-3)
    wanted = [
        overhead._kinds({Name.AGENT_CPU_20K}, BCC),
        overhead._kinds({Name.AGENT_CPU_20K}, CORE),
        overhead._kinds({Name.PROBE_NS_BCC}, CORE),
        overhead._kinds(set(Name), CORE),
    ]
    assert wanted == [[BCC], [CORE], [BCC], [CORE, BCC, SAMPLED]]


def test_an_agent_without_probes_is_not_the_whole_agent():
    bare = FakeStatus(missing={"ebpf": "needs root"}, backend=None)
    figure = overhead._idle_cpu(result(status=bare))
    assert figure.value == pytest.approx(0.25)
    assert figure.reason == "the agent ran without its probes: needs root"
    assert not figure.ok


def test_what_was_refused_is_null_with_its_reason():
    refused = Costs(refused={BCC: "ebpf: python3-bpfcc is not installed", CORE: "ebpf: no BTF"})
    figure = overhead._cost_figure(Name.PROBE_NS_BCC, BCC, result(costs=refused))
    assert (figure.value, figure.reason) == (None, "ebpf: python3-bpfcc is not installed")
    loaded = overhead._loaded_cpu(result(costs=refused, loaded=window(cpu_ms=100, switches=20_000)))
    assert (loaded.value, loaded.reason) == (None, "its kernel side is unknown: ebpf: no BTF")


def test_slope_and_overruns():
    figure = overhead._slope(Options(), result(growth=Slope(value=1.5, error=0.2)))
    assert (figure.value, figure.ok) == (1.5, False)
    assert "standard error 0.200" in figure.detail
    short = overhead._slope(Options(slope_min=1.0), result())
    assert short.value is None
    assert short.reason.startswith("1 minutes are too short")
    late = overhead._overruns(result(idle=window(cpu_ms=1, ticks=1_000, overruns=2)))
    assert (late.value, late.ok) == (pytest.approx(0.2), False)
    assert overhead._overruns(result(idle=window(cpu_ms=1, ticks=0))).value is None


class DriftingPair:
    """A machine that becomes slower by 10 ns with each measurement; probes add to that."""

    def __init__(self):
        self.now_ns, self.added_ns = 2_000.0, 0.0

    def time_ns(self, batches):
        assert batches == overhead._BATCHES
        self.now_ns += 10.0
        return self.now_ns + self.added_ns


def test_a_machine_that_drifts_adds_nothing_to_the_probes(monkeypatch):
    machine, opened = DriftingPair(), []
    adds = {CORE: 230.0, BCC: 303.0}

    @contextmanager
    def probes(backend, *, reading):
        if backend == BCC and len(opened) > 3:
            raise overhead_probes.ProbesError("ebpf: the compiler was removed")
        opened.append((backend, reading))
        machine.added_ns = adds[backend]
        yield overhead_probes.Probes(pid=1, lacking={"input_event": "no kprobes"})
        machine.added_ns = 0.0

    @contextmanager
    def pair(program, cpu):
        yield machine

    monkeypatch.setattr(overhead, "ping_pong", pair)
    monkeypatch.setattr(overhead_probes, "opened", probes)
    told = []
    steps = overhead._Steps(lambda what, share: told.append((what, share)), 40.0)
    found = overhead._probe_costs(Path("pingpong"), 4, [CORE, BCC], steps)
    assert [pair.full_ns - pair.bare_ns for pair in found.pairs[CORE]] == [230.0] * 4
    assert [pair.full_ns - pair.bare_ns for pair in found.pairs[BCC]] == [303.0] * 2
    assert [backend for backend, _ in opened[:4]] == [CORE, BCC, BCC, CORE]  # they take turns
    assert not any(reading for _, reading in opened)
    assert found.refused == {BCC: "ebpf: the compiler was removed"}
    assert told[-1][0] == "ping-pong, round 4 of 4"
    assert all(0.0 <= share < 1.0 and math.isfinite(share) for _, share in told)


def test_probes_that_do_not_open_are_reported_in_their_own_words(tmp_path):
    refused = pytest.raises(overhead_probes.ProbesError, match="nonsense")
    with refused, overhead_probes.opened("nonsense", reading=True):
        pass
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "overhead_probes nonsense" not in listed


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="eBPF needs root: run the tests as root to force it")
def test_the_process_with_the_probes_holds_programs_and_ends():
    from calibration.overhead_agent import programs_ns, resident_bytes, run_times

    proc = Path("/proc")
    with overhead_probes.opened(CORE, reading=True) as probes:
        with run_times() as timed:
            before = programs_ns(probes.pid, proc)
            subprocess.run(["true"], check=True)  # a fork, an exec and some switches
            after = programs_ns(probes.pid, proc)
        resident = resident_bytes(probes.pid, proc)
    assert timed
    assert before is not None
    assert after is not None
    assert after[1] > before[1]
    assert after[0] > before[0]
    assert 5e6 < resident < 300e6  # an interpreter at least; less than the paper's whole agent
    assert not (proc / str(probes.pid)).exists()


def test_without_root_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(AsaError, match="sudo asa bench overhead"):
        overhead.measure(Options(), paths.Places(run=tmp_path), lambda what, share: None)


def test_status_has_what_figures_look_at():
    assert set(vars(FakeStatus())) <= set(Status.__struct_fields__)
