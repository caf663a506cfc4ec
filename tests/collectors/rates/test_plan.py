# SPDX-License-Identifier: GPL-2.0-only
"""What is planned is derived as ever, and what is not planned is left out."""

import dataclasses

import pytest
from two_samples import NEW, OLD

from collectors.rates import EVERYTHING, Plan, Rates, derive
from collectors.rates.plan import STEPS

NAMES = [field.name for field in dataclasses.fields(Rates)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.run.__name__)
def test_a_step_gives_what_it_says(step):
    fields = {}
    step.run(fields, step.part(OLD), step.part(NEW), 1.0)
    assert set(fields) == step.gives


@pytest.mark.parametrize("name", NAMES)
def test_a_field_that_is_planned_alone_is_that_of_everything(name):
    assert getattr(derive(OLD, NEW, Plan([name])), name) == getattr(derive(OLD, NEW), name)


def test_what_is_not_planned_is_left_out():
    rates = derive(OLD, NEW, Plan(["forks_per_s"]))
    assert rates.forks_per_s is not None
    assert rates.interrupts_per_s is rates.block_latency_p99_us is rates.memory_free_bytes is None
    assert derive(OLD, NEW, EVERYTHING) == derive(OLD, NEW)
