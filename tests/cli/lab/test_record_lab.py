# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab record --in-lab` from end to end: a guest of the lab, another scheduler, two stand-ins beside each other."""

import argparse

import pytest

from asa.cli.lab import record
from asa.core.mark import Phase
from models.train import recorded


def asa(*words):
    parser = argparse.ArgumentParser()
    record.register(parser.add_subparsers())
    arguments = parser.parse_args(["record", *map(str, words)])
    return arguments.run(arguments)


@pytest.mark.vm
@pytest.mark.slow
def test_a_scenario_under_another_scheduler(tmp_path, capsys):
    words = ("--scenario", "office+disk", "--sessions", 1, "--seed", 3, "--for", 4, "--cpus", 2)
    code = asa(*words, "--scheduler", "scx_simple", "--in-lab", tmp_path)
    printed = capsys.readouterr()
    assert code == 0, printed
    assert "1/1 office+disk seed 3 kept" in printed.out
    assert "1 sessions kept, 0 not" in printed.err
    (found,) = recorded.sessions(tmp_path.glob("*.journal.xz"))
    header = found.session.header
    assert (header.label, header.seed, header.tier, header.cpus) == ("office+disk", 3, "lab", 2)
    assert header.host.startswith("lab, ")
    assert {row.scheduler for row in found.rows} == {"simple"}
    running = [place for place, row in enumerate(found.rows) if row.phase == Phase.RUNNING]
    assert len(running) >= 3
    assert {(found.rows[place].interactive, found.rows[place].background) for place in running} == {("office", "disk")}
    for name in ("switches_per_s", "timer_late_mean_us", "disk_reads_per_s", "pressure_cpu_some_share"):
        assert found.values[running, recorded.VALUES.index(name)].tolist(), name
        assert not any(value != value for value in found.values[running, recorded.VALUES.index(name)]), name  # noqa: PLR0124
