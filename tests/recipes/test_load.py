# SPDX-License-Identifier: GPL-2.0-only
"""The recipe "a background load" of CONTRIBUTING.md, its minimum: one module and one name in a list, in a copy."""

import json

import pytest
from tree_copy import copied_tree

from asa import wire
from scenarios.application import Tier
from scenarios.catalogue import PAIRS, find
from scenarios.runner_plan import Asked, make

SORTING = '''\
# SPDX-License-Identifier: GPL-2.0-only
"""Sorting: one process sorts lists of random numbers, over and over."""

import platform
import random
import sys
import time

from scenarios.application import Application, Parameters, Place, Role
from scenarios.driving import Driver
from scenarios.metric import duration, speed


def _draw(rng: random.Random, _place: Place) -> Parameters:
    return {"numbers": rng.randint(10_000, 60_000)}


APPLICATION = Application(
    name="sorting",
    role=Role.BACKGROUND,
    scored=(
        speed("numbers_per_s", "1/s", "numbers sorted", 0.50),
        duration("list_ms", "ms", "one list", 0.50),
    ),
    packages=(),
    programs=(),
    draw=_draw,
    command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.background.sorting"),
)


def main() -> None:
    """Sort until asked to end."""
    driver = Driver.begin()
    rng, count = random.Random(driver.seed), int(driver.parameters["numbers"])  # noqa: S311
    driver.ready({"python": platform.python_version()})
    while not driver.ending:
        numbers = [rng.random() for _ in range(count)]
        begin_s = time.monotonic()
        numbers.sort()
        took_s = time.monotonic() - begin_s
        driver.measured("numbers_per_s", count / took_s)
        driver.measured("list_ms", took_s * 1e3)


if __name__ == "__main__":
    main()
'''
PLAYED = """\
import json, sys
from pathlib import Path
from asa.act.forcing import Forcing
from asa.paths import Places
from calibration.scoring.fusion import Measured, application_score, scenario_score
from scenarios import catalogue, runner
from scenarios.application import Tier
from scenarios.runner_plan import Asked, make

here = Path(sys.argv[1])
scenarios = catalogue.find("alone:audio,alone:sorting,audio+sorting")
asked = Asked(tier=Tier.LAB, scenarios=tuple(one.label for one in scenarios), schedulers=("eevdf",), repeats=1, seed=1,
              seconds=2.0, warm_up_s=0.5, cpus=2)
places = Places(sys=here, run=here / "run", config=here / "none", cache=here)
results = {}
with Forcing(places) as forcing:
    stage = runner.Stage(applications=catalogue.applications(Tier.LAB), tier=Tier.LAB, cache=here,
                         scratch=here / "scratch", forcing=forcing, seconds=2.0, warm_up_s=0.5)
    runner.prepare(("audio", "sorting"), stage, lambda line: None)
    for trial in make(asked, scenarios, "run").trials:
        result = runner.play(trial, stage)
        results[trial.label] = (result.outcome, result.reason, result)
def mean(label, application):
    series = [one for one in results[label][2].series if one.application == application]
    return {one.metric: sum(one.values) / len(one.values) for one in series if one.values}
def scored(application):
    alone = mean(application, application)
    figures = {name: Measured(value=value, alone=alone.get(name))
               for name, value in mean("audio+sorting", application).items()}
    return application_score(application, figures)
score = scenario_score(scored("audio"), scored("sorting"))
print(json.dumps({"outcomes": {label: one[:2] for label, one in results.items()}, "score": score.score,
                  "metrics": {label: sorted(mean(label, "sorting")) for label in ("sorting", "audio+sorting")}}))
"""
CATALOGUE = """\
import json
from scenarios import catalogue
from scenarios.application import Tier
print(json.dumps({
    "pairs": [[one.name, one.label] for one in catalogue.PAIRS],
    "changing": [[one.name, one.label] for one in catalogue.CHANGING],
    "all": [one.label for one in catalogue.SCENARIOS],
    "sorting": [one.name for one in catalogue.find("sorting")],
    "tiers": [catalogue.applications(tier)["sorting"].name for tier in Tier],
}))
"""
PLAN = """\
import sys
from asa import wire
from scenarios.catalogue import find
from scenarios.runner_plan import Asked, make
asked = wire.from_json(sys.argv[1], Asked)
print(wire.json_text(make(asked, find("all"), "run")))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The copy, in which the recipe has been followed."""
    copy = copied_tree(tmp_path_factory.mktemp("load"))
    copy.add("scenarios/background/sorting.py", SORTING)
    copy.change("scenarios/catalogue.py", '"network", "video")', '"network", "video", "sorting")')
    return copy


@pytest.mark.slow
def test_it_is_played_alone_and_beside_another_and_scored(tree, tmp_path):
    found = json.loads(tree.run("-c", PLAYED, str(tmp_path)))
    assert found["outcomes"] == {label: ["done", ""] for label in ("audio", "sorting", "audio+sorting")}
    assert found["metrics"] == {key: ["list_ms", "numbers_per_s"] for key in ("sorting", "audio+sorting")}
    assert 0.0 < found["score"] <= 1.0


def test_the_catalogue_has_it_and_the_papers_numbers_are_as_before(tree):
    found = json.loads(tree.run("-c", CATALOGUE))
    assert found["pairs"] == [[one.name, one.label] for one in PAIRS]
    assert found["changing"] == [[one.name, one.label] for one in find("changing")]
    assert found["all"] == [
        *(one.label for one in find("everything")),
        *("sorting", "game+sorting", "office+sorting", "web+sorting", "audio+sorting"),
    ]
    assert found["sorting"] == ["game+sorting", "office+sorting", "web+sorting", "audio+sorting"]
    assert found["tiers"] == ["sorting", "sorting"]


def test_a_plan_of_the_28_is_as_before(tree):
    asked = Asked(
        tier=Tier.REAL,
        scenarios=tuple(one.label for one in find("all")),
        schedulers=("eevdf", "scx_simple"),
        repeats=2,
        seed=3,
        seconds=10.0,
        warm_up_s=5.0,
        cpus=4,
    )
    planned = tree.run("-c", PLAN, wire.json_text(asked))
    assert planned.strip() == wire.json_text(make(asked, find("all"), "run"))


def test_commands_know_it(tree):
    words = " ".join(tree.run("-m", "asa.cli", "lab", "bench", "run", "--help").split())
    assert "video, sorting" in words
    shown = tree.run("-m", "asa.cli", "lab", "score", "show", "--json")
    rows = {row["name"]: row for row in json.loads(shown)["metrics"] if row["application"] == "sorting"}
    assert set(rows) == {"numbers_per_s", "list_ms"}
    assert all(row["relative"] and row["role"] == "background" for row in rows.values())


def test_the_tests_of_catalogue_and_scoring_count_it(tree):
    files = ("tests/scenarios/test_catalogue.py", "tests/calibration/scoring/test_table.py")
    said = tree.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    assert "passed" in said
    assert "skipped" not in said
