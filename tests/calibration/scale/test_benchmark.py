# SPDX-License-Identifier: GPL-2.0-only
"""Figures of the scale benchmark come out of hand-made turns as by hand; its texts are what their formats want."""

import argparse
import hashlib
import json
import math
import re
from contextlib import contextmanager
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from scipy import stats

from asa import paths
from asa.act.portfolio import Portfolio
from asa.cli.lab.bench import scale as bench_scale
from asa.core.errors import AsaError
from calibration.goals import Host
from calibration.scale import benchmark as scale
from calibration.scale import guest as scale_guest
from calibration.scale.benchmark import Options, Result, usable
from calibration.scale.figures import better, differs, figures, mean
from calibration.scale.guest import Plan
from calibration.scale.plot import picture
from calibration.scale.report import as_json, cells, document, failures_as_json, kept_before, prometheus, warnings
from calibration.scale.samples import METRICS, USUAL, Found, Mode, Turn, read, write
from scenarios.conditions import Conditions
from scenarios.lab import machines

MS = 1_000_000
BEFORE = {("asa_scale_wakeup_p99_seconds", "scx_a", 2): 0.007}
MACHINE = Host(cpu="a cpu", cpus=2, kernel="6.1", version="0.1.0", command="asa lab bench scale")


def turn(scheduler, number, wakeup_ms, jobs=200, missed=0):
    late = {"samples": 500, "p50_ns": MS, "p99_ns": round(wakeup_ms * MS), "worst_ns": 90 * MS}
    late |= {"late_p50_ns": 3 * MS, "late_p99_ns": 4 * MS, "wakeup_p99_ns": 5 * MS}
    readings = dict.fromkeys(USUAL, late)
    readings |= {
        Mode.THROUGHPUT: {"jobs": jobs, "elapsed_ns": 2_000 * MS},
        Mode.DEADLINES: {"periods": 240, "missed": missed, "jittered": 2 * missed},
        Mode.MESSAGING: {"messages": 5_000, "elapsed_ns": 500 * MS},
        Mode.REQUESTS: late | {"served": 300, "elapsed_ns": 500 * MS},
    }
    return Turn(scheduler=scheduler, round=number, readings=readings)


def found(cpus=4, **changes):
    whole = {
        "kernel": "6.18",
        "cpus": cpus,
        "under": Conditions(clock="parallel", tick_hz=1000, machine=f"alike-{cpus}"),
        "program": "a hash",
        "seconds": 1.0,
        "versions": {"eevdf": "6.18", "scx_a": "1.0"},
        "turns": (
            *(turn("scx_a", number, late, missed=24) for number, late in enumerate((1.0, 2.0, 3.0), 1)),
            *(turn("eevdf", number, late) for number, late in enumerate((19.0, 20.0, 21.0), 1)),
        ),
        "troubles": (),
    }
    return Found(**(whole | changes))


def result(*guests, troubles=()):
    options = Options(repeats=3, machines=())
    return Result(began_s=0.0, options=options, emulator="QEMU 10.0", found=list(guests), troubles=list(troubles))


def by_name(made):
    return {(figure.metric.name, figure.cpus, figure.scheduler): figure for figure in made}


def test_figures_are_what_a_hand_makes_of_the_turns():
    made = by_name(figures([found()]))
    assert len(made) == 2 * len(METRICS)
    late = made["wakeup_p99", 4, "scx_a"]
    assert late.value == pytest.approx(0.002)
    assert late.error == pytest.approx(4.30265 * 0.001 / math.sqrt(3))
    assert late.turns == 3
    assert made["throughput", 4, "scx_a"].value == pytest.approx(100.0)
    assert made["deadlines_missed", 4, "scx_a"].value == pytest.approx(0.1)
    assert made["deadlines_missed", 4, "eevdf"].value == 0.0
    assert made["late_p99", 4, "scx_a"].value == pytest.approx(0.004)
    assert made["messages", 4, "scx_a"].value == pytest.approx(10_000.0)
    assert made["requests", 4, "scx_a"].value == pytest.approx(600.0)
    assert made["request_wakeup_p99", 4, "scx_a"].value == pytest.approx(0.005)


def test_the_interval_is_students():
    assert mean([]) == (None, None)
    assert mean([5.0]) == (5.0, None)
    for many in ([1.0, 2.0], [float(number % 2) for number in range(200)]):
        low, high = stats.t.interval(0.95, len(many) - 1, loc=sum(many) / len(many), scale=stats.sem(many))
        assert mean(many) == (pytest.approx((low + high) / 2), pytest.approx((high - low) / 2))


def test_what_was_not_measured_is_unknown():
    made = by_name(figures([found(turns=(turn("eevdf", 1, 5.0),))]))
    assert made["wakeup_p99", 4, "scx_a"].value is None
    assert (made["wakeup_p99", 4, "eevdf"].value, made["wakeup_p99", 4, "eevdf"].error) == (0.005, None)
    assert json.loads(as_json(made["wakeup_p99", 4, "scx_a"]))["value"] is None
    assert cells(made["wakeup_p99", 4, "scx_a"])[3:] == ("unknown", "")
    empty = Turn(scheduler="eevdf", round=1, readings={Mode.PIPE: {"samples": 0}, Mode.DEADLINES: {"periods": 0}})
    assert all(figure.value is None for figure in figures([found(turns=(empty,))]))


def test_schedulers_differ_when_their_intervals_lie_apart_and_the_metric_says_who_is_better():
    made = by_name(figures([found()]))
    ours, own = made["wakeup_p99", 4, "scx_a"], made["wakeup_p99", 4, "eevdf"]
    assert differs(ours, own)
    assert better(ours, own)
    assert not better(own, ours)
    assert not differs(ours, ours)
    faster = by_name(figures([found(turns=(turn("scx_a", 1, 1.0, jobs=300), turn("eevdf", 1, 1.0)))]))
    assert better(faster["throughput", 4, "scx_a"], faster["throughput", 4, "eevdf"])
    assert not differs(faster["throughput", 4, "scx_a"], faster["throughput", 4, "eevdf"])  # one turn each


def test_the_document_has_each_metric_and_marks_what_differs():
    text = document(result(found(2), found(4)), MACHINE, image="x.svg", gauges="x.prom", before=BEFORE)
    assert all(f"## {metric.name}, {metric.unit}" in text for metric in METRICS)
    assert "| scx_a | **2.00 ± 2.48** | **2.00 ± 2.48** |" in text
    assert "| scx_a | _10.0 ± 0.0_ | _10.0 ± 0.0_ |" in text
    assert "| eevdf | 20.0 ± 2.5 | 20.0 ± 2.5 |" in text
    assert "![Each metric in each guest](x.svg)" in text
    assert "[x.prom](x.prom)" in text
    assert "Doubtful" not in text
    assert "Before:\n\n| scheduler | 2 CPUs |\n|---|---:|\n| scx_a | 7.00 |\n" in text.partition("## late_p99, ms")[2]
    assert text.count("Before:\n") == 1
    troubled = result(found(2, turns=(), troubles=("round 1: scx_a: it fell",)))
    assert warnings(troubled) == ["2 CPUs: round 1: scx_a: it fell"]
    assert warnings(result(found(2), troubles=("8 CPUs: no boot",))) == ["8 CPUs: no boot"]
    text = document(troubled, MACHINE, image="x.svg", gauges="x.prom", before=BEFORE)
    assert "**Doubtful**: 2 CPUs: round 1: scx_a: it fell." in text
    assert "| scx_a | unknown |" in text


def test_json_lines_have_names_of_their_own_and_units():
    lines = [json.loads(as_json(figure)) for figure in figures([found(2), found(4)])]
    assert len({line["name"] for line in lines}) == len(lines)
    line = next(line for line in lines if line["name"] == "scale_wakeup_p99_ms_scx_a_4_cpus")
    assert (line["value"], line["unit"], line["goal"], line["ok"], line["error"]) == (2.0, "ms", None, None, 2.484138)
    failed = [json.loads(failures_as_json(result(found(troubles=troubles)))) for troubles in ((), ("x",))]
    assert [(line["value"], line["ok"]) for line in failed] == [(0, True), (1, False)]


_NAME, _LABEL = r"[a-zA-Z_:][a-zA-Z0-9_:]*", r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
_SAMPLE = re.compile(rf"({_NAME})\{{({_LABEL}(?:,{_LABEL})*)\}} (\S+)")


def exposition(text):
    """Prometheus' text format, strictly: HELP, TYPE, then all samples of that name. Gives {name: {labels: value}}."""
    assert text.endswith("\n")
    families, lines = {}, iter(text.splitlines())
    name = None
    for line in lines:
        if line.startswith("#"):
            name, words = re.fullmatch(rf"# HELP ({_NAME}) (.+)", line).groups()
            assert words.strip() == words
            assert next(lines) == f"# TYPE {name} gauge"
            assert name not in families
            families[name] = {}
            continue
        sample, labels, value = _SAMPLE.fullmatch(line).groups()
        key = tuple(sorted(re.findall(_LABEL, labels)))
        assert sample == name
        assert key not in families[name]
        families[name][key] = float(value)
    assert all(families.values())
    return families


def labels(cpus, scheduler):
    return (f'cpus="{cpus}"', f'guest="{cpus} CPUs"', f'scheduler="{scheduler}"')


def test_the_gauges_are_prometheus_text_in_base_units():
    families = exposition(prometheus(figures([found(2), found(4)])))
    assert len(families) == 2 * len(METRICS)
    assert families["asa_scale_wakeup_p99_seconds"][labels(4, "scx_a")] == pytest.approx(0.002)
    assert families["asa_scale_wakeup_p99_error_seconds"][
        'cpus="4"', 'guest="4 CPUs"', 'scheduler="scx_a"'
    ] == pytest.approx(0.00248414)
    assert families["asa_scale_throughput_jobs_per_second"][labels(2, "eevdf")] == 100.0
    assert families["asa_scale_deadlines_missed_ratio"][
        'cpus="2"', 'guest="2 CPUs"', 'scheduler="scx_a"'
    ] == pytest.approx(0.1)
    one = exposition(prometheus(figures([found(turns=(turn("eevdf", 1, 5.0),))])))
    assert not [name for name in one if "_error_" in name]  # of one turn there is none
    assert prometheus(figures([found(turns=())])) == ""


def test_the_picture_has_a_dot_for_each_figure():
    made = figures([found(2), found(4)])
    root = ElementTree.fromstring(picture(made))  # noqa: S314  # ours
    dots = root.findall(".//{*}g/{*}circle")
    assert len(dots) == len(made)
    titles = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {f"{metric.name}, {metric.unit}" for metric in METRICS} <= titles
    assert {"eevdf", "scx_a", "2 CPUs", "4 CPUs"} <= titles
    width, height = map(float, root.get("viewBox").split()[2:])
    assert all(0 < float(dot.get("cx")) < width and 0 < float(dot.get("cy")) < height for dot in dots)
    ElementTree.fromstring(picture(figures([found(turns=())])))  # noqa: S314


def test_records_survive_their_file(tmp_path):
    path = tmp_path / "found.json"
    write(found(), path)
    assert read(path) == found()
    path.write_text('{"kernel": 1}')
    with pytest.raises(AsaError, match=r"found\.json: no samples of the scale benchmark: Expected `str`"):
        read(path)


def test_a_guest_is_named_by_what_it_is():
    assert found(8).label == "8 CPUs"
    assert found(8, under=Conditions(clock="parallel", tick_hz=250, machine="alike-8")).label == "8 CPUs, 250 Hz"
    hybrid = found(8, under=Conditions(clock="parallel", tick_hz=1000, machine="laptop-hybrid"))
    assert (hybrid.label, hybrid.alike) == ("laptop-hybrid", False)
    line = json.loads(as_json(figures([hybrid])[0]))
    assert (line["name"], line["guest"]) == ("scale_throughput_jobs_per_s_eevdf_laptop_hybrid", "laptop-hybrid")


def test_the_page_does_not_mix_clocks():
    serial = found(2, under=Conditions())
    with pytest.raises(AsaError, match="was measured under clock parallel"):
        document(result(serial, found(4)), MACHINE, image="x.svg", gauges="x.prom", before={})


def test_kept_gauges_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "old.prom"
    path.write_text('# HELP a B.\nasa_scale_wakeup_p99_seconds{scheduler="scx_a",cpus="2"} 0.007\n')
    assert kept_before(path) == BEFORE
    with pytest.raises(AsaError, match="no gauges of an earlier run"):
        kept_before(tmp_path / "none.prom")


class Played:
    """A guest that has ended at once; it left a record, or nothing."""

    def __init__(self, command, out, record, code):
        self._code = code
        if record is not None:
            write(record, out / "turns.json")
        self.command = command

    def poll(self):
        return SimpleNamespace(exit_code=self._code)

    def output(self):
        return (["round 1 of 1: eevdf"], ["its last word"])

    def stop(self):
        pass


@pytest.fixture
def lab(monkeypatch):
    """Guests of 4 CPUs fail; gives the machines that were started."""
    started = []

    def booter(_lab, machine):
        def boot(command, out, _limit_s):
            started.append((machine.name, machine.tick_hz))
            fails = machine.cpus == 4
            return Played(command, out, None if fails else found(machine.cpus), 1 if fails else 0)

        return boot

    emulator = SimpleNamespace(version=(10, 0))
    monkeypatch.setattr(scale.guests, "ready", lambda *_: SimpleNamespace(emulator=emulator, kernel=None))
    monkeypatch.setattr(scale.guests, "booter", booter)
    monkeypatch.setattr(scale, "build", lambda folder: folder / "scale")
    return started


def test_a_guest_that_gives_nothing_costs_the_others_nothing(tmp_path, lab):
    places = paths.Places(cache=tmp_path, state=tmp_path)
    options = Options(machines=tuple(machines.alike(cpus) for cpus in (2, 4, 8)), at_once=2)
    made = scale.measure(options, places, lambda *_: None)
    assert [one.cpus for one in made.found] == [2, 8]
    (trouble,) = made.troubles
    assert trouble.startswith("alike-4, 1000 Hz: the guest's part ended with code 1: 'its last word'")
    assert lab == [("alike-8", 1000), ("alike-4", 1000), ("alike-2", 1000)]
    scale.forget(options, places)
    assert not (tmp_path / "bench-scale").exists()
    with pytest.raises(AsaError, match="its last word"):
        scale.measure(Options(machines=(machines.alike(4),)), places, lambda *_: None)


def test_a_guest_that_has_recorded_all_is_not_booted_again(tmp_path, lab, monkeypatch):
    monkeypatch.setattr(scale, "usable", lambda *_: ("eevdf", "scx_a"))
    monkeypatch.setattr(scale, "build", lambda folder: paths.manifest())
    program = hashlib.sha256(paths.manifest().read_bytes()).hexdigest()
    machine = machines.alike(8)
    options = Options(machines=(machine,), repeats=3, plays=1, seconds=1.0)
    folder = tmp_path / "bench-scale/alike-8-1000"
    folder.mkdir(parents=True)
    places = paths.Places(cache=tmp_path, state=tmp_path)
    write(found(8, program=program, under=scale.guests.conditions(machine)), folder / "turns.json")
    scale.measure(options, places, lambda *_: None)
    assert not lab
    write(found(8, program=program, under=Conditions()), folder / "turns.json")
    scale.measure(options, places, lambda *_: None)
    assert len(lab) == 1


def test_a_page_is_made_of_kept_records(tmp_path, capsys):
    write(found(4), tmp_path / "alike-4-1000.json")
    write(found(2), tmp_path / "alike-2-1000.json")
    parser = argparse.ArgumentParser()
    bench_scale.register(parser.add_subparsers())
    out = tmp_path / "scale.md"
    arguments = parser.parse_args(["scale", "--from", str(tmp_path), "--out", str(out), "--json"])
    assert arguments.run(arguments) == 0
    assert "| scheduler | 2 CPUs | 4 CPUs |" in out.read_text()
    assert "scale_wakeup_p99_ms_scx_a_4_cpus" in capsys.readouterr().out
    write(found(8, seconds=2.0), tmp_path / "alike-8-1000.json")
    with pytest.raises(AsaError, match="8 CPUs and 2 CPUs were not measured alike"):
        arguments.run(arguments)


def test_the_whole_run_has_all_guests_and_fewer_at_the_second_tick():
    names = [(one.name, one.tick_hz) for one in scale.planned()]
    assert names[:6] == [*((f"alike-{cpus}", 1000) for cpus in (2, 4, 8, 12, 16)), ("laptop-hybrid", 1000)]
    assert names[6:] == [(f"alike-{cpus}", 250) for cpus in (2, 4, 8)]


class NoForcing:
    """Every scheduler comes into force, but those of `bad`."""

    def __init__(self, bad=()):
        self.bad = set(bad)
        self.held = []

    def version(self, scheduler):
        return "1.0"

    @contextmanager
    def hold(self, scheduler):
        self.held.append(str(scheduler))
        if scheduler in self.bad:
            raise AsaError("it fell")
        yield lambda: None


def test_an_interrupted_guest_goes_on_with_what_is_missing(tmp_path, monkeypatch):
    program = tmp_path / "scale"
    program.write_bytes(b"x")
    monkeypatch.setattr(scale_guest, "mode_run", lambda *_: {})
    monkeypatch.setattr(scale_guest, "_CALM_S", 0.0)
    plan = Plan(schedulers=("eevdf", "scx_a"), repeats=2, plays=3, seconds=0.1)
    kept = []
    first = NoForcing(bad=("scx_a",))
    begun = scale_guest.measure(first, program, plan, None, kept.append)
    assert [(one.scheduler, one.round, one.play) for one in begun.turns] == [
        ("eevdf", number, play) for number in (1, 2) for play in (1, 2, 3)
    ]
    assert len(begun.troubles) == 2
    assert len(kept) == len(first.held) == 4
    again = NoForcing()
    whole = scale_guest.measure(again, program, plan, begun, kept.append)
    assert again.held == ["scx_a", "scx_a"]
    assert len(whole.turns) == 12
    assert not whole.troubles
    program.write_bytes(b"another program")
    anew = NoForcing()
    scale_guest.measure(anew, program, plan, whole, kept.append)
    assert len(anew.held) == 4


def test_schedulers_are_checked_before_a_guest_boots(tmp_path):
    portfolio = Portfolio.load(paths.manifest(), tmp_path)
    assert usable(portfolio, ()) == ("eevdf",)
    assert usable(portfolio, ("eevdf",)) == ("eevdf",)
    with pytest.raises(AsaError, match="scx_none: not in the manifest"):
        usable(portfolio, ("eevdf", "scx_none"))
    with pytest.raises(AsaError, match="scx_flash: not installed"):
        usable(portfolio, ("scx_flash",))
    with pytest.raises(AsaError, match="named twice: eevdf, eevdf"):
        usable(portfolio, ("eevdf", "eevdf"))


def test_modes_play_where_cores_differ(tmp_path, monkeypatch):
    portfolio = Portfolio.load(paths.manifest(), tmp_path)
    monkeypatch.setattr(scale, "usable", lambda _, wanted: wanted or ("eevdf", "scx_bpfland"))
    hybrid, alike = machines.load("laptop-hybrid"), machines.alike(8)
    assert scale.playing(portfolio, (), alike) == ("eevdf", "scx_bpfland")
    both = ("scx_bpfland", "scx_bpfland:performance", "scx_bpfland:powersave")
    assert scale.playing(portfolio, (), hybrid) == ("eevdf", *both)
    assert scale.playing(portfolio, ("scx_bpfland",), hybrid) == ("scx_bpfland",)


@pytest.mark.parametrize(
    "words",
    [
        ("--cpus", "2,2"),
        ("--cpus", "65"),
        ("--cpus", "x"),
        ("--repeat", "0"),
        ("--seconds", "nan"),
        ("--seconds", "61"),
    ],
)
def test_the_command_refuses_what_cannot_be_run(words, capsys):
    parser = argparse.ArgumentParser()
    bench_scale.register(parser.add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["scale", *words])
    assert words[1] in capsys.readouterr().err
