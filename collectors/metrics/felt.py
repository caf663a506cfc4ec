# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of what a person sees, hears and waits for, and of the kernel's own complaints. Declared only."""

from dataclasses import dataclass

from collectors.metrics.kinds import Origin, Unit, counter

_FELT = Origin("felt", "")


@dataclass(frozen=True, kw_only=True)
class FeltRates:
    """What is felt."""

    flips_per_s: float | None = _FELT.metric(
        Unit.PER_S, "Pictures that came to the screens, one a refresh at most.", of=counter("flips")
    )
    frame_interval_mean_ms: float | None = _FELT.metric(
        Unit.MS,
        "From a picture to the next one while something is drawn, the mean.",
        inputs="drawn_ns flip_gaps",
    )
    frame_interval_p99_ms: float | None = _FELT.metric(
        Unit.MS,
        "From a picture to the next one while something is drawn, 99 % stay at or below; in whole refreshes.",
        inputs="drawn_ns drawn_refreshes flip_gaps",
    )
    frames_missed_share: float | None = _FELT.metric(
        Unit.SHARE,
        "Refreshes that showed an old picture though a new one was due by the usual interval, of all pictures due.",
        inputs="missed_frames flip_gaps",
    )
    input_to_flip_mean_ms: float | None = _FELT.metric(
        Unit.MS,
        "From a key or button pressed to the next picture on a screen, the mean; which key is not known.",
        inputs="input_flips input_flip_ns",
    )
    sound_underruns_per_s: float | None = _FELT.metric(
        Unit.PER_S,
        "Times that a sound card's buffer ran empty, or over while recording; unknown while no card is in use.",
        of=counter("sound_underruns"),
    )
    hung_tasks_per_s: float | None = _FELT.metric(
        Unit.PER_S, "Tasks of which the kernel says that they hang.", of=counter("hung_tasks")
    )
    rcu_stalls_per_s: float | None = _FELT.metric(
        Unit.PER_S, "Stalls of RCU that the kernel warns of.", of=counter("rcu_stalls")
    )
