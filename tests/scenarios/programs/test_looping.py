# SPDX-License-Identifier: GPL-2.0-only
"""The driver of programs that end: passes, pauses, failures, and what the seed draws for all of them."""

import importlib
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from playing import no_orphans
from waiting import until

from scenarios.application import ApplicationError, Failure, Place, Tier
from scenarios.driving import Driver
from scenarios.programs import looping
from scenarios.session import Session

ROOT = Path(__file__).resolve().parents[3]
PLACE = Place(cache=Path("/nowhere"), cpus=4, tier=Tier.REAL)
TOYS = """
import sys
from asa.core.kinds import Kind
from scenarios.programs.looping import program

ENDLESS = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"

def make(driver):
    (driver.scratch / "made").write_text("x")

def toy(name, *steps):
    return program(
        __name__, name=name, kind=Kind.COMPRESS, packages=("dash",), programs=("sh",), version=("-c", "echo sh 1.2.3"),
        draw=lambda rng, place: {"rest": 0.0}, steps=lambda driver: steps, make=make,
    )

PROGRAMS = (
    toy("works", ("sh", "-c", "sleep 0.1; echo one"), ("sh", "-c", "cat made >> out")),
    toy("fails", ("sh", "-c", "sleep 0.5; echo out of paper >&2; exit 3")),
    toy("never", (sys.executable, "-c", ENDLESS)),
)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts one of the toys by its name; no process and no file is left at the end."""
    (tmp_path / "toy_programs.py").write_text(TOYS)
    monkeypatch.syspath_prepend(str(tmp_path))
    toys = importlib.import_module("toy_programs")
    path = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}

    def started(name):
        application = replace(looping.find(toys.__name__, name), environment=lambda place: path)
        return Session.start(application, seed=1, place=PLACE, folder=tmp_path / "scratch")

    with no_orphans():
        yield started
    monkeypatch.delitem(sys.modules, "toy_programs")
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.apps
def test_each_time_the_work_is_done_is_a_pass(start):
    with start("works") as session:
        session.await_ready()
        assert session.versions == {"sh": "1.2.3"}
        said = []

        def enough():
            session.check()
            said.extend(one.value for one in session.measurements())
            return len(said) >= 3

        until(enough, "three passes")
        assert said[:3] == [1, 2, 3]


@pytest.mark.apps
def test_a_failed_command_ends_the_driver_with_its_words(start):
    with start("fails") as session:
        session.await_ready()
        with pytest.raises(ApplicationError) as caught:
            until(lambda: session.check() or False, "ended")
    assert caught.value.failure is Failure.CRASHED
    assert "ended with code 3" in str(caught.value)
    assert "out of paper" in str(caught.value)


@pytest.mark.apps
def test_what_does_not_end_by_itself_is_ended_with_its_children(start):
    with start("never") as session:
        session.await_ready()
        until(lambda: len(session.members()) >= 3, "a child of its child")


def _driver(tmp_path, **given):
    orders = {"parameters": given, "scratch": str(tmp_path), "cache": str(tmp_path), "seed": "x 1", "cpus": 4}
    return Driver(json.loads(json.dumps(orders)))


def test_pauses_are_as_long_as_the_parameter_says_and_never_longer_than_three_seconds(tmp_path, monkeypatch, capfd):
    driver = _driver(tmp_path, rest=2.0)
    clock, pauses = iter([0.0, 1.0, 1.0, 9.0]), []
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr(driver, "pause", pauses.append)
    done = []

    def work():
        done.append(1)
        driver._ending = len(done) == 2

    looping.play(driver, work)
    assert pauses == [2.0, 3.0]
    assert [json.loads(line)["value"] for line in capfd.readouterr().out.splitlines()] == [1, 2]


def test_degrees_differ_in_threads_and_pauses():
    drawn = [looping.draw_degree(random.Random(seed), PLACE) for seed in range(300)]  # noqa: S311
    of = {degree: [one for one in drawn if one["degree"] == degree] for degree in looping.Degree}
    assert {one["threads"] for one in of["light"]} == {1}
    assert {one["threads"] for one in of["half"]} == {1, 2, 3, 4}
    assert {one["threads"] for one in of["full"]} == {4, 5, 6, 7, 8}
    assert {one["rest"] for one in of["full"]} == {0.0}
    assert max(one["rest"] for one in of["half"]) < min(one["rest"] for one in of["light"])
