# SPDX-License-Identifier: GPL-2.0-only
"""The driver of interactive programs: passes, programs that end, what people draw; and the desk that hands work at."""

import importlib
import os
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from playing import no_orphans, typed_into
from waiting import until

from scenarios.application import ApplicationError, Failure, Place, Tier
from scenarios.programs import staged
from scenarios.programs.desk import PROGRAMS, XDesk
from scenarios.session import Session

ROOT = Path(__file__).resolve().parents[3]
PLACE = Place(cache=Path("/nowhere"), cpus=2, tier=Tier.REAL)
TOYS = """
import sys
from asa.core.kinds import Kind
from scenarios.programs.staged import program

def toy(name, code, **more):
    def begin(stage):
        stage.start((sys.executable, "-c", code), **more)

    return program(
        __name__, name=name, kind=Kind.PLAY, packages=(), programs=("sh",), version=("-c", "echo sh 1.2"),
        draw=lambda rng, place: {}, begin=begin, act=lambda stage: stage.pause(0.1), screen=False,
    )

PROGRAMS = (
    toy("stays", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"),
    toy("fails", "import time; time.sleep(3); raise SystemExit('out of paper')"),
    toy("quits", "import pathlib; f = pathlib.Path('count'); f.open('a').write('x')", again=True),
)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    (tmp_path / "staged_toys.py").write_text(TOYS)
    monkeypatch.syspath_prepend(str(tmp_path))
    toys = importlib.import_module("staged_toys")
    path = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}

    def started(name):
        application = replace(staged.find(toys.__name__, name), environment=lambda place: path)
        return Session.start(application, seed=1, place=PLACE, folder=tmp_path / "scratch")

    with no_orphans():
        yield started
    monkeypatch.delitem(sys.modules, "staged_toys")
    assert list((tmp_path / "scratch").iterdir()) == []


def passes(session, count):
    said = []

    def enough():
        session.check()
        said.extend(one.value for one in session.measurements())
        return len(said) >= count

    until(enough, f"{count} passes")
    return said[:count]


@pytest.mark.apps
def test_each_act_is_a_pass_and_all_children_end(start):
    with start("stays") as session:
        session.await_ready()
        assert session.versions == {"sh": "1.2"}
        assert passes(session, 3) == [1, 2, 3]
        until(lambda: len(session.members()) >= 3, "a child of its child")


@pytest.mark.apps
def test_a_program_that_fails_ends_the_driver_with_its_words(start):
    with start("fails") as session:
        session.await_ready()
        with pytest.raises(ApplicationError) as caught:
            until(lambda: session.check() or False, "ended")
    assert caught.value.failure is Failure.CRASHED
    assert "ended with code 1: out of paper" in str(caught.value)


@pytest.mark.apps
def test_a_game_that_is_quit_is_played_again(start, tmp_path):
    with start("quits") as session:
        session.await_ready()

        def quit_thrice():
            session.check()
            return any(len(one.read_text()) >= 3 for one in (tmp_path / "scratch").glob("*/count"))

        until(quit_thrice, "three starts")


def test_who_does_less_is_slower_and_sees_less():
    drawn = [staged.draw_person(random.Random(seed)) for seed in range(300)]  # noqa: S311
    of = {degree: [one for one in drawn if one["degree"] == degree] for degree in ("light", "half", "full")}
    assert min(one["think_s"] for one in of["light"]) > min(one["think_s"] for one in of["full"])
    assert "640x360" in {one["size"] for one in of["light"]}
    assert "1920x1080" in {one["size"] for one in of["full"]} - {one["size"] for one in of["half"]}


@pytest.mark.apps
def test_hands_type_into_the_window_in_front_however_late_its_manager_comes(tmp_path, monkeypatch):
    if any(shutil.which(name) is None for name in (*PROGRAMS, "mousepad")):
        pytest.skip("Xvfb, openbox, xdotool or mousepad is not installed; `asa lab setup --bench` installs them")
    late = tmp_path / "bin/openbox"
    late.parent.mkdir()
    late.write_text(f'#!/bin/sh\nsleep 3\nexec {shutil.which("openbox")} "$@"\n')
    late.chmod(0o755)
    monkeypatch.setenv("PATH", f"{late.parent}:{os.environ['PATH']}")
    desk = XDesk(tmp_path, size="800x600", maximized=True)
    try:
        assert desk.title() == ""
        assert not desk.focus(0.1)
        with typed_into(desk, tmp_path):
            pass
    finally:
        desk.stop()
