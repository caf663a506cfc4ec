# SPDX-License-Identifier: GPL-2.0-only
"""Recordings become rows, bad ones are refused, and sessions are never torn apart."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.core.errors import ModelError
from asa.core.mark import SEQUENCE, Mark, Phase
from asa.core.sample import CpuCounters, RawSample
from collectors import rates
from models import features
from models.features import Source
from models.train import dataset
from models.train.dataset import PHASES, Dataset, Recording


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
    window = features.Window()
    for previous, current in pairwise(first.samples[:3]):
        derived = rates.derive(previous, current)
        assert derived is not None
        window = features.push(window, current.monotonic_ns, derived, 1)
    expected = np.array(features.frame(window).values, dtype=float).astype(np.float32)
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


def test_sequences_are_left_out():
    made = sessions("cpu", "idle")
    assert dataset.assemble([*made, recording(SEQUENCE, 1)]).sha256 == dataset.assemble(made).sha256
    refused(sessions(SEQUENCE), "no recordings")


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


def test_in_a_label_every_choice_of_programs_counts_the_same():
    data = made_of({("cpu", "lab"): 4, ("idle", "lab"): 4})
    names = ["pigz", "xz", "xz", "xz", "pigz", "xz", "xz", "xz"]
    sessions = [
        dataclasses.replace(one, parameters=f'{{"{name}": {{}}}}')
        for one, name in zip(data.sessions, names, strict=True)
    ]
    data = dataclasses.replace(data, sessions=tuple(sessions))
    weight = data.balanced()
    of_session = [weight[data.session == number].sum() for number in range(8)]
    assert [one.label for one in sessions] == ["cpu"] * 4 + ["idle"] * 4
    assert of_session[:4] == pytest.approx([of_session[1] * 3, *of_session[1:2] * 3])
    assert of_session[4:] == pytest.approx([of_session[4]] * 4)  # at rest nothing plays
    assert sum(of_session[:4]) == pytest.approx(sum(of_session[4:]))


def test_rows_that_know_no_processes_count_less_but_their_label_does_not():
    data = made_of({("cpu", "lab"): 3, ("idle", "lab"): 4})
    x = data.x.copy()
    x[:, features.columns({Source.PROCESSES})] = np.nan
    x[np.flatnonzero(data.session == 0), features.NAMES.index("processes_busy")] = 1.0
    weight = dataclasses.replace(data, x=x).balanced()
    assert data.sessions[0].label == "cpu"
    new, old = weight[data.session == 0], weight[data.session == 1]
    assert old == pytest.approx([new[0] * dataset.OLD_WORTH] * len(old))
    sums = [weight[data.y == number].sum() for number in range(2)]
    assert sums == pytest.approx([sums[0]] * 2)


S = 1_000_000_000
COURSE = (  # of a session of twelve seconds: from which second on what holds
    (0, Phase.BEFORE, "", ""),
    (2, Phase.STARTING, "web", ""),
    (3, Phase.STARTING, "web", "blender"),
    (4, Phase.RUNNING, "web", "blender"),
    (9, Phase.ENDING, "", "blender"),
    (10, Phase.AFTER, "", ""),
)


def marked(label: str = "web+blender", number: int = 0, course=COURSE, place: str = "lab") -> Recording:
    made = recording(label, number, place, count=13)
    first_ns = made.samples[0].monotonic_ns
    marks = tuple(
        Mark(monotonic_ns=first_ns + second * S, phase=phase, interactive=front, background=back)
        for second, phase, front, back in course
    )
    return dataclasses.replace(made, marks=marks, tier="lab")


def alone(label: str, front: str, back: str, number: int) -> Recording:
    return marked(label, number, ((0, Phase.BEFORE, "", ""), (2, Phase.RUNNING, front, back)))


def scenarios() -> list[Recording]:
    return [one for n in range(3) for one in (marked(number=n), alone("web", "web", "", n))]


def of_first_pair(data: Dataset) -> list[tuple[str, str]]:
    rows = data.session == [it.label for it in data.sessions].index("web+blender")
    names = ["" if number < 0 else data.classes[number] for number in data.y[rows]]
    return [(PHASES[phase], name) for phase, name in zip(data.phase[rows], names, strict=True)]


def test_rows_of_a_session_with_marks_have_what_was_there():
    settled = [("before", "idle")] * 2 + [("running", "web+blender")] * 5 + [("after", "idle")] * 2
    assert of_first_pair(dataset.assemble(scenarios())) == settled
    everything = dataset.assemble(scenarios(), phases=PHASES)
    coming = [("starting", "web"), ("starting", "web+blender")]
    assert of_first_pair(everything) == [*settled[:2], *coming, *settled[2:7], ("ending", ""), *settled[7:]]
    assert everything.classes == ("idle", "web", "web+blender")  # blender alone was never trained on


def test_rows_that_are_left_out_were_seen_by_the_window():
    few, all_of_it = (dataset.assemble(scenarios(), phases=phases) for phases in (dataset.SETTLED, PHASES))
    running = all_of_it.select(np.isin(all_of_it.phase, [PHASES.index(phase) for phase in dataset.SETTLED]))
    assert np.array_equal(few.x, running.x, equal_nan=True)
    assert np.array_equal(few.at_ns, running.at_ns)


def test_a_class_has_its_factors():
    data = dataset.assemble(scenarios())
    assert data.interactives == ("", "web")
    assert data.backgrounds == ("", "blender")
    assert data.factors().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert data.factors()[data.y].tolist() == np.stack((data.interactive, data.background), axis=1).tolist()


def test_without_marks_the_whole_session_runs():
    data = dataset.assemble(sessions("cpu", "idle"))
    assert {PHASES[phase] for phase in data.phase} == {"running"}
    assert (data.interactives, data.backgrounds) == (("",), ("", "cpu"))
    assert data.factors().tolist() == [[0, 1], [0, 0]]


def test_marks_are_part_of_the_data():
    made = scenarios()
    later = tuple(dataclasses.replace(it, monotonic_ns=it.monotonic_ns + 1) for it in made[0].marks)
    moved = [dataclasses.replace(made[0], marks=later), *made[1:]]
    assert dataset.assemble(moved).sha256 != dataset.assemble(made).sha256


def test_no_row_in_the_phases_that_were_asked_for():
    with pytest.raises(ModelError, match="no row in the phases ending"):
        dataset.assemble(sessions("cpu", "idle"), phases=[Phase.ENDING])


def test_balance_is_by_what_is_there():
    data = dataset.assemble(scenarios())
    weight = data.balanced()
    sums = [weight[data.y == number].sum() for number in range(len(data.classes))]
    assert sums == pytest.approx([sums[0]] * 3)


def test_whole_seeds_are_held_out():
    data = dataset.assemble([*scenarios(), *(dataclasses.replace(it, seed=None) for it in sessions("cpu"))])
    assert len(set(data.seeds().tolist())) == 3 + 3
    everything = np.ones(len(data.y), dtype=bool)
    fold = dataset.deal_seeds(data, everything, 3)
    for number in range(3):
        inside = {data.sessions[it].seed for it in data.session[fold == number]}
        outside = {data.sessions[it].seed for it in data.session[fold != number]}
        assert not (inside & outside) - {None}
    some = data.tier_is("lab")
    assert (dataset.deal_seeds(data, some, 3)[~some] == -1).all()


def test_a_label_of_one_seed_cannot_be_held_out_by_seeds():
    made = [*scenarios(), *(dataclasses.replace(it, seed=7) for it in sessions("cpu"))]
    data = dataset.assemble(made)
    with pytest.raises(ModelError, match="'cpu': all of one group of seeds"):
        dataset.deal_seeds(data, np.ones(len(data.y), dtype=bool), 3)


def test_without_a_source_its_columns_are_unknown():
    data = dataset.assemble(scenarios())
    blind = data.without({Source.CPU})
    columns = features.columns({Source.CPU})
    assert np.isnan(blind.x[:, columns]).all()
    assert not np.isnan(data.x[:, columns]).all()
    assert np.array_equal(blind.x[:, ~columns], data.x[:, ~columns], equal_nan=True)
