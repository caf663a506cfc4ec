# SPDX-License-Identifier: GPL-2.0-only
"""The table of fields against the vocabulary and the compiler, and percentiles against counting."""

import dataclasses
import re
import subprocess
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.core.sample import FeltCounters, ProbeCounters
from collectors.ebpf import layout


def test_every_field_of_the_sample_is_in_the_table_once_and_no_other():
    names = [field.name for field in layout.FIELDS]
    fields = (*dataclasses.fields(ProbeCounters), *dataclasses.fields(FeltCounters))
    assert sorted(names) == sorted(field.name for field in fields)
    assert not set(names) & set(layout.SCRATCH)


def test_the_compiler_puts_each_word_where_the_reader_looks(tmp_path):
    checks = [f"offsetof(struct asa_stats, {name}) == {8 * at}" for name, at in layout.OFFSETS.items()]
    checks += [f"sizeof(struct asa_stats) == {layout.ROW_BYTES}", "ASA_LAYOUT != 0"]
    checks += [f"offsetof(struct asa_stats, processes) == {8 * layout.ROW_WORDS}"]
    checks += [f"sizeof(struct asa_process) * ASA_PROCESSES == {8 * layout.SLOT_WORDS}"]
    checks += [f"offsetof(struct asa_process, {name}) == {8 * at}" for at, name in enumerate(layout.PROCESS_WORDS)]
    checks += [f"offsetof(struct asa_settings, {name}) == {8 * at}" for at, name in enumerate(layout.SETTINGS)]
    source = tmp_path / "check.c"
    asserts = "\n".join(f'_Static_assert({check}, "{check}");' for check in checks)
    source.write_text(f"#include <stddef.h>\ntypedef unsigned long long u64;\n{layout.render()}\n{asserts}\n")
    subprocess.run(["cc", "-Wall", "-Werror", "-fsyntax-only", str(source)], check=True)


def test_the_version_follows_the_struct(monkeypatch):
    before = layout._body()
    assert f"0x{layout.VERSION:016x}ULL" in layout.render()
    monkeypatch.setattr(layout, "FIELDS", layout.FIELDS[1:])
    assert layout._body() != before
    monkeypatch.undo()
    monkeypatch.setattr(layout, "LATENCY_FIRST_LOG2", 9)
    assert layout._body() != before


def test_rows_fill_whole_cache_lines():
    assert layout.ROW_BYTES % layout.ROW_ALIGN_BYTES == 0
    assert 0 <= layout.ROW_BYTES - (layout.ROW_WORDS + layout.SLOT_WORDS) * 8 < layout.ROW_ALIGN_BYTES


@pytest.mark.parametrize("starts", [layout.LATENCY_STARTS_NS, layout.OCTAVE_STARTS_NS])
def test_slots_rise(starts):
    assert starts[0] == 0
    assert all(low < high for low, high in pairwise(starts))
    assert all(high / low <= 2 for low, high in pairwise(starts[1:]))


def test_fields_follow_the_programs():
    assert layout.fields_of(layout.PROGRAMS) == {field.name for field in layout.FIELDS}
    assert layout.fields_of(["tcp_send_reset"]) == set()
    assert layout.fields_of(["tcp_send_reset", "tcp_receive_reset"]) == {"connections_reset"}
    without = layout.fields_of(set(layout.PROGRAMS) - {"sched_wakeup"})
    assert "wakeup_latency_hist" not in without
    assert "sleep_hist" not in without
    assert "requeue_latency_hist" in without
    assert set(layout.lost_without("sched_wakeup")) == layout.fields_of(layout.PROGRAMS) - without


def test_programs_are_those_of_the_source():
    from collectors.ebpf.build import SOURCES

    text = next(path for path in SOURCES if path.name == "probes.bpf.c").read_text()
    named = re.findall(r'^SEC\("(?:tp_btf|raw_tp|kprobe)/(\w+)"\)\nint \1\(', text, re.MULTILINE)
    named += re.findall(r"^COUNTED\((\w+), \w+\)", text, re.MULTILINE)
    iterators = re.findall(r'^SEC\("iter/\w+"\)\nint (\w+)\(', text, re.MULTILINE)
    assert set(iterators) == layout.ITERATORS
    named += iterators
    assert sorted(named) == sorted(layout.PROGRAMS)


@given(
    counts=st.lists(st.integers(0, 50), min_size=8, max_size=8),
    share=st.floats(0, 1),
)
def test_a_percentile_lies_in_the_slot_that_counting_finds(counts, share):
    starts = layout.OCTAVE_STARTS_NS[:8]
    value = layout.percentile_ns(counts, starts, share)
    entries = [slot for slot, count in enumerate(counts) for _ in range(count)]
    if not entries:
        assert value is None
        return
    slot = entries[min(int(share * len(entries)), len(entries) - 1)]
    ends = (*starts[1:], starts[-1])
    # at the border of two slots, the end of the lower one
    assert starts[slot] <= value <= ends[slot] or value == ends[entries[max(int(share * len(entries)) - 1, 0)]]


@given(counts=st.lists(st.integers(0, 50), min_size=8, max_size=8), shares=st.lists(st.floats(0, 1), min_size=2))
def test_percentiles_rise_with_the_share(counts, shares):
    values = [layout.percentile_ns(counts, layout.OCTAVE_STARTS_NS[:8], share) for share in sorted(shares)]
    assert values[0] is None or values == sorted(values)


def test_percentiles_are_linear_within_a_slot():
    starts = (0, 100, 200, 400)
    assert layout.percentile_ns((0, 10, 0, 0), starts, 0.5) == 150.0
    assert layout.percentile_ns((5, 0, 5, 0), starts, 0.5) == 100.0
    assert layout.percentile_ns((5, 0, 5, 0), starts, 0.75) == 300.0
    assert layout.percentile_ns((0, 0, 0, 3), starts, 0.99) == 400.0  # the last slot has no end
    assert layout.percentile_ns((0, 4, 0, 0), starts, 0.0) == 100.0
    assert layout.percentile_ns((0, 4, 0, 0), starts, 1.0) == 200.0
    assert layout.percentile_ns((0, 0, 0, 0), starts, 0.5) is None
    assert layout.percentile_ns((), (), 0.5) is None
