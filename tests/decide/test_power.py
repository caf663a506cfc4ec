# SPDX-License-Identifier: GPL-2.0-only
"""When energy is to be saved, by firmware, CPUs, and what was chosen in the desktop."""

import pytest

from asa.core.sample import HintState, RawSample
from asa.decide.power import saver_in


def sample(saver, chosen):
    unknown = dict.fromkeys(("playing", "game_clients", "idle_inhibited", "sound_played", "sound_recorded"))
    hints = HintState(front="", entries=(), power_profile=chosen, **unknown)
    return RawSample(monotonic_ns=0, wall_ns=0, battery_saver=saver, hints=hints)


@pytest.mark.parametrize(
    ("saver", "chosen", "saves"),
    [
        (None, None, None),
        (True, None, True),
        (False, None, False),
        (None, "power-saver", True),  # neither a platform profile nor a preference of the CPUs carries it out
        (None, "balanced", False),
        (False, "power-saver", True),
        (False, "performance", False),
        (True, "balanced", True),  # the firmware's own key
    ],
)
def test_saving(saver, chosen, saves):
    assert saver_in(sample(saver, chosen)) is saves


def test_without_a_desktop_the_machine_alone_tells():
    assert saver_in(RawSample(monotonic_ns=0, wall_ns=0, battery_saver=True)) is True
    assert saver_in(RawSample(monotonic_ns=0, wall_ns=0)) is None
