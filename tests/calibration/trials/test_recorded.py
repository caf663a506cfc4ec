# SPDX-License-Identifier: GPL-2.0-only
"""The kept recordings as noise for trials."""

import numpy as np
import pytest

from asa.core.errors import ModelError
from asa.decide.signals import PLACES, SIGNALS, Signal
from asa.decide.trial_pairs import TESTED
from calibration.trials.play import PAIR
from calibration.trials.recorded import FEWEST, journals, uses

MEASURED = [SIGNALS.index(one) for one in (*TESTED, Signal.TIMER)]
"""Those of before there were screens and sound in recordings."""


def test_the_kept_recordings_have_many_uses_in_which_all_waits_are_known():
    found = uses(journals(), PAIR)
    assert len(found) >= 28
    assert {"web", "game", "audio", "web+kernel"} <= {use.label for use in found}
    for use in found:
        assert len(use.sessions) >= FEWEST
        for session in use.sessions:
            assert session.shape[0] >= PAIR
            assert session.shape[1] == PLACES
            assert np.isfinite(session[:, MEASURED]).mean() > 0.95
            assert np.nanmin(session) >= 0.0


def test_where_none_is_long_enough_it_says_what_to_do():
    with pytest.raises(ModelError, match="no use with 3 recordings of 4000 s; record some by"):
        uses(journals()[:1], 4000)
