# SPDX-License-Identifier: GPL-2.0-only
"""Pressure totals, and kernels that watch fewer resources."""

import dataclasses
import errno
import os

import pytest
from proc_tree import refuse

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
@pytest.mark.parametrize("later", [False, True])
def test_garbled_text_takes_its_own_figure_alone(laptop, text, later):
    good = (laptop.proc / "pressure/cpu").read_bytes()
    collector = PressureCollector(laptop.proc, laptop.sys)
    if later:
        collector.open()
    laptop.write("pressure/cpu", text)
    if not later:
        collector.open()
    pressure = collector.read()["pressure"]
    assert pressure == PressureCounters(
        cpu_some_us=None,
        io_some_us=41220340,
        io_full_us=38120110,
        memory_some_us=120340,
        memory_full_us=98120,
        irq_full_us=9120340,
    )
    assert list(collector.lacking) == ["pressure/cpu"]
    laptop.write("pressure/cpu", good)
    assert collector.read()["pressure"].cpu_some_us == 81234011
    assert collector.lacking == {}


def test_one_line_of_a_file_does_not_take_the_other(laptop):
    laptop.edit("pressure/io", b"full ", b"fool ")
    pressure = opened(laptop).read()["pressure"]
    assert (pressure.io_some_us, pressure.io_full_us) == (41220340, None)


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.EACCES, errno.EIO, errno.ENODEV])
@pytest.mark.parametrize("name", ["cpu", "io", "memory", "irq"])
def test_a_file_that_opens_and_cannot_be_read(laptop, monkeypatch, name, error):
    refuse(monkeypatch, laptop.proc / "pressure" / name, error)
    collector = opened(laptop)
    pressure = dataclasses.asdict(collector.read()["pressure"])
    assert {field for field, value in pressure.items() if value is None} == {
        field for field in pressure if field.startswith(name)
    }
    assert os.strerror(error).lower() in collector.lacking[f"pressure/{name}"]


def test_all_of_them_unreadable_is_no_source(laptop, monkeypatch):
    for name in ("cpu", "io", "memory"):
        (laptop.proc / "pressure" / name).unlink()
    refuse(monkeypatch, laptop.proc / "pressure/irq", errno.EOPNOTSUPP)
    with pytest.raises(SourceError):
        opened(laptop)
