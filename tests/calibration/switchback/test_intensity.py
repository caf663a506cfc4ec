# SPDX-License-Identifier: GPL-2.0-only
"""The search along the ladder finds a rung that tells, with few plays; what is kept is read strictly."""

import pytest

from asa.core.errors import InputError
from calibration.switchback import intensity
from calibration.switchback.intensity import HIGH, LADDER, LOW, Found, Intensity, Known, best, kept, of, search, tells
from scenarios.catalogue import PAIRS
from scenarios.lab import machines


@pytest.mark.parametrize("place", range(len(LADDER)))
@pytest.mark.parametrize("slope", [0.05, 0.1, 0.25])
def test_the_search_ends_at_a_rung_that_tells_where_there_is_one(place, slope):
    def score_of(level):
        return min(1.0, max(0.0, 0.6 - slope * (LADDER.index(level) - place)))

    played = search(score_of)
    assert len(played) <= 5
    level, score = best(played)
    assert score == score_of(level)
    assert tells(score), (level, score)


def test_where_nothing_tells_the_nearest_is_given():
    always_well = search(lambda _level: 0.97)
    assert best(always_well)[1] == 0.97
    assert list(always_well)[-1] == LADDER[-1]
    too_hard = search(lambda _level: 0.01)
    assert list(too_hard)[-1] == LADDER[0]
    assert best(search(lambda _level: None)) is None  # too little was measured: easier ones were tried
    assert list(search(lambda _level: None))[-1] == LADDER[0]


def test_the_bounds_of_what_tells():
    assert [tells(score) for score in (LOW - 0.01, LOW, 0.6, HIGH, HIGH + 0.01)] == [False, True, True, True, False]


def _found(**names):
    def known(cpus, speed_pct, crowd):
        found = {"web+disk": Intensity(crowd=crowd, effort=1.0, score=0.5)}
        return Known(cpus=cpus, speed_pct=speed_pct, scenarios=found)

    return Found(seed=1, command="c", machines={name: known(*values) for name, values in names.items()})


def test_a_machine_has_its_own_intensity_else_that_of_the_most_alike():
    vm120 = machines.load("vm120")  # four CPUs of full speed
    found = _found(vm120=(4, 400, 2.0), vm122=(6, 600, 4.0), slow=(4, 228, 0.5))
    assert of(vm120, "web+disk", found) == (2.0, 1.0)
    assert of(machines.load("laptop-slow"), "web+disk", found) == (0.5, 1.0)
    assert of(machines.load("vm127"), "web+disk", found) == (4.0, 1.0)
    assert of(vm120, "game+llm", found) == (1.0, 1.0)


def test_what_is_kept_is_of_known_machines_and_pairs_on_the_ladder_and_not_of_a_judged_seed():
    found = kept()
    assert found.seed == intensity.SEED
    for name, known in found.machines.items():
        machine = machines.load(name)
        assert (known.cpus, known.speed_pct) == (machine.cpus, sum(machine.speeds))
        assert set(known.scenarios) <= {one.label for one in PAIRS}
        assert {(one.crowd, one.effort) for one in known.scenarios.values()} <= set(LADDER)


def test_a_key_that_is_unknown_is_refused(tmp_path):
    path = tmp_path / "intensities.yaml"
    path.write_text("seed: 1\ncommand: c\nmachines: {vm120: {cpus: 4, speed_pct: 400, scenario: {}}}\n")
    with pytest.raises(InputError, match="scenario"):
        kept(path)
