# SPDX-License-Identifier: GPL-2.0-only
"""A core goes offline and comes back under the sampler: no wild rate, no failing source."""

import math
import time
from itertools import pairwise
from pathlib import Path

import pytest

from asa.clock import SystemClock
from asa.config import CollectSettings
from collectors.metrics import METRICS, Unit
from collectors.rates import derive
from collectors.sampler import HostSampler, standard

ONLINE = Path("/sys/devices/system/cpu/cpu1/online")
LIMIT_S = 120.0  # emulated, on a shared host
CPU_SHARES = ("cpu_user_share", "cpu_system_share", "cpu_idle_share", "core_busy_max", "core_busy_min")


@pytest.fixture
def sampler():
    sampler = HostSampler(standard(Path("/proc"), Path("/sys"), CollectSettings(desktop=False)), SystemClock())
    sampler.open()
    yield sampler
    ONLINE.write_text("1")
    sampler.close()


def cores(sample):
    return [number for number, _ in sample.cpu.cores]


def moved(previous, current):
    """Every core that is in both has some ticks to its account, so that there are shares of it."""
    before = dict(previous.cpu.cores)
    return all(sum(ticks) - sum(before.get(number, (-5,))) >= 5 for number, ticks in current.cpu.cores)


def next_sample(sampler, previous):
    end = time.monotonic() + LIMIT_S
    while not moved(previous, current := sampler.sample()):
        assert sampler.failing == {}
        assert time.monotonic() < end
        time.sleep(0.05)
    return current


def test_a_core_that_goes_and_comes_back(sampler):
    samples = [sampler.sample()]
    for online in ("1", "0", "1", "0", "1"):
        ONLINE.write_text(online)
        for _ in range(3):
            samples.append(next_sample(sampler, samples[-1]))
            assert cores(samples[-1]) == ([0, 1] if online == "1" else [0])
    steady = changed = 0
    for previous, current in pairwise(samples):
        rates = derive(previous, current)
        assert rates is not None
        for metric in METRICS:
            value = getattr(rates, metric.field)
            assert value is None or (math.isfinite(value) and value >= 0), metric
            if metric.unit is Unit.SHARE:
                assert value is None or value <= 1, metric
        if cores(previous) == cores(current):
            steady += 1
            assert all(getattr(rates, name) is not None for name in CPU_SHARES)
        else:
            changed += 1
            assert all(getattr(rates, name) is None for name in CPU_SHARES)
        if current.probes is not None and previous.probes is not None:
            assert current.probes.switches > previous.probes.switches
    assert (steady, changed) == (11, 4)
    assert not [line for line in sampler.news() if "without" in line]
