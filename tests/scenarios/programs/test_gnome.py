# SPDX-License-Identifier: GPL-2.0-only
"""A program of a kind in a real GNOME Shell: its window is in front, keys arrive, and the recording tells of them."""

import argparse
import functools
import os
import shutil

import pytest
from playing import no_orphans, typed_into
from waiting import until

from asa.cli.lab import record
from asa.core.errors import AsaError
from asa.core.mark import Phase
from asa.journal import Journal
from scenarios import scenario_recorder, sequence_recorder
from scenarios.interactive.game_screen import ScreenError
from scenarios.programs.gnome import DESKTOP, PROGRAMS, GnomeDesk, GnomeShell

pytestmark = pytest.mark.gnome


@pytest.fixture
def installed():
    needed = (*PROGRAMS, "mousepad")
    if any(shutil.which(name) is None for name in needed):
        pytest.skip(f"one of {', '.join(needed)} is not installed; `asa lab setup --tests --bench` installs them")


def asa(*words):
    parser = argparse.ArgumentParser()
    record.register(parser.add_subparsers())
    arguments = parser.parse_args(["record", *map(str, words)])
    return arguments.run(arguments)


@pytest.fixture
def desk(installed, tmp_path):
    with no_orphans():
        shell = GnomeShell(tmp_path / "shell")
        try:
            hands = GnomeDesk(shell.folder, size="640x480", maximized=False)
            yield hands
            hands.stop()
        finally:
            shell.stop()


def test_hands_type_into_the_window_in_front(desk, tmp_path):
    assert desk.title() == ""
    assert not desk.focus(0.1)
    desk.click(0.5, 0.5)  # at nothing
    with typed_into(desk, tmp_path), pytest.raises(ScreenError, match="'Hyper' is no key that is known here"):
        desk.key("Hyper")
    until(lambda: desk.title() == "", "nobody is in front")


def test_a_recording_tells_what_is_in_front_and_how_much_is_typed(installed, tmp_path, monkeypatch):
    limits = {"rest_s": 0.2, "most_busy_before": 1.0, "most_steal": 1.0, "noise_limit_pct": 1000.0}
    for module, name in ((sequence_recorder, "SequenceRecorder"), (scenario_recorder, "ScenarioRecorder")):
        monkeypatch.setattr(module, name, functools.partial(getattr(module, name), **limits))
    path = tmp_path / "r.journal"
    words = ("--scenario", "mousepad", "--desktop", "--sessions", 1, "--for", 8, "--ebpf", "off", "--journal", path)
    with no_orphans():
        assert asa(*words) == 0
    assert DESKTOP not in os.environ
    with Journal.open(path) as opened:
        (session,) = opened.sessions()
        running = [mark for mark in opened.marks(session.number) if mark.phase is Phase.RUNNING]
        samples = [one for one in opened.samples(session.number) if one.monotonic_ns > running[0].monotonic_ns]
    assert session.header.label == "write"
    assert set(session.header.programs) == {"mousepad", "gnome-shell"}
    seen = [one.desktop for one in samples[:8] if one.desktop is not None]
    assert len(seen) >= 6
    assert {one.source for one in seen} == {"gnome"}
    front = [one.window_class.lower() for one in seen]
    assert set(front) - {"mousepad"} <= {""}, front  # nothing is in front until the window is shown
    assert front.count("mousepad") >= 5, front
    assert seen[-1].input_events > seen[0].input_events
    assert all(one.focus.processes >= 1 for one in seen if one.window_class)


@pytest.mark.parametrize("words", [("--label", "idle"), ("--campaign",), ("--sequence", 1)])
def test_a_desktop_is_for_programs_with_windows(words, tmp_path):
    with pytest.raises(AsaError, match="--desktop is for programs with windows"):
        asa(*words, "--desktop", "--journal", tmp_path / "r.journal")


def test_without_a_gnome_shell_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AsaError, match=r"not on PATH: gnome-shell, .*`asa lab setup --tests` installs"):
        asa("--scenario", "mousepad", "--desktop", "--journal", tmp_path / "r.journal")
