# SPDX-License-Identifier: GPL-2.0-only
"""What a trained model is worth, for people: the tables that `asa train` prints and the model card it writes.

Takes the dataset, the held-out predictions and the artefact's header, makes Markdown. Every number comes from there.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from asa.config import Voting
from models import evaluation
from models.artefact import MEMBERS, Array, Header
from models.dataset import Dataset
from models.ensemble import Recipe
from models.evaluation import HeldOut, accuracy_pct


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number with its goal (None: none set). `least` tells whether the goal is a lower bound or an upper one."""

    name: str
    value: float | None
    unit: str
    goal: float | None = None
    least: bool = True

    @property
    def ok(self) -> bool | None:
        """Whether the goal is met, None without a goal or a value."""
        if self.goal is None or self.value is None:
            return None
        return self.value >= self.goal if self.least else self.value <= self.goal


def accuracy_table(data: Dataset, held_out: HeldOut, settings: Voting) -> list[str]:
    """Markdown table: accuracy per tick on held-out sessions, by member and place, and after the vote."""
    places = data.places()
    of_row = np.array([places.index(session.place) for session in data.sessions])[data.session]
    masks = [of_row >= 0, *(of_row == number for number in range(len(places)))]
    lines = [_row("per tick, %", "all", *places), _rule(len(masks) + 1)]
    predictions = [*zip(MEMBERS, held_out.by_member, strict=True), ("ensemble", held_out.blended)]
    for name, probabilities in predictions:
        lines.append(_row(name, *(f"{accuracy_pct(probabilities[mask], data.y[mask]):.2f}" for mask in masks)))
    voted = evaluation.voted_pct(data, held_out, settings)
    if voted is not None:
        lines.append(_row(f"after a {settings.window_s:g} s vote", f"{voted:.2f}", *("" for _ in places)))
    return lines


def confusion_table(data: Dataset, table: Array) -> list[str]:
    """Markdown table: rows by true class (down) and recognised class (across), and recall."""
    recall = evaluation.recall_pct(table)
    lines = [_row("true \\ recognised", *data.classes, "recall, %"), _rule(len(data.classes) + 2)]
    for name, counts, share in zip(data.classes, table.tolist(), recall.tolist(), strict=True):
        lines.append(_row(name, *counts, f"{share:.2f}"))
    return lines


def sessions_table(data: Dataset) -> list[str]:
    """Markdown table: sessions and rows by label and place."""
    places = data.places()
    sessions = Counter((session.label, session.place) for session in data.sessions)
    rows = Counter((data.sessions[number].label, data.sessions[number].place) for number in data.session.tolist())
    lines = [_row("label", *(f"{place}: sessions / rows" for place in places)), _rule(len(places) + 1)]
    lines += [
        _row(label, *(f"{sessions[label, place]} / {rows[label, place]}" for place in places)) for label in data.classes
    ]
    return lines


def figures_table(figures: list[Figure]) -> list[str]:
    """Markdown table: figures, their goals, and whether they are met."""
    return [_row("figure", "value", "goal", "met"), _rule(4), *(_figure_row(figure) for figure in figures)]


def render(
    data: Dataset,
    held_out: HeldOut,
    header: Header,
    *,
    recipe: Recipe,
    settings: Voting,
    figures: list[Figure],
    command: str,
) -> str:
    """The whole model card."""
    table = evaluation.confusion(data, held_out)
    recall = evaluation.recall_pct(table)
    worst = int(recall.argmin())
    weights = ", ".join(f"{name} {share:.4f}" for name, share in zip(MEMBERS, header.weights, strict=True))
    lines = [
        *_TITLE,
        f"- classes: {', '.join(data.classes)}",
        f"- features: {len(header.features)}, schema {header.schema} (`models/features.py`)",
        f"- trained: {header.trained}, `{command}`",
        f"- versions: {', '.join(f'{name} {version}' for name, version in sorted(header.versions.items()))}",
        f"- dataset SHA-256: `{header.dataset_sha256}`",
        f"- members and weights: {weights}",
        f"- recipe: `{recipe}`",
        *("", "## Data", "", *sessions_table(data)),
        *("", "## Split", "", f"Outer folds: {len(held_out.fold_weights)}.", *_SPLIT),
        *("", "## Accuracy on held-out sessions", "", *accuracy_table(data, held_out, settings)),
        *("", f"Worst class: {data.classes[worst]}, recall {recall[worst]:.2f} %."),
        *("", *confusion_table(data, table)),
        *("", "## Figures", "", *figures_table(figures), "", *_WARNING),
    ]
    return "\n".join([*lines, ""])


_TITLE = (
    "# Model card: the base model",
    "",
    "Written by the training run itself; do not edit. The model recognises from one second of kernel counters what a",
    "machine is used for.",
    "",
)
_SPLIT = (
    "Whole sessions are dealt out: in each fold one session of every label and place is the test. The others take",
    "turns as validation sessions, predicted by members trained without them; on those predictions the weights of the",
    "members (grid over the simplex, log loss) and the sigmoids of the support vector machine are chosen. Then the",
    "members are trained again on all but the test sessions. No session is ever on two sides.",
    "",
    "The shipped model is trained on all sessions, with the mean of the folds' weights. The figures below are those of",
    "the folds: nothing is left to test the shipped one on.",
)
_WARNING = (
    "`accuracy_random_rows_pct` deals single rows instead of sessions. It is shown as a warning: neighbouring rows are",
    "nearly copies, so that it says little about sessions which the model has not seen.",
)


def _figure_row(figure: Figure) -> str:
    met = {True: "yes", False: "no", None: ""}[figure.ok]
    value = "unknown" if figure.value is None else f"{figure.value:.3f} {figure.unit}"
    goal = "" if figure.goal is None else f"{'>=' if figure.least else '<='} {figure.goal:g} {figure.unit}"
    return _row(figure.name, value, goal, met)


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _rule(columns: int) -> str:
    return "|" + "---|" * columns
