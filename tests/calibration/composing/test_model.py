# SPDX-License-Identifier: GPL-2.0-only
"""What the rules of compositions allow, by the model: no CPU idles beside a task, waits have bounds, weights count."""

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.composing import model, spec
from calibration.composing.model import Task
from calibration.composing.spec import Between, Classes, Order, Queues, Spec

MS = 1_000
END_US = 1_000 * MS
FOREVER = ((0, 100 * END_US),)
BOUNDED = [
    {"order": Order.FIFO},
    {"order": Order.SJF},
    {"order": Order.LJF},
    {"order": Order.EDF, "classes": Classes.NICE},
    {"order": Order.FIFO, "classes": Classes.NICE, "queues": Queues.CLASS, "between": Between.PRIORITY},
    {"order": Order.FIFO, "classes": Classes.BURST, "queues": Queues.CLASS, "between": Between.PRIORITY},
    {"order": Order.FIFO, "classes": Classes.COMM, "queues": Queues.CLASS, "between": Between.SHARES},
    {"order": Order.FIFO, "queues": Queues.CPU},
]


def composed(**slots):
    one = Spec(**({"id": "mine", "purpose": "a test"} | slots))
    spec.check(one, "")
    return one


@st.composite
def tasks_on(draw, cpus, *, pinned):
    bursts = st.lists(st.tuples(st.integers(0, 60 * MS), st.integers(1, 80 * MS)), min_size=1, max_size=8).map(tuple)
    places = st.none() | st.frozensets(st.integers(0, cpus - 1), min_size=1)
    return [
        Task(
            name=str(number),
            bursts=draw(bursts | st.just(FOREVER)),
            weight=draw(st.sampled_from((15, 100, 300))),
            listed=draw(st.integers(0, 3)),
            cpus=draw(places) if pinned else None,
        )
        for number in range(draw(st.integers(1, 10)))
    ]


def busy(trace):
    """CPU -> its stretches in order."""
    found = defaultdict(list)
    for one in sorted(trace.stretches, key=lambda one: one.since_us):
        found[one.cpu].append((one.since_us, one.until_us))
    return found


def idle_us(stretches, since_us, until_us):
    return until_us - since_us - sum(max(0, min(end, until_us) - max(start, since_us)) for start, end in stretches)


@pytest.mark.parametrize("slots", [*BOUNDED, {"order": Order.VTIME}, {"order": Order.VTIME, "queues": Queues.LLC}])
@given(data=st.data())
@settings(max_examples=20, deadline=None, derandomize=True)
def test_no_cpu_idles_beside_a_task_that_may_run_there(slots, data):
    cpus = data.draw(st.integers(1, 4))
    tasks = data.draw(tasks_on(cpus, pinned=True))
    trace = model.play(composed(**slots), tasks, cpus, END_US)
    places = {task.name: task.cpus or range(cpus) for task in tasks}
    on = busy(trace)
    for wait in trace.waits:
        for cpu in places[wait.task]:
            assert idle_us(on[cpu], wait.since_us, wait.until_us) == 0


@pytest.mark.parametrize("slots", BOUNDED)
@given(data=st.data())
@settings(max_examples=20, deadline=None, derandomize=True)
def test_nobody_waits_longer_than_the_age_limit_and_a_slice_of_each(slots, data):
    cpus = data.draw(st.integers(1, 3))
    tasks = data.draw(tasks_on(cpus, pinned=False))
    one = composed(**slots, parameters={"slice-us": data.draw(st.sampled_from((1_000, 5_000, 20_000)))})
    numbers = {name: round(found.number.default) for name, found in spec.parameters(one).items()}
    most_us = numbers.get("age-ms", 0) * MS + numbers["slice-us"] * len(tasks)
    for wait in model.play(one, tasks, cpus, END_US).waits:
        assert wait.until_us - wait.since_us <= most_us


@given(
    weights=st.lists(st.integers(100, 1_000), min_size=2, max_size=4),
    crowd=st.integers(1, 3),
    slice_us=st.sampled_from((1_000, 5_000)),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_classes_share_a_cpu_by_their_weights(weights, crowd, slice_us):
    numbers = {"slice-us": slice_us, "age-ms": 1_000} | {f"weight-{group}": one for group, one in enumerate(weights)}
    slots = {"classes": Classes.COMM, "queues": Queues.CLASS, "between": Between.SHARES, "order": Order.FIFO}
    groups = range(len(weights))
    tasks = [Task(name=f"{group}.{one}", bursts=FOREVER, listed=group) for group in groups for one in range(crowd)]
    trace = model.play(composed(**slots, parameters=numbers), tasks, 1, END_US)
    for group in groups:
        wanted = Fraction(weights[group], sum(weights))
        got = Fraction(trace.ran_us(f"{group}.{one}" for one in range(crowd)), END_US)
        assert abs(got / wanted - 1) <= 0.1


@given(weights=st.lists(st.sampled_from((100, 150, 200)), min_size=5, max_size=8))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_virtual_time_shares_by_weight_where_nobody_is_due_half_of_a_cpu(weights):
    one = composed(order=Order.VTIME, parameters={"slice-us": 5_000, "lag-us": 100_000})
    tasks = [Task(name=str(number), bursts=FOREVER, weight=weight) for number, weight in enumerate(weights)]
    trace = model.play(one, tasks, 1, END_US)
    for task in tasks:
        assert trace.ran_us([task.name]) / END_US * sum(weights) / task.weight == pytest.approx(1, abs=0.1)


def test_two_tasks_alternate_under_virtual_time_whatever_they_weigh():
    """As under scx_simple: the one that ran is in no queue while the next one is looked for."""
    tasks = [Task(name="light", bursts=FOREVER, weight=15), Task(name="heavy", bursts=FOREVER, weight=1_000)]
    trace = model.play(spec.load("vtime", {}), tasks, 1, END_US)
    assert trace.ran_us(["light"]) == trace.ran_us(["heavy"])


def test_short_bursts_come_first_where_the_order_is_by_them():
    hogs = [Task(name=f"hog {number}", bursts=FOREVER) for number in range(4)]
    short = Task(name="short", bursts=((20 * MS, 1 * MS),) * 90)

    def mean_wait_us(name):
        waits = model.play(spec.load(name, {"slice-us": 5_000}), [*hogs, short], 1, END_US).waits
        own = [one.until_us - one.since_us for one in waits if one.task == "short"]
        return sum(own) / len(own)

    assert mean_wait_us("sjf") < mean_wait_us("fifo") / 2
    assert mean_wait_us("edf") < mean_wait_us("fifo") / 2
    assert mean_wait_us("two_level") < mean_wait_us("fifo") / 2


def test_a_batch_ends_sooner_where_the_longest_job_is_known_and_first():
    batch = [Task(name=f"short {number}", bursts=((0, 40 * MS),), known_us=40 * MS) for number in range(39)]
    batch.append(Task(name="long", bursts=((0, 800 * MS),), known_us=800 * MS))

    def end_us(name):
        trace = model.play(spec.load(name, {}), batch, 2, 4 * END_US)
        return max(one.until_us for one in trace.stretches)

    assert end_us("ljf") <= end_us("fifo") * 0.85


def test_a_play_is_the_same_again():
    tasks = [Task(name=str(number), bursts=((number, 30 * MS),) * 5) for number in range(6)]
    one = spec.load("two_level", {})
    assert model.play(one, tasks, 2, END_US) == model.play(one, tasks, 2, END_US)
