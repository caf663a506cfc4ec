# SPDX-License-Identifier: GPL-2.0-only
"""`asa metrics` on this host, and the document it writes."""

import argparse
import json
import os
from pathlib import Path

import pytest

from asa import clock, paths
from asa.cli import metrics
from asa.core.errors import AsaError
from collectors.ebpf.build import build
from collectors.metrics import METRICS, TABLE_1

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/metrics.md"
NAMES = [name for _, names in TABLE_1 for name in names]


def asa(*words):
    """Run the command in this process."""
    parser = argparse.ArgumentParser(prog="asa")
    metrics.register(parser.add_subparsers())
    arguments = parser.parse_args(["metrics", *words])
    return arguments.run(arguments)


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Settings without desktop, GPU, groups and processes: what this host has of them is not what is tested."""
    file = tmp_path / "asa.yaml"
    file.write_text(
        "collect:\n  ebpf: off\n  desktop: false\n  gpu: false\n  groups: false\n  processes: false\n  timer: false\n"
    )
    monkeypatch.setattr(paths, "default", lambda: paths.Places(config=file))
    return file


def test_the_document_is_current(capsys):
    assert asa("--markdown") == 0
    assert capsys.readouterr().out == DOCUMENT.read_text(), "make it anew: asa metrics --markdown > docs/metrics.md"


def test_the_document_names_all_of_them():
    text = DOCUMENT.read_text()
    assert all(f"`{metric.field}`" in text and metric.sentence in text for metric in METRICS)
    places = [text.index(f"| {name} |") for name in NAMES]
    assert places == sorted(places)


def test_one_json_object_with_a_value_or_a_reason_for_each(settings, capsys):
    assert asa("--json", "--seconds", "0.5") == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    rows = found["metrics"]
    assert {row["name"] for row in rows} == {metric.field for metric in METRICS}
    assert list(dict.fromkeys(row["paper"] for row in rows if row["paper"])) == NAMES
    assert all((row["value"] is None) == bool(row["why"]) for row in rows)
    by_name = {row["name"]: row for row in rows}
    total_kib = int(Path("/proc/meminfo").read_text().split()[1])
    assert by_name["memory_total_bytes"]["value"] == total_kib * 1024
    assert by_name["context_switches_per_s"]["value"] > 0  # this process sleeps and wakes at least
    assert by_name["migrations_per_s"]["why"] == "collect.ebpf is off in the settings"
    assert by_name["gpu_processes"]["why"] == "collect.gpu is off in the settings"
    assert by_name["process_top1_cpu_share"]["why"] == "collect.processes is off in the settings"
    known = {row["paper"] for row in rows if row["value"] is not None} - {""}
    assert found["table_1"] == {"metrics": len(NAMES), "known": len(known)}
    assert found["seconds"] == 0.5


def test_the_list_for_people(settings, capsys):
    assert asa("--seconds", "0.2") == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last.endswith(f"of the {len(NAMES)} metrics in the paper's Table 1 are known here now")
    assert [line for line in lines if not line.startswith(" ")] == [*(name for name, _ in TABLE_1), "Beyond the paper"]
    (row,) = [line for line in lines if " memory_total_bytes " in line]
    assert row.split()[:2] == ["Total", "Memory"]
    assert row.endswith("iB  procfs: meminfo")
    (row,) = [line for line in lines if " migrations_per_s " in line]
    assert " -  ebpf: sched_migrate_task (collect.ebpf is off in the settings)" in row


def test_the_option_stands_for_the_setting(settings, capsys):
    settings.write_text(
        "collect:\n  ebpf: auto\n  desktop: false\n  gpu: false\n  groups: false\n  processes: false\n  timer: false\n"
    )
    assert asa("--json", "--seconds", "0.1", "--ebpf", "off") == 0
    rows = json.loads(capsys.readouterr().out)["metrics"]
    (why,) = {row["why"] for row in rows if row["backend"] == "ebpf"}
    assert why == "collect.ebpf is off in the settings"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="loading eBPF programs needs root: sudo make test")
@pytest.mark.parametrize("backend", ["core", "bcc"])
def test_what_the_probes_count_here(settings, capsys, backend):
    build()
    assert asa("--json", "--seconds", "1", "--ebpf", backend) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["metrics"]}
    probed = [row for row in rows.values() if row["backend"] == "ebpf"]
    for row in probed:
        if row["value"] is None and row["why"] != "nothing of the kind between the two samples":
            part = row["why"].partition(":")[0]  # names the program that is lacking, or what of it
            parts = ("run queue length", "packets by protocol", "futex waits", "long waits")
            assert part in (*row["source"].split(", "), *parts), row
    assert rows["wakeup_latency_p50_us"]["value"] <= rows["wakeup_latency_p99_us"]["value"]
    # two sources of one fact, each read within a few ms of the same second
    assert rows["switches_per_s"]["value"] == pytest.approx(rows["context_switches_per_s"]["value"], rel=0.25, abs=50)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "10", "soon", ""])
def test_times_that_are_none_are_refused(text, capsys):
    with pytest.raises(SystemExit):
        asa("--seconds", text)
    assert "give 0.1 to 9 seconds" in capsys.readouterr().err


def test_a_suspend_in_between_is_said(settings, monkeypatch):
    slept_ns = iter((0, 10**9))
    monkeypatch.setattr(clock.SystemClock, "suspended_ns", lambda self: next(slept_ns))
    with pytest.raises(AsaError, match="suspended between the two samples"):
        asa("--seconds", "0.1")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.125, "share", "12.5%"),
        (1.0, "yes/no", "yes"),
        (0.0, "yes/no", "no"),
        (0.0, "1/s", "0/s"),
        (12345.6, "1/s", "12,346/s"),
        (0.123456, "µs", "0.123 µs"),
        (3.0, "count", "3"),
        (2.5 * 2**30, "bytes", "2.5 GiB"),
        (1000.0, "bytes/s", "1,000 bytes/s"),
        (2048.0, "bytes/s", "2 KiB/s"),
    ],
)
def test_values_as_people_read_them(value, unit, text):
    assert metrics._shown(value, unit) == text
