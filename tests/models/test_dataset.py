# SPDX-License-Identifier: GPL-2.0-only
"""Recordings become rows, bad ones are refused, and sessions are never torn apart."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.core.errors import ModelError
from asa.core.sample import CpuCounters, RawSample
from collectors import rates
from models import dataset, features
from models.dataset import Dataset, Recording


def sample(second: float, switches: int) -> RawSample:
    ticks = (int(50 * second), 0, int(10 * second), int(40 * second), 0, 0, 0, 0)
    cpu = CpuCounters(
        total=ticks,
        cores=((0, ticks),),
        interrupts=int(100 * second),
        context_switches=switches,
        forks=0,
        softirqs=(0,) * 10,
        runnable=1,
        blocked=0,
    )
    return RawSample(monotonic_ns=int(second * 1e9), wall_ns=int(second * 1e9), cpu=cpu)


def recording(label: str, number: int, place: str = "lab", count: int = 4) -> Recording:
    start = 1000 * number + 10 * sum(label.encode())
    return Recording(
        source=f"{label}-{number}.journal.xz",
        label=label,
        place=place,
        seed=number,
        started_ns=number,
        parameters="",
        samples=tuple(sample(start + second, (start + second) * 500) for second in range(count)),
    )


def sessions(*labels: str, count: int = 3, place: str = "lab") -> list[Recording]:
    return [recording(label, number, place) for label in labels for number in range(count)]


def test_a_row_is_what_the_agent_would_see():
    data = dataset.assemble(sessions("cpu", "idle"))
    first = next(it for it in data.sessions if it.label == "idle")
    derived = rates.derive(first.samples[1], first.samples[2])
    assert derived is not None
    expected = np.array(features.frame(derived, 1).values, dtype=float).astype(np.float32)
    row = np.flatnonzero(data.session == data.sessions.index(first))[1]
    assert np.array_equal(data.x[row], expected, equal_nan=True)
    assert np.isnan(data.x[row]).any()  # no disk, no network in these samples: unknown, not 0
    assert data.classes[data.y[row]] == "idle"
    assert data.at_ns[row] == first.samples[2].monotonic_ns
    assert data.x.shape == (6 * 3, len(features.NAMES))


def test_order_of_files_does_not_matter_and_contents_do():
    made = sessions("cpu", "idle")
    assert dataset.assemble(made).sha256 == dataset.assemble(reversed(made)).sha256
    other = [dataclasses.replace(made[0], samples=made[0].samples[:-1]), *made[1:]]
    assert dataset.assemble(other).sha256 != dataset.assemble(made).sha256


def test_a_gap_and_a_reboot_give_no_row():
    made = sessions("cpu", "idle")
    samples = made[0].samples
    gap = dataclasses.replace(made[0], samples=(*samples[:2], sample(5e6, 0), sample(5e6 + 1, 500), samples[3]))
    data = dataset.assemble([gap, *made[1:]])
    assert (data.session == data.sessions.index(gap)).sum() == 2


def refused(recordings: list[Recording], words: str, **options: int) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        dataset.assemble(recordings, **options)
    assert "\n" not in str(caught.value)


def test_nothing_to_train_on():
    refused([], "no recordings")


def test_a_session_without_a_label():
    refused([*sessions("cpu", "idle"), recording("", 9)], r"-9\.journal\.xz: a session without a label")


def test_a_session_without_samples():
    empty = dataclasses.replace(recording("cpu", 9), samples=())
    refused([*sessions("cpu", "idle"), empty], r"cpu-9\.journal\.xz: a session without samples")


def test_a_session_without_two_consecutive_samples():
    short = dataclasses.replace(recording("cpu", 9), samples=(sample(1, 1), sample(99, 9)))
    refused([*sessions("cpu", "idle"), short], r"cpu-9\.journal\.xz: no two consecutive")


@pytest.mark.parametrize("label", ["cpu", "idle"])
def test_the_same_session_twice_even_under_another_label(label: str):
    made = sessions("cpu", "idle")
    refused([*made, dataclasses.replace(made[0], source="copy.xz", label=label)], "stands in .* too")


def test_too_few_sessions_in_one_place():
    refused([*sessions("cpu", "idle"), *sessions("cpu", count=2, place="host")], "'cpu' in 'host': 2 sessions")
    refused(sessions("cpu", "idle"), "3 sessions, 4 are needed", least_sessions=4)


def test_one_label_is_nothing_to_tell_apart():
    refused(sessions("cpu"), "nothing to tell apart")


def made_of(counts: dict[tuple[str, str], int]) -> Dataset:
    made = [recording(label, number, place) for (label, place), n in counts.items() for number in range(n)]
    return dataset.assemble([dataclasses.replace(it, samples=_shifted(it)) for it in made])


def _shifted(it: Recording) -> tuple[RawSample, ...]:
    return tuple(dataclasses.replace(sample, wall_ns=sample.wall_ns + len(it.place)) for sample in it.samples)


@given(
    counts=st.fixed_dictionaries(
        {(label, place): st.integers(3, 7) for label in ("cpu", "idle") for place in ("lab", "host")}
    ),
    most=st.integers(3, 6),
)
def test_folds_take_whole_sessions_and_leave_something_to_train_on(counts, most):
    data = made_of(counts)
    everything = np.ones(len(data.y), dtype=bool)
    fold = dataset.deal(data, everything, most)
    assert fold.min() == 0
    assert fold.max() + 1 == min(most, max(counts.values()))
    for number in range(len(data.sessions)):
        assert len(set(fold[data.session == number].tolist())) == 1
    cells = data.cells()
    for number in range(fold.max() + 1):
        assert set(cells[fold != number].tolist()) == set(cells.tolist())
        inner = dataset.deal(data, fold != number, 3)
        assert (inner[fold == number] == -1).all()
        assert (inner[fold != number] >= 0).all()
        for choice in range(inner.max() + 1):
            assert set(cells[(inner != choice) & (inner >= 0)].tolist()) == set(cells.tolist())


def test_balance_makes_every_label_in_every_place_count_the_same():
    data = made_of({("cpu", "lab"): 3, ("cpu", "host"): 7, ("idle", "lab"): 4})
    weight, cells = data.balanced(), data.cells()
    sums = [weight[cells == cell].sum() for cell in range(3)]
    assert sums == pytest.approx([sums[0]] * 3)
    assert weight.mean() == pytest.approx(1.0)
