# SPDX-License-Identifier: GPL-2.0-only
"""An arena whose gains are written down, and a repository of three schedulers."""

from dataclasses import dataclass, field

from asa.act.knobs import Knobs, Number
from asa.core.decision import SchedulerName
from calibration.loop.planner import Repository
from calibration.loop.stage import Budget, Stage
from calibration.loop.story import Candidate, Outcome, Profile

PROFILE = Profile(
    machine="vm120",
    cpus=4,
    mixed=False,
    use="requests",
    workload="",
    objective="requests a second",
    router="eevdf",
    reference="eevdf",
)
SLICE = "--slice-us"
POLICIES = ("eevdf", "scx_bpfland", "scx_flash", "scx_simple", "scx_flash:calm")


def repository(**more):
    slices = Number(unit="us", low=100.0, high=20_000.0, default=1_000.0)
    knobs = Knobs(numbers={SLICE: slices, f"{SLICE}-lag": Number(unit="us", low=0.0, high=100_000.0, default=1_000.0)})
    given = {
        "policies": dict.fromkeys(POLICIES, "a purpose"),
        "knobs": {SchedulerName(name): knobs for name in ("scx_bpfland", "scx_flash")},
    }
    return Repository(**(given | more))


@dataclass
class Arena:
    """Gains by policy, and `slope` per ms of a slice's distance from 5 ms; who is in `broken` fails."""

    means: dict = field(default_factory=lambda: {"scx_bpfland": 3.0, "scx_flash": 8.0, "scx_simple": -4.0})
    broken: tuple = ()
    tunable: bool = True
    slope: float = 0.0
    played: list = field(default_factory=list)

    def observe(self):
        return PROFILE

    def gains(self, candidates, seed):
        self.played += [(str(one), seed) for one in candidates]
        return [self.gain(one, seed) for one in candidates]

    def gain(self, candidate: Candidate, seed):
        if candidate.scheduler in self.broken:
            return Outcome(gain_pct=None, trouble="it stalled")
        gain = self.means.get(candidate.scheduler, 0.0) + 0.01 * (seed % 3)
        if candidate.flags:
            gain += 2.0 - self.slope * abs(candidate.flags[SLICE] - 5_000) / 1_000
        return Outcome(gain_pct=gain, over_router_pct=gain - 1.0)


def staged(tmp_path, arena=None, *, trials=36, minutes=60.0, tokens=10_000, kept_back=9, **more):
    budget = Budget(trials=trials, minutes=minutes, tokens=tokens, kept_back=kept_back)
    return Stage(arena or Arena(), budget, tmp_path / "trials.jsonl", **more)
