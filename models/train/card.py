# SPDX-License-Identifier: GPL-2.0-only
"""What a trained model is worth, for people: the tables that `asa lab train` prints and the model card it writes.

Takes the dataset, the held-out predictions and the artefact's header, makes Markdown. Every number comes from there.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from asa.config import Voting
from models.artefact import MEMBERS, Array, Header
from models.train import evaluation
from models.train.dataset import Dataset
from models.train.ensemble import Recipe
from models.train.evaluation import HeldOut, accuracy_pct
from models.train.factored import Kind
from models.train.held_out import BLIND_EVERY
from models.train.training import Trained


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
    """Markdown table: accuracy per tick on held-out rows in which all of the label works: by member, by kind of model,
    without each source, and after the vote; of all rows, by place, and of pairs: by the seed that was held out, and
    those of real programs whose recordings tell what single processes do (`evaluation.judged`)."""
    asked = _asked(data, evaluation.running(data) & (held_out.fold >= 0))
    masks = list(asked.values())
    lines = [_row("per tick, %", *asked), _rule(len(masks) + 1)]
    predictions = [
        *zip(MEMBERS, held_out.by_member, strict=True),
        *((f"{kind}, ensemble", probabilities) for kind, probabilities in held_out.of.items()),
        ("as chosen in each fold", held_out.blended),
        *((f"the same without {name}", probabilities) for name, probabilities in held_out.hidden.items()),
    ]
    for name, probabilities in predictions:
        shares = [f"{accuracy_pct(probabilities[mask], data.y[mask]):.2f}" if mask.any() else "" for mask in masks]
        lines.append(_row(name, *shares))
    voted = evaluation.voted_pct(data, held_out.blended, settings, use=asked["all"])
    if voted is not None:
        name = f"after a {settings.window_s:g} s vote" if settings.method == "time-weighted" else "after the vote"
        lines.append(_row(name, f"{voted:.2f}", *("" for _ in masks[1:])))
    return lines


def _asked(data: Dataset, use: Array) -> dict[str, Array]:
    # rows (bool (n,)) of `use`, by what the reader is told that they are
    place = np.array([session.place for session in data.sessions])[data.session]
    seed = np.array([-1 if session.seed is None else session.seed for session in data.sessions])[data.session]
    pairs = use & evaluation.pairs(data)
    found = {"all": use}
    found |= {name: use & (place == name) for name in data.places()}
    numbers, labels = np.unique(np.unique(np.stack((seed[pairs], data.y[pairs])), axis=1)[0], return_counts=True)
    alone = numbers[labels > 1]  # a recording of many seeds has one of them for each label
    found |= {f"pairs, seed {one}": pairs & (seed == one) for one in alone.tolist()}
    others = pairs & ~np.isin(seed, alone)
    found |= {"pairs, a seed each": others} if others.any() else {}
    return found | {"pairs of accuracy_base_28_pct": pairs & evaluation.judged(data)}


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
    serial = any(place.startswith("lab") and "clock" not in place for place in places)
    return [*lines, *(("", *_SERIAL) if serial else ())]


def figures_table(figures: list[Figure]) -> list[str]:
    """Markdown table: figures, their goals, and whether they are met."""
    return [_row("figure", "value", "goal", "met"), _rule(4), *(_figure_row(figure) for figure in figures)]


def render(
    data: Dataset, trained: Trained, *, recipe: Recipe, settings: Voting, figures: list[Figure], command: str
) -> str:
    """The whole model card."""
    header, held_out = trained.header, trained.held_out
    table = evaluation.confusion(data, held_out.blended, evaluation.running(data) & (held_out.fold >= 0))
    recall = evaluation.recall_pct(table)
    worst = int(np.nanargmin(recall))
    folds = Counter(held_out.kinds)
    lines = [
        *_TITLE,
        f"- classes: {', '.join(header.classes)}",
        f"- features: {len(header.features)}, schema {header.schema} (`models/features/`)",
        f"- trained: {header.trained}, `{command}`",
        f"- versions: {', '.join(f'{name} {version}' for name, version in sorted(header.versions.items()))}",
        f"- dataset SHA-256: `{header.dataset_sha256}`",
        f"- kind: {trained.model.kind}; right on validation rows: {_shares(trained.validation_pct)}",
        *_heads(header),
        *_open_world(header),
        f"- weight of hints: {header.hint_weight or 0.0:g}",
        f"- recipe: `{recipe}`",
        *("", "## Data", "", *sessions_table(data)),
        *("", "## Split", "", f"Held out: {trained.split}, in {len(held_out.kinds)} outer folds", *_SPLIT),
        *("", "Preferred in the outer folds: " + ", ".join(f"{kind} {n} times" for kind, n in folds.items()) + "."),
        *("", "## Accuracy on what was held out", "", *accuracy_table(data, held_out, settings)),
        *("", f"Worst class: {data.classes[worst]}, recall {recall[worst]:.2f} %."),
        *("", *confusion_table(data, table)),
        *("", "## Figures", "", *figures_table(figures), "", *_WARNING),
        *("", "## Limits", "", *_LIMITS, *_lack(data)),
    ]
    return "\n".join([*lines, ""])


def _heads(header: Header) -> list[str]:
    return [
        f"- members and weights of `{part.name}`: "
        + ", ".join(f"{name} {share:.4f}" for name, share in zip(MEMBERS, part.weights, strict=True))
        + f"; temperature {part.temperature:g}"
        for part in header.parts
    ]


def _open_world(header: Header) -> list[str]:
    opened = header.open_world
    return [] if opened is None else [f"- unknown: {opened.score} below {opened.least:.4g}"]


def _shares(found: Mapping[Kind, float]) -> str:
    return ", ".join(f"{kind} {share:.2f} %" for kind, share in found.items())


def _lack(data: Dataset) -> list[str]:
    words = evaluation.lacks(data)
    return ["", f"{words[0].upper()}{words[1:]}."] if words else []


_SERIAL = (
    "Recordings in `lab` without a clock in their name are of the serial clock (`icount`), at 250 Hz:",
    "all CPUs of a guest took turns on one stream of instructions. They say nothing of several CPUs at the same time.",
)
_TITLE = (
    "# Model card: the base model",
    "",
    "Written by the training run itself; do not edit. The model recognises from one second of kernel counters what a",
    "machine is used for: kinds of use, whatever the program. Programs that it never saw it recognises far less often",
    "than the figures below say, which are of programs that it learnt: `make figures-recognition` prints those.",
    "",
)
_SPLIT = (
    "In each outer fold what is held out is the test. The other sessions take turns as validation sessions, predicted",
    "by members trained without them; on those predictions are chosen: the weights of the members (grid over the",
    "simplex, log loss), the sigmoids of the support vector machine, the temperature, and whether the model is flat or",
    "factored if both were tried. For the threshold of the unknown kinds and programs are kept out in turn, too; it is",
    "the one that costs least (`models/train/cost.py`). Then the members are trained again on all but the test. No",
    "session is ever on two sides. Where one session of each label is left to learn from, its thirds take the place of",
    "sessions.",
    f"One training row in {BLIND_EVERY} that has what eBPF tells is learnt from a second time without it.",
    "",
    "The shipped model is trained on all sessions, with all of that chosen on inner folds of its own. The figures",
    "below are those of the outer folds: nothing is left to test the shipped one on.",
)
_WARNING = (
    "`accuracy_random_rows_pct` deals single rows instead of sessions. It is shown as a warning: neighbouring rows are",
    "nearly copies, so that it says little about sessions which the model has not seen.",
)


_LIMITS = (
    "It knows its programs by how they behave, in the places above. Another machine, another program of the same kind",
    "and another scheduler may look different: `make bench-recognition` says by how much,",
    "`asa lab finetune` fits the model to a machine, `asa teach` to a program. A use of none of its classes is told by",
    "the threshold above, and not always.",
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
