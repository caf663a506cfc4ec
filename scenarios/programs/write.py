# SPDX-License-Identifier: GPL-2.0-only
"""Write: AbiWord, Gnumeric, Mousepad, Geany, Vim and FeatherPad, typed into and paged through as a person does.

Length of the document, resolution and how quickly somebody types differ. LibreOffice is `scenarios.interactive.office`.
"""

import random
from collections.abc import Callable
from pathlib import Path

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.programs.looping import Argv
from scenarios.programs.staged import Stage, Staged, draw_person, keys, program, words

_MOVES = ("Page_Down", "Page_Down", "Page_Up", "ctrl+Home", "ctrl+End", "Down", "Up")


def _draw(rng: random.Random, _place: Place) -> Parameters:
    return {
        **draw_person(rng),
        "paragraphs": rng.randint(20, 600),
        "words": rng.randint(15, 90),  # of a paragraph
        "typed": rng.randint(2, 10),  # words, of a pass
        "moves": rng.randint(1, 8),
        "notches": rng.randint(0, 10),
        "mistakes": round(rng.uniform(0.0, 0.15), 2),  # a share of the keys
    }


def _text(stage: Stage) -> Path:
    path = stage.driver.scratch / "text.txt"
    lines = (words(stage.rng, stage.given["words"]) for _ in range(stage.given["paragraphs"]))
    path.write_text("\n".join(lines) + "\n")
    return path


def _code(stage: Stage) -> Path:
    path = stage.driver.scratch / "text.py"
    lines = (
        f"def {words(stage.rng, 3).replace(' ', '_')}_{number}(left, right):\n"
        f'    """{words(stage.rng, 9)}"""\n    return left * {stage.rng.randrange(100)} + right\n'
        for number in range(stage.given["paragraphs"])
    )
    path.write_text("\n".join(lines))
    return path


def _table(stage: Stage) -> Path:
    path = stage.driver.scratch / "table.csv"
    rows = range(1, 4 * stage.given["paragraphs"])
    lines = (f"{stage.rng.randrange(1000)},{stage.rng.random():.4f},=A{row}*B{row},=SUM(A$1:A{row})" for row in rows)
    path.write_text("\n".join(lines) + "\n")
    return path


def _type(stage: Stage, text: str) -> None:
    for sign in text:
        if stage.rng.random() < stage.given["mistakes"]:
            stage.desk.key("BackSpace")
        else:
            stage.desk.type(sign)
        stage.pause(stage.given["key_s"])


def _move(stage: Stage) -> None:
    for _ in range(stage.given["moves"]):
        keys(stage, _MOVES, 1)
        stage.pause(stage.given["think_s"])
    if stage.given["notches"]:
        stage.desk.scroll(stage.rng.choice((-1, 1)) * stage.given["notches"])


def _prose(stage: Stage) -> None:
    _move(stage)
    _type(stage, words(stage.rng, stage.given["typed"]) + stage.rng.choice((". ", ", ", " ", "\n")))


def _cells(stage: Stage) -> None:
    _move(stage)
    for _ in range(stage.given["typed"]):
        _type(stage, f"{stage.rng.randrange(10_000)}\n")
        stage.pause(stage.given["think_s"])


def _vim(stage: Stage) -> None:
    stage.desk.key("Escape")
    _move(stage)
    stage.desk.type("o")  # a line of its own
    _type(stage, words(stage.rng, stage.given["typed"]))
    stage.desk.key("Escape")


def _editor(
    name: str,
    *,
    document: Callable[[Stage], Path] = _text,
    argv: Argv = (),
    package: str = "",
    act: Callable[[Stage], None] = _prose,
) -> Staged:
    def begin(stage: Stage) -> None:
        stage.start((name, *argv, str(document(stage))))

    return program(
        __name__,
        name=name,
        kind=Kind.WRITE,
        packages=(package or name,),
        programs=(name,),
        draw=_draw,
        begin=begin,
        act=act,
    )


PROGRAMS = (
    _editor("abiword"),
    _editor("gnumeric", document=_table, argv=("--no-splash",), act=_cells),
    _editor("mousepad", argv=("--disable-server",)),
    _editor("geany", document=_code, argv=("--new-instance", "--no-msgwin", "--no-session", "--no-plugins")),
    _editor("gvim", package="vim-gtk3", document=_code, argv=("-f", "-n"), act=_vim),
    _editor("featherpad", argv=("--standalone",)),
)
