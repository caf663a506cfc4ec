# SPDX-License-Identifier: GPL-2.0-only
"""What a person does that no trial may disturb: a call, a recording, a window in full screen, sound in real time. Pure.

With the lid closed and no other screen nobody looks, and nothing that a trial finds would be felt. Where nobody tells
of something (no desktop, no sound card), nothing is known of it and nothing is said.
"""

from asa.core.decision import Workload
from asa.core.kinds import Kind, halves
from asa.core.sample import HintState, RawSample
from collectors.rates import Rates

FIELDS = ("realtime_cpu_cores",)
"""Of Rates: those that `by` looks at."""
REALTIME_CORES = 0.05
"""A sound server's own thread uses less of a core; programs that make sound in real time use more. A first choice."""

SOON_MS = 6.0
"""Players ask PipeWire for 20 ms and more, games for 10; who plays an instrument asks for 256 frames at most (5.3 ms at
48 kHz). A first choice."""


def by(sample: RawSample, rates: Rates | None, workload: Workload | None) -> str:
    """What goes on, for people; "": nothing that is known."""
    hints, desktop = sample.hints, sample.desktop
    if workload is not None and halves(workload)[0] is Kind.CALL:
        return "a call is on"
    if desktop is not None and desktop.fullscreen:
        return "a window fills the screen"
    if hints is None:
        return ""
    cores = None if rates is None else rates.realtime_cpu_cores
    if hints.sound_played and (is_soon(hints) or (cores is not None and cores >= REALTIME_CORES)):
        return "sound is made in real time"
    seen = (
        (hints.sound_recorded, "a sound card records"),
        (hints.sound_xruns, "sound breaks up"),
        (hints.game_clients, "GameMode is on"),
        (hints.idle_inhibited, "the session is kept from being idle"),
        (hints.power_held, "a program holds the power profile"),
        (hints.lid_closed and hints.external_display is False, "the lid is closed"),
    )
    return next((words for value, words in seen if value), "")


def is_soon(hints: HintState) -> bool:
    """Is there a stream that asks for so short a latency as an instrument does?"""
    return hints.sound_latency_ms is not None and hints.sound_latency_ms <= SOON_MS
