# SPDX-License-Identifier: GPL-2.0-only
"""The table of a model in a scheduler's path: what is asked of the guest, and what made-up readings come to."""

from pathlib import Path

import pytest

from calibration.inpath import table
from calibration.policies import playing
from calibration.policies.played import Measure, Played, Reading, Subject
from scenarios.conditions import Conditions
from scenarios.lab.emulator import Clock

MS = 1_000_000
SERVED = {"eevdf": 1000, "blocking": 40, "cached": 200, "apart": 900, "adviser": 990}


class Bench:
    def own(self):
        return Subject(name="eevdf")

    def built(self, name, sources):
        assert all(path.exists() for path in sources)
        return Path("/built") / name

    def scale(self, mode, seconds):
        return Measure(label=mode, command=("scale", mode, f"{seconds:g}"))


def reading(subject, number):
    values = {
        "served": SERVED[subject] + number,
        "elapsed_ns": 10**9,
        "p99_ns": 10_000 * MS // SERVED[subject],
        "wakeup_p99_ns": 2 * MS,
    }
    return Reading(subject=subject, round=number, label="requests", play=1, values=values)


def test_three_versions_of_one_scheduler_beside_the_kernels_own_and_the_adviser():
    asked = table.orders(Bench())
    assert [one.name for one in asked.subjects] == list(SERVED)
    assert [one.command for one in asked.subjects[1:4]] == [
        ("/built/scx_asks", how, "500000") for how in ("blocking", "cached", "apart")
    ]
    assert [one.ops for one in asked.subjects] == ["", "asks", "asks", "asks", ""]
    assert asked.subjects[4].command[-1] == "calibration.inpath.asks"


def test_the_table_has_the_posts_figures_beside_ours(monkeypatch):
    under = Conditions(clock=Clock.PARALLEL, tick_hz=1000, machine="alike-4")
    rows = tuple(reading(subject, number) for subject in SERVED for number in (1, 2, 3))
    found = Played(kernel="6.18", cpus=4, under=under, names={}, readings=rows)
    monkeypatch.setattr(playing, "played", lambda *_: found)
    value, words = table.off_path(print)
    assert value == pytest.approx(-1.0, abs=0.01)
    assert "3 rounds; wakeup and request p99, requests a second: eevdf 2.0 ms, 10.0 ms, 1002; blocking 2.0 ms" in words
    assert words.endswith(
        "the post: CFS 3.1 ms, 244.0 ms, 102; blocking 1939.5 ms, 7708.7 ms, 6; cached 202.0 ms, 2009.1 ms, 41"
    )
