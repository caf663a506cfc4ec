# SPDX-License-Identifier: GPL-2.0-only
"""Recorded sessions as streams: real samples, made-up marks, and a model of a few lines."""

from dataclasses import dataclass, replace

import pytest

from asa import paths
from asa.core.decision import Probabilities, Workload
from asa.core.errors import JournalError, ModelError
from asa.core.mark import Mark, Phase
from asa.decide.voting import UNKNOWN
from asa.journal import Journal
from calibration.voting.recorded import classify, read
from models import features

RECORDING = paths.base_model().parents[1] / "recordings/host.journal.xz"
CLASSES = (Workload("idle"), Workload("web"))


@dataclass(frozen=True)
class Judged:
    probabilities: Probabilities
    known: bool


class Model:
    """Sure of `web`; every third frame fits nothing."""

    classes = CLASSES

    def __init__(self):
        self.frames = []

    def judge(self, frame):
        self.frames.append(frame)
        return Judged(Probabilities(classes=CLASSES, values=(0.1, 0.9)), len(self.frames) % 3 != 0)


@pytest.fixture(scope="module")
def recorded():
    with Journal.unpack(RECORDING) as journal:
        session = next(one for one in journal.sessions() if one.header.label == "wakeup")
        return session.header, list(journal.samples(session.number))


def journal_of(path, header, samples, marks):
    with Journal.open(path) as journal:
        journal.begin(header)
        for sample in samples:
            journal.add(sample)
        journal.mark(marks)
        journal.commit()
    return path


def test_a_tick_for_each_pair_of_samples_with_what_fits_nothing_as_unknown(recorded):
    _, samples = recorded
    model = Model()
    ticks = list(classify(samples[:10], model))
    assert [at_ns for at_ns, _ in ticks] == [sample.monotonic_ns for sample in samples[1:10]]
    assert [one.of(UNKNOWN) for _, one in ticks] == [0.0, 0.0, 1.0] * 3
    assert {frame.schema for frame in model.frames} == {features.SCHEMA}


def test_a_gap_and_a_missing_part_give_nothing_to_judge_by(recorded):
    _, samples = recorded
    gapped = [*samples[:4], *samples[-4:]]
    blind = [*samples[:2], replace(samples[2], cpu=None), *samples[3:5]]
    assert [one is None for _, one in classify(gapped, Model())] == [False] * 3 + [True] + [False] * 3
    assert [at for at, (_, one) in enumerate(classify(blind, Model())) if one is None][:1] == [1]


def test_sessions_with_marks_are_read_once(recorded, tmp_path):
    header, samples = recorded
    start_ns = samples[0].monotonic_ns
    marks = [
        Mark(monotonic_ns=start_ns, phase=Phase.BEFORE),
        Mark(monotonic_ns=samples[5].monotonic_ns, phase=Phase.STARTING, interactive="web"),
        Mark(monotonic_ns=samples[8].monotonic_ns, phase=Phase.RUNNING, interactive="web"),
    ]
    path = journal_of(tmp_path / "a.journal", header, samples, marks)
    (stream,) = read([path], Model())
    assert [one.workload for one in stream.spans] == ["idle", "web"]
    assert stream.spans[-1].end_ns > stream.ticks[-1][0]
    assert len(stream.ticks) == len(samples) - 1
    with pytest.raises(ModelError, match="name it once"):
        read([path, path], Model())
    with pytest.raises(ModelError, match="has no marks"):
        read([journal_of(tmp_path / "b.journal", header, samples, [])], Model())
    (tmp_path / "c.journal").write_text("no")
    with pytest.raises(JournalError):
        read([tmp_path / "c.journal"], Model())
