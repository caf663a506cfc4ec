# SPDX-License-Identifier: GPL-2.0-only
"""The report of a loop: one page in Markdown, with what it cost beside what it gained, and the same as JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

from asa import wire
from asa.report.markup import plain
from calibration.goals import markdown
from calibration.loop.controller import Story
from calibration.loop.story import Outcome, Profile, Waits


def as_plain(story: Story, policy: str | None) -> dict[str, Any]:
    """For `--json`. `policy`: the file that was written."""
    race, ledger = story.race, story.ledger
    return {
        "profile": wire.plain(story.profile),
        "best": None if story.best is None else str(story.best),
        "chosen": None if story.chosen is None else str(story.chosen),
        "gain_pct": story.gain_pct,
        "race_pct": None if race is None else race.mean,
        "interval_pct": None if race is None else (race.low, race.high),
        "verdict": None if race is None else str(race.verdict),
        "over_router_pct": story.over_router_pct if story.chosen is not None else 0.0,
        "trials": ledger.trials,
        "play_s": round(ledger.play_s, 1),
        "questions": ledger.asked,
        "answers_rejected": ledger.rejected,
        "tokens": ledger.tokens,
        "stopped": story.stopped,
        "notes": list(story.notes),
        "plays": [wire.plain(one) for one in story.plays],
        "policy": policy,
    }


def page(story: Story, when: str) -> str:
    """The page. `when`: for people."""
    return "\n".join(_lines(story, when)) + "\n"


def _lines(story: Story, when: str) -> Iterator[str]:
    profile, ledger = story.profile, story.ledger
    yield f"# The loop for {profile.use} on {profile.machine}"
    yield ""
    yield f"Written by `asa lab agent`, {when}. Gains are against {profile.reference}, in per cent; more is better."
    yield ""
    yield "## Gain and cost"
    yield ""
    yield from markdown(("", ""), _summary(story).items())
    yield ""
    yield from markdown(
        ("cost", ""),
        (
            ("trials", ledger.trials),
            ("of playing", f"{ledger.play_s / 60.0:.1f} min"),
            ("questions to a model", ledger.asked),
            ("answers that were none", ledger.rejected),
            ("tokens", ledger.tokens),
        ),
    )
    yield ""
    yield "## Observed"
    yield ""
    yield f"To make better: {profile.objective}. Without the loop {profile.router} serves."
    yield from _observed(profile)
    yield ""
    yield "## Planned"
    yield ""
    yield from (f"- {plain(one)}" for one in story.notes)
    if story.stopped:
        yield f"- ended early: {plain(story.stopped)}"
    yield ""
    yield "## Executed"
    yield ""
    rows = (
        (one.seed, str(one.candidate), plain(one.by), _shown(one.outcome), plain(one.outcome.trouble))
        for one in story.plays
    )
    yield from markdown(("seed", "candidate", "for", "gain", "trouble"), rows)


def _summary(story: Story) -> Mapping[str, str]:
    race = story.race
    found = {"best": "none" if story.best is None else str(story.best)}
    if race is not None:
        found["on fresh seeds"] = f"{race.mean:+.2f} % ({race.low:+.2f} to {race.high:+.2f}), {race.pairs} trials"
    over = story.over_router_pct
    found["over the router"] = "unknown" if over is None else f"{over:+.2f} %"
    found["taken"] = "yes" if story.chosen is not None else "no: it is not surely better, so nothing changes"
    found["gain of the loop"] = f"{story.gain_pct:+.2f} %"
    return found


def _observed(profile: Profile) -> Iterator[str]:
    if profile.shares:
        yield ""
        yield from markdown(
            ("class", "share"), ((one, f"{100.0 * part:.0f} %") for one, part in profile.shares.items())
        )
    if profile.waits:
        yield ""
        yield from markdown(("class", "waits", "median", "95 %"), map(_row, profile.waits))
    if profile.busy:
        yield ""
        rows = ((plain(one), f"{cores:.2f}") for one, cores in profile.busy.items())
        yield from markdown(("program", "cores"), rows)


def _row(one: Waits) -> tuple[str, str, str, str]:
    return one.use, one.signal, f"{one.median:.4g}", f"{one.p95:.4g}"


def _shown(outcome: Outcome) -> str:
    return "" if outcome.gain_pct is None else f"{outcome.gain_pct:+.2f} %"
