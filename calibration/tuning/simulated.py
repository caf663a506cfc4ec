# SPDX-License-Identifier: GPL-2.0-only
"""A simulated objective of three numbers, as the study of CFS had one: how long a batch takes in the model.

The model of compositions (`calibration.composing.model`) plays the preset `ljf`: 40 jobs on four CPUs, the one in the
middle twenty times as long, no history. A search takes seconds and no guest. It is for choosing how to search: what it
says of a scheduler is the model's word alone.
"""

from collections.abc import Callable, Sequence
from functools import cache

from calibration.composing import spec
from calibration.policies import agreement

PRESET = "ljf"
NAMES = ("slice-us", "age-ms", "cap-ms")


def costs() -> Callable[[Sequence[Sequence[float]]], list[float]]:
    """Of points in the cube 0..1: each one's makespan in us. What was asked before is not played again."""
    numbers = {name: one.number for name, one in spec.parameters(spec.load(PRESET, {})).items()}

    @cache
    def makespan_us(values: tuple[int, ...]) -> float:
        made = spec.load(PRESET, dict(zip(NAMES, values, strict=True)))
        return float(agreement.makespan_us(made, agreement.JOBS // 2))

    def told(points: Sequence[Sequence[float]]) -> list[float]:
        return [
            makespan_us(tuple(round(numbers[name].at(one)) for name, one in zip(NAMES, point, strict=True)))
            for point in points
        ]

    return told
