# SPDX-License-Identifier: GPL-2.0-only
"""The loop on this machine: through the user's agent, as a client, with its log and its ends."""

import json
import time

import pytest
from loop_bench import repository
from mcp_agent import ONE, TWO, StandIn

from asa import paths, requests
from asa.cli.lab.agent_here import Here
from asa.mcp import audit
from asa.paths import Places
from calibration.loop import controller
from calibration.loop.planner import Nearest
from calibration.loop.stage import Budget, Stage


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "default", lambda: Places(run=tmp_path / "run", state=tmp_path))
    monkeypatch.setattr(requests, "_LIMIT_S", 60.0)  # beside guests the loop may stand still for seconds


def test_what_is_best_here_is_kept_for_a_time_and_every_trial_is_in_the_log(tmp_path):
    def work(stand):
        stand.machine.processes = lambda seconds: [("cc1", 4, 3.5)]
        arena = Here(
            metric="wakeup_p99_us", seconds=40, tell=lambda _: None, machine=stand.machine, changes=stand.changes()
        )
        profile = arena.observe()
        assert (profile.router, profile.reference, profile.busy) == (ONE, ONE, {"cc1": 3.5})
        budget = Budget(trials=6, minutes=60.0, tokens=0, kept_back=3)
        stage = Stage(arena, budget, tmp_path / "trials.jsonl")
        known = repository(policies=dict.fromkeys((ONE, TWO, "scx_absent"), ""))
        found = controller.run(stage, profile, Nearest(known, 1), 1, lambda _: None)
        assert found.chosen.scheduler == TWO
        assert found.gain_pct == pytest.approx(50.0)
        said = arena.keep(found.chosen, 60)
        assert said == f"{TWO} is kept"
        assert stand.until(lambda now: now.chosen == TWO).scheduler == TWO
        return found

    found = StandIn(tmp_path).during(work)
    absent = [one.outcome for one in found.plays if one.candidate.scheduler == "scx_absent"]
    assert "an id that `policies` lists" in absent[0].trouble
    lines = [json.loads(line) for line in (tmp_path / audit.NAME).read_text().splitlines()]
    assert {line["client"] for line in lines} == {"asa lab agent"}
    assert [line["what"] for line in lines].count("commit") == 2  # begun, and its outcome
    assert max(line["at_ns"] for line in lines) <= time.time_ns()
