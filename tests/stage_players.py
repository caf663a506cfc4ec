# SPDX-License-Identifier: GPL-2.0-only
"""A machine that plays trials at once: what a person feels of each scheduler is given, and so is what fails."""

import random

from asa.host import Facts
from calibration.scoring.table import APPLICATIONS
from calibration.stages.columns import LIVE, SHADOW
from calibration.stages.play import MACHINE
from scenarios import runner_folder
from scenarios.application import Tier
from scenarios.runner_plan import CONTROLLER, Outcome, Result, Series

FACTS = Facts(cpu_model="Toy CPU", cpus=4, kernel="6.18.1")
KERNEL = "6.18.1"


class ToyPlayer:
    """`slow` is how much longer things take under a scheduler, 1.0 where it is not named; `fails` may name a reason.

    `interrupt_after` trials it is interrupted, as by Ctrl-C.
    """

    tier = Tier.LAB

    def __init__(
        self,
        slow=None,
        *,
        batch=1,
        fails=lambda trial: "",
        failure="scheduler",
        interrupt_after=None,
        took_s=10.0,
        campaign=None,
    ):
        self.slow = slow or {}
        self.batch = batch
        self.fails = fails
        self.failure = failure
        self.left = interrupt_after
        self.took_s = took_s
        self.campaign = campaign
        self.played = []

    def check(self, names):
        list(names)

    def play(self, folder, trials):
        if self.campaign is not None:
            runner_folder.write(self.campaign / MACHINE, FACTS)
        for trial in trials:
            if self.left is not None:
                if self.left == 0:
                    raise KeyboardInterrupt
                self.left -= 1
            self.played.append(trial.id)
            folder.keep(self.result(trial))

    def result(self, trial):
        reason = self.fails(trial)
        if reason:
            return Result(
                trial=trial,
                outcome=Outcome.FAILED,
                attempts=1,
                started_ns=1,
                took_s=self.took_s,
                failure=self.failure,
                reason=reason,
            )
        name = trial.scheduler.removeprefix(LIVE)
        shadow = name.startswith(SHADOW)
        factor = 1.01 if shadow else self.slow.get(name, 1.0)
        jitter = random.Random(trial.id).uniform(0.99, 1.01)  # noqa: S311
        series = [
            Series(application=one, metric=metric.name, at_s=[0.1, 0.2], values=[value, value])
            for one in trial.applications
            for metric in APPLICATIONS[one].metrics
            for value in [self.value(metric, factor * jitter)]
        ]
        cost = {"loads_ms": [200.0, 220.0], "walls_ms": [400.0, 420.0], "refused": [], "ticks": 20}
        cost |= {"tick_ms": 2.0, "inference_ms": 0.5, "agent_pct": 1.0, "cpus": 4}
        if name == f"{SHADOW}eevdf":
            cost["loads_ms"] = cost["walls_ms"] = []
        return Result(
            trial=trial,
            outcome=Outcome.DONE,
            attempts=1,
            started_ns=1,
            took_s=self.took_s,
            kernel=KERNEL,
            parameters={CONTROLLER: {"shadow": cost}} if shadow else {},
            series=series,
        )

    @staticmethod
    def value(metric, factor):
        # around the middle of what counts, where scores move
        if metric.relative:
            return 10.0 / factor
        middle = (metric.good + metric.bad) / 2.0
        return middle * factor if metric.bad > metric.good else middle / factor
