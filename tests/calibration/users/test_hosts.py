# SPDX-License-Identifier: GPL-2.0-only
"""How `asa doctor` begins on fabricated hosts."""

import os

import pytest

from asa.verdict import Fitness
from calibration.users.hosts import hosts, is_right, judged

EVERY = hosts()


def test_there_are_twenty_of_each_kind():
    assert len(EVERY) >= 20
    assert {host.fitness for host in EVERY} == set(Fitness)
    assert len({host.name for host in EVERY}) == len(EVERY)


@pytest.mark.skipif(os.geteuid() != 0, reason="schedulers have to be root's; run as root")
@pytest.mark.parametrize("host", EVERY, ids=lambda host: host.name)
def test_the_first_sentence_and_the_exit_code(host, tmp_path, monkeypatch):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/none")
    found = judged(host, tmp_path)
    assert is_right(host, found), found.sentence
    assert found.exit_code == {Fitness.WORKS: 0, Fitness.OBSERVES: 1, Fitness.FAILS: 3}[host.fitness]
    assert found.sentence.count("\n") == 0
