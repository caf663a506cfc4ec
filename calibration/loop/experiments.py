# SPDX-License-Identifier: GPL-2.0-only
"""The paper's experiments as the lab plays them, by the loop: a build, requests as schbench has them, and batches.

Each is one loop in guests of four CPUs, kept below the state folder: the same command goes on where it was stopped. No
language model with learned weights is asked: one of random weights takes the plan's part, which is the least that a
model gives.
"""

import os
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from statistics import fmean

from asa import paths
from calibration.agent import random_model
from calibration.loop import batches, controller, lab
from calibration.loop.controller import Planner, Story
from calibration.loop.model import Advised, Asked
from calibration.loop.planner import Nearest, Repository
from calibration.loop.stage import Arena, Budget, Stage
from calibration.tuning.racing import MOST
from scenarios.lab import machines

PAPER = {
    "throughput": "1.79 times as fast a kernel build (SchedCP, figure 2a, 86 cores)",
    "requests": "1.60 times the requests of schbench (figure 2b, 8 cores)",
    batches.USE: "20 % less latency of batches, the mean of eight (figure 2c), by a scheduler that a model wrote",
}
"""The uses that are played, and what the paper has for them."""

MACHINE, SEED, ROUNDS = "vm120", 1, 2
TRIALS, TOKENS = 30, 200_000
_CONTEXT = 16_384  # tokens: a letter of the question is one
_MINUTES = 120.0


def without_model() -> tuple[float, str]:
    """The mean gain over EEVDF by the planner without any model, in per cent; and words. Raises AsaError."""
    return _told({use: played(use, with_model=False) for use in PAPER})


def with_model() -> tuple[float, str]:
    """The same with a model of random weights as planner, and the planner without one after it."""
    value, words = _told({use: played(use, with_model=True) for use in PAPER})
    return value, f"a model of random weights picked; {words}"


def trials() -> tuple[float, str]:
    """Of all experiments together, without a model."""
    spent = {use: played(use, with_model=False).ledger for use in PAPER}
    each = ", ".join(f"{use} {one.trials} in {one.play_s / 60.0:.0f} min" for use, one in spent.items())
    return float(sum(one.trials for one in spent.values())), each


@cache
def played(use: str, *, with_model: bool) -> Story:
    """One loop. Raises AsaError where the lab is not there."""
    places = paths.default()
    folder = places.state / "bench-agent" / f"{use}-{'model' if with_model else 'alone'}"
    arena, known = _arena(use, folder / "guests", places)
    budget = Budget(trials=TRIALS, minutes=_MINUTES, tokens=TOKENS, kept_back=MOST)
    profile = arena.observe()
    with ExitStack() as opened:
        planner: Planner = Nearest(known, SEED)
        if with_model:
            scratch = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            random_model.write(scratch / "model.gguf", SEED)
            url = opened.enter_context(random_model.serving(scratch / "model.gguf", _CONTEXT))
            planner = Advised(asked=Asked(url=url), repository=known, without=Nearest(known, SEED), seed=SEED)
        return controller.run(Stage(arena, budget, folder / "trials.jsonl"), profile, planner, SEED, lambda _: None)


def _arena(use: str, out: Path, places: paths.Places) -> tuple[Arena, Repository]:
    """With what may be tried there; nothing is learnt from others: each begins anew."""

    def tell(words: str, _: float = 0.0) -> None:
        if os.environ.get("ASA_TELL"):
            print(words, flush=True)

    known = lab.portfolio(places)
    if use == batches.USE:
        return batches.Batches(rounds=ROUNDS, out=out, places=places, tell=tell), batches.repository(known, [])
    arena = lab.InLab(
        machine=machines.load(MACHINE), use=lab.uses()[use], rounds=ROUNDS, out=out, places=places, tell=tell
    )
    return arena, lab.repository(arena.observe().workload, known, [])


def _told(stories: dict[str, Story]) -> tuple[float, str]:
    parts = []
    for use, one in stories.items():
        over = one.over_router_pct if one.chosen is not None else 0.0
        parts.append(
            f"{use} {one.gain_pct:+.1f} % by {one.chosen or 'nothing'}"
            f" ({'unknown' if over is None else f'{over:+.1f} %'} over the router,"
            f" {one.ledger.trials} trials, {one.ledger.asked} questions of which {one.ledger.rejected} in vain;"
            f" the paper: {PAPER[use]})"
        )
    return fmean(one.gain_pct for one in stories.values()), "; ".join(parts)
