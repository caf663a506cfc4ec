# SPDX-License-Identifier: GPL-2.0-only
"""Controllers as columns of a run, in a guest: the real agent, scx_loader's rule, a drawn scheduler."""

import time

import pytest
from agents import LIMIT_S, OWNER, attached, clean_machine, eventually

from asa import paths
from asa.core.decision import SchedulerName
from calibration.controllers import loader as controllers_loader
from calibration.controllers.columns import Controllers, Given
from models.runtime import Ensemble
from scenarios import planted


@pytest.fixture(autouse=True)
def before_and_after():
    with clean_machine():
        yield


@pytest.fixture
def controllers(tmp_path):
    classes = Ensemble.load(paths.base_model()).classes
    table = tmp_path / "table.yaml"
    planted.write(table, {key: ["scx_simple"] for key in classes})
    voting = {"threshold": 0.01, "open_world": False}
    settings = {"guard": {"enabled": False}, "voting": voting, "policy": {"cooldown_s": 0, "dwell_s": 0}}
    given = Given(table=str(table), settings=settings, among=("scx_simple",))
    return Controllers(paths.default(), given, tmp_path / "scratch", [OWNER])


def test_the_agent_switches_in_its_trial_and_leaves_nothing(controllers, tmp_path):
    with controllers.hold(SchedulerName("agent")) as check:
        assert eventually(lambda: check() or attached() == "simple")
        assert "table " in controllers.version(SchedulerName("agent"))
        start_ns = time.monotonic_ns()
        for _ in range(6):  # each look is one at its processor time too
            time.sleep(0.5)
            check()
        window = (start_ns, time.monotonic_ns())
    assert attached() == ""
    told = controllers.told([window])
    assert told["held_s"]["scx_simple"] > 1.0
    assert told["switched"][0][1] == "scx_simple"
    assert told["switched"][0][0] < 1.5  # the next tick tells
    assert told["events"][0]["outcome"] == "confirmed"
    assert sum(told["classes"].values()) >= 2
    assert 0.0 < told["cpu_pct"] < 100.0
    assert 20.0 < told["resident_mb"] < 200.0
    assert list((tmp_path / "scratch").iterdir()) == []
    with controllers.hold(SchedulerName("random")):  # the agent's lock is free again
        assert attached() == "simple"
        assert controllers.version(SchedulerName("random")).startswith(
            "scx_simple "
        )  # asked meanwhile, as the runner does
    assert controllers.told([window])["switched"][0][1] == "scx_simple"


def test_the_rule_of_scx_loader_brings_a_scheduler_and_takes_it_away(controllers, monkeypatch):
    monkeypatch.setattr(
        controllers_loader, "LAVD", SchedulerName("scx_simple")
    )  # scx_lavd takes an emulated guest a minute
    for name in ("_HIGH_FOR_S", "_LOW_FOR_S"):
        monkeypatch.setattr(controllers_loader, name, 1.0)
    busy = []
    monkeypatch.setattr(controllers_loader, "Busiest", lambda proc: lambda: 0.0 if busy else 100.0)
    start_ns = time.monotonic_ns()
    with controllers.hold(SchedulerName("loader-auto")) as check:
        assert eventually(lambda: check() or attached() == "simple")
        busy.append(1)
        assert eventually(lambda: check() or attached() == "", LIMIT_S)
        assert eventually(lambda: len(controllers.told([])["switched"]) == 2)
    told = controllers.told([(start_ns, time.monotonic_ns())])
    assert [name for _, name in told["switched"]] == ["scx_simple", "eevdf"]
    assert told["held_s"]["scx_simple"] > 0.5
