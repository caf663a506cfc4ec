# SPDX-License-Identifier: GPL-2.0-only
"""Editing of office files: the table of the plug-in. `office_driver` is what plays, under Debian's own Python."""

import random

from asa.core.kinds import Kind
from scenarios.application import Application, Parameters, Place, Role

_PYTHON = "/usr/bin/python3"  # Debian's `uno` is made for this one


def _draw(rng: random.Random, _place: Place) -> Parameters:
    return {
        "paragraphs": rng.randint(20, 250),
        "words": rng.randint(20, 90),  # of a paragraph
        "rows": rng.randint(300, 4000),
        "formulas": rng.randint(1, 4),  # columns of them
        "slides": rng.randint(5, 25),
        "shapes": rng.randint(4, 30),  # of a slide
        "copied_rows": rng.randint(10, 120),
        "key_s": round(rng.uniform(0.07, 0.25), 3),  # mean, between two keys
        "think_s": round(rng.uniform(0.15, 0.9), 3),  # mean, between two other actions
        "blocks": [rng.randint(1, 3) for _ in APPLICATION.metrics],  # of a round, metric by metric
        "keys": rng.randint(8, 40),  # mean, of a block
        "cells": rng.randint(2, 8),
        "pages": rng.randint(2, 8),
    }


APPLICATION = Application(
    name="office",
    role=Role.INTERACTIVE,
    kind=Kind.WRITE,
    metrics=("key_ms", "recalc_ms", "slide_ms", "copy_ms"),
    packages=("libreoffice-writer", "libreoffice-calc", "libreoffice-impress", "python3-uno", "fonts-dejavu-core"),
    programs=("soffice", _PYTHON),
    draw=_draw,
    command=lambda _place, _parameters: (_PYTHON, "-m", "scenarios.interactive.office_driver"),
    ready_limit_s=120.0,
)
