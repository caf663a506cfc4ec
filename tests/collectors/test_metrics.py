# SPDX-License-Identifier: GPL-2.0-only
"""The list of metrics is complete: against the fields of Rates, and against the paper's Table 1 in its own words."""

import dataclasses
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from two_samples import NEW, OLD

from collectors.ebpf.layout import PROGRAMS
from collectors.metrics import METRICS, TABLE_1, Backend, Unit
from collectors.metrics.reading import BEYOND, ordered, readings
from collectors.rates import Rates, derive

PAPER = yaml.safe_load((Path(__file__).parent / "table1.yaml").read_text())
NAMES = [field.name for field in dataclasses.fields(Rates)]
PHRASES = [(phrase, names) for row in PAPER.values() for phrase, names in row["names"].items()]


def words(text):
    return Counter(re.findall(r"[\w-]+", text))


def test_the_papers_words_are_whole():
    for category, row in PAPER.items():
        assert ", ".join(row["names"]) == row["cell"], category


@pytest.mark.parametrize(("phrase", "names"), PHRASES)
def test_a_phrase_of_the_paper_is_split_without_losing_or_adding_a_word(phrase, names):
    assert set().union(*map(words, names)) == set(words(phrase))
    strokes = phrase.replace("I/O", "").replace("TCP/UDP", "").count("/")
    assert len(set(names)) == len(names) == strokes + 1


def test_our_list_is_the_papers():
    theirs = [
        (category, [name for names in row["names"].values() for name in names]) for category, row in PAPER.items()
    ]
    assert [(category, list(names)) for category, names in TABLE_1] == theirs
    assert sum(len(names) for _, names in TABLE_1) == 50


@pytest.mark.parametrize("name", [name for _, names in TABLE_1 for name in names])
def test_each_metric_of_the_paper_is_derived(name):
    serving = [metric.field for metric in METRICS if metric.paper == name]
    assert serving
    rates = derive(OLD, NEW)
    assert all(getattr(rates, field) is not None for field in serving)


def test_each_field_is_one_metric_and_has_a_value_when_everything_is_known():
    assert sorted(metric.field for metric in METRICS) == sorted(NAMES)
    rates = derive(OLD, NEW)
    assert [name for name in NAMES if getattr(rates, name) is None] == []


def test_metrics_are_in_the_list_once():
    assert sorted(metric.field for _, metric in ordered()) == sorted(NAMES)
    paper = {name for _, names in TABLE_1 for name in names}
    assert {metric.paper for metric in METRICS} - {""} == paper


ENDS = {
    Unit.SHARE: "_share",
    Unit.PER_S: "_per_s",
    Unit.BYTES: "_bytes",
    Unit.BYTES_PER_S: "_bytes_per_s",
    Unit.US: "_us",
    Unit.MS: "_ms",
    Unit.S: "_s",
    Unit.S_PER_S: "_s_per_s",
    Unit.CORES: "_cores",
}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.field)
def test_a_metric_is_explained(metric):
    assert metric.sentence.endswith(".")
    assert metric.source
    assert "|" not in metric.sentence + metric.source + metric.paper  # a cell of docs/metrics.md
    if not metric.field.startswith("core_busy_"):
        assert metric.field.endswith(ENDS.get(metric.unit, ""))
    if metric.backend is Backend.EBPF:
        assert metric.inputs or metric.part == "process_bursts"  # which has no fields of its own
        assert set(metric.source.split(", ")) <= set(PROGRAMS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.field)
def test_inputs_are_what_a_metric_cannot_do_without(metric):
    state = getattr(NEW, metric.part)
    assert getattr(derive(OLD, NEW), metric.field) is not None
    for name in metric.inputs:
        without = replace(NEW, **{metric.part: replace(state, **{name: None})})
        assert getattr(derive(OLD, without), metric.field) is None, name


OPTIONAL = [
    (part, field.name)
    for part in sorted({metric.part for metric in METRICS})
    for field in dataclasses.fields(getattr(NEW, part))
    if getattr(getattr(NEW, part), field.name) is not None and type(None) in getattr(field.type, "__args__", ())
]


@pytest.mark.parametrize(("part", "name"), OPTIONAL)
def test_whatever_may_be_unknown_is_the_input_of_what_it_takes_along(part, name):
    without = derive(OLD, replace(NEW, **{part: replace(getattr(NEW, part), **{name: None})}))
    lost = {field for field in NAMES if getattr(without, field) is None}
    assert lost == {metric.field for metric in METRICS if metric.part == part and name in metric.inputs}


def why(previous=OLD, current=NEW, reasons=None):
    found = readings(previous, current, derive(previous, current), reasons or {})
    assert all((reading.value is None) == bool(reading.why) for reading in found)
    return {reading.metric.field: reading.why for reading in found if reading.why}


def test_known_metrics_have_no_reason():
    assert why() == {}


def test_a_source_that_is_not_there_is_the_reason():
    reasons = {"ebpf": "needs root", "gpu": "no GPU", "desktop": "screen is locked", "network": "gone"}
    found = why(current=replace(NEW, probes=None, gpu=None, desktop=None, connections=None), reasons=reasons)
    assert found["migrations_per_s"] == "needs root"
    assert found["gpu_processes"] == "no GPU"
    assert found["focus_memory_share"] == "screen is locked"
    assert found["connections_established"] == "gone"
    assert why(current=replace(NEW, groups=None)) == {
        "group_top_share": "groups was not read",
        "groups_busy": "groups was not read",
    }


def test_a_program_or_file_that_is_not_there_is_the_reason():
    probes = replace(NEW.probes, input_keys=None, input_motions=None)
    found = why(current=replace(NEW, probes=probes), reasons={"input_event": "no kprobes", "sched_switch": "unrelated"})
    assert found == dict.fromkeys(("input_keys_per_s", "input_motions_per_s"), "input_event: no kprobes")
    probes = replace(NEW.probes, tcp_packets=None)
    reasons = {"packets by protocol": "no types", "net_dev_queue": "none"}
    found = why(current=replace(NEW, probes=probes), reasons=reasons)
    assert found["tcp_packet_share"] == "packets by protocol: no types; net_dev_queue: none"
    pressure = replace(NEW.pressure, irq_full_us=None)
    found = why(current=replace(NEW, pressure=pressure), reasons={"pressure/irq": "no such file"})
    assert found == {"pressure_irq_full_share": "pressure/irq: no such file"}


def test_what_a_source_does_not_tell_is_the_reason():
    found = why(current=replace(NEW, desktop=replace(NEW.desktop, focus=None)))
    assert found["focus_cpu_share"] == "desktop has no focus here now"


def test_nothing_of_the_kind_and_first_readings_are_reasons():
    idle = replace(NEW, disk=OLD.disk)
    assert why(current=idle)["disk_read_latency_ms"] == "nothing of the kind between the two samples"
    back = replace(NEW, disk=replace(NEW.disk, reads=0))
    assert why(current=back)["disk_reads_per_s"] == "its counter began anew between the two samples"
    assert why(previous=replace(OLD, disk=None))["disk_reads_per_s"] == "was read for the first time"
    first = replace(OLD, probes=replace(OLD.probes, execs=None))
    assert why(previous=first) == {"execs_per_s": "was read for the first time"}


def test_categories_come_in_the_papers_order():
    categories = list(dict.fromkeys(category for category, _ in ordered()))
    assert categories == [*PAPER, BEYOND]
    assert [metric.paper for category, metric in ordered() if category == BEYOND] == [""] * sum(
        not metric.paper for metric in METRICS
    )
