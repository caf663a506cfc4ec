# SPDX-License-Identifier: GPL-2.0-only
"""What is learnt from this machine's own journals: labelled sessions, and stretches that the model is sure of."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_uses import S, header, samples

from asa.core.decision import FeatureFrame, Judgement, Probabilities, Workload
from asa.core.errors import ModelError
from asa.core.mark import SEQUENCE, Mark, Phase
from asa.journal import Journal
from models import features
from models.artefact import Part
from models.own import Judged, Sure, Tick, gather, judged, stretches, ticks

CLASSES = tuple(map(Workload, ("cpu", "idle", "wakeup")))
PART = Part(name="workload", classes=CLASSES, weights=(0.4, 0.3, 0.3))
ONE_HEAD = np.arange(3)[:, None]


class Reader:
    """A judge that reads its answers from the frames: class, its probability, the machine's class, known."""

    classes, parts, places = CLASSES, (PART,), np.arange(3)

    def judge(self, frame):
        place, share, _, known = frame.values
        values = [(1 - share) / 2] * 3
        values[int(place)] = share
        distribution = Probabilities(classes=CLASSES, values=tuple(values))
        return Judgement(probabilities=distribution, score=None, known=bool(known))

    def members(self, frame):
        return [np.eye(3)[[int(frame.values[0]), int(frame.values[0]), int(frame.values[2])]]]


class Looker:
    """A judge that goes by the share of user time, as the real frame has it."""

    classes, parts, places = CLASSES, (PART,), np.arange(3)

    def judge(self, frame):
        share = frame.values[features.NAMES.index("user_share")]
        place = 0 if share > 0.5 else 2 if share > 0.1 else 1
        values = [0.05, 0.05, 0.05]
        values[place] = 0.9
        return Judgement(probabilities=Probabilities(classes=CLASSES, values=tuple(values)), score=None, known=True)

    def members(self, frame):
        place = int(np.argmax(self.judge(frame).probabilities.values))
        return [np.eye(3)[[place] * 3]]


def seen(*runs, gap_at=None):
    """Ticks of runs (how many, class, probability, the machine's class, known), a second each."""
    made, at_s = [], 0
    for count, place, share, machine, known in runs:
        for _ in range(count):
            at_s += 5 if at_s == gap_at else 1
            frame = FeatureFrame(
                schema=features.SCHEMA, values=np.array((place, share, machine, known), dtype=np.float64)
            )
            made.append(Tick((at_s - 1) * S, at_s * S, at_s * S, frame))
    return made


def judged_runs(*runs, **more):
    return [judged(tick, Reader()) for tick in seen(*runs, **more)]


def found(*runs, **more):
    return list(stretches(judged_runs(*runs, **more), ONE_HEAD, Sure()))


def test_a_long_sure_stretch_counts_and_a_short_one_does_not():
    assert found((60, 1, 0.9, 1, 1)) == [(0, 60, 1)]
    assert found((25, 1, 0.9, 1, 1)) == []
    assert found((60, 1, 0.9, 1, 1), (20, 0, 0.9, 0, 1), (40, 2, 0.9, 2, 1)) == [(0, 60, 1), (80, 120, 2)]
    assert found() == []


def test_moments_of_doubt_belong_to_the_stretch_and_doubt_itself_ends_it():
    mostly = [(9, 1, 0.95, 1, 1), (1, 0, 0.9, 0, 1)] * 6
    assert found(*mostly) == [(0, 60, 1)]
    half = [(6, 1, 0.95, 1, 1), (4, 0, 0.9, 0, 1)] * 6
    assert found(*half) == []  # on top in 60 % of the ticks only
    assert found((60, 1, 0.6, 1, 1)) == []  # stable, and not confident


def test_what_a_member_denies_or_nobody_knows_does_not_count():
    assert found((60, 1, 0.9, 0, 1)) == []
    assert found((60, 1, 0.9, 1, 0)) == []
    assert found((40, 1, 0.9, 1, 1), (20, 1, 0.9, 0, 1)) == [(0, 60, 1)]  # the machine agrees in two thirds


def test_a_gap_parts_a_stretch():
    assert found((60, 1, 0.9, 1, 1), gap_at=40) == [(0, 40, 1)]


@pytest.mark.parametrize("interval_s", [4, 5])
def test_ticks_further_apart_than_the_longest_gap_are_no_gaps(interval_s):
    slow = [one._replace(at_ns=one.at_ns * interval_s) for one in judged_runs((30, 1, 0.9, 1, 1))]
    assert list(stretches(slow, ONE_HEAD, Sure())) == [(0, 30, 1)]
    del slow[20]  # one that is missing is a gap
    assert list(stretches(slow, ONE_HEAD, Sure())) == [(0, 20, 1), (20, 29, 1)]
    assert list(stretches(slow[:1], ONE_HEAD, Sure())) == []


def test_each_head_has_to_agree_on_its_factor():
    in_heads = np.array([[0, 1], [1, 0]])  # two classes, of the four combinations of two heads
    sure = np.array([[0.9, 0.1]] * 60, dtype=np.float32)

    def ticks_of(heads):
        return [
            Judged(
                at_ns=at * S,
                wall_ns=at * S,
                row=np.zeros(1),
                distribution=one,
                known=True,
                first=np.array(heads, dtype=np.uint8),
            )
            for at, one in enumerate(sure)
        ]

    assert list(stretches(ticks_of([[0, 0, 0], [1, 1, 1]]), in_heads, Sure())) == [(0, 60, 0)]
    assert list(stretches(ticks_of([[0, 0, 0], [1, 1, 0]]), in_heads, Sure())) == []


@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.integers(0, 2), st.floats(0.34, 1.0), st.integers(0, 2), st.integers(0, 1)),
        max_size=8,
    )
)
def test_stretches_are_apart_long_and_of_the_class_on_top(runs):
    made = judged_runs(*runs)
    after_last = 0
    for first, after, place in stretches(made, ONE_HEAD, Sure()):
        assert after_last <= first < after <= len(made)
        after_last = after
        assert made[after - 1].at_ns - made[first].at_ns >= Sure().least_s * S
        assert np.mean([one.distribution.argmax() == place for one in made[first:after]]) >= Sure().stable_share


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path / "own.sqlite") as book:
        yield book


def put(book, head, made, marks=()):
    book.begin(head)
    for sample in made:
        book.add(sample)
    book.mark(marks)
    book.commit()


def test_a_labelled_session_gives_its_running_phase(journal):
    made = samples([("idle", 10), ("wakeup", 20), ("idle", 10)], 1)
    start_ns = made[0].monotonic_ns
    marks = [
        Mark(monotonic_ns=start_ns, phase=Phase.BEFORE),
        Mark(monotonic_ns=start_ns + 9 * S, phase=Phase.RUNNING, background="wakeup"),
        Mark(monotonic_ns=start_ns + 29 * S, phase=Phase.AFTER),
    ]
    put(journal, header("wakeup", 1), made, marks)
    put(journal, header("cpu", 2), samples([("cpu", 12)], 2))
    own = gather([("j", journal)], Looker(), Sure())
    assert {label: own.label.count(label) for label in own.labels()} == {"cpu": 11, "wakeup": 20}
    assert own.by_hand == len(own.label) == len(own.x)
    assert len(own.units) == 2
    system = features.NAMES.index("system_share")
    assert (own.x[np.array(own.label) == "wakeup", system] > 0.5).all()


def test_an_agents_session_gives_its_stretches_without_their_edges(journal):
    put(journal, header("", None), samples([("cpu", 60), ("idle", 60), ("cpu", 61)], 3))
    own = gather([("j", journal)], Looker(), Sure())
    assert own.by_hand == 0
    assert own.labels() == ("cpu", "idle")
    assert len(own.units) == 2  # the two of cpu are less than 10 minutes apart: held out together or not at all
    assert 90 < own.label.count("cpu") < 100
    user = features.NAMES.index("user_share")
    assert (own.x[np.array(own.label) == "cpu", user] > 0.5).all()
    with pytest.raises(ModelError, match="nothing to learn"):
        gather([("j", journal)], Looker(), Sure(), by_hand_only=True)


def test_an_agent_that_was_started_again_goes_on_in_the_same_unit(journal):
    put(journal, header("", None), samples([("cpu", 700)], 3))
    put(journal, header("", None), samples([("cpu", 60)], 4))  # 5 minutes after the end of the first
    put(journal, header("", None), samples([("cpu", 60)], 5))  # 16 minutes later
    own = gather([("j", journal)], Looker(), Sure())
    assert own.units == ("j: session 1: cpu", "j: session 3: cpu")
    assert len(own.starts) == 3


def test_times_are_right_after_a_suspend_and_a_boot(journal):
    hour_ns = 3600 * S
    before, after = (samples([("cpu", 140)], 3)[part] for part in (slice(70), slice(70, None)))
    slept = [replace(one, wall_ns=one.wall_ns + hour_ns, suspended_ns=hour_ns) for one in after]
    put(journal, header("", None), [*(replace(one, suspended_ns=0) for one in before), *slept])
    booted = samples([("cpu", 60)], 0)  # CLOCK_MONOTONIC begins anew, 5 minutes later
    to_wall_ns = slept[-1].wall_ns + 300 * S
    put(journal, header("", None), [replace(one, wall_ns=to_wall_ns + one.monotonic_ns) for one in booted])
    assert gather([("j", journal)], Looker(), Sure()).units == ("j: session 1: cpu",)


def test_sequences_are_left_out(journal):
    put(journal, header("cpu", 2), samples([("cpu", 12)], 2))
    put(journal, header(SEQUENCE, 3), samples([("idle", 60), ("cpu", 60)], 3))
    own = gather([("j", journal)], Looker(), Sure())
    assert (own.labels(), len(own.label)) == (("cpu",), 11)


def test_the_same_journal_gives_the_same_rows(journal):
    put(journal, header("", None), samples([("cpu", 60), ("idle", 60)], 3))
    one, other = (gather([("j", journal)], Looker(), Sure()) for _ in range(2))
    assert one.sha256 == other.sha256
    assert np.array_equal(one.x, other.x, equal_nan=True)


def test_foreign_labels_doubles_and_nothing_are_refused(journal):
    with pytest.raises(ModelError, match="nothing to learn"):
        gather([("j", journal)], Looker(), Sure())
    put(journal, header("chess", 2), samples([("cpu", 12)], 2))
    with pytest.raises(ModelError, match="'chess', which the model in use does not know"):
        gather([("j", journal)], Looker(), Sure())
    put(journal, header("cpu", 2), samples([("cpu", 12)], 2))
    knows_chess = type("KnowsChess", (Looker,), {"classes": (*CLASSES, "chess")})()
    with pytest.raises(ModelError, match="a: session 2 stands in a: session 1 too"):
        gather([("a", journal)], knows_chess, Sure())


def test_ticks_begin_anew_after_a_gap():
    made = samples([("cpu", 10)], 1)
    late = [sample for sample in samples([("cpu", 30)], 1) if sample.monotonic_ns > made[-1].monotonic_ns + 12 * S]
    after = [tick for tick in ticks([*made, *late]) if tick.since_ns >= late[0].monotonic_ns]
    alone = list(ticks(late))
    assert len(after) == len(alone) > 0
    pairs = ((one.frame.values, other.frame.values) for one, other in zip(after, alone, strict=True))
    assert all(np.array_equal(*pair, equal_nan=True) for pair in pairs)
