# SPDX-License-Identifier: GPL-2.0-only
"""What no trial may disturb, by what the desktop tells."""

from dataclasses import fields

import pytest

from asa.core.decision import Workload
from asa.core.sample import DesktopState, HintState, RawSample
from asa.decide.disturbed import FIELDS, REALTIME_CORES, SOON_MS, by
from collectors.rates import Rates

NAMES = [one.name for one in fields(Rates)]
QUIET = {
    "front": "",
    "entries": (),
    "playing": (),
    "game_clients": 0,
    "idle_inhibited": False,
    "sound_played": False,
    "sound_recorded": False,
}


def sample(fullscreen=None, **hints):
    desktop = DesktopState(
        source="x11",
        app="",
        window_class="",
        title_class="",
        fullscreen=fullscreen,
        overview=None,
        idle_ms=None,
        input_events=None,
        focus=None,
    )
    return RawSample(monotonic_ns=0, wall_ns=0, desktop=desktop, hints=HintState(**(QUIET | hints)))


def rates(cores):
    return Rates(**(dict.fromkeys(NAMES) | {"realtime_cpu_cores": cores}))


@pytest.mark.parametrize(
    ("seen", "cores", "workload", "words"),
    [
        (sample(), 0.5, "browse", ""),
        (sample(fullscreen=False), None, None, ""),
        (sample(fullscreen=True), None, "play", "a window fills the screen"),
        (sample(), None, "call+compile", "a call is on"),
        (sample(sound_recorded=True), None, "browse", "a sound card records"),
        (sample(game_clients=1), None, "browse", "GameMode is on"),
        (sample(idle_inhibited=True), None, "browse", "the session is kept from being idle"),
        (sample(power_held=True), None, "play", "a program holds the power profile"),
        (sample(lid_closed=True, external_display=False), None, "render", "the lid is closed"),
        (sample(lid_closed=True, external_display=True), None, "render", ""),  # docked
        (sample(lid_closed=True, external_display=None), None, "render", ""),
        (sample(sound_played=True), REALTIME_CORES, "sound", "sound is made in real time"),
        (sample(sound_played=True), REALTIME_CORES / 2, "sound", ""),
        (sample(sound_played=True), None, "sound", ""),
        (sample(sound_played=True, sound_latency_ms=SOON_MS), None, "sound", "sound is made in real time"),
        (sample(sound_played=True, sound_latency_ms=2 * SOON_MS), None, "sound", ""),
        (sample(sound_played=False, sound_latency_ms=SOON_MS), None, "sound", ""),
        (sample(sound_played=True, sound_xruns=3), None, "sound", "sound breaks up"),
        (sample(sound_played=True, sound_xruns=0), None, "sound", ""),
        (RawSample(monotonic_ns=0, wall_ns=0), 0.5, "regime:many", ""),
        (sample(game_clients=None, idle_inhibited=None, sound_recorded=None), None, "browse", ""),
    ],
)
def test_what_is_seen_is_named(seen, cores, workload, words):
    assert by(seen, rates(cores), None if workload is None else Workload(workload)) == words


def test_its_fields_are_rates():
    assert set(FIELDS) <= set(NAMES)
