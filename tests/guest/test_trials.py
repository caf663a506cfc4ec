# SPDX-License-Identifier: GPL-2.0-only
"""A trial with the real agent, a real scheduler and real switches: it begins by itself, takes turns, comes to an
outcome, and the next agent knows that. Runs as root inside the lab.

Turns of ten seconds, three pairs instead of twenty-four and a use that stands keep the emulated guest's time short; the
rules are the agent's own.
"""

import json
import os
import signal
import subprocess

import pytest
from agents import AgentProcess, asa, attached, clean_machine, eventually, status

from asa import paths
from asa.decide import learning
from asa.decide.trial_pairs import Verdict
from asa.status import read as read_status
from models.runtime import Ensemble

PAIRS = 3
SHORT = f"""
from asa.decide import trial, trial_budget, trial_pairs, turns
for module in (trial, trial_pairs):
    module.MOST_PAIRS = {PAIRS}
trial.SHORTEST_S = trial.LONGEST_S = 10.0
trial.TIMES = 10  # a switch takes a second at most, here too
trial.FRESH_S = turns.FRESH_S = 5.0
trial_budget.MOST_SHARE, trial_budget.Limits.__init__.__kwdefaults__["share"] = 0.9, 0.9
from dataclasses import replace
from models.runtime import Ensemble
judge = Ensemble.judge
def steady(model, frame):  # the use stands, whatever the guest does
    judged = judge(model, frame)
    classes = judged.probabilities.classes
    values = tuple(float(place == 0) for place in range(len(classes)))
    return replace(judged, known=True, probabilities=replace(judged.probabilities, values=values))
Ensemble.judge = steady
from asa.cli import main
main.main()
"""  # noqa: S608  # a program, not SQL
LIMIT_S = 400.0


@pytest.fixture(autouse=True)
def before_and_after():
    file = paths.default().state / learning.LEARNING
    file.unlink(missing_ok=True)
    hog = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    with clean_machine():
        yield
    hog.send_signal(signal.SIGKILL)
    hog.wait()
    file.unlink(missing_ok=True)


class Short(AgentProcess):
    program = ("-c", SHORT)


def agent(folder):
    """EEVDF serves every class, and somebody is of the opinion that scx_simple might."""
    ranking = [{"scheduler": "eevdf", "why": "nothing is known"}, {"scheduler": "scx_simple", "why": "an opinion"}]
    table = {
        "version": 2,
        "machine": {"name": "test"},
        "provenance": "test",
        "classes": dict.fromkeys(Ensemble.load(paths.base_model()).classes, ranking),
    }
    (folder / "opinion.yaml").write_text(json.dumps(table))
    policy = {"cooldown_s": 0, "dwell_s": 0, "learn": "on"}
    guard = {"baseline_s": 0}  # without a guard nothing is tried
    return Short(folder, ["eevdf"], table=str(folder / "opinion.yaml"), policy=policy, guard=guard)


def shown(holds):
    """Whether the agent's status ever holds."""

    def look():
        now = read_status(paths.default().run)
        return now is not None and holds(now)

    return eventually(look, LIMIT_S)


def test_an_opinion_is_tried_in_pairs_and_comes_to_an_outcome(tmp_path):
    running = agent(tmp_path)
    try:
        assert shown(lambda now: now.trial is not None), running.said()
        assert status()["agent"]["scheduler"] == "eevdf"
        assert shown(lambda now: now.trial is not None and now.trial.under_way), running.said()
        assert shown(lambda now: now.scheduler == "scx_simple"), running.said()
        assert attached().startswith("simple")
        told = asa("trial")
        assert "scx_simple against eevdf" in told.stdout
        assert shown(lambda now: now.learned is not None and any(one.verdict for one in now.learned.here)), (
            running.said()
        )
        found = next(one for one in read_status(paths.default().run).learned.here if one.verdict)
        assert found.verdict == Verdict.BETTER or eventually(lambda: attached() == "")
    finally:
        running.end()
    asked = learning.load(paths.default().state / learning.LEARNING).asked
    assert {one.broken for one in asked} == {0}  # also where the agent ended in the trial of another use
    kept = next(one for one in asked if one.verdict)
    print(f"{kept.words}; {kept.switches} switches, {kept.tried_s:.0f} s under it")
    assert (kept.candidate, kept.in_force, kept.verdict) == ("scx_simple", "eevdf", found.verdict)
    assert kept.count == PAIRS or kept.verdict is Verdict.WORSE  # by harm, at once
    assert kept.kernel == os.uname().release
    assert kept.switches >= 2
    assert kept.words in running.said()

    again = agent(tmp_path)
    try:
        assert shown(lambda now: now.learned is not None and now.learned.asked == len(asked)), again.said()
        serves = "scx_simple" if kept.verdict is Verdict.BETTER else "eevdf"
        assert shown(
            lambda now: now.ticks > 20 and (now.workload != kept.use or (now.scheduler == serves and now.trial is None))
        ), again.said()
    finally:
        again.end()
