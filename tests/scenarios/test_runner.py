# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark's runner: a plan is fair, a trial is measured as ordered, what fails is told, a run can be resumed."""

import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import msgspec
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys import toys
from waiting import until

from asa.act.forcing import Forcing
from asa.core.errors import AsaError, SchedulerError
from asa.paths import Places
from scenarios import runner
from scenarios.application import Tier
from scenarios.catalogue import PAIRS, SCENARIOS, find
from scenarios.conditions import Conditions
from scenarios.energy import Core, Power
from scenarios.noise import Noise
from scenarios.runner import Stage, play, play_all
from scenarios.runner_folder import Folder
from scenarios.runner_plan import Asked, Outcome, Result, make, session_seed

UNDER = Conditions(clock="parallel", tick_hz=1000, machine="m")
NAMES = ("eevdf", "scx_simple", "scx_flash", "scx_bpfland:powersave")


def asked(words="web+archive", schedulers=("eevdf",), repeats=1, seed=1):
    scenarios = find(words)
    request = Asked(
        tier=Tier.LAB,
        scenarios=tuple(one.label for one in scenarios),
        schedulers=tuple(schedulers),
        repeats=repeats,
        seed=seed,
        seconds=0.5,
        warm_up_s=0.2,
        cpus=2,
    )
    return request, scenarios


def plan(*arguments, **options):
    request, scenarios = asked(*arguments, **options)
    return make(request, scenarios, "run")


@pytest.fixture
def stage(tmp_path):
    """Played here, without sched_ext; after it nothing of a trial is left."""
    scratch = tmp_path / "scratch"
    places = Places(sys=tmp_path, run=tmp_path / "run", config=tmp_path / "none", cache=tmp_path)
    with Forcing(places) as forcing:
        yield Stage(
            applications=toys(),
            tier=Tier.LAB,
            cache=tmp_path,
            scratch=scratch,
            forcing=forcing,
            seconds=0.5,
            warm_up_s=0.3,
            under=asked()[0].under,
        )
    assert list(scratch.iterdir() if scratch.exists() else []) == []
    assert [pid for pid in psutil.pids() if _is_toy(pid, scratch)] == []


def _is_toy(pid, scratch):
    try:
        return str(scratch) in " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False


def changed(stage, **fields):
    return Stage(**{name: fields.get(name, getattr(stage, name)) for name in Stage.__slots__})


# the plan


@given(
    scenarios=st.lists(st.sampled_from(SCENARIOS), min_size=1, max_size=8, unique=True),
    schedulers=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
    repeats=st.integers(1, 4),
    seed=st.integers(0, 5),
)
def test_a_plan_is_whole_paired_and_interleaved(scenarios, schedulers, repeats, seed):
    request = Asked(
        tier=Tier.LAB,
        scenarios=tuple(one.label for one in scenarios),
        schedulers=tuple(schedulers),
        repeats=repeats,
        seed=seed,
        seconds=1.0,
        warm_up_s=0.0,
        cpus=2,
    )
    trials = make(request, scenarios, "x").trials
    assert trials == make(request, scenarios, "y").trials
    assert [trial.order for trial in trials] == list(range(1, len(trials) + 1))
    assert len({trial.id for trial in trials}) == len(trials)
    assert len({trial.seed for trial in trials}) == repeats
    for repeat in range(1, repeats + 1):
        mine = [trial for trial in trials if trial.repeat == repeat]
        assert {trial.seed for trial in mine} == {session_seed(seed, repeat)}
        for scenario in scenarios:
            played = [trial for trial in mine if trial.label == scenario.label]
            counts = Counter(trial.scheduler for trial in played)
            extra = Counter(["eevdf"]) if "+" not in scenario.label and scenario.label != "idle" else Counter()
            assert counts == Counter(schedulers) | extra
            assert [trial.order for trial in played] == list(range(played[0].order, played[0].order + len(played)))
        for name in {part for one in scenarios for part in (one.interactive, one.background) if part}:
            assert [t.copy for t in mine if (t.label, t.scheduler, t.copy) == (name, "eevdf", 1)] == [1]


def test_schedulers_and_scenarios_take_random_turns():
    trials = plan("all", schedulers=("eevdf", "scx_simple"), repeats=3).trials
    firsts = Counter()
    for repeat in (1, 2, 3):
        for pair in PAIRS:
            firsts[next(t.scheduler for t in trials if t.repeat == repeat and t.label == pair.label)] += 1
    assert all(firsts[name] > 15 for name in ("eevdf", "scx_simple"))  # of 84
    orders = [[t.label for t in trials if t.repeat == repeat] for repeat in (1, 2, 3)]
    assert orders[0] != orders[1] != orders[2]
    assert [t.label for t in plan("all", seed=2).trials] != [t.label for t in plan("all", seed=1).trials]


def test_the_short_form_of_all_is_as_long_as_it_should():
    applications = {name for pair in PAIRS for name in (pair.interactive, pair.background)}
    assert len(plan("all").trials) == len(PAIRS) + len(applications) == 28 + 11


# a trial


def test_a_pair_is_measured_in_its_window(stage):
    trial = next(one for one in plan().trials if one.label == "web+archive")
    power = Power(idle_w=5.0, cores=(Core(cpus=tuple(range(os.cpu_count())), busy_w=1.0),))
    result = play(trial, changed(stage, seconds=2.0, under=UNDER, power=power))
    assert (result.outcome, result.reason) == (Outcome.DONE, "")
    assert result.window_s >= 2.0
    assert result.under == UNDER
    (energy,) = result.energy
    assert 5.0 < energy.watts <= 6.0
    assert energy.joules == pytest.approx(energy.watts * result.window_s, rel=0.1)
    assert 0.0 < sum(energy.busy_s) <= 2.2 * os.cpu_count()
    assert {(one.application, one.metric) for one in result.series} == {
        *(("web", metric) for metric in ("click_ms", "sort_ms", "scroll_frame_ms")),
        *(("archive", metric) for metric in ("compress_mb_per_s", "extract_mb_per_s")),
    }
    for one in result.series:
        assert one.values
        assert len(one.values) == len(one.at_s)
        assert len(one.values) <= result.window_s / 0.02 + 1  # what came in the warm-up is not there
        assert 0.0 <= min(one.at_s) <= max(one.at_s) < result.window_s
    assert result.versions == {"web": {"toy": "1.2"}, "archive": {"toy": "1.2"}}
    assert result.scheduler_version == os.uname().release
    assert result.noise is not None
    again = play(trial, changed(stage, seconds=0.1))
    assert again.parameters == result.parameters
    assert result.parameters["web"]["drawn"] != result.parameters["archive"]["drawn"]


def test_one_that_breaks_fails_its_trial_and_the_run_goes_on(stage):
    found = []
    broken = changed(stage, applications=toys(broken=("archive",)), again=0)
    play_all(plan("web+archive").trials, broken, found.append)
    outcomes = {result.trial.label: result.outcome for result in found}
    assert outcomes == {"web": Outcome.DONE, "archive": Outcome.FAILED, "web+archive": Outcome.FAILED}
    failed = next(result for result in found if result.trial.label == "web+archive")
    assert (failed.failure, failed.application) == ("crashed", "archive")
    assert failed.last_words == "the toy is broken"
    assert "ended with code 1" in failed.reason
    assert failed.series == []


def test_what_cannot_be_prepared_fails_its_own_trials_alone(stage):
    def prepare(place, report):
        raise FileNotFoundError(2, "No such file or directory", "gcc")

    here = changed(stage, applications={**toys(), "archive": replace(toys()["archive"], prepare=prepare)})
    runner.prepare(["archive", "web"], here, print)
    result = play(plan("alone:archive").trials[0], here)
    assert (result.outcome, result.failure, result.application) == (Outcome.FAILED, "unprepared", "archive")
    assert "gcc: No such file" in result.reason


def test_a_scheduler_that_this_kernel_cannot_run_is_a_failed_trial(stage):
    trials = plan("web+archive", schedulers=("scx_simple",)).trials
    result = play(next(one for one in trials if one.scheduler == "scx_simple"), stage)
    assert (result.outcome, result.failure) == (Outcome.FAILED, "scheduler")
    assert "this kernel has no sched_ext, only eevdf can be in force" in result.reason


def test_a_scheduler_that_is_lost_fails_its_trial(stage):
    class Losing:
        def version(self, scheduler):
            return "1"

        @contextmanager
        def hold(self, scheduler):
            looks = iter(range(1000))

            def check():
                if next(looks) > 3:
                    raise SchedulerError(scheduler=scheduler, reason="was ended by signal 9")

            yield check

    result = play(plan().trials[0], changed(stage, forcing=Losing(), seconds=60.0))
    assert (result.outcome, result.failure) == (Outcome.FAILED, "scheduler")
    assert "signal 9" in result.reason
    assert result.took_s < 50.0


@pytest.mark.parametrize(("calm_at", "outcome", "attempts"), [(2, Outcome.DONE, 2), (9, Outcome.DISTURBED, 3)])
def test_a_disturbed_trial_is_repeated_twice_at_most(stage, monkeypatch, calm_at, outcome, attempts):
    begun, found = [], []

    def between(_before, _after):
        others = 1.0 if len(begun) >= calm_at else 40.0
        return Noise(
            steal_pct=0.0,
            others_pct=others,
            busiest="cc1",
            cpu_pressure_pct=None,
            io_pressure_pct=None,
            memory_pressure_pct=None,
        )

    monkeypatch.setattr(runner, "between", between)
    here = changed(stage, tier=Tier.REAL, seconds=0.05, warm_up_s=0.0)
    play_all(plan("alone:web").trials, here, found.append, lambda *one: begun.append(one))
    assert [(result.outcome, result.attempts) for result in found] == [(outcome, attempts)]
    assert len(begun) == attempts
    if outcome is Outcome.DISTURBED:
        assert found[0].reason == "other programs took 40 % of the CPUs, more than 10 %, most of it cc1"
        assert found[0].series, "what was measured is kept"


# the folder


def done(trial):
    return Result(trial=trial, outcome=Outcome.DONE, attempts=1, started_ns=1, took_s=1.0)


def folder(path, *arguments, **options):
    request, scenarios = asked(*arguments, **options)
    return Folder(path, request, lambda name: make(request, scenarios, name))


def test_a_run_is_resumed(stage, tmp_path):
    short = changed(stage, seconds=0.05, warm_up_s=0.0, applications=toys(broken=("archive",)))
    with folder(tmp_path / "out") as one:
        assert len(one.left()) == 3
        play_all(one.left()[:2], short, one.keep)
        begun = one.plan
    with folder(tmp_path / "out") as one:
        assert one.plan == begun
        kept = {id_ for id_, result in one.results().items() if result.outcome is Outcome.DONE}
        assert {trial.id for trial in one.left()} == {trial.id for trial in one.plan.trials} - kept
        play_all(one.left(), changed(short, applications=toys()), one.keep)
        assert one.left() == []
        assert {result.outcome for result in one.results().values()} == {Outcome.DONE}
        (tmp_path / "out/trials" / f"{begun.trials[1].id}.json").write_text('{"trial":')
        assert one.left() == [begun.trials[1]]


def test_a_result_of_another_clock_than_the_plans_is_refused(tmp_path):
    with folder(tmp_path / "out") as one:
        first, other = one.plan.trials[:2]
        one.keep(msgspec.structs.replace(done(first), under=one.plan.asked.under))
        with pytest.raises(
            AsaError, match=r"under clock parallel, 1000 Hz, machine m, and its plan is of clock icount"
        ):
            one.keep(msgspec.structs.replace(done(other), under=UNDER))
        assert set(one.results()) == {first.id}


def test_a_run_is_given_more_repeats(stage, tmp_path):
    short = changed(stage, seconds=0.05, warm_up_s=0.0, applications=toys())
    with folder(tmp_path / "out") as one:
        play_all(one.left(), short, one.keep)
        begun = one.plan
    with folder(tmp_path / "out", repeats=2) as one:
        assert one.plan.trials[: len(begun.trials)] == begun.trials
        assert one.left() == [trial for trial in one.plan.trials if trial.repeat == 2]
    with folder(tmp_path / "out") as one:
        assert one.plan == begun  # nothing of the second repeat was played
    with folder(tmp_path / "out", repeats=2) as one:
        play_all(one.left()[:1], short, one.keep)
        assert len(one.results()) == len(begun.trials) + 1
    with pytest.raises(AsaError, match="holds another plan of repeats 2"):
        folder(tmp_path / "out")
    with pytest.raises(AsaError, match="holds another plan of seed 1;"):
        folder(tmp_path / "out", repeats=3, seed=2)


def test_a_run_in_the_lab_is_given_more_schedulers_and_scenarios(tmp_path):
    wider = "web+archive,web+kernel", NAMES[:3]
    with folder(tmp_path / "out", "web+archive", NAMES[:2]) as one:
        begun = one.plan
        one.keep(done(begun.trials[0]))
    with folder(tmp_path / "out", *wider) as one:
        larger = one.plan
        one.keep(done(larger.trials[-1]))
    assert larger.trials[: len(begun.trials)] == begun.trials
    assert [trial.order for trial in larger.trials] == list(range(1, len(larger.trials) + 1))
    assert {trial.id for trial in larger.trials} == {trial.id for trial in plan(*wider).trials}
    with folder(tmp_path / "out", *wider) as one:
        assert one.plan == larger
        assert one.left() == list(larger.trials[1:-1])
    with folder(tmp_path / "out", *wider, repeats=2) as one:
        assert one.plan.trials[: len(larger.trials)] == larger.trials
    with pytest.raises(AsaError, match=r"holds another plan of scenarios .*, schedulers "):
        folder(tmp_path / "out", "web+archive", NAMES[:2])


def test_on_a_machine_repeats_alone_are_added(tmp_path):
    def here(**more):
        request, scenarios = asked(**more)
        request = msgspec.structs.replace(request, tier=Tier.REAL)
        return Folder(tmp_path / "out", request, lambda name: make(request, scenarios, name))

    here().close()
    with here(repeats=2) as one:
        assert {trial.repeat for trial in one.plan.trials} == {1, 2}
    with pytest.raises(AsaError, match=r"holds another plan of schedulers \('eevdf',\); name"):
        here(schedulers=NAMES[:2])


def test_a_folder_of_another_run_is_refused(tmp_path):
    with folder(tmp_path / "out"), pytest.raises(AsaError, match="another run works there"):
        folder(tmp_path / "out")
    with pytest.raises(AsaError, match=r"holds another plan of seed 1; name another folder by --out"):
        folder(tmp_path / "out", seed=2)
    request, scenarios = asked()
    new = msgspec.structs.replace(request, clock="parallel", tick_hz=1000)
    with pytest.raises(AsaError, match=r"holds another plan of clock 'icount', tick_hz 250; name another folder"):
        Folder(tmp_path / "out", new, lambda name: make(new, scenarios, name))
    (tmp_path / "out/plan.json").write_text("{}")
    with pytest.raises(AsaError, match="is no plan of a run"):
        folder(tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(AsaError, match="name another folder by --out"):
        folder(tmp_path / "file")
    until(lambda: folder(tmp_path / "free").close() is None, "the lock is given back")
