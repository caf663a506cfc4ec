# SPDX-License-Identifier: GPL-2.0-only
"""Figures out of measurements: goals, pairing with the bare hand-over, what is missing; and the process with probes."""

import math
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from asa import paths
from asa.core.errors import AsaError
from asa.core.sample import CpuCounters
from asa.status import Status
from calibration.goals import Figure
from calibration.overhead import agent as overhead_agent
from calibration.overhead import benchmark as overhead
from calibration.overhead import probes as overhead_probes
from calibration.overhead.agent import Look, Memory, Window
from calibration.overhead.benchmark import BCC, BCC_ALL, CORE, CORE_ALL, PACED, Costs, Options, Pair, Result
from calibration.overhead.estimates import Slope
from calibration.overhead.figures import OverheadFigure
from calibration.overhead.probes import Way


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
            memory=Memory(resident_bytes=int(mb * 1e6), swapped_bytes=0),
            ticks=int(share * ticks),
            overruns=int(share * overruns),
            host=host,
            load_1min=0.0,
        )

    return Window(looks=(look(0, 0.0), look(60, 1.0)))


def minutes(count):
    """An idle window of so many."""
    first, last = window(cpu_ms=150).looks
    return Window(looks=(first, replace(last, monotonic_ns=int(count * 60e9), cpu_ns=int(count * 150e6))))


class FakeStatus:
    """What figures look at."""

    def __init__(self, *, missing=None, backend="core", interval_s=1.0, slow=None, unread=()):
        self.missing_sources = missing or {}
        self.interval_s, self.slow_sources = interval_s, slow or {}
        self.backends = {"ebpf": backend} if backend else {}
        names = {*overhead._ALWAYS, *overhead._OPTIONAL} - set(unread) - set(self.missing_sources)
        self.cost_us = dict.fromkeys(names, 100.0) | ({"ebpf": 50.0} if backend else {})


def result(**parts):
    found = {"began_s": 0.0, "status": FakeStatus(), "costs": costs(), "idle": window(cpu_ms=150), **parts}
    return Result(**found)


def costs(**pairs):
    given = pairs or {
        kind: [Pair(bare_ns=1_000.0, full_ns=1_000.0 + more) for more in (200.0, 240.0, 230.0)]
        for kind in (CORE, PACED)
    }
    return Costs(rounds=max(map(len, given.values())), pairs=given)


def test_the_figures_names_are_those_agreed_on():
    assert list(OverheadFigure) == [
        "agent_cpu_pct",
        "agent_rss_mb",
        "probes_rss_mb",
        "agent_cpu_pct_20k",
        "probe_ns_per_switch",
        "probe_ns_per_switch_bcc",
        "probe_ns_per_switch_all_timed",
        "probe_ns_per_switch_bcc_all_timed",
        "rss_slope_kb_per_min",
        "tick_overrun_pct",
    ]
    budgets = {"agent_cpu_pct": 0.5, "agent_rss_mb": 80, "probes_rss_mb": 30, "agent_cpu_pct_20k": 1.0}
    assert {name: OverheadFigure(name).goal.bound for name in budgets} == budgets
    assert OverheadFigure.PROBE_NS.goal.bound == OverheadFigure.PROBE_NS_BCC.goal.bound == 250.0


@pytest.mark.parametrize(
    ("value", "reason", "ok"),
    [(0.5, "", True), (0.51, "", False), (None, "gone", False), (0.1, "not the whole agent", False)],
)
def test_a_figure_is_ok_within_its_goal_and_whole(value, reason, ok):
    assert Figure(name=OverheadFigure.AGENT_CPU, value=value, reason=reason).ok is ok


def test_the_paced_figure_adds_both_sides():
    loaded = window(cpu_ms=180, switches=33_000)  # 0.3 % of a core, beside loads of others
    figure = overhead._loaded_cpu(result(loaded=loaded))
    assert figure.value == pytest.approx(0.3 + 230e-9 * 20_000 * 100, rel=1e-3)
    assert "0.300 the process, 0.460 the kernel side" in figure.detail
    assert figure.ok


def test_what_is_measured_is_what_the_figures_need():
    wanted = [
        overhead._kinds({OverheadFigure.AGENT_CPU_20K}),
        overhead._kinds({OverheadFigure.PROBE_NS_BCC}),
        overhead._kinds({OverheadFigure.AGENT_CPU}),
        overhead._kinds(set(OverheadFigure)),
    ]
    assert wanted == [[PACED], [BCC], [], [CORE, BCC, CORE_ALL, BCC_ALL, PACED]]


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (CORE, (CORE, Way.READ)),
        (BCC, (BCC, Way.READ)),
        (CORE_ALL, (CORE, Way.STILL)),
        (BCC_ALL, (BCC, Way.STILL)),
        (PACED, (BCC, Way.PACED)),
    ],
)
def test_each_kind_opens_its_probes_in_its_own_way(monkeypatch, kind, asked):
    opened = []

    @contextmanager
    def probes(backend, way):
        opened.append((backend, way))
        yield overhead_probes.Probes(pid=1, lacking={})

    monkeypatch.setattr(overhead_probes, "opened", probes)
    assert overhead._with_probes(FakePair(), kind, BCC, Costs(rounds=1)) == 5.0
    assert opened == [asked]


class FakePair:
    """Takes as long each time."""

    def time_ns(self, _batches):
        return 5.0


def test_an_agent_without_probes_is_not_the_whole_agent():
    bare = FakeStatus(missing={"ebpf": "needs root"}, backend=None)
    figure = overhead._idle_cpu(result(status=bare))
    assert figure.value == pytest.approx(0.25)
    assert figure.reason == "the agent ran without its probes: needs root"
    assert not figure.ok


def whole_agent_figures(status):
    growth = Slope(value=0.1, error=0.01)
    found = result(status=status, idle=minutes(30), loaded=window(cpu_ms=100), growth=growth)
    made = [overhead._idle_cpu(found), overhead._idle_rss(found), overhead._loaded_cpu(found)]
    return [*made, overhead._slope(Options(), found)]


def test_figures_of_the_whole_agent_at_its_pace_are_ok():
    assert [(figure.reason, figure.ok) for figure in whole_agent_figures(FakeStatus())] == [("", True)] * 4


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (FakeStatus(interval_s=5.0), "a tick each 5 s by its settings"),
        (FakeStatus(slow={"process": "takes 9 ms"}), "process was not read in each tick: takes 9 ms"),
        (FakeStatus(missing={"memory": "no meminfo"}), "it ran without memory: no meminfo"),
        (FakeStatus(unread=["groups"]), "it ran without groups: its settings want none"),
        (FakeStatus(unread=["desktop"]), "it ran without desktop: its settings want none"),
    ],
)
def test_less_than_the_whole_agent_is_never_ok(status, said):
    figures = whole_agent_figures(status)
    assert [said in figure.reason for figure in figures] == [True] * 4, figures
    assert not any(figure.ok for figure in figures)


def test_what_the_host_has_not_got_is_named_beside_the_figure():
    missing = {"desktop": "no display", "gpu": "no card", "sched_ext": "no such file", "pressure/irq": "no such file"}
    figures = whole_agent_figures(FakeStatus(missing=missing))
    said = ["this host has no desktop, gpu, pressure/irq, sched_ext" in figure.detail for figure in figures]
    assert said == [True, True, True, False]
    assert all(figure.ok for figure in figures)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"lacking": {PACED: {"sched_switch": "no such tracepoint"}}}, "without sched_switch: no such tracepoint"),
        ({"lacking": {PACED: {"sched_wakeup": "refused"}}}, "without sched_wakeup: refused"),
        ({"refused": {PACED: "no memory"}}, "the next one refused: no memory"),
        ({"rounds": 2}, "only 1 of 2 rounds"),
    ],
)
def test_nanoseconds_that_are_not_those_of_all_programs_and_rounds_are_not_ok(parts, said):
    given = {"rounds": 1, "pairs": {PACED: [Pair(bare_ns=1_000.0, full_ns=1_200.0)]}, **parts}
    found = result(costs=Costs(**given), loaded=window(cpu_ms=1))
    alone = overhead._cost_figure(OverheadFigure.PROBE_NS, PACED, found)
    assert (alone.value, alone.reason, alone.ok) == (pytest.approx(200.0), said, False)
    beside = overhead._loaded_cpu(found)
    assert (beside.reason, beside.ok) == (f"its kernel side: {said}", False)


def test_a_program_off_the_path_spoils_no_nanoseconds():
    given = Costs(rounds=1, pairs={CORE: [Pair(bare_ns=0.0, full_ns=9.0)]}, lacking={CORE: {"input_event": "none"}})
    assert overhead._cost_figure(OverheadFigure.PROBE_NS, CORE, result(costs=given)).ok


def test_what_was_refused_is_null_with_its_reason():
    refused = Costs(rounds=1, refused={BCC: "ebpf: python3-bpfcc is not installed", PACED: "ebpf: no BTF"})
    figure = overhead._cost_figure(OverheadFigure.PROBE_NS_BCC, BCC, result(costs=refused))
    assert (figure.value, figure.reason) == (None, "ebpf: python3-bpfcc is not installed")
    loaded = overhead._loaded_cpu(result(costs=refused, loaded=window(cpu_ms=100, switches=20_000)))
    assert (loaded.value, loaded.reason) == (None, "its kernel side is unknown: ebpf: no BTF")


def test_slope_and_overruns():
    figure = overhead._slope(Options(), result(idle=minutes(30), growth=Slope(value=1.5, error=0.2)))
    assert (figure.value, figure.ok) == (1.5, False)
    assert figure.detail == "standard error 0.200, over 30.0 minutes less the first"
    short = overhead._slope(Options(slope_min=1.0), result())
    assert short.value is None
    assert short.reason.startswith("1 minutes are too short")
    late = overhead._overruns(result(idle=window(cpu_ms=1, ticks=1_000, overruns=2)))
    assert (late.value, late.ok) == (pytest.approx(0.2), False)
    assert overhead._overruns(result(idle=window(cpu_ms=1, ticks=0))).value is None


@pytest.mark.parametrize(
    ("value", "error", "long_min", "said", "ok"),
    [
        (0.5, 0.25, 30, "", True),
        (0.5, 0.26, 30, "", False),  # two standard errors more are above the goal
        (-5.0, 1.1, 30, "its standard error exceeds the goal", False),
        (0.1, 0.01, 9.9, "9.9 minutes are too short", False),
        (0.1, 0.01, 10, "", True),
    ],
)
def test_a_slope_is_ok_when_it_is_sure(value, error, long_min, said, ok):
    growth = Slope(value=value, error=error)
    figure = overhead._slope(Options(), result(idle=minutes(long_min), growth=growth))
    assert (figure.value, figure.ok) == (value, ok)
    assert figure.reason.startswith(said)
    assert bool(figure.reason) is bool(said)


def test_the_slope_counts_what_was_swapped_out():
    """The resident part shrinks by a page a minute, and what is swapped out grows by two."""

    class Swapping:
        def settle(self):
            return None

        def status(self):
            return FakeStatus()

        def follow(self, seconds, every_s, on_look):
            first = window(cpu_ms=1).looks[0]
            pages = [
                Memory(resident_bytes=(90 - number) * 4096, swapped_bytes=2 * number * 4096) for number in range(12)
            ]
            looks = [
                replace(first, monotonic_ns=number * 60 * 10**9, memory=memory) for number, memory in enumerate(pages)
            ]
            return Window(looks=tuple(looks))

    found = result(status=None, idle=None)
    options = Options(only=frozenset({OverheadFigure.RSS_SLOPE}))
    steps = overhead._Steps(lambda what, share: None, 1.0)
    overhead._watch(Swapping(), Path("pingpong"), options, found, steps, paths.Places())
    assert found.growth.value == pytest.approx(4.0)


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
    def probes(backend, way):
        if backend == BCC and len(opened) > 3:
            raise overhead_probes.ProbesError("ebpf: the compiler was removed")
        opened.append((backend, way))
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
    found = overhead._probe_costs(Path("pingpong"), 4, [CORE_ALL, BCC_ALL], CORE, steps)
    assert [pair.full_ns - pair.bare_ns for pair in found.pairs[CORE_ALL]] == [230.0] * 4
    assert [pair.full_ns - pair.bare_ns for pair in found.pairs[BCC_ALL]] == [303.0] * 2
    assert [backend for backend, _ in opened[:4]] == [CORE, BCC, BCC, CORE]  # they take turns
    assert {way for _, way in opened} == {Way.STILL}
    assert found.refused == {BCC_ALL: "ebpf: the compiler was removed"}
    assert told[-1][0] == "ping-pong, round 4 of 4"
    assert all(0.0 <= share < 1.0 and math.isfinite(share) for _, share in told)


def test_probes_that_do_not_open_are_reported_in_their_own_words(tmp_path):
    refused = pytest.raises(overhead_probes.ProbesError, match="nonsense")
    with refused, overhead_probes.opened("nonsense", Way.READ):
        pass
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "overhead_probes nonsense" not in listed


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; print('boom', file=sys.stderr); sys.exit(7)", r"^boom \(.* ended with code 7\)$"),
        ("import os; os.kill(os.getpid(), 9)", r"^no word on stderr \(.* ended with code -9\)$"),
        ("import time; time.sleep(600)", r"did not answer within 0\.5 s: no word on stderr$"),
    ],
)
def test_one_that_ended_is_told_from_one_that_hangs(monkeypatch, code, said):
    monkeypatch.setattr(overhead_probes, "_COMMAND", (sys.executable, "-c", code))
    monkeypatch.setattr(overhead_probes, "_OPEN_LIMIT_S", 0.5 if "sleep" in code else 60.0)
    with pytest.raises(overhead_probes.ProbesError, match=said), overhead_probes.opened(CORE, Way.READ):
        pass


def test_nothing_is_imported_from_the_current_folder(tmp_path, monkeypatch):
    """Root may stand in a folder of somebody else."""
    monkeypatch.chdir(tmp_path)
    for name in ("json", "calibration", "asa"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the current folder')\n")
    refused = pytest.raises(overhead_probes.ProbesError, match="'nonsense' is not a valid Ebpf")
    with refused, overhead_probes.opened("nonsense", Way.READ):
        pass
    words = overhead_agent._COMMAND[overhead_agent._COMMAND.index(sys.executable) :]
    done = subprocess.run([*words[: words.index("run")], "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, "taken from" in done.stderr) == (0, False), done.stderr


@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true",
    reason="eBPF needs root: run the tests by sudo, or with CI=true",
)
def test_the_process_with_the_probes_holds_programs_and_ends():
    from calibration.overhead.agent import memory, programs_ns, run_times

    proc = Path("/proc")
    with overhead_probes.opened(CORE, Way.READ) as probes:
        with run_times() as timed:
            before = programs_ns(probes.pid, proc)
            subprocess.run(["true"], check=True)  # a fork, an exec and some switches
            after = programs_ns(probes.pid, proc)
        resident = memory(probes.pid, proc).resident_bytes
    assert timed
    assert before is not None
    assert after is not None
    assert after[1] > before[1]
    assert after[0] > before[0]
    assert 5e6 < resident < 300e6  # an interpreter at least; less than the paper's whole agent
    assert not (proc / str(probes.pid)).exists()


def test_without_root_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(AsaError, match="sudo asa lab bench overhead"):
        overhead.measure(Options(), paths.Places(run=tmp_path), lambda what, share: None)


def test_status_has_what_figures_look_at():
    assert set(vars(FakeStatus())) <= set(Status.__struct_fields__)
