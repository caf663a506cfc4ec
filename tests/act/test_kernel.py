# SPDX-License-Identifier: GPL-2.0-only
"""When a switch counts, by what sysfs says."""

import pytest

from asa.act.kernel import came_up, carries
from asa.core.decision import SchedulerName
from asa.core.sample import SchedExtState

LAVD = SchedulerName("scx_lavd")


def name_of_ops(ops):
    return LAVD if ops.startswith("lavd") else None


@pytest.mark.parametrize(
    ("state", "ops", "seq", "counts"),
    [
        ("enabled", "lavd_1.1.4", 8, True),
        ("enabled", "lavd_1.1.4", 7, False),  # that of before
        ("enabling", "lavd_1.1.4", 8, False),
        ("disabling", "lavd_1.1.4", 8, False),
        ("enabled", "flash_1.1.4", 8, False),  # somebody else's
        ("enabled", "", 8, False),
        ("disabled", "", 7, False),
    ],
)
def test_a_switch_counts_when_state_ops_and_count_say_so(state, ops, seq, counts):
    found = SchedExtState(state=state, ops=ops, enable_seq=seq)
    for name in (LAVD, SchedulerName("scx_lavd:powersave")):
        assert came_up(found, name, 7, name_of_ops) is (found if counts else None)
        assert carries(found, name, name_of_ops) is (state == "enabled" and ops.startswith("lavd"))


def test_without_sched_ext_nothing_counts():
    assert came_up(None, LAVD, 0, name_of_ops) is None
    assert not carries(None, LAVD, name_of_ops)
