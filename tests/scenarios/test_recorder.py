# SPDX-License-Identifier: GPL-2.0-only
"""The recorder on a clock of its own: rhythm, what is kept and what is dropped, campaigns that go on."""

import itertools
from contextlib import contextmanager

import pytest

import asa
from asa.core.sample import CpuCounters, RawSample, SchedExtState
from asa.journal import Journal
from scenarios.conditions import TOLD, Conditions, told
from scenarios.player import PlayerError
from scenarios.recorder import Machine, Recorder, Result, machine

SECOND_NS = 1_000_000_000
HERE = Machine(host="host, Test CPU", kernel="6.18.0", cpus=2)


class World:
    """A clock, a machine whose CPU time passes with it, and programs that note what happens to them."""

    def __init__(self):
        self.now_ns = 5 * SECOND_NS
        self.cost_ns = 0  # of a sample
        self.steal = 0.0
        self.busy = [0.0]  # share by second since the start, the last one stays
        self.fails_at_s = None
        self.playing = None
        self.played = []
        self.left = 0
        self.enable_seq = 0
        self.ops = ""
        self.blind = False

    def monotonic_ns(self):
        return self.now_ns

    def wall_ns(self):
        return self.now_ns + 10**18

    def wait(self, seconds):
        assert seconds > 0
        self.now_ns += round(seconds * 1e9)

    def sample(self):
        at_ns = self.now_ns
        self.now_ns += self.cost_ns
        ext = SchedExtState(state="enabled" if self.ops else "disabled", ops=self.ops, enable_seq=self.enable_seq)
        cpu = None if self.blind else self._cpu(at_ns)
        return RawSample(monotonic_ns=at_ns, wall_ns=at_ns + 10**18, cpu=cpu, sched_ext=ext)

    def _cpu(self, at_ns):
        total = 200 * (at_ns - 5 * SECOND_NS) // SECOND_NS  # two CPUs of 100 ticks a second
        seconds = total // 200
        user = sum(200 * self.busy[min(i, len(self.busy) - 1)] for i in range(seconds))
        steal = self.steal * total
        ticks = (int(user), 0, 0, int(total - user - steal), 0, 0, 0, int(steal))
        return CpuCounters(
            total=ticks,
            cores=((0, ticks),),
            interrupts=0,
            context_switches=0,
            forks=0,
            softirqs=(0,) * 10,
            runnable=1,
            blocked=0,
        )

    @contextmanager
    def play(self, label, seed):
        self.played.append((label, seed))
        self.playing = label
        started_ns = self.now_ns
        world = self

        class Playing:
            parameters = f"program --of {label} {seed}"

            def alive(self):
                assert world.playing == label
                if world.fails_at_s is not None and world.now_ns - started_ns >= world.fails_at_s * SECOND_NS:
                    raise PlayerError(program="fio", reason="ended with code 1", last_words="no space")
                return True

        try:
            yield Playing()
        finally:
            self.playing = None
            self.left += 1


@pytest.fixture
def world():
    return World()


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path / "j.journal") as opened:
        yield opened


@pytest.fixture
def recorder(world, journal):
    return Recorder(journal=journal, sampler=world, clock=world, play=world.play, machine=HERE, wait=world.wait)


def stored(journal):
    return [(session.header, list(journal.samples(session.number))) for session in journal.sessions()]


def test_session_is_written_whole_with_its_truth(recorder, world, journal):
    world.ops, world.enable_seq = "bpfland_1.1.4", 3
    outcome = recorder.record("cpu", seed=7, seconds=10)
    assert (outcome.result, outcome.samples, outcome.reason) == (Result.KEPT, 11, "")
    ((header, samples),) = stored(journal)
    assert (header.label, header.seed, header.parameters) == ("cpu", 7, "program --of cpu 7")
    assert (header.host, header.kernel, header.cpus) == (HERE.host, HERE.kernel, HERE.cpus)
    assert (header.scheduler, header.asa_version) == ("bpfland_1.1.4", asa.__version__)
    assert header.started_ns == samples[0].wall_ns
    # a second of looking for quiet, three of warm-up
    assert [s.monotonic_ns for s in samples] == [(5 + 1 + 3 + i) * SECOND_NS for i in range(11)]
    assert (world.left, world.playing) == (1, None)


def test_scheduler_is_the_kernels_own_when_none_is_attached(recorder, journal):
    recorder.record("cpu", seed=1, seconds=2)
    assert stored(journal)[0][0].scheduler == "eevdf"


def test_a_slow_sampler_does_not_make_the_rhythm_drift(recorder, world, journal):
    world.cost_ns = 300_000_000
    recorder.record("cpu", seed=1, seconds=20)
    times = [s.monotonic_ns for s in stored(journal)[0][1]]
    assert {b - a for a, b in itertools.pairwise(times)} == {SECOND_NS}
    assert len(times) == 21


def test_missed_seconds_are_left_out_and_too_many_drop_the_session(recorder, world, journal):
    world.cost_ns = 2_500_000_000
    outcome = recorder.record("cpu", seed=1, seconds=20)
    assert outcome.result is Result.DROPPED
    assert "only 7 samples of 20 s" in outcome.reason
    assert stored(journal) == []


@pytest.mark.parametrize(("steal", "kept"), [(0.05, True), (0.2, False)])
def test_stolen_time_drops_the_session(recorder, world, journal, steal, kept):
    world.steal = steal
    outcome = recorder.record("cpu", seed=1, seconds=10)
    assert (outcome.result is Result.KEPT) == kept == bool(stored(journal))
    if not kept:
        assert outcome.reason == "the hypervisor took 20% of the CPUs, more than 10%"


@pytest.mark.parametrize("at_s", [0, 2, 7])  # at the start of sampling, in the warm-up, in the session
def test_program_that_fails_drops_the_session(recorder, world, journal, at_s):
    world.fails_at_s = at_s
    outcome = recorder.record("disk", seed=1, seconds=10)
    assert outcome.result is Result.DROPPED
    assert outcome.reason == "fio: ended with code 1; it said: 'no space'"
    assert stored(journal) == []
    assert (world.left, world.playing) == (1, None)


def test_program_that_fails_in_the_last_second_drops_it_too(recorder, world, journal):
    world.cost_ns = 300_000_000
    world.fails_at_s = 13.2  # three of warm-up, ten of recording, while the last sample is taken
    assert recorder.record("disk", seed=1, seconds=10).result is Result.DROPPED


def test_failed_start_is_an_outcome(recorder, journal):
    @contextmanager
    def refuse(label, seed):
        raise PlayerError(program="fio", reason="is not installed; run: apt-get install fio")
        yield

    other = Recorder(
        journal=journal,
        sampler=recorder.sampler,
        clock=recorder.clock,
        play=refuse,
        machine=HERE,
        wait=recorder.wait,
    )
    outcome = other.record("disk", seed=1, seconds=10)
    assert (outcome.result, outcome.reason) == (Result.DROPPED, "fio: is not installed; run: apt-get install fio")


def test_changed_scheduler_drops_the_session(recorder, world, journal):
    take = world.sample

    def switching():
        if world.now_ns > 12 * SECOND_NS:
            world.ops = "flash_1"
        return take()

    world.sample = switching
    outcome = recorder.record("cpu", seed=1, seconds=10)
    assert (outcome.result, outcome.reason) == (Result.DROPPED, "the scheduler changed in the session")


def test_waits_for_a_quiet_machine(recorder, world, journal):
    world.busy = [0.9, 0.9, 0.9, 0.9, 0.0]
    assert recorder.record("cpu", seed=1, seconds=2).result is Result.KEPT
    assert stored(journal)[0][1][0].monotonic_ns == (5 + 5 + 3) * SECOND_NS


def test_machine_that_stays_busy_is_not_recorded(recorder, world, journal):
    world.busy = [0.6]
    outcome = recorder.record("cpu", seed=1, seconds=2)
    assert outcome.result is Result.DROPPED
    assert outcome.reason.startswith("other programs keep the CPUs 60% busy, more than 25%")
    assert world.played == []
    assert world.now_ns == (5 + 30) * SECOND_NS


def test_without_cpu_times_nothing_can_be_judged(recorder, world, journal):
    world.blind = True
    outcome = recorder.record("cpu", seed=1, seconds=2)
    assert (outcome.result, stored(journal)) == (Result.DROPPED, [])
    assert "no CPU times" in outcome.reason


def run_campaign(recorder, labels=("idle", "cpu", "disk"), sessions=3, seed=10):
    started = []
    seen = []
    outcomes = recorder.campaign(
        labels,
        sessions=sessions,
        seconds=2,
        seed=seed,
        on_start=lambda label, one, number, total: started.append((label, one, number, total)),
        on_outcome=seen.append,
    )
    assert outcomes == seen
    assert [(label, one) for label, one, _, _ in started] == [(o.workload, o.seed) for o in outcomes]
    assert [number for _, _, number, _ in started] == list(range(1, len(labels) * sessions + 1))
    return outcomes


def test_campaign_records_all_in_shuffled_order(recorder, world, journal):
    outcomes = run_campaign(recorder)
    wanted = [(label, seed) for label in ("idle", "cpu", "disk") for seed in (10, 11, 12)]
    assert sorted(world.played) == sorted(wanted)
    assert world.played != wanted, "in an order of its own"
    assert {o.result for o in outcomes} == {Result.KEPT}
    assert len(stored(journal)) == 9


def test_order_depends_on_the_seed_alone(recorder, world, journal):
    first = [(o.workload, o.seed) for o in run_campaign(recorder)]
    second = [(o.workload, o.seed) for o in run_campaign(recorder)]
    assert first == second


def test_campaign_goes_on_where_it_stopped_and_fills_what_was_dropped(recorder, world, journal):
    world.fails_at_s = 4
    recorder.record("cpu", seed=11, seconds=2)
    world.fails_at_s = None
    recorder.record("cpu", seed=10, seconds=2)
    recorder.record("idle", seed=12, seconds=2)
    world.played.clear()
    outcomes = run_campaign(recorder)
    skipped = {(o.workload, o.seed) for o in outcomes if o.result is Result.SKIPPED}
    assert skipped == {("cpu", 10), ("idle", 12)}
    assert not skipped & set(world.played)
    assert ("cpu", 11) in world.played
    assert len(stored(journal)) == 9


def test_sessions_of_another_place_do_not_count(recorder, world, journal):
    run_campaign(recorder, sessions=1)
    guest = Recorder(
        journal=journal,
        sampler=world,
        clock=world,
        play=world.play,
        machine=Machine(host="lab, QEMU", kernel="6.18.0", cpus=2),
        wait=world.wait,
    )
    assert {o.result for o in run_campaign(guest, sessions=1)} == {Result.KEPT}
    assert len(stored(journal)) == 6


def test_machine_is_named_from_proc(tmp_path, monkeypatch):
    monkeypatch.setenv(TOLD, told(Conditions(clock="parallel", tick_hz=1000))[TOLD])
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/osrelease").write_text("6.18.15+deb13-amd64\n")
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\n")
    assert machine(lab=False, cpus=2, proc=tmp_path) == Machine(
        host="host, AMD EPYC", kernel="6.18.15+deb13-amd64", cpus=2
    )
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nBogoMIPS\t: 50.0\n")  # arm64 has no model name
    assert machine(lab=True, cpus=4, proc=tmp_path).host == "lab, clock parallel, 1000 Hz, CPU of unknown model"
