# SPDX-License-Identifier: GPL-2.0-only
"""The switch benchmark's C programs, as far as a host without sched_ext can show; the rest is shown in the lab."""

import os
import time
from pathlib import Path

import pytest

from asa.core.errors import AsaError
from calibration.switch.programs import Floor, Seen, beside, build, struct_ops_map

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true",
    reason="SCHED_FIFO needs root: run the tests by sudo, or with CI=true",
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    build(folder)
    return folder


@pytest.mark.root
@needs_root
def test_the_probe_wakes_up_each_millisecond_and_tells_how_late(programs, tmp_path):
    start_ns = time.monotonic_ns()
    with beside(programs, tmp_path) as seen:
        while time.monotonic_ns() < start_ns + 300_000_000:
            time.sleep(0.05)
    end_ns = time.monotonic_ns()
    due = [due_ns for due_ns, _ in seen.late]
    assert due == sorted(set(due))
    assert all(start_ns < due_ns < end_ns for due_ns in due)
    assert all((later - due[0]) % 1_000_000 == 0 for later in due)  # absolute times: nothing drifts
    assert all(late_ns >= 0 for _, late_ns in seen.late)
    skipped = sum(late_ns // 1_000_000 for _, late_ns in seen.late)  # slept through, and told by the wakeup before
    assert abs((due[-1] - due[0]) // 1_000_000 + 1 - len(due) - skipped) <= seen.late[-1][1] // 1_000_000 + 1
    wakeups, worst_ns = seen.worst_ns(start_ns, end_ns)
    assert (wakeups, worst_ns) == (len(due), max(late_ns for _, late_ns in seen.late))
    if not Path("/sys/kernel/sched_ext").exists():
        assert [ops for _, ops in seen.states] == [""]


def test_a_gap_is_the_time_without_a_name():
    seen = Seen(states=[(0, "a"), (100, ""), (150, "b"), (400, ""), (500, "c")])
    assert seen.gap_ns(50, 300) == 50
    assert seen.gap_ns(120, 300) == 30
    assert seen.gap_ns(50, 130) == 30
    assert seen.gap_ns(50, 600) == 150
    assert seen.gap_ns(200, 300) == 0
    assert seen.gap_ns(-20, -10) is None


def test_the_worst_of_a_window_is_none_of_another():
    seen = Seen(late=[(10, 99), (20, 5), (30, 7), (40, 98)])
    assert seen.worst_ns(20, 30) == (2, 7)
    assert seen.worst_ns(50, 60) == (0, 0)


@pytest.mark.root
@needs_root
@pytest.mark.skipif(Path("/sys/kernel/sched_ext").exists(), reason="shown in the lab where there is sched_ext")
def test_a_floor_that_cannot_be_had_says_why(programs):
    floor = Floor(programs)
    with pytest.raises(AsaError, match=r"switch_floor ended at 'swap 1': .*/sys/kernel/sched_ext/state: No such file"):
        floor.swap("scx_simple", 1)
    floor.close()


def descriptors(folder, *texts):
    (folder / "7/fdinfo").mkdir(parents=True)
    for number, text in enumerate(texts):
        (folder / f"7/fdinfo/{number}").write_text(text)
    return folder


OTHER = "pos:\t0\nflags:\t02000002\nmap_type:\t2\nkey_size:\t4\nmap_id:\t30\n"
OPS = "pos:\t0\nflags:\t02000002\nmap_type:\t26\nkey_size:\t4\nmap_id:\t31\nfrozen:\t0\n"


def test_the_map_of_a_process_is_found_by_its_type(tmp_path):
    assert struct_ops_map(7, descriptors(tmp_path, OTHER, "pos:\t0\n", OPS, OPS)) == 31


def test_a_process_without_such_a_map_is_refused(tmp_path):
    with pytest.raises(AsaError, match="process 7 holds 0 struct_ops maps, not one"):
        struct_ops_map(7, descriptors(tmp_path, OTHER))
