# SPDX-License-Identifier: GPL-2.0-only

import pytest

from asa.core.errors import InputError
from calibration.scoring.table import APPLICATIONS as SCORED
from scenarios import catalogue
from scenarios.application import Role, Tier
from scenarios.session import parameters, place_for


def names(words):
    return [one.name for one in catalogue.find(words)]


def test_the_28_are_those_of_the_papers_table_2():
    assert [one.label for one in catalogue.PAIRS[:2]] == ["game+archive", "game+blender"]
    by_name = {one.name: one.label for one in catalogue.PAIRS}
    assert len(by_name) == 28
    # four lines of the table, one of each interactive application
    picked = [by_name[name] for name in ("S4", "S10", "S20", "S28")]
    assert picked == ["game+llm", "office+kernel", "web+network", "audio+video"]


def test_the_paper_has_40_labels_and_more_loads_change_none_of_them():
    assert len({one.label for one in catalogue.PAPER}) == 40
    assert catalogue.SCENARIOS[:40] == catalogue.PAPER
    fronts, backs = len(catalogue.INTERACTIVE), len(catalogue.BACKGROUND)
    assert len({one.label for one in catalogue.SCENARIOS}) == (1 + fronts) * (1 + backs)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("S16", ["S16"]),
        ("web+blender", ["S16"]),
        ("S27..S28, S1", ["S1", "S27", "S28"]),
        ("idle", ["idle"]),
        ("alone:web", ["web"]),
        ("alone:web,alone:disk,S1,S1", ["web", "disk", "S1"]),
        ("video", ["S7", "S14", "S21", "S28"]),
    ],
)
def test_scenarios_are_found_by_what_a_person_writes(words, expected):
    assert names(words) == expected


def test_an_application_names_its_pairs():
    assert names("web")[:7] == [f"S{number}" for number in range(15, 22)]
    assert len(names("web")) == len(catalogue.BACKGROUND)


def test_all_are_the_28_and_everything_is_all():
    assert catalogue.find("all") == catalogue.PAIRS
    assert catalogue.find("everything") == catalogue.SCENARIOS


@pytest.mark.parametrize("words", ["", "S29", "S0", "S3..S99", "alone:", "alone:S1", "web+", "blender+web", "S1,,S2"])
def test_what_is_no_scenario_is_refused_with_those_there_are(words):
    with pytest.raises(InputError, match=r"--scenario: .* is not accepted; allowed: all, everything, idle"):
        catalogue.find(words)


@pytest.mark.parametrize("tier", Tier)
def test_every_application_measures_what_is_scored(tier):
    known = catalogue.applications(tier)
    assert set(known) == {*catalogue.INTERACTIVE, *catalogue.BACKGROUND}
    for name, application in known.items():
        assert application.name == name
        assert application.role is catalogue.role_of(name) is SCORED[name].role
        assert sorted(application.metrics) == sorted(metric.name for metric in SCORED[name].metrics)


@pytest.mark.parametrize("tier", Tier)
def test_sessions_differ_by_their_seed_and_repeat_by_it(tier, tmp_path):
    for application in catalogue.applications(tier).values():
        place = place_for(application, cache=tmp_path, tier=tier)
        drawn = [parameters(application, seed=seed, place=place) for seed in range(12)]
        assert drawn == [parameters(application, seed=seed, place=place) for seed in range(12)]
        assert len({repr(one) for one in drawn}) >= 6, application.name


def test_four_are_interactive_and_all_others_loads():
    roles = [catalogue.role_of(name) for name in SCORED]
    assert roles == [Role.INTERACTIVE] * 4 + [Role.BACKGROUND] * len(catalogue.BACKGROUND)
