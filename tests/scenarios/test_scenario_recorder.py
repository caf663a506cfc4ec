# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios recorded with drivers of a few lines and this machine's own collectors: phases, failures, repeats."""

import itertools
import json
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from playing import busy, no_orphans

from asa.clock import SystemClock
from asa.config import CollectSettings, Ebpf
from asa.core.decision import Workload
from asa.core.kinds import Kind
from asa.core.mark import Phase
from asa.journal import Journal
from collectors.sampler import HostSampler, standard
from models.train import recorded
from scenarios import noise
from scenarios.application import Application, Failure, Place, Role, Tier
from scenarios.catalogue import Scenario
from scenarios.recorder import Machine, Result
from scenarios.scenario_recorder import ScenarioRecorder

HERE = Machine(host="host, Test CPU", kernel="6.18.0", cpus=2)
BEGIN = "from scenarios.driving import *; import os, sys, time; d = Driver.begin(); "
WORK = BEGIN + "d.pause({start}); d.ready({{'{name}': '3.1'}})\nwhile d.pause(0.1): d.measured('a_ms', 1)\n{end}"
CRASH = BEGIN + "d.ready({}); d.measured('a_ms', 1); d.pause(0.5); fail('out of paper')"


def made(name, role, script):
    return Application(
        name=name,
        role=role,
        metrics=("a_ms",),
        packages=("one",),
        programs=("setpriv",),
        draw=lambda rng, place: {"size": rng.randrange(10**9)},
        command=lambda place, given: (sys.executable, "-c", script),
    )


def front(start=0.0, end=""):
    script = WORK.format(start=start, name="chromium", end=end)
    return replace(made("web", Role.INTERACTIVE, script), kind=Kind.BROWSE)


def back(start=0.0, end=""):
    return made("blender", Role.BACKGROUND, WORK.format(start=start, name="blender", end=end))


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path / "j.journal") as opened:
        yield opened


@pytest.fixture
def recorder(tmp_path, journal):
    """Makes one for a scenario of these applications; at the end no process is left, nor a scratch folder."""
    collectors = standard(Path("/proc"), Path("/sys"), CollectSettings(ebpf=Ebpf.OFF, timer=False))
    with no_orphans(), closing(HostSampler(collectors, SystemClock())) as sampler:
        sampler.open()

        def make(*applications, **changed):
            names = {one.role: one.name for one in applications}
            scenario = Scenario(
                interactive=names.get(Role.INTERACTIVE, ""), background=names.get(Role.BACKGROUND, ""), number=None
            )
            values = {
                "journal": journal,
                "sampler": sampler,
                "clock": SystemClock(),
                "machine": HERE,
                "tier": "lab",
                "find": lambda label: (scenario, applications),
                "place": lambda one: Place(cache=tmp_path / "cache", cpus=2, tier=Tier.LAB),
                "folder": tmp_path / "scratch",
                "rest_s": 1.2,
                "tries": 3,  # a sample that came too late is a disturbance too
                "noise_limit_pct": 1000.0,  # whoever else tests on this machine
                "most_busy_before": 1.0,
                "most_steal": 1.0,
                "fewest_samples": 0.2,
            }
            return ScenarioRecorder(**(values | changed))

        yield make
    assert list(tmp_path.glob("scratch/*")) == []


def stored(journal):
    (session,) = journal.sessions()
    return session.header, list(journal.samples(session.number)), list(journal.marks(session.number))


@pytest.mark.apps
def test_marks_tell_what_was_there_when(recorder, journal):
    """Both start slowly and the first ends slowly: samples are taken all the while. The header says what it was."""
    both = front(start=1.2, end="time.sleep(2.2)"), back(start=1.2)
    outcome = recorder(*both).record("web+blender", seed=7, seconds=4)
    assert (outcome.result, outcome.reason) == (Result.KEPT, "")
    header, samples, marks = stored(journal)
    assert (header.label, header.seed, header.tier, header.host) == ("web+blender", 7, "lab", HERE.host)
    assert header.programs == {"chromium": "3.1", "blender": "3.1"}
    parameters = json.loads(header.parameters)
    assert list(parameters) == ["web", "blender"]
    assert parameters["web"]["size"] != parameters["blender"]["size"]
    assert outcome.samples == len(samples)
    assert [(mark.phase, mark.interactive, mark.background) for mark in marks] == [
        (Phase.BEFORE, "", ""),
        (Phase.STARTING, "web", ""),
        (Phase.STARTING, "web", "blender"),
        (Phase.RUNNING, "web", "blender"),
        (Phase.ENDING, "web", "blender"),
        (Phase.ENDING, "", "blender"),
        (Phase.AFTER, "", ""),
    ]
    ends_ns = [mark.monotonic_ns for mark in marks[1:]] + [samples[-1].monotonic_ns + 1]
    lasted = {}
    taken = {}
    for mark, end_ns in zip(marks, ends_ns, strict=True):
        lasted[mark.phase] = lasted.get(mark.phase, 0.0) + (end_ns - mark.monotonic_ns) / 1e9
        inside = sum(mark.monotonic_ns <= sample.monotonic_ns < end_ns for sample in samples)
        taken[mark.phase] = taken.get(mark.phase, 0) + inside
    assert lasted[Phase.RUNNING] >= 4.0
    assert lasted[Phase.STARTING] >= 2.4
    assert lasted[Phase.ENDING] >= 2.2
    assert min(taken[phase] for phase in (Phase.BEFORE, Phase.STARTING, Phase.RUNNING, Phase.ENDING)) >= 1
    gaps_s = [(b.monotonic_ns - a.monotonic_ns) / 1e9 for a, b in itertools.pairwise(samples)]
    assert sorted(gaps_s)[len(gaps_s) // 2] == pytest.approx(1.0, abs=0.5)


@pytest.mark.apps
def test_other_programs_are_labelled_by_kinds_and_named_in_the_parameters(recorder, journal, tmp_path):
    """In header and marks, the paper's one beside it too; programs of a kind do not take each other's place."""
    pigz, zstd = (replace(back(), name=name, kind=Kind.COMPRESS) for name in ("pigz", "zstd"))
    made_here = {"web+pigz": recorder(front(), pigz, rest_s=0.1), "zstd": recorder(zstd, rest_s=0.1)}

    def campaign(label):
        found = made_here[label].campaign(
            [Workload(label)], sessions=1, seconds=2, seed=1, on_start=lambda *_: None, on_outcome=lambda _: None
        )
        return [str(one.result) for one in found]

    assert campaign("web+pigz") == ["kept"]
    both, *_ = journal.sessions()
    assert (both.header.label, both.header.played) == ("browse+compress", ("web", "pigz"))
    marks = [(mark.interactive, mark.background) for mark in journal.marks(both.number)]
    assert marks == [
        *(("", ""), ("browse", ""), ("browse", "compress"), ("browse", "compress")),
        *(("browse", "compress"), ("", "compress"), ("", "")),
    ]
    assert campaign("zstd") == ["kept"]
    assert campaign("zstd") == campaign("web+pigz") == ["skipped"]
    alone = journal.sessions()[-1].header
    assert (alone.label, alone.played) == ("compress", ("zstd",))
    journal.pack(tmp_path / "packed.journal.xz")
    rows = [recorded.rows(one) for one in recorded.read(tmp_path / "packed.journal.xz")]
    assert {row.background for one in rows for row in one.rows if row.phase == Phase.RUNNING} == {"compress"}


@pytest.mark.apps
def test_what_is_of_no_kind_is_labelled_so_and_named_in_the_parameters(recorder, journal):
    outcome = recorder(replace(back(), name="backup"), rest_s=0.1).record("backup", seed=1, seconds=2)
    assert outcome.result is Result.KEPT, outcome.reason
    header, _, marks = stored(journal)
    assert (header.label, header.played) == ("other", ("backup",))
    assert {mark.background for mark in marks if mark.phase is Phase.RUNNING} == {"other"}


@pytest.mark.apps
def test_an_application_is_drawn_anew_for_each_label_and_seed(recorder, journal):
    made_here = recorder(front(), rest_s=0.1)
    for label, seed in (("web", 1), ("web+blender", 1), ("web", 2), ("web", 1)):
        assert made_here.record(label, seed=seed, seconds=2).result is Result.KEPT
    first, other_label, other_seed, again = (json.loads(one.header.parameters)["web"] for one in journal.sessions())
    assert first == again
    assert first not in (other_label, other_seed)


@pytest.mark.apps
def test_idle_is_a_little_housekeeping(recorder, journal):
    outcome = recorder().record("idle", seed=1, seconds=3)
    assert outcome.result is Result.KEPT, outcome.reason
    header, _, marks = stored(journal)
    assert [mark.phase for mark in marks] == list(Phase)
    assert {(mark.interactive, mark.background) for mark in marks} == {("", "")}
    given = json.loads(header.parameters)["idle"]
    assert len(given["kinds"]) == len(given["periods_s"]) >= 2
    assert max(given["work_ms"]) <= 2.0


@pytest.mark.apps
def test_a_failed_application_drops_the_session(recorder, journal):
    outcome = recorder(front(), made("blender", Role.BACKGROUND, CRASH)).record("x", seed=1, seconds=20)
    assert (outcome.result, outcome.failure, outcome.attempts) == (Result.DROPPED, Failure.CRASHED, 1)
    assert "blender: its driver ended with code 1; it said: 'out of paper'" in outcome.reason
    assert journal.sessions() == []


def test_what_is_missing_is_said_before_anything_plays(recorder, journal):
    absent = Application(
        **{name: getattr(back(), name) for name in back().__dataclass_fields__} | {"programs": ("no",)}
    )
    outcome = recorder(front(), absent).record("x", seed=1, seconds=20)
    assert outcome.failure is Failure.MISSING
    assert "apt-get install one" in outcome.reason


def test_a_full_disk_while_preparing_is_an_outcome(recorder):
    def prepare(place, report):
        raise OSError(28, "No space left on device")

    application = replace(back(), prepare=prepare)
    outcome = recorder(application).record("x", seed=1, seconds=2)
    assert (outcome.result, outcome.failure) == (Result.DROPPED, Failure.NO_SPACE)


@pytest.mark.apps
def test_a_session_beside_foreign_load_is_played_again(recorder, journal, monkeypatch):
    """The load is told from ours by the scans; the second attempt finds it gone."""
    taken = []

    class Quiet(noise.Noise):
        def complaint(self, limit_pct=0.0):
            taken.append(limit_pct)
            return "other programs took 40 % of the CPUs" if len(taken) == 1 else ""

    real = noise.between

    def between(before, after):
        return Quiet(**{name: getattr(real(before, after), name) for name in noise.Noise.__struct_fields__})

    monkeypatch.setattr(noise, "between", between)
    outcome = recorder(front(), rest_s=0.1, noise_limit_pct=10.0).record("web", seed=1, seconds=2)
    assert outcome.result is Result.KEPT
    assert outcome.attempts >= 2
    assert set(taken) == {10.0}
    assert len(journal.sessions()) == 1


@pytest.mark.apps
def test_foreign_load_is_seen_and_given_up_in_the_end(recorder, journal):
    with busy(2):
        made_here = recorder(back(), tries=2, noise_limit_pct=-1.0, rest_s=0.1)  # anything is too much
        outcome = made_here.record("blender", seed=1, seconds=2)
    assert (outcome.result, outcome.failure, outcome.attempts) == (Result.DROPPED, Failure.DISTURBED, 2)
    assert journal.sessions() == []


@pytest.mark.apps
def test_campaign_goes_on_where_it_was_and_keeps_tiers_apart(recorder, journal):
    def results(**changed):
        shown = []
        words = {"sessions": 2, "seconds": 2, "seed": 5, "on_start": lambda *_: None, "on_outcome": shown.append}
        tier = changed.pop("tier", "lab")
        recorder(back(), rest_s=0.1, tier=tier).campaign([Workload("blender")], **(words | changed))
        return sorted((outcome.seed, str(outcome.result)) for outcome in shown)

    assert results(sessions=1) == [(5, "kept")]
    assert results() == [(5, "skipped"), (6, "kept")]
    assert results(sessions=1, tier="real") == [(5, "kept")]
