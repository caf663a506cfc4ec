# SPDX-License-Identifier: GPL-2.0-only
"""Runs are played by guests, kept with their cost, and gone on with; tables and figures give back what was kept."""

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from switchback_runs import run

from asa import paths, wire
from asa.cli.lab.bench import switchback as command
from asa.core.decision import EEVDF
from asa.core.errors import AsaError
from calibration import kept
from calibration.controllers.columns import Given
from calibration.goals import Figure
from calibration.scenarios.scores import Played
from calibration.switchback import benchmark, intensity, play, samples, tables
from calibration.switchback.benchmark import EvaluationFigure
from calibration.switchback.evidence import Evidence, of_classic, of_switchback, ratio, trial_s
from calibration.switchback.figures import change_pct
from calibration.switchback.guest import RUN
from calibration.switchback.play import Options
from calibration.switchback.samples import Orders, Rung
from scenarios import catalogue, guests, runner_folder
from scenarios.lab import machines
from scenarios.lab.guest import GuestResult

VM120 = machines.load("vm120")


class FakeGuest:
    """Does at once what it is ordered."""

    def __init__(self, command, out, *, fails):
        self.out, self.fails, self.stopped = out, fails, False
        self.orders = wire.from_json(Path(command[-1]).read_bytes(), Orders)

    def poll(self):
        if not self.fails:
            rungs = (Rung(crowd=1.0, effort=1.0, score=0.97), Rung(crowd=4.0, effort=3.0, score=0.61))
            made = run(rounds=self.orders.rounds, seed=self.orders.seed)
            changes = {"orders": self.orders, "rungs": rungs if self.orders.search else ()}
            changes |= {"blocks": ()} if self.orders.search else {}
            runner_folder.write(self.out / RUN, msgspec.structs.replace(made, host_cpu_s=0.0, **changes))
        return GuestResult(exit_code=int(self.fails), boot_s=1.0, run_s=1.0, console=self.out)

    def output(self):
        return ["round 1 of 3: eevdf, scx_a, eevdf"], ["last words of the guest"]

    def stop(self):
        self.stopped = True


@pytest.fixture
def booted(monkeypatch):
    monkeypatch.setattr(guests, "_LOOK_S", 0.0)
    monkeypatch.setattr(play, "prepare", lambda *_: None)
    monkeypatch.setattr(play, "check_startable", lambda *_: None)
    return []


def options(**changes):
    whole = {"machines": (VM120,), "scenarios": catalogue.find("office+archive"), "schedulers": (EEVDF, "scx_a")}
    return Options(**(whole | {"rounds": 3} | changes))


def played(out, booted, asked, *, fails=False):
    def boot(words, folder, _limit_s):
        booted.append(FakeGuest(words, folder, fails=fails))
        return booted[-1]

    said = []
    troubles = play.play(asked, out, paths.default(), lambda what, share: said.append((what, share)), boot)
    assert all(guest.stopped for guest in booted)
    return troubles, said


def test_each_run_is_kept_with_its_cost_and_is_not_played_again(tmp_path, booted):
    troubles, said = played(tmp_path, booted, options(seeds=2))
    assert troubles == []
    assert [guest.orders.seed for guest in booted] == [1, 2]
    found = samples.files(tmp_path)
    assert [one.id for one in found] == ["vm120-office+archive-1", "vm120-office+archive-2"]
    assert all(one.host_s >= 0.0 and one.host_cpu_s >= 0.0 and one.whole for one in found)
    assert any("round 1 of 3" in what for what, _ in said)
    assert all(0.0 <= share <= 1.0 for _, share in said)
    assert played(tmp_path, booted, options(seeds=3))[0] == []
    assert [guest.orders.seed for guest in booted] == [1, 2, 3]


def test_a_run_that_fails_is_named_and_played_again(tmp_path, booted):
    (trouble,), _ = played(tmp_path, booted, options(), fails=True)
    assert trouble.startswith("vm120-office+archive-1: the guest's part ended with code 1: 'last words of the guest'")
    assert played(tmp_path, booted, options())[0] == []
    assert len(booted) == 2


def test_a_folder_of_other_options_is_refused(tmp_path, booted):
    played(tmp_path, booted, options())
    tables.write(tmp_path, samples.files(tmp_path))
    (tmp_path / samples.FILES / "vm120-office+archive-1.json").unlink()
    assert played(tmp_path, booted, options())[0] == []  # a clone has the tables alone
    assert len(booted) == 1
    with pytest.raises(AsaError, match="is of other options"):
        played(tmp_path, booted, options(rounds=4))


def test_what_an_agent_had_learnt_is_kept_and_a_run_that_needs_it_waits_for_it(tmp_path, booted):
    (work,) = play.planned(options(), tmp_path)

    def with_state(work, **changes):
        given = Given(**changes)
        return replace(work, orders=msgspec.structs.replace(work.orders, given=given, part=changes.get("code", "")))

    first = with_state(work, keep=f"{work.orders.out}-a/state", code="a")
    first = replace(first, orders=msgspec.structs.replace(first.orders, out=f"{work.orders.out}-a"))
    second = with_state(work, state=str(tmp_path / samples.STATES / first.id), code="b")

    def boot(words, folder, _limit_s):
        booted.append(FakeGuest(words, folder, fails=False))
        if booted[-1].orders.given.keep:
            Path(booted[-1].orders.given.keep).mkdir()
            (Path(booted[-1].orders.given.keep) / "learning.json").write_text("1")
        return booted[-1]

    with pytest.raises(AsaError, match=r"the run before vm120-office\+archive-1-b has to be played first"):
        play.play_all([second], tmp_path, paths.default(), lambda *_: None, boot=boot)
    assert play.play_all([first, second], tmp_path, paths.default(), lambda *_: None, at_once=2, boot=boot) == []
    assert (tmp_path / samples.STATES / first.id / "learning.json").read_text() == "1"
    assert [guest.orders.part for guest in booted] == ["a", "b"]


def test_what_cannot_be_judged_is_refused(tmp_path):
    for label in ("idle", "P1"):
        with pytest.raises(AsaError, match="changes, or nothing plays"):
            play.planned(options(scenarios=catalogue.find(label)), tmp_path)
    with pytest.raises(AsaError, match="an intensity is of a pair"):
        play.planned(options(scenarios=catalogue.find("alone:web"), search=True), tmp_path)
    with pytest.raises(AsaError, match="intensities were found with it"):
        play.planned(options(seed=intensity.SEED), tmp_path)


def test_a_search_has_its_own_seed_and_what_it_finds_is_added_to_what_is_kept(tmp_path, booted):
    played(tmp_path, booted, options(search=True, schedulers=()))
    assert booted[0].orders.search
    assert booted[0].orders.seed == intensity.SEED
    place = tmp_path / "intensities.yaml"
    for label in ("office+archive", "web+disk"):
        one = msgspec.structs.replace(samples.files(tmp_path)[0])
        one = msgspec.structs.replace(one, orders=msgspec.structs.replace(one.orders, label=label))
        intensity.keep(place, intensity.of_runs([one]), "the command")
    found = intensity.kept(place)
    assert set(found.machines["vm120"].scenarios) == {"office+archive", "web+disk"}
    assert intensity.of(VM120, "office+archive", found) == (4.0, 3.0)
    assert (found.command, found.seed) == ("the command", intensity.SEED)


def _series(one):
    every = [*one.alone, *(series for block in one.blocks for series in block.series)]
    return sorted(every, key=lambda series: (series.metric, series.values))


def test_tables_give_back_what_was_kept(tmp_path):
    runs = [run(rounds=2), run(rounds=3, seed=2, troubles=("one",))]
    tables.write(tmp_path, runs)
    found = tables.read(tmp_path)
    assert [msgspec.structs.replace(one, blocks=(), alone=[]) for one in found] == [
        msgspec.structs.replace(one, blocks=(), alone=[]) for one in runs
    ]
    for one, other in zip(found, runs, strict=True):
        for block, known in zip(one.blocks, other.blocks, strict=True):
            assert msgspec.structs.replace(block, series=[]) == msgspec.structs.replace(known, series=[])
        for series, known in zip(_series(one), _series(other), strict=True):
            assert (series.metric, series.values) == (known.metric, known.values)
            assert series.at_s == pytest.approx(known.at_s)  # kept as single floats
    assert [one.id for one in tables.known(tmp_path)] == [one.id for one in runs]
    blocks = pq.read_table(tmp_path / tables.BLOCKS).to_pandas()
    assert list(blocks[blocks.run == runs[0].id].place) == [1, 2, 3, 4] * 2
    assert set(blocks.power_w) == {10.0}
    with pytest.raises(AsaError, match="holds no tables of switchback runs"):
        tables.read(tmp_path / "none")


def test_a_file_is_newer_than_its_row(tmp_path):
    tables.write(tmp_path, [run(), run(seed=2)])
    newer = run(kernel="7.2")
    (tmp_path / samples.FILES).mkdir()
    runner_folder.write(tmp_path / samples.FILES / f"{newer.id}.json", newer)
    assert [one.kernel for one in tables.known(tmp_path)] == ["7.2", "6.18"]


def test_evidence_is_what_a_pair_costs_times_its_variance():
    cheap = Evidence(pair_s=36.0, scatter_pct={("a", "m"): 2.0, ("b", "m"): 1.0})
    dear = Evidence(pair_s=360.0, scatter_pct={("a", "m"): 4.0, ("c", "m"): 1.0})
    assert cheap.per_hour(("a", "m")) == pytest.approx(25.0)
    assert ratio(cheap, dear) == (pytest.approx(40.0), 1)
    assert ratio(cheap, Evidence(pair_s=1.0, scatter_pct={})) is None
    found = of_switchback([run(rounds=6), run(rounds=6, seed=2)])
    assert found.pair_s == pytest.approx(2 * 480.0 / 24)  # two schedulers, six rounds, two runs
    assert 0.5 < found.scatter_pct["office+archive", "office.key_ms"] < 10.0
    assert ("office+archive", "score") in found.scatter_pct


def _classic(repeat, copy, scheduler, key_ms, interactive="office", background="archive"):
    samples_of = {"office": {"key_ms": [key_ms] * 9}, "archive": {"compress_mb_per_s": [4.0]}}
    return Played(
        trial=f"{repeat} {copy} {scheduler} {interactive} {background}",
        run="r",
        repeat=repeat,
        interactive=interactive,
        background=background,
        scheduler=scheduler,
        copy=copy,
        samples={name: samples_of[name] for name in (interactive, background) if name},
    )


def test_classic_runs_have_a_pair_a_repeat():
    times = {1: (50.0, 52.0), 2: (60.0, 57.0), 3: (40.0, 40.0)}
    trials = [_classic(n, copy, EEVDF, times[n][copy - 1]) for n in times for copy in (1, 2)]
    trials += [_classic(n, 1, "scx_a", 9.0) for n in times]
    trials += [_classic(n, 1, EEVDF, 9.0, "", "archive") for n in times]
    found = of_classic(trials, 32.0)
    assert found.pair_s == 64.0
    single = [change_pct(*pair) for pair in times.values()]
    assert found.scatter_pct["office+archive", "office.key_ms"] == pytest.approx(statistics.stdev(single))
    assert found.scatter_pct["office+archive", "archive.compress_mb_per_s"] == 0.0
    ours = Evidence(pair_s=6.4, scatter_pct=dict(found.scatter_pct))
    assert ratio(ours, found)[0] == pytest.approx(10.0)  # as noisy, and a tenth of the cost


def test_what_a_kept_trial_took_leaves_out_interruptions():
    second = 1_000_000_000
    starts = [0, 30 * second, 60 * second, 8_000 * second, 8_030 * second]
    assert trial_s(starts, 2) == pytest.approx(60.0)
    with pytest.raises(ValueError, match="too few trials"):
        trial_s([5], 1)


def figures(folder, **also):
    counts = benchmark.counts(folder, **also)
    return {figure.name: figure for figure in kept.figures(kept.collect(counts), EvaluationFigure, benchmark.COMMAND)}


def test_the_figures_of_a_folder(tmp_path):
    names = (EEVDF, "scx_a", "scx_b")
    runs = [run(names, rounds=5, seed=seed, times={"scx_a": 0.7}) for seed in range(1, 5)]
    tables.write(tmp_path, runs)
    made = figures(tmp_path, results=tmp_path / "none")
    assert 0.2 < made[EvaluationFigure.SCATTER].value < 10.0
    assert made[EvaluationFigure.REPEATS].value >= 3.0
    assert made[EvaluationFigure.FALSE].value <= 50.0
    assert made[EvaluationFigure.CARRY].value in {0.0, 25.0}
    assert made[EvaluationFigure.SATURATED].detail.startswith(("0 of 1 pairs", "1 of 1 pairs"))
    assert made[EvaluationFigure.ORACLE].value > made[EvaluationFigure.OVER_STATIC].value - 0.01
    assert made[EvaluationFigure.TABLE].value == pytest.approx(100.0)  # one scheduler is the best of the one scenario
    assert made[EvaluationFigure.EVIDENCE].value is None
    assert "holds no tables of a run" in made[EvaluationFigure.EVIDENCE].reason


def test_where_nothing_is_kept_each_figure_says_what_to_do(tmp_path):
    nothing = figures(tmp_path / "none", results=tmp_path)
    assert set(nothing) == set(EvaluationFigure)
    assert all(one.value is None and one.reason for one in nothing.values())
    for name in (EvaluationFigure.SCATTER, EvaluationFigure.ORACLE, EvaluationFigure.ENERGY):
        assert "asa lab bench matrix" in nothing[name].reason
    tables.write(tmp_path, [run(("scx_a",), rounds=5)])
    lacking = figures(tmp_path, results=tmp_path)[EvaluationFigure.SCATTER]
    assert isinstance(lacking, Figure)
    assert "play `eevdf` among the schedulers" in lacking.reason


def answered(words, capsys):
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    given = parser.parse_args(["switchback", *words])
    code = given.run(given)
    return code, capsys.readouterr()


def test_the_command_prints_each_comparison_of_what_is_kept(tmp_path, booted, capsys, monkeypatch):
    real = play.play

    def fake(asked, out, places, tell):
        boot = lambda words, folder, _limit_s: FakeGuest(words, folder, fails=False)  # noqa: E731
        assert real(asked, out, places, tell, boot) == []
        return ["vm120-web+disk-1: the guest crashed"]

    monkeypatch.setattr(play, "play", fake)
    words = ["--out", str(tmp_path), "--scenario", "office+archive", "--scheduler", "eevdf,scx_a", "--rounds", "3"]
    code, said = answered([*words, "--json"], capsys)
    assert code == command.EXIT_LACKING
    assert "the guest crashed" in said.err
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert {line["scheduler"] for line in lines} == {EEVDF, "scx_a"}
    assert {"score", "office.key_ms_p95"} <= {line["probe"] for line in lines}
    assert (tmp_path / tables.SAMPLES).exists()
    assert samples.read(tmp_path / samples.FILES / "vm120-office+archive-1.json").orders.rounds == 3
