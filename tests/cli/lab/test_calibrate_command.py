# SPDX-License-Identifier: GPL-2.0-only
"""`asa calibrate` and `asa adapt` with a machine that plays at once: what is written, what an interruption leaves."""

import argparse
import datetime
import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from stage_players import ToyPlayer

from asa import paths
from asa.cli.lab import adapt, calibrate, calibrate_setup
from asa.core.errors import AsaError
from asa.decide import fingerprint, table
from calibration.stages import adapted
from calibration.stages import play as stages_play
from calibration.stages import table as stages_table
from calibration.stages.play import InLab
from scenarios.lab.machines import load

SLOW = {"scx_simple": 0.8, "scx_flash": 1.3}
WORDS = ("--in-lab", "--scenario", "web+archive", "--scheduler", "scx_simple,scx_flash")


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs a command; `player` are the arguments of the toy that plays."""
    places = paths.Places(
        sys=tmp_path / "sys",
        run=tmp_path / "run",
        cache=tmp_path / "cache",
        state=tmp_path / "state",
        config=tmp_path / "no.yaml",
    )
    monkeypatch.setattr(paths, "default", lambda: places)
    monkeypatch.setattr(InLab, "check", lambda self, names: list(names))
    top = argparse.ArgumentParser()
    commands = top.add_subparsers()
    calibrate.register(commands)
    adapt.register(commands)

    def run(*words, **player):
        toys = []

        def play(self, folder, trials):
            if not toys:
                toys.append(ToyPlayer(SLOW, campaign=self.campaign, **player))
            toys[0].play(folder, trials)

        monkeypatch.setattr(InLab, "play", play)
        arguments = top.parse_args(words)
        return arguments.run(arguments)

    return run


def test_the_three_stages_one_after_the_other_make_one_table(command, tmp_path, capsys):
    out = tmp_path / "table.yaml"
    assert command("calibrate", "prototype", *WORDS, "--repeat", "2", "--out", str(out)) == 0
    assert "wrote" in capsys.readouterr().out
    first = table.read(out)
    assert first.classes["web+archive"][0].name == "scx_simple"
    assert first.measured.tier == "lab"
    assert first.machine.cpu_model == "Toy CPU"
    assert command("calibrate", "overhead", *WORDS, "--out", str(out), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["costs"]) == {"eevdf", "scx_simple", "scx_flash"}
    assert {one["scheduler"] for one in told["felt"]} == {"eevdf", "scx_simple", "scx_flash"}
    second = table.read(out)
    assert second.classes == first.classes
    assert command("calibrate", "generalize", *WORDS, "--trials", "30", "--out", str(out), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["trials"] <= 30
    third = table.read(out)
    assert third.costs == second.costs
    assert third.classes["web+archive"][0].name == "scx_simple"
    assert "runs before" in third.classes["web+archive"][0].why


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(
    ("machine", "kernel", "error"),
    [("vm120", "6.18.5", 0.01), ("vm120", "6.19.1", stages_table.TRANSFER), ("vm124", "6.18.5", stages_table.TRANSFER)],
)
def test_before_its_first_trial_a_guest_is_what_was_asked_for(tmp_path, monkeypatch, machine, kernel, error):
    """Else another machine's table were its own and nothing in it old, and such rankings were never tried again."""
    given = tmp_path / "vm120.yaml"
    scores = {"scx_simple": 0.9, "eevdf": 0.8}
    entries = [table.Entry(scheduler=name, why="x", score=score, error=0.01, runs=5) for name, score in scores.items()]
    measured = table.Measured(
        date=datetime.date(2026, 11, 26), command="x", tier="lab", seed=1, kernel="6.18.1", schedulers={}
    )
    first = load("vm120")
    there = fingerprint.machine("vm120", first.facts)
    file = table.TableFile(
        version=2, machine=there, measured=measured, provenance="x", classes={"web+archive": entries}
    )
    table.write(given, file)
    monkeypatch.setattr("scenarios.lab.kernel.found", lambda cache, tick_hz: SimpleNamespace(version=kernel))
    top = argparse.ArgumentParser()
    calibrate.register(top.add_subparsers())
    words = ("calibrate", "generalize", *WORDS, "--machine", machine, "--from", str(given))
    setup = calibrate_setup.prepare(top.parse_args(words), lambda *_: None)
    beliefs = stages_table.beliefs(["web+archive"], setup.prior, setup.schedulers)
    assert beliefs["web+archive"].gains["scx_simple"] == (pytest.approx(0.1), pytest.approx(error, rel=0.05))


STAGES = [*(("calibrate", stage) for stage in ("prototype", "overhead", "generalize")), ("adapt",)]


@pytest.mark.parametrize("words", STAGES)
@pytest.mark.parametrize("after", [0, 1, 4])
def test_an_interruption_leaves_the_old_table_byte_for_byte(command, tmp_path, capsys, words, after):
    out = tmp_path / "table.yaml"
    out.write_text("# by hand\nversion: 1\nmachine: {name: x}\nprovenance: x\nclasses: {}\n")
    before = out.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        command(*words, *WORDS, "--out", str(out), interrupt_after=after)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.glob("*table*")] == ["table.yaml"]
    assert "is as it was, the same command goes on" in capsys.readouterr().err
    assert command(*words, *WORDS, "--out", str(out)) == 0
    assert out.read_bytes() != before


def test_a_table_that_is_not_gone_on_from_is_kept(command, tmp_path, capsys):
    out, first = tmp_path / "table.yaml", tmp_path / "table.yaml.1"
    prototype = ("calibrate", "prototype", *WORDS, "--repeat", "2", "--out", str(out))
    assert command(*prototype) == 0
    assert command("calibrate", "overhead", *WORDS, "--out", str(out)) == 0  # which adds to it
    assert command("calibrate", "generalize", *WORDS, "--trials", "9", "--out", str(out)) == 0  # and so does this
    assert "is kept as" not in capsys.readouterr().out
    assert not first.exists()
    before = out.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        command(*prototype, "--seed", "5", interrupt_after=1)
    assert out.read_bytes() == before
    assert not first.exists()
    assert command(*prototype, "--seed", "5") == 0  # begins anew
    assert f"is kept as {first}" in capsys.readouterr().out.splitlines()[-1]
    assert first.read_bytes() == before != out.read_bytes()
    assert command(*prototype, "--seed", "5", "--json") == 0  # has ended already: the same table
    assert json.loads(capsys.readouterr().out)["kept"] is None
    assert command(*prototype, "--repeat", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["kept"] == str(tmp_path / "table.yaml.2")
    assert [path.name for path in sorted(tmp_path.glob("*table*"))] == ["table.yaml", "table.yaml.1", "table.yaml.2"]


@pytest.mark.parametrize("words", STAGES)
def test_a_table_of_another_machine_is_kept(command, tmp_path, words):
    out = tmp_path / "table.yaml"
    out.write_text("# by hand\nversion: 1\nmachine: {name: x}\nprovenance: x\nclasses: {}\n")
    before = out.read_bytes()
    assert command(*words, *WORDS, "--out", str(out)) == 0
    assert (tmp_path / "table.yaml.1").read_bytes() == before != out.read_bytes()


def test_where_nothing_could_be_scored_the_old_table_stays(command, tmp_path):
    out = tmp_path / "table.yaml"
    fails = {"fails": lambda trial: "no"}
    for words in (("calibrate", "prototype"), ("calibrate", "overhead"), ("adapt",)):
        with pytest.raises(AsaError, match="was not written"):
            command(*words, *WORDS, "--out", str(out), **fails)
    assert not out.exists()


def test_adapt_says_what_it_took_and_what_it_did_not_learn(command, tmp_path, capsys):
    words = ("--in-lab", "--scenario", "web,game", "--scheduler", "scx_simple,scx_flash", "--minutes", "3")
    assert command("adapt", *words, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert 0.0 < told["adapt_minutes"] <= 3.0
    assert told["unlearnt"]
    out = Path(told["table"])
    assert out == Path(told["folder"]) / "table.yaml"
    assert table.read(out).measured.kernel == "6.18.1"
    assert command("adapt", *words) == 0
    assert "adapt_minutes" in capsys.readouterr().out


def test_what_adapting_took_is_kept_beside_the_table_it_made(command, tmp_path, capsys):
    out = tmp_path / "vm122.yaml"
    assert command("adapt", *WORDS, "--minutes", "3", "--out", str(out), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert adapted.read(out, out.read_bytes()) == told["adapt_minutes"] > 0.0
    assert adapted.read(out, out.read_bytes() + b"# by hand\n") is None
    assert adapted.read(tmp_path / "other.yaml", b"") is None
    (tmp_path / "vm122.adapted.json").write_text("{}")
    with pytest.raises(AsaError, match=r"vm122.adapted.json: is not what `asa adapt` writes: .*; remove it"):
        adapted.read(out, out.read_bytes())
    assert command("calibrate", "generalize", *WORDS, "--trials", "9", "--out", str(tmp_path / "table.yaml")) == 0
    assert not (tmp_path / "table.adapted.json").exists()


def test_what_was_played_counts_once_however_often_the_command_is_given(command, tmp_path):
    out = tmp_path / "table.yaml"
    assert command("calibrate", "prototype", *WORDS, "--repeat", "2", "--out", str(out)) == 0
    assert command("adapt", *WORDS, "--minutes", "5", "--out", str(out)) == 0
    first = table.read(out)
    assert "with the 2 runs before these" in first.classes["web+archive"][0].why
    assert command("adapt", *WORDS, "--minutes", "5", "--out", str(out)) == 0
    assert table.read(out) == first


def test_what_another_stage_wrote_meanwhile_stays(command, tmp_path, monkeypatch):
    out = tmp_path / "table.yaml"
    assert command("calibrate", "prototype", *WORDS, "--repeat", "2", "--out", str(out)) == 0
    before = table.read(out)

    def meanwhile(trial):
        table.write(out, msgspec.structs.replace(before, costs={"scx_simple": table.Cost(switch_ms=1.5, runs=2)}))
        return ""

    assert command("adapt", *WORDS, "--minutes", "3", "--out", str(out), fails=meanwhile) == 0
    assert table.read(out).costs == {"scx_simple": table.Cost(switch_ms=1.5, runs=2)}


def test_a_table_is_of_the_day_when_it_was_played(command, tmp_path):
    out = tmp_path / "table.yaml"
    assert command("calibrate", "prototype", *WORDS, "--repeat", "2", "--out", str(out)) == 0
    assert table.read(out).measured.date == datetime.date(1970, 1, 1)  # the toy's clock begins there


def test_a_guest_may_be_a_machine_of_the_fleet(command, tmp_path, monkeypatch):
    played = []
    assert command("adapt", *WORDS, "--machine", "vm124", "--minutes", "3", "--json") == 0
    (found,) = (tmp_path / "state/calibration").rglob("table.yaml")
    assert table.read(found).machine.name.startswith("lab guest vm124, Toy CPU")
    monkeypatch.setattr(stages_play, "ready", lambda cache, report, machine: None)
    monkeypatch.setattr(stages_play, "booter", lambda lab, machine: played.append(machine))
    options = {"campaign": tmp_path, "options": None, "jobs": 1, "tell": lambda what, share: None}
    InLab(places=paths.default(), machine=load("vm124"), **options)._booter()
    assert played == [load("vm124")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("calibrate", "prototype", "--jobs", "2"), "--jobs is of guests, which only --in-lab has"),
        (("calibrate", "prototype", "--in-lab", "--cpus", "65"), "a guest has 1 to 64 CPUs, not 65"),
        (("adapt", "--machine", "vm122"), "--machine is of guests, which only --in-lab has"),
        (("adapt", "--in-lab", "--machine", "vm1"), "--machine: 'vm1' is not accepted; allowed: laptop-hybrid, "),
        (("adapt", "--in-lab", "--machine", "vm122", "--cpus", "4"), "leave out --cpus or --machine"),
        (("calibrate", "overhead", "--scenario", "S29"), "'S29' is not accepted"),
        (("adapt", "--out", "/proc/nowhere/table.yaml"), "name another place by --out"),
        (("adapt", "--in-lab", "--from", "/nowhere.yaml"), "/nowhere.yaml"),
        (("adapt", "--scheduler", "eevdf,scx_simple"), "no sched_ext, only eevdf can be in force; --in-lab has guests"),
        (("calibrate", "prototype", "--in-lab"), "`asa schedulers install` puts schedulers into"),
        (("calibrate", "prototype", "--scheduler", "eevdf"), "nothing to compare eevdf with; name another one"),
        (
            ("adapt", "--in-lab", "--scenario", "changing"),
            "web+kernel~audio+disk: changes while it is played",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line_before_anything_is_played(command, words, said, tmp_path):
    with pytest.raises(AsaError) as error:
        command(*words)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "state").rglob("trials"))


@pytest.mark.parametrize("words", [("--minutes", "31"), ("--minutes", "0"), ("--minutes", "nan"), ("--seconds", "0")])
def test_a_wrong_number_is_refused(command, words, capsys):
    with pytest.raises(SystemExit):
        command("adapt", *words)
    assert "error: argument" in capsys.readouterr().err


def test_two_budgets_are_one_too_many(command, capsys):
    with pytest.raises(SystemExit):
        command("calibrate", "generalize", "--trials", "3", "--minutes", "3")
    assert "not allowed with" in capsys.readouterr().err
