# SPDX-License-Identifier: GPL-2.0-only
"""What is declared of a metric fits the sample, and is computed as declared."""

import dataclasses

import pytest
from two_samples import NEW, OLD

from collectors.metrics import METRICS
from collectors.metrics.kinds import Counter, State
from collectors.rates import derive

DECLARED = [metric for metric in METRICS if metric.of is not None]
ELAPSED_S = (NEW.monotonic_ns - OLD.monotonic_ns) / 1e9


@pytest.mark.parametrize("metric", DECLARED, ids=lambda metric: metric.field)
def test_a_declared_metric_is_growth_or_level_of_its_field(metric):
    old, new = (getattr(getattr(one, metric.part), metric.of.field) for one in (OLD, NEW))
    value = getattr(derive(OLD, NEW), metric.field)
    if isinstance(metric.of, State):
        assert value == float(new)
    else:
        assert value == (new - old) * metric.of.times / (ELAPSED_S * metric.of.per)


@pytest.mark.parametrize("metric", DECLARED, ids=lambda metric: metric.field)
def test_a_counter_that_went_back_is_unknown(metric):
    if isinstance(metric.of, Counter):
        part = dataclasses.replace(getattr(NEW, metric.part), **{metric.of.field: 0})
        back = dataclasses.replace(NEW, **{metric.part: part})
        assert getattr(derive(OLD, back), metric.field) is None
    else:
        assert getattr(derive(dataclasses.replace(OLD, **{metric.part: None}), NEW), metric.field) is not None


def test_a_metric_that_is_not_declared_simple_names_what_it_needs():
    assert {type(metric.of) for metric in METRICS} == {Counter, State, type(None)}
    assert all(metric.of.field in metric.inputs for metric in DECLARED)
