# SPDX-License-Identifier: GPL-2.0-only

import pytest

from asa.core.errors import InputError
from asa.core.kinds import INTERACTIVE, Kind
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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pigz", ["pigz"]),
        ("alone:pigz", ["pigz"]),
        ("alone:pigz,alone:archive,web+zstd", ["archive", "pigz", "web+zstd"]),
        ("web+archive", ["S15"]),
        ("kind:browse", ["web", "firefox", "surf", "netsurf", "dillo"]),
    ],
)
def test_programs_of_kinds_are_found_where_they_are_asked_for(words, expected):
    found = catalogue.find(words, with_programs=True)
    assert [one.name for one in found] == expected
    assert [catalogue.labelled(one.label) for one in found] == list(found)


def test_a_kind_names_each_of_its_programs_alone():
    found = [one.label for one in catalogue.find("kind:compress", with_programs=True)]
    assert found == [one.name for one in catalogue.of_kind(Kind.COMPRESS)]
    assert {"archive", "pigz", "zstd", "xz"} <= set(found)


def test_situations_of_no_kind_are_at_least_twelve_and_found_together_or_alone():
    found = [one.label for one in catalogue.find("kind:other", with_programs=True)]
    assert found == [one.name for one in catalogue.situations()]
    assert len(found) >= 12
    assert [catalogue.find(name, with_programs=True)[0].label for name in found] == found


@pytest.mark.parametrize(
    "words",
    [
        "pigz+web",
        "web+office",
        "alone:web+pigz",
        "pigz+zstd",
        "web+backup",
        "idle-tabs+zstd",
        "kind:sleep",
        "kind:",
        "web+",
    ],
)
def test_what_no_programs_can_play_is_refused_with_those_there_are(words):
    with pytest.raises(InputError, match=r"kind:KIND of browse, .*or programs of kinds alone or as A\+B: pigz, zstd"):
        catalogue.find(words, with_programs=True)


def test_every_kind_has_five_programs_at_least():
    assert {kind: len(catalogue.of_kind(kind)) for kind in Kind if len(catalogue.of_kind(kind)) < 5} == {}


def test_the_benchmark_knows_no_other_programs():
    with pytest.raises(InputError, match="--scenario: 'pigz' is not accepted"):
        catalogue.find("pigz")


def test_every_program_has_a_name_of_its_own_a_kind_and_the_half_of_its_kind():
    more = [*catalogue.of_modules(), *catalogue.situations()]
    listed = [*catalogue.INTERACTIVE, *catalogue.BACKGROUND, *(one.name for one in more)]
    assert listed == list(catalogue.programs())
    assert {one.kind for one in catalogue.situations()} == {None}
    assert all(set(one.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for one in more)  # of a label
    for one in catalogue.of_modules():
        assert isinstance(one.kind, Kind)
        assert one.role is (Role.INTERACTIVE if one.kind in INTERACTIVE else Role.BACKGROUND)


@pytest.mark.parametrize("tier", Tier)
def test_a_program_is_the_same_in_both_tiers_beside_a_stand_in(tier):
    (scenario,) = catalogue.find("web+pigz", with_programs=True)
    front, back = catalogue.parts(scenario, tier)
    assert front is catalogue.applications(tier)["web"]
    assert back is catalogue.programs()["pigz"]


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
