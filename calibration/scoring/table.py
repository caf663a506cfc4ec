# SPDX-License-Identifier: GPL-2.0-only
"""The constants of the scores, one row a metric, each with its reason and the sources of that. Data alone.

The names are those under which a scenario, real or stand-in, hands its figures over. A background load's rows are in
its own module (`scored` of its APPLICATION). docs/scoring.md is written from here (`asa lab score show --markdown`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scenarios.application import Role
from scenarios.catalogue import BACKGROUND, real
from scenarios.metric import Direction, Metric, Summary, speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What is scored of an application; the weights of its metrics add up to 1."""

    name: str
    title: str
    role: Role
    metrics: tuple[Metric, ...]


ROLE_WEIGHT: Mapping[Role, float] = {Role.INTERACTIVE: 0.7, Role.BACKGROUND: 0.3}
"""In a scenario: what a person looks at counts more than what a person waits for. Our choice; the paper gives none."""

LEAST_MEASURED = 0.5
"""Share of an application's weight that must have been measured, or it has no score."""

SOURCES: Mapping[str, str] = {
    "paper": "Wang et al., Mixture-of-Schedulers: An Adaptive Scheduling Agent, section 4.2 and appendices A to C",
    "nielsen": "J. Nielsen, Response Times: The 3 Important Limits (after R. B. Miller, 1968): 0.1 s feels immediate, "
    "1 s keeps the flow of thought, 10 s the attention; nngroup.com/articles/response-times-3-important-limits",
    "rail": "RAIL model, web.dev/articles/rail: 16 ms a frame is smooth, a reaction within 100 ms is immediate; "
    "of that handling the event may take 50 ms",
    "inp": "Interaction to Next Paint, web.dev/articles/defining-core-web-vitals-thresholds: good up to 200 ms, poor "
    "above 500 ms, judged by a page's slow interactions",
    "forch": "Forch et al., Are 100 ms Fast Enough?, 2017, doi:10.1007/978-3-319-58475-1_4: people notice a lag "
    "of the mouse from 34 to 137 ms, mean 65 ms",
    "claypool": "K. and M. Claypool, On frame rate and player performance in first person shooter games, 2007, "
    "doi:10.1007/s00530-007-0081-1: shooting suffers greatly from low rates, moving less",
    "tick": "The tick loop, spark.lucko.me/docs/guides/The-tick-loop: a game server's tick has 50 ms, later the world "
    "slows down",
    "seow": "S. Seow, Designing and Engineering Time, 2008: durations that differ by less than 20 % are not told apart "
    "(by a review of the book)",
    "g1010": "ITU-T G.1010 (2001), appendix I: voice bears a delay variation of 1 ms and a loss of 3 %, streamed audio "
    "and video a loss of 1 % (from memory, not looked up)",
    "y1541": "ITU-T Y.1541, class 0: delay variation of at most 50 ms for real-time traffic "
    "(from memory, not looked up)",
    "ours": "our choice, not found in the literature",
}


def _response(name: str, sentence: str, weight: float) -> Metric:
    """A change of what is shown, ordered by a click."""
    return Metric(
        name=name,
        unit="ms",
        sentence=sentence,
        direction=Direction.SMALLER,
        summary=Summary.P95,
        good=200.0,
        bad=500.0,
        weight=weight,
        spread=150.0,
        stability_weight=0.2,
        reason="Good up to 200 ms, poor from 500 ms; the slow ones are what is remembered, so the 95th percentile. "
        "A spread of half that range makes the wait unpredictable.",
        sources=("inp", "ours"),
    )


def _echo(name: str, sentence: str, weight: float) -> Metric:
    """An answer to the hand itself, where the limit of "immediate" holds."""
    return Metric(
        name=name,
        unit="ms",
        sentence=sentence,
        direction=Direction.SMALLER,
        summary=Summary.P95,
        good=50.0,
        bad=150.0,
        weight=weight,
        spread=50.0,
        stability_weight=0.2,
        reason="100 ms is the limit of an immediate answer, and the middle. 50 ms in the application leave the rest to "
        "input and screen; at 150 ms everybody notices.",
        sources=("nielsen", "rail", "forch"),
    )


def _frame(name: str, sentence: str, weight: float) -> Metric:
    return Metric(
        name=name,
        unit="ms",
        sentence=sentence,
        direction=Direction.SMALLER,
        summary=Summary.P95,
        good=50.0 / 3.0,
        bad=50.0,
        weight=weight,
        spread=5.0,
        stability_weight=0.4,
        reason="60 frames a second (16.7 ms) are smooth, 30 (33.3 ms) are the middle, 20 (50 ms) are a row of stills. "
        "One frame in ten dropped at 60/s is a standard deviation of 5 ms, and seen.",
        sources=("rail", "claypool", "ours"),
    )


_WEB = (
    _response("click_ms", "click on a button until the next paint", 0.25),
    _response("sort_ms", "click that sorts a table until the next paint", 0.15),
    _echo("input_ms", "key in a text field until the next paint", 0.20),
    _response("tab_switch_ms", "change of tab until its paint", 0.15),
    _frame("scroll_frame_ms", "between two frames while scrolling", 0.25),
)

_GAME = (
    _frame("frame_ms", "between two frames", 0.40),
    Metric(
        name="fps",
        unit="fps",
        sentence="frames of each second",
        direction=Direction.LARGER,
        summary=Summary.MEAN,
        good=50.0,
        bad=10.0,
        weight=0.25,
        spread=10.0,
        stability_weight=0.2,
        reason="30/s is the middle. Below 10/s one rate is as bad as another, and beyond 50/s little is gained on a "
        "screen of 60 Hz. A rate that swings by 10/s is seen.",
        sources=("paper", "claypool", "ours"),
    ),
    Metric(
        name="mspt_ms",
        unit="ms",
        sentence="computing of one step of the server, mean of each second",
        direction=Direction.SMALLER,
        summary=Summary.P95,
        good=50.0,
        bad=100.0,
        weight=0.20,
        spread=25.0,
        stability_weight=0.2,
        reason="Up to 50 ms a step the world runs at full speed, at 100 ms at half.",
        sources=("tick", "ours"),
    ),
    speed("chunks_per_s", "1/s", "chunks of the world that come to be seen", 0.15),
)

_AUDIO = (
    Metric(
        name="underruns_per_min",
        unit="1/min",
        sentence="buffer underruns of a stream, mean of all streams",
        direction=Direction.SMALLER,
        summary=Summary.MEAN,
        good=1.0,
        bad=3.0,
        weight=0.60,
        reason="Each underrun is a pop that is heard, so the first in a minute already leads into the sweet spot, and "
        "with one every twenty seconds no recording can be judged.",
        sources=("paper", "ours"),
    ),
    Metric(
        name="block_pct",
        unit="%",
        sentence="from a block's being asked for until it is computed, of the buffer's period",
        direction=Direction.SMALLER,
        summary=Summary.P99,
        good=50.0,
        bad=100.0,
        weight=0.40,
        spread=25.0,
        stability_weight=0.2,
        reason="After a whole period the buffer is empty: an underrun. With half a period nothing is near. One late "
        "block in a hundred is one a second at 10 ms, so the 99th percentile.",
        sources=("paper", "ours"),
    ),
)

_OFFICE = (
    _echo("key_ms", "keystroke until the document has settled", 0.35),
    _echo("recalc_ms", "change of a cell until the sheet is recalculated", 0.20),
    _echo("slide_ms", "next slide until it is drawn", 0.25),
    _response("copy_ms", "copying from one document to another", 0.20),
)

_INTERACTIVE = (
    Application(name="web", title="Web Browsing", role=Role.INTERACTIVE, metrics=_WEB),
    Application(name="game", title="Game Play", role=Role.INTERACTIVE, metrics=_GAME),
    Application(name="audio", title="Audio Remix", role=Role.INTERACTIVE, metrics=_AUDIO),
    Application(name="office", title="Office File Editing", role=Role.INTERACTIVE, metrics=_OFFICE),
)


def _load(name: str) -> Application:
    load = real(name)
    return Application(name=name, title=load.title or name.title(), role=Role.BACKGROUND, metrics=load.scored)


APPLICATIONS: Mapping[str, Application] = {one.name: one for one in (*_INTERACTIVE, *map(_load, BACKGROUND))}
"""By name; four interactive ones, then the loads, each as its module declares it."""
