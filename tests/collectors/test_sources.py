# SPDX-License-Identifier: GPL-2.0-only
"""The list of sources fits what it declares: collectors, parts of a sample, settings, features, metrics."""

import dataclasses

import msgspec
import pytest

from asa.config import CollectSettings, Ebpf
from asa.core.sample import RawSample
from collectors.metrics import METRICS
from collectors.rates import Rates
from collectors.sources import SOURCES, of_part, only
from models import features

WHEN = {"monotonic_ns", "wall_ns", "suspended_ns"}
ADVICE = {"advice"}  # of no source: the adviser answers when it does


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_its_collector_has_its_name(source):
    assert source.kind().name == source.name


def test_each_part_of_a_sample_has_one_source():
    parts = [part for source in SOURCES for part in source.parts]
    assert sorted(parts) == sorted({field.name for field in dataclasses.fields(RawSample)} - WHEN - ADVICE)


def test_each_switch_of_the_settings_is_a_sources():
    assert {source.setting for source in SOURCES} - {""} == set(CollectSettings.__struct_fields__)


def test_features_and_metrics_are_known():
    assert {source.feature for source in SOURCES} - {""} == set(features.Source)
    known = {field.name for field in dataclasses.fields(Rates)}
    assert all(set(source.tells.values()) <= known for source in SOURCES)
    assert all(metric.backend is of_part(metric.part).backend for metric in METRICS)


def test_sources_are_wanted_as_the_settings_say():
    assert [source.name for source in SOURCES if source.setting and source.wanted(only(()))] == []
    assert [source.name for source in SOURCES if source.setting and source.wanted(only({"timer"}))] == ["timer"]
    assert only({"ebpf"}).ebpf is Ebpf.AUTO
    assert msgspec.structs.asdict(only({"gpu"})) == {
        **dict.fromkeys(CollectSettings.__struct_fields__, False),
        "ebpf": Ebpf.OFF,
        "gpu": True,
    }
