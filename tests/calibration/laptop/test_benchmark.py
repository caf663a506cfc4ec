# SPDX-License-Identifier: GPL-2.0-only
"""Figures of the laptop benchmark come out of hand-made records as by hand; the parts that run here do run."""

import argparse
import json
import os
import shutil

import pytest

from asa.cli.lab.bench import laptop as bench_laptop
from asa.core.errors import AsaError
from calibration.goals import Figure, Host
from calibration.laptop import benchmark as laptop
from calibration.laptop import guest as laptop_guest
from calibration.laptop import probes as laptop_probes
from calibration.laptop.benchmark import Options, Result, of_guest
from calibration.laptop.figures import LaptopFigure
from calibration.laptop.guest import Found, Fuzzed
from calibration.laptop.report import as_json, cells, document

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="loading eBPF programs needs root: sudo make test")
HERE = Fuzzed(calls=9_000, heard={"org.x.AccessDenied": 8_500, "answered": 500}, crashes=0, switches=0)
FUZZED = Fuzzed(calls=1_000, heard={"org.x.AccessDenied": 500, "answered": 500}, crashes=0, switches=0)
FOUND = Found(
    kernel="6.18",
    fuzzed=FUZZED,
    released_s=(0.25, 1.5),
    daemon_rss_bytes=51_500_000,
    helper_rss_bytes=29_000_000,
)
MACHINE = Host(cpu="a CPU", cpus=2, kernel="6.18", version="0.1", command="asa lab bench laptop")


def changed(**fields):
    return {**{name: getattr(FOUND, name) for name in Found.__struct_fields__}, **fields}


def guests(found=FOUND):
    return {figure.name: figure for figure in of_guest(found, HERE)}


def fuzzed(**fields):
    return Found(
        **changed(fuzzed=Fuzzed(**{name: getattr(FUZZED, name) for name in Fuzzed.__struct_fields__} | fields))
    )


def test_figures_are_what_a_hand_makes_of_the_records():
    made = guests()
    assert {name: figure.value for name, figure in made.items()} == {
        "fuzzed_calls": 10_000.0,
        "lease_release_s": 1.5,
        "daemon_rss_mb": 51.5,
        "helper_rss_mb": 29.0,
    }
    assert all(figure.ok for figure in made.values())
    assert (
        made[LaptopFigure.FUZZED].detail
        == "crashes=0, switches=0; 1000 with sched_ext; AccessDenied 9000, answered 1000"
    )


@pytest.mark.parametrize(
    "found",
    [fuzzed(crashes=1), fuzzed(switches=1), fuzzed(calls=999)],
    ids=["crash", "switch", "too few"],
)
def test_calls_count_only_when_nothing_came_of_them(found):
    assert guests(found)[LaptopFigure.FUZZED].ok is False


def test_goals_are_the_issues():
    bounds = {name: name.goal.bound for name in LaptopFigure if name.goal.bound is not None}
    assert bounds == {
        "lease_release_s": 5.0,
        "fuzzed_calls": 10_000.0,
        "helper_security_score": 3.5,
        "uninstall_leftover_files": 0.0,
        "daemon_rss_mb": 60.0,
        "helper_rss_mb": 30.0,
    }
    assert Figure(name=LaptopFigure.SCORE, value=3.5).ok
    assert not Figure(name=LaptopFigure.SCORE, value=3.6).ok
    assert Figure(name=LaptopFigure.LEFT, value=0.0).ok
    assert not Figure(name=LaptopFigure.LEFT, value=1.0).ok
    assert Figure(name=LaptopFigure.READ, value=1.0).ok is None


def test_a_figure_is_one_line_of_json_and_a_row():
    figure = Figure(name=LaptopFigure.RELEASE, value=0.123456, detail="once")
    assert json.loads(as_json(figure)) == {
        "name": "lease_release_s", "value": 0.1235, "unit": "s", "goal": 5.0, "at_least": False, "ok": True,
        "detail": "once",
    }  # fmt: skip
    assert cells(figure) == ("lease_release_s", "0.1235 s", "<= 5 s", "yes", "once")
    assert cells(Figure(name=LaptopFigure.FUZZED, value=10_000.0))[1:4] == ("10000 calls", ">= 10000 calls", "yes")
    unknown = Figure(name=LaptopFigure.READ, value=None, reason="no root")
    assert cells(unknown) == ("probe_read_us", "unknown", "", "", "no root")
    assert json.loads(as_json(unknown))["value"] is None


def test_the_document_holds_every_figure():
    figures = [*guests().values(), Figure(name=LaptopFigure.READ, value=40.0)]
    text = document(Result(began_s=0.0, figures=figures, emulator="QEMU 10, emulation", took_s=90.0), MACHINE)
    assert "- when: 1970-01-01 00:00 UTC, for 1.5 minutes" in text
    assert "| lease_release_s | 1.5 s | <= 5 s | yes |" in text
    assert text.count('"name": ') == len(figures)
    assert all(f"- `{name}`: " in text for name in LaptopFigure)


def test_a_part_that_fails_leaves_its_figures_unknown(tmp_path, monkeypatch):
    def fail(*_):
        raise AsaError("no machine today")

    monkeypatch.setattr(laptop, "_fuzzed_here", fail)
    monkeypatch.setattr(laptop, "_score", lambda: [Figure(name=LaptopFigure.SCORE, value=3.0)])
    told = []
    options = Options(only=frozenset({LaptopFigure.SCORE, LaptopFigure.RELEASE, LaptopFigure.FUZZED}))
    result = laptop.measure(options, tmp_path, tmp_path, lambda what, share: told.append(share))
    assert [(figure.name, figure.value, figure.reason) for figure in result.figures] == [
        ("lease_release_s", None, "no machine today"),
        ("fuzzed_calls", None, "no machine today"),
        ("helper_security_score", 3.0, ""),
    ]
    assert told == sorted(told)


def test_what_a_guest_wrote_is_read_and_rubbish_refused(tmp_path):
    from asa import wire

    path = tmp_path / "laptop.json"
    path.write_bytes(wire.json_bytes(FOUND))
    assert laptop_guest.read(path) == FOUND
    path.write_text("{}")
    with pytest.raises(AsaError, match="nothing of the laptop benchmark"):
        laptop_guest.read(path)


@pytest.mark.root
@needs_root
@pytest.mark.skipif(not shutil.which("dbus-daemon"), reason="needs dbus-daemon: asa lab setup --tests")
def test_the_three_ways_to_the_probes_are_measured():
    reads = laptop_probes.measure(5)
    for times in (reads.descriptor, reads.mapped, reads.bus):
        assert len(times) == 5
        assert min(times) > 0
    assert reads.bus_bytes > 1000
    assert laptop_probes.told((1.0, 2.0, 9.0)) == "1 to 9 in 3, middle 2.0"


def command(*words):
    parser = argparse.ArgumentParser()
    bench_laptop.register(parser.add_subparsers())
    return parser.parse_args(["laptop", *words])


@pytest.mark.root
@needs_root
def test_the_command_prints_what_it_measured_and_writes_the_document(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(laptop, "_score", lambda: [Figure(name=LaptopFigure.SCORE, value=3.1)])
    out = tmp_path / "laptop-figures.md"
    arguments = command("--only", "helper_security_score", "--json", "--out", str(out))
    assert bench_laptop.run(arguments) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["value"] == 3.1
    assert "`asa lab bench laptop --calls 10000 --only helper_security_score --out " in out.read_text()


def test_a_figure_that_is_none_is_refused_before_measuring(monkeypatch):
    with pytest.raises(AsaError, match=r"--only: .*nonsense.*; the figures are lease_release_s, "):
        bench_laptop.run(command("--only", "nonsense"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(AsaError, match="need root"):
        bench_laptop.run(command())
