# SPDX-License-Identifier: GPL-2.0-only
"""Pictures on the screen, while something is drawn, and what presses of keys and buttons wait for."""

from itertools import accumulate

from asa.core.sample import FeltCounters, HintState
from collectors.rates.arithmetic import Fields, growth
from collectors.rates.histogram import grown

FEWEST_FRAMES = 10
"""A tick with fewer does not know how many are missed: at 60 Hz something was drawn for a sixth of a second."""


def screens(fields: Fields, old: FeltCounters, new: FeltCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """Intervals between pictures, and how many were missed of those that were due."""
    gaps, missed = grown(old.flip_gaps, new.flip_gaps), growth(old.missed_frames, new.missed_frames)
    drawn_ns, refreshes = growth(old.drawn_ns, new.drawn_ns), growth(old.drawn_refreshes, new.drawn_refreshes)
    frames = 0 if gaps is None else sum(gaps)
    if gaps is None or frames < FEWEST_FRAMES:
        return
    if missed is not None:
        fields["frames_missed_share"] = missed / (frames + missed)
    if drawn_ns is not None:
        fields["frame_interval_mean_ms"] = drawn_ns / frames / 1e6
        if refreshes:
            most = next(gap for gap, below in enumerate(accumulate(gaps), start=1) if below >= 0.99 * frames)
            fields["frame_interval_p99_ms"] = most * drawn_ns / refreshes / 1e6


def inputs(fields: Fields, old: FeltCounters, new: FeltCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """From a press to the next picture."""
    presses, waited_ns = growth(old.input_flips, new.input_flips), growth(old.input_flip_ns, new.input_flip_ns)
    if presses and waited_ns is not None:
        fields["input_to_flip_mean_ms"] = waited_ns / presses / 1e6


def silence(fields: Fields, hints: HintState | None) -> None:
    """No underrun while no sound card is in use says nothing."""
    if hints is not None and not hints.sound_played and not hints.sound_recorded and not fields[_UNDERRUNS]:
        fields[_UNDERRUNS] = None


_UNDERRUNS = "sound_underruns_per_s"
