# SPDX-License-Identifier: GPL-2.0-only
"""Candidates take turns with the scheduler that they are of; `asa lab tune` searches, confirms, and writes a policy."""

import argparse
import json
import threading
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from switchback_runs import run

from asa import paths, wire
from asa.act import manifest, policies
from asa.cli.lab import tune as command
from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import AsaError
from calibration.hosts import Where
from calibration.scale import benchmark
from calibration.scale.samples import METRICS, Found, Mode, Turn
from calibration.switchback import play
from calibration.switchback.figures import change_pct
from calibration.switchback.guest import RUN
from calibration.switchback.samples import Orders
from calibration.tuning import lab, outcome
from scenarios import catalogue, guests, runner_folder
from scenarios.conditions import Conditions
from scenarios.energy import Energy
from scenarios.lab import machines
from scenarios.lab.guest import GuestResult

FLASH = SchedulerName("scx_flash")


class FakeGuest:
    """Plays at once what it is ordered: the shorter a candidate's slice, the quicker the keys; 700 us by default."""

    def __init__(self, words, out):
        self.out, self.orders = out, wire.from_json(Path(words[-1]).read_bytes(), Orders)

    def poll(self):
        orders = self.orders
        slices = {policy.name: policy.flags.get("--slice-us", 700) for policy in orders.policies}
        times = {name: 0.5 + slices.get(name, 700) / 2000.0 for name in orders.schedulers}
        made = run(orders.schedulers, orders.rounds, orders.seed, times=times)
        runner_folder.write(self.out / RUN, msgspec.structs.replace(made, orders=orders, host_cpu_s=0.0))
        return GuestResult(exit_code=0, boot_s=1.0, run_s=1.0, console=self.out)

    def output(self):
        return [], []

    def stop(self):
        pass


@pytest.fixture
def booted(monkeypatch):
    """The orders of each guest."""
    real, orders = play.play, []

    def boot(words, folder, _limit_s):
        orders.append(FakeGuest(words, folder))
        return orders[-1]

    monkeypatch.setattr(guests, "_LOOK_S", 0.0)
    monkeypatch.setattr(lab, "make_ready", lambda *_: None)
    monkeypatch.setattr(play, "prepare", lambda *_: None)
    monkeypatch.setattr(play, "check_startable", lambda *_: None)
    monkeypatch.setattr(play, "play", lambda asked, out, places, tell, _=None: real(asked, out, places, tell, boot))
    return orders


def made_lab(out, jobs=1):
    use = lab.Pair(base=FLASH, machine=machines.load("vm120"), scenario=catalogue.find("office+archive")[0], rounds=2)
    where = Where(jobs=jobs)
    return lab.InGuests(use=use, out=out, places=paths.default(), tell=lambda *_: None, where=where)


def seeded(candidates, seed):
    return [(flags, seed) for flags in candidates]


def test_candidates_take_turns_with_what_they_are_of(tmp_path, booted):
    slices = (100, 400, 700, 1500, 3000)
    gains = made_lab(tmp_path).gains(seeded([{"--slice-us": one} for one in slices], 5))
    found = [one.pct for one in gains]
    assert sorted(found, reverse=True) == found
    assert abs(found[2]) < 2.0  # as it is without flags
    assert [one.over_eevdf_pct > one.pct for one in gains] == [True] * 5  # which EEVDF's own is behind
    first, second = (guest.orders for guest in booted)  # four, and one
    assert first.schedulers == (FLASH, *(f"scx_flash:candidate_{n}" for n in range(1, 5)))
    assert (second.schedulers, second.seed) == ((FLASH, "scx_flash:candidate_1"), 5)
    assert [policy.flags for policy in second.policies] == [{"--slice-us": 3000}]
    made_lab(tmp_path).gains([({"--slice-us": 3000}, 5)])
    assert len(booted) == 2  # it is kept


@pytest.mark.parametrize(("slower", "wanted"), [(1.0, True), (1.5, False)])
def test_energy_counts_where_the_score_stays(slower, wanted):
    candidate = SchedulerName("scx_flash:candidate_1")
    made = run((EEVDF, FLASH, candidate), 3, 1, times={EEVDF: 1.0, FLASH: 1.0, candidate: slower})
    watts = {candidate: 8.0}
    blocks = tuple(
        msgspec.structs.replace(one, energy=Energy(busy_s=[], joules=1.0, watts=watts.get(one.scheduler, 10.0)))
        for one in made.blocks
    )
    made = msgspec.structs.replace(made, blocks=blocks)
    found = lab.gain(made, FLASH, candidate, lab.Aim.ENERGY)
    assert found.over_eevdf_pct == lab.gain(made, FLASH, candidate).over_eevdf_pct
    if wanted:
        assert found.pct == pytest.approx(change_pct(8.0, 10.0))
    else:
        assert found.pct == pytest.approx(found.over_eevdf_pct + 2.0)
        assert found.pct < 0.0


@pytest.mark.parametrize("method", ["pso", "screen"])
def test_a_search_is_the_same_however_many_guests_play_at_once(method, tmp_path, booted, capsys):
    found, played = [], []
    for jobs in ("1", "3"):
        out, before = tmp_path / jobs, len(booted)
        words = ["--method", method, "--trials", "25", "--flag=--slice-us", "--rounds", "2", "--together", "3"]
        code, said = answered([*words, "--jobs", jobs, "--out", str(out), "--json"], capsys)
        assert code == 0
        found.append((said.out, [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]))
        played.append(sorted(str((one.orders.seed, one.orders.policies)) for one in booted[before:]))
    assert found[0] == found[1]
    assert played[0] == played[1]


def test_several_guests_play_at_once(tmp_path, booted, monkeypatch):
    both = threading.Barrier(2, timeout=60.0)  # each guest waits for the other one
    monkeypatch.setattr(FakeGuest, "poll", lambda guest, real=FakeGuest.poll: both.wait() + 1 and real(guest))
    gains = made_lab(tmp_path, jobs=2).gains([({"--slice-us": 100}, 5), ({"--slice-us": 100}, 6)])
    assert len(booted) == 2
    assert all(one.pct > 0.0 for one in gains)


def test_a_guest_is_of_one_seed_and_in_the_order_of_the_candidates():
    one, two, three = ({"--slice-us": value} for value in (100, 200, 300))
    pieces = lab._pieces([(one, 5), (two, 5), (three, 5), (one, 6), (one, 7)], 2)
    assert [(piece.number, piece.candidates, piece.seed) for piece in pieces] == [
        (0, (one, two), 5),
        (1, (three,), 5),
        (2, (one,), 6),
        (3, (one,), 7),
    ]


def test_flags_that_cannot_be_are_refused_before_a_guest_boots(tmp_path, booted):
    with pytest.raises(AsaError, match=r"flags.--slice-us: 5 .* 100 to 20000"):
        made_lab(tmp_path).gains([({"--slice-us": 5}, 5)])
    assert booted == []


def test_a_figure_of_the_scale_benchmark_is_an_objective(tmp_path, monkeypatch):
    asked = []

    def measure(options, _places, _tell):
        asked.append(options)
        slices = {EEVDF: 500, FLASH: 700, **{one.name: one.flags["--slice-us"] for one in options.policies}}
        turns = [
            Turn(scheduler=name, round=1, play=play, readings={Mode.MESSAGING: reading(slices[name])})
            for name in options.schedulers
            for play in (1, 2)
            if slices[name] != 100  # it does not load
        ]
        under = Conditions(clock="parallel", tick_hz=1000, machine="vm120")
        found = Found(kernel="6", cpus=4, under=under, program="", seconds=0.5, versions={}, turns=tuple(turns))
        return SimpleNamespace(found=[found], troubles=[])

    monkeypatch.setattr(benchmark, "measure", measure)
    (messages,) = (one for one in METRICS if one.name == "messages")
    use = lab.Bench(base=FLASH, machine=machines.load("vm120"), metric=messages, rounds=1)
    made = lab.InGuests(use=use, out=tmp_path, places=paths.default(), tell=lambda *_: None)
    failed, longer = made.gains(seeded([{"--slice-us": 100}, {"--slice-us": 1400}], 3))
    assert failed is None
    assert longer.pct == pytest.approx(change_pct(1.0, 0.5))
    assert longer.over_eevdf_pct == pytest.approx(change_pct(1.4, 0.5))
    (options,) = asked
    assert set(options.schedulers) == {EEVDF, FLASH, "scx_flash:candidate_1", "scx_flash:candidate_2"}
    assert options.modes == (Mode.MESSAGING,)
    made.gains(seeded([{"--slice-us": 100}, {"--slice-us": 1400}], 4))
    assert asked[1].folder != options.folder


def reading(slice_us):
    return {"messages": 700_000 // slice_us, "elapsed_ns": 1_000_000_000}


def answered(words, capsys):
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    given = parser.parse_args(["tune", "--policy", "scx_flash", "--class", "office+archive", *words])
    code = given.run(given)
    return code, capsys.readouterr()


def test_what_is_confirmed_is_written_as_a_policy(tmp_path, booted, capsys):
    words = ["--method", "golden", "--trials", "5", "--rounds", "2", "--out", str(tmp_path), "--others", "web+disk"]
    code, said = answered([*words, "--json"], capsys)
    assert code == 0
    told = json.loads(said.out)
    assert told == json.loads((tmp_path / outcome.FILE).read_bytes())
    kept = outcome.read(tmp_path / outcome.FILE)
    assert kept.race.verdict == "better"
    assert kept.race.elsewhere_pct["web+disk"] > 0.0
    assert kept.gains_pct[kept.best_after - 1] == kept.gain_pct
    assert not kept.elsewhere  # the same machine
    entries = manifest.read(paths.manifest()).schedulers
    (policy,) = policies.read(tmp_path / "policies", entries).values()
    assert policy.id == kept.policy == "scx_flash:tuned_office_archive"
    assert policy.provenance.trials == kept.trials == 5
    assert {guest.orders.seed for guest in booted} == {1, *policy.provenance.seeds}
    count = len(booted)
    code, said = answered(words, capsys)
    assert (code, len(booted)) == (0, count)
    assert "wrote" in said.out


def test_a_screenings_winner_is_confirmed_on_another_machine(tmp_path, booted, capsys):
    words = ["--method", "screen", "--flag=--slice-us", "--flag=--rr-sched", "--rounds", "2", "--out", str(tmp_path)]
    code, said = answered([*words, "--confirm-machine", "vm122"], capsys)
    assert code == 0
    assert "matters" in said.out
    kept = outcome.read(tmp_path / outcome.FILE)
    assert kept.elsewhere
    assert kept.arguments[0] == "--slice-us=376"
    assert (len(kept.gains_pct), kept.trials, kept.effects[0].flag) == (12, 4, "--slice-us")  # four differ
    (policy,) = policies.read(tmp_path / "policies", manifest.read(paths.manifest()).schedulers).values()
    assert (policy.provenance.method, policy.provenance.machine) == ("screen", "vm122")


def test_where_it_cannot_be_better_nothing_is_written(tmp_path, booted, capsys, monkeypatch):
    monkeypatch.setattr(FakeGuest, "poll", _alike)
    words = ["--method", "tpe", "--trials", "4", "--rounds", "2", "--out", str(tmp_path), "--flag=--slice-us"]
    code, said = answered(words, capsys)
    assert code == command.EXIT_UNCONFIRMED
    assert "no policy was written" in said.out
    assert not (tmp_path / "policies").exists()
    assert booted[-1].orders.seed == 10  # of nine fresh seeds the last


def _alike(guest):
    made = run(guest.orders.schedulers, guest.orders.rounds, guest.orders.seed)
    runner_folder.write(guest.out / RUN, msgspec.structs.replace(made, orders=guest.orders, host_cpu_s=0.0))
    return GuestResult(exit_code=0, boot_s=1.0, run_s=1.0, console=guest.out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--policy", "eevdf", "--method", "pso"], "--policy eevdf: is not a scheduler alone"),
        (["--policy", "scx_lavd:performance", "--method", "pso"], "name one such as scx_bpfland"),
        (["--method", "pso", "--jobs", "2", "--cluster", "tcp://head:8786"], "--jobs: is of guests here"),
        (["--method", "golden", "--flag=--slice-us"], "golden section has one flag of its own"),
        (["--method", "tpe", "--coefficients", "0.5,1,2"], "--coefficients: are the particle swarm's alone"),
        (["--method", "pso", "--class", "messages", "--objective", "energy"], "--objective energy: is of pairs alone"),
        (["--method", "pso", "--class", "all"], "name one such as office\\+archive"),
        (["--method", "pso", "--flag=--nothing"], "--nothing is no number that may be set"),
    ],
)
def test_what_cannot_be_tuned_is_one_line(words, says, tmp_path, booted, capsys):
    with pytest.raises(AsaError, match=says):
        answered([*words, "--out", str(tmp_path)], capsys)
    assert booted == []
