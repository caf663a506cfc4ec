# SPDX-License-Identifier: GPL-2.0-only
"""What ships together belongs together: model, recordings, features, card and mapping tables."""

from argparse import Namespace
from collections import Counter
from pathlib import Path

from asa import paths
from asa.act.portfolio import Portfolio
from asa.cli.lab.train import folder
from asa.core.kinds import Kind, kinds_of, label_of
from asa.decide import table
from calibration.recognition.sources import recordings
from models import artefact, features
from models.train import dataset, programs
from scenarios import catalogue, workloads

ROOT = Path(__file__).resolve().parents[2]
RECORDED = folder(Namespace(recordings=None))


def test_the_model_was_trained_on_these_recordings_with_these_features():
    model = artefact.load(paths.base_model())
    known, _ = programs.of_kinds(recordings(RECORDED))
    data = dataset.assemble(known, least_sessions=1, names=model.header.features)
    assert model.header.dataset_sha256 == data.sha256
    assert set(model.header.features) <= set(features.NAMES)
    assert model.header.schema == features.SCHEMA


def test_the_card_is_of_this_model():
    model = artefact.load(paths.base_model())
    card = (ROOT / "docs/model-card.md").read_text()
    assert model.header.dataset_sha256 in card
    assert model.header.trained in card


def test_every_kind_and_every_label_of_the_paper_is_a_class_that_is_recorded_twice():
    known, _ = programs.of_kinds(recordings(RECORDED))
    recorded = Counter(half for one in known for half in {one.label, *one.label.split("+")})
    classes = artefact.load(paths.base_model()).header.classes
    assert set(Kind) | set(workloads.LABELS) <= set(classes)
    assert {label_of(*kinds_of(one.label)) for one in catalogue.PAPER} <= set(classes)
    for label in classes:
        assert min(recorded[half] for half in label.split("+")) >= 2, label


def test_all_that_is_learnt_from_was_recorded_with_ebpf():
    for one in recordings(RECORDED):
        known = sum(sample.probes is not None for sample in one.samples)
        assert known > 0.2 * len(one.samples), one.source  # an emulated guest may find them slow to read


def test_every_class_has_a_ranking_in_every_table():
    classes = artefact.load(paths.base_model()).header.classes
    for path in table.shipped(paths.mapping_tables()):
        modes = Portfolio.load(paths.manifest(), paths.default().schedulers).modes()
        mapping = table.load(path, modes)
        assert [name for name in classes if not mapping.ranking(name)] == [], path
