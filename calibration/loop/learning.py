# SPDX-License-Identifier: GPL-2.0-only
"""What a loop leaves behind: a line for each candidate, good or bad, and a policy of what was confirmed. Pure."""

from collections.abc import Sequence

from asa.act.policies import Policy, Tuned
from asa.core.decision import SchedulerName
from calibration.loop.controller import FLOOR_PCT, FRESH, Story
from calibration.loop.story import Candidate, Learnt, Play

_SHOWN = 3  # decimals of a gain in a policy


def policy(story: Story, day: str, seed: int, version: str) -> Policy:
    """Of what was chosen, as `SCHEDULER:agent_USE`; it has flags, and was raced. `seed`: the search's."""
    chosen, race = story.chosen, story.race
    assert chosen is not None and race is not None  # noqa: S101, PT018  # its caller has looked
    mode = "agent_" + "".join(letter if letter.isalnum() else "_" for letter in story.profile.use.lower())
    low, mean, high = (round(one, _SHOWN) for one in (race.low, race.mean, race.high))
    return Policy(
        id=SchedulerName.of(chosen.bare, mode),
        version=version,
        purpose=f"{story.profile.use}, found on {story.profile.machine}",
        flags=dict(chosen.flags),
        provenance=Tuned(
            method="agent",
            machine=story.profile.machine,
            workload=story.profile.use,
            effect_pct=mean,
            interval_pct=(low, high),
            date=day,
            seeds=tuple(seed + FRESH + pair for pair in range(race.pairs)),
            trials=story.ledger.trials,
        ),
    )


def learnt(story: Story, day: str) -> list[Learnt]:
    """A line for each candidate that was tried: what it came to and why, so that the next loop need not ask again."""
    found = dict[str, list[Play]]()
    for play in story.plays:
        found.setdefault(str(play.candidate), []).append(play)
    lines = []
    for plays in found.values():
        candidate = plays[0].candidate
        gains = [play.outcome.gain_pct for play in plays if play.outcome.gain_pct is not None]
        mean = sum(gains) / len(gains) if gains else None
        verdict, why = _judged(story, candidate, gains, plays)
        lines.append(
            Learnt(
                day=day,
                profile=story.profile,
                candidate=candidate,
                verdict=verdict,
                gain_pct=None if mean is None else round(mean, 3),
                trials=len(plays),
                why=why,
            )
        )
    return lines


def _judged(story: Story, candidate: Candidate, gains: Sequence[float], plays: Sequence[Play]) -> tuple[str, str]:
    if not gains:
        return "failed", "; ".join(dict.fromkeys(play.outcome.trouble for play in plays))[:300]
    if candidate == story.best and story.race is not None:
        one = story.race
        why = f"race of {one.pairs} fresh seeds: {one.mean:+.2f} % ({one.low:+.2f} to {one.high:+.2f})"
        return str(one.verdict), why
    every = ", ".join(f"{gain:+.1f}" for gain in gains)
    if len(gains) >= 2 and max(gains) < -FLOOR_PCT:  # one trial is noise
        return "worse", f"every trial was worse: {every} %"
    return "neither", f"not confirmed: {every} %"
