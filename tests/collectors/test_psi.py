# SPDX-License-Identifier: GPL-2.0-only
"""Pressure totals, and kernels that watch fewer resources."""

import pytest

from asa.core.errors import SourceError
from asa.core.sample import PressureCounters
from collectors.psi import PressureCollector


def opened(tree):
    collector = PressureCollector(tree.proc, tree.sys)
    collector.open()
    return collector


def test_laptop(laptop):
    collector = opened(laptop)
    assert collector.read()["pressure"] == PressureCounters(
        cpu_some_us=81234011,
        io_some_us=41220340,
        io_full_us=38120110,
        memory_some_us=120340,
        memory_full_us=98120,
        irq_full_us=9120340,
    )
    assert collector.lacking == {}


def test_a_kernel_without_interrupt_pressure(vm):
    collector = opened(vm)
    pressure = collector.read()["pressure"]
    assert pressure.irq_full_us is None
    assert pressure.cpu_some_us > 0
    assert list(collector.lacking) == ["pressure/irq"]


def test_a_kernel_from_before_full_cpu_pressure(laptop):
    laptop.write("pressure/cpu", b"some avg10=1.20 avg60=0.80 avg300=0.40 total=81234011\n")  # Linux before 5.13
    assert opened(laptop).read()["pressure"].cpu_some_us == 81234011


def test_no_pressure_at_all_says_what_is_needed(laptop):
    for name in ("cpu", "io", "memory", "irq"):
        (laptop.proc / "pressure" / name).unlink()
    collector = PressureCollector(laptop.proc, laptop.sys)
    with pytest.raises(SourceError, match="psi=1"):
        collector.open()


@pytest.mark.parametrize(
    "text",
    [
        b"some avg10=1.20 avg60=0.80 avg300=0.40 total=\n",
        b"some avg10=1.20 avg60=0.80 avg300=0.40 total=-5\n",
        b"some avg10=1.20 avg60=0.80 avg300=0.40\n",
        b"full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
        b"some avg10=1.20 avg60=0.80 avg300=0.40 total=18446744073709551616\n",
        b"some avg10=1.20 avg60=0.80 avg300=0.40 total=812",
        b"",
    ],
)
def test_garbled_text_fails_one_read(laptop, text):
    collector = opened(laptop)
    good = (laptop.proc / "pressure/cpu").read_bytes()
    laptop.write("pressure/cpu", text)
    with pytest.raises(SourceError, match="pressure/cpu"):
        collector.read()
    laptop.write("pressure/cpu", good)
    assert collector.read()["pressure"].cpu_some_us == 81234011
