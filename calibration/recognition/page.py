# SPDX-License-Identifier: GPL-2.0-only
"""The page about recognition, written from a kept result: figures and goals, where it errs, what it loses by what.

Takes a result and its figures, makes Markdown. It measures nothing.
"""

from collections.abc import Iterator, Mapping, Sequence

from calibration.goals import HEAD, Figure
from calibration.recognition import figures as evaluate_model_figures
from calibration.recognition.figures import Result

_WORST_SHOWN = 12


def page(result: Result, found: Sequence[Figure], pictures: Mapping[str, str], *, command: str) -> str:
    """The page. `pictures`: file names by what they show."""
    blocks = [
        _intro(result, command),
        ["## Figures", "", *_table(HEAD, evaluate_model_figures.rows(list(found)))],
        _places(result),
        _confusions(result, pictures),
        _unknown(result),
        _calibration(pictures),
        _learning(result, pictures),
        _recall(result),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _intro(result: Result, command: str) -> list[str]:
    seeds = ", ".join(str(seed) for seed in result.seeds) or "none"
    preferred = ", ".join(f"{kind} {result.kinds.count(kind)}" for kind in sorted(set(result.kinds)))
    lines = [
        "# Recognition: what it is worth",
        "",
        f"Written by `{command}` from kept figures; do not edit.",
        "",
        "The labels are the paper's: names of its eleven applications, alone and in pairs. The shipped model's labels",
        "are kinds of use; [kinds.md](kinds.md) and [model-card.md](model-card.md) say what that model is worth.",
        "",
        "Every figure is per tick, and of ticks that the model it speaks of has not learnt from: whole seeds of the",
        "scenarios' parameters are kept away from training and from every choice (weights, temperature, threshold of",
        "the unknown, flat or factored), which are made on inner folds. Where nothing else is said, it is of real",
        "programs whose recordings tell what single processes do, as the agent sees it; older recordings and the lab's",
        "stand-ins are learnt from too, and have figures of their own.",
        "",
        f"- made: {result.made}, in {result.took_s / 60:.0f} minutes, seed {result.seed}",
        f"- data: {result.rows} rows of {sum(result.sessions.values())} sessions, SHA-256 `{result.dataset_sha256}`",
        *(f"- {place}: {count} sessions" for place, count in result.sessions.items()),
        f"- seeds: {seeds}; held out: {result.held_out}, {result.folds} folds",
        f"- features of schema {result.schema}; recipe `{result.recipe}`",
        f"- preferred on validation sessions, by fold: {preferred}",
    ]
    if result.quick:
        lines.append("- **quick**: a small recipe and few folds; the figures are worse than the model's")
    if result.lacks:
        lines.append(f"- **lacking**: {result.lacks}")
    return lines


def _places(result: Result) -> list[str]:
    if not result.places:
        return []
    rows = [
        (one.name, str(one.rows), _pct(one.known_pct), _pct(one.left_out_pct), _number(one.drop_points))
        for one in result.places
    ]
    head = ("left out", "rows", "with it, %", "without it, %", "drop, points")
    return [
        "## Another machine",
        "",
        "A place is left out of training as a whole and then judged; *with it*: other sessions of the place were",
        "learnt from. An emulated guest runs several times slower than the host.",
        "",
        *_table(head, rows),
    ]


def _confusions(result: Result, pictures: Mapping[str, str]) -> list[str]:
    total = sum(sum(row) for row in result.confusion)
    rows = [(true, seen, str(count), f"{100 * count / total:.2f}") for true, seen, count in result.worst[:_WORST_SHOWN]]
    return [
        "## Where it errs",
        "",
        *_picture(pictures, "confusion"),
        *_table(("true", "recognised", "ticks", "% of all"), rows),
    ]


def _unknown(result: Result) -> list[str]:
    if not result.unknown_pct:
        return []
    rows = [(name, _pct(share)) for name, share in sorted(result.unknown_pct.items(), key=lambda one: -one[1])]
    return [
        "## What it has never seen",
        "",
        "Each program in turn is kept out of training; its ticks are then judged. *Accepted* ones are taken for a",
        "known use. Score and threshold of each are those that cost least on inner folds; mostly the score is",
        f"{result.unknown_score}.",
        "",
        *_table(("program", "accepted, %"), rows),
    ]


def _calibration(pictures: Mapping[str, str]) -> list[str]:
    return ["## How sure it is", "", *_picture(pictures, "reliability")] if "reliability" in pictures else []


def _learning(result: Result, pictures: Mapping[str, str]) -> list[str]:
    if not result.curve:
        return []
    rows = [(str(one.sessions), _pct(one.accuracy_28_pct), _pct(one.accuracy_40_pct)) for one in result.curve]
    return [
        "## What more data would bring",
        "",
        *_picture(pictures, "learning"),
        *_table(("sessions of each label and place", "28 scenarios, %", "all labels, %"), rows),
    ]


def _recall(result: Result) -> list[str]:
    rows = [(name, _pct(share), str(count)) for name, share, count in evaluate_model_figures.recall_pct(result)]
    return ["## Recall by label", "", *_table(("label", "recall, %", "ticks"), rows)]


def _picture(pictures: Mapping[str, str], what: str) -> list[str]:
    return [f"![{what}]({pictures[what]})", ""] if what in pictures else []


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> list[str]:
    lines = [_row(head), "|" + " --- |" * len(head)]
    return [*lines, *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _pct(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"
