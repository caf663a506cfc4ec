# SPDX-License-Identifier: GPL-2.0-only
"""fio at random and in sequence; what is taken from its status reports."""

import io
import shutil
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import play

from scenarios.background import disk

_STATUS = '{\n  "jobs" : [\n    {\n      "jobname" : "random"\n    }\n  ]\n}\n'


def _small(rng, place):
    return {**disk.APPLICATION.draw(rng, place), "random_mb": 8, "sequential_mb": 16}


@pytest.mark.apps
def test_reads_and_writes(tmp_path):
    values = play(replace(disk.APPLICATION, draw=_small), seed=1, seconds=1, tmp_path=tmp_path)
    assert max(values["random_iops"]) > 0
    assert max(values["sequential_mb_per_s"]) > 0
    assert max(values["completion_ms"]) > 0


@pytest.mark.apps
def test_takes_another_engine_where_one_is_refused(tmp_path):
    engine, _ = disk._possible(tmp_path, {"engine": "nosuch", "direct": True})
    assert engine in {"io_uring", "libaio", "psync"}


def test_status_reports_are_told_from_notes_between_them():
    text = "fio: a note\n" + _STATUS + "note: another\n" + _STATUS
    assert [status["jobs"][0]["jobname"] for status in disk.statuses(io.StringIO(text))] == ["random", "random"]


def test_reports_what_came_between_two_statuses():
    def status(ios, time_ns, count):
        side = {"runtime": ios, "total_ios": ios, "io_bytes": 1000 * ios, "clat_ns": {"bins": {str(time_ns): count}}}
        nothing = {"runtime": 0, "total_ios": 0, "io_bytes": 0, "clat_ns": {}}
        return disk.Sum.of({"read": side, "write": nothing})

    said = []
    driver = SimpleNamespace(measured=lambda metric, value: said.append((metric, value)))
    before = {"random": status(1000, 5_000_000, 7), "sequential": status(1000, 1, 1)}
    now = {"random": status(3000, 5_000_000, 8), "sequential": status(5000, 1, 1)}
    disk.report(driver, before, now)
    latencies = [("completion_ms", 5.0)] * 50
    assert said == [("random_iops", 1000.0), ("sequential_mb_per_s", 1.0), *latencies]


@given(st.dictionaries(st.integers(1, 10**9), st.integers(1, 1000), min_size=1), st.integers(1, 60))
def test_quantiles_are_values_in_order_with_the_median_in_the_middle(bins, count):
    found = disk.quantiles(bins, count)
    values = sorted(Counter(bins).elements())
    assert len(found) == count
    assert found == sorted(found)
    assert found == [values[max(1, -(-len(values) * (2 * at + 1) // (2 * count))) - 1] for at in range(count)]


def test_a_full_disk_is_said_in_the_words_that_make_it_no_space(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1_000_000))
    with pytest.raises(SystemExit):
        disk._shrunk(tmp_path, {"random_mb": 8, "sequential_mb": 16})
    assert "No space left on device" in capsys.readouterr().err


def test_files_shrink_with_the_room_that_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1024 * 2**20))
    assert disk._shrunk(tmp_path, {"random_mb": 400, "sequential_mb": 112}) == pytest.approx(0.5)
