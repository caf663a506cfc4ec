# SPDX-License-Identifier: GPL-2.0-only
"""Whatever stands in the files: a value that the journal can hold, or a SourceError; never anything else."""

import dataclasses
import re

import msgspec
import proc_tree
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asa.core.errors import SourceError
from asa.core.sample import RawSample
from collectors.sources import SOURCES

FILES = {
    "cpu": ("stat",),
    "process": ("loadavg",),
    "memory": ("meminfo",),
    "paging": ("vmstat",),
    "disk": ("diskstats",),
    "network": ("net/dev", "net/snmp", "net/sockstat", "net/sockstat6", "net/tcp", "net/tcp6"),
    "pressure": ("pressure/cpu", "pressure/io", "pressure/memory", "pressure/irq"),
}
CASES = [(source.kind(), name) for source in SOURCES for name in FILES.get(source.name, ())]
garbage = st.one_of(
    st.binary(max_size=40),
    st.integers(min_value=0, max_value=10**40).map(lambda number: str(number).encode()),
    st.sampled_from(
        [b"\n", b" ", b"-1", b"1_0", b"\x00", b"\xff\xfe", b"9" * 5000, b"\n\n", b":", b"18446744073709551615"]
    ),
)
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def numbers_in(value):
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers_in(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from numbers_in(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from numbers_in(item)
    elif isinstance(value, int):
        yield value


def outcome(collector):
    try:
        return collector.read()
    except SourceError:
        return None


def check(fields):
    if fields is not None:
        sample = RawSample(monotonic_ns=1, wall_ns=1, **fields)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(sample), type=RawSample) == sample
        assert all(0 <= number < 1 << 64 for number in numbers_in(fields))


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda value: getattr(value, "__name__", value))
@quick
@given(data=st.data())
def test_garbled_anywhere(laptop, kind, name, data):
    text = (proc_tree.DATA / "laptop/proc" / name).read_bytes()
    laptop.write(name, text)
    collector = kind(laptop.proc, laptop.sys)
    collector.open()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 60)))
    laptop.write(name, text[:start] + data.draw(garbage) + text[end:])
    check(outcome(collector))
    collector.close()
    try:
        collector.open()
    except SourceError:
        pass
    else:
        check(outcome(collector))
    collector.close()


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda value: getattr(value, "__name__", value))
@quick
@given(data=st.data())
def test_cut_anywhere(laptop, kind, name, data):
    text = (proc_tree.DATA / "laptop/proc" / name).read_bytes()
    laptop.write(name, text)
    collector = kind(laptop.proc, laptop.sys)
    collector.open()
    whole = collector.read()
    collector.close()
    length = data.draw(st.integers(0, len(text) - 1))
    laptop.write(name, text[:length])
    try:
        collector.open()
    except SourceError:
        pass
    else:  # only at the end of a line, where it cannot be told from a device that left
        assert text[:length].endswith(b"\n") or name in collector.lacking
        short = collector.read()
        assert sum(numbers_in(short)) <= sum(numbers_in(whole))
        check(short)
    collector.close()


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda value: getattr(value, "__name__", value))
@quick
@given(data=st.data())
def test_huge_numbers(laptop, kind, name, data):
    text = (proc_tree.DATA / "laptop/proc" / name).read_bytes()
    numbers = list(re.finditer(rb"\d+", text))
    place = data.draw(st.sampled_from(numbers))
    near_the_widths = st.integers(1 << 31, 1 << 70).map(lambda number: str(number).encode())
    huge = data.draw(near_the_widths | st.integers(20, 6000).map(lambda digits: b"9" * digits))
    laptop.write(name, text[: place.start()] + huge + text[place.end() :])
    collector = kind(laptop.proc, laptop.sys)
    try:
        collector.open()
    except SourceError:
        pass
    else:
        check(outcome(collector))
    collector.close()


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("kib", [100, 5000])
def test_long_files(laptop, kind, name, kib):
    lines = (proc_tree.DATA / "laptop/proc" / name).read_bytes().splitlines(keepends=True)
    again = b"".join(lines[-2:])
    for longer in (again * (kib * 1024 // len(again)), b"x" * (kib * 1024) + b"\n"):  # many lines, and a long one
        laptop.write(name, b"".join(lines) + longer)
        collector = kind(laptop.proc, laptop.sys)
        try:
            collector.open()
        except SourceError:
            pass
        else:
            check(outcome(collector))
        collector.close()


@quick
@given(text=st.binary(max_size=200))
def test_any_bytes_in_every_file(laptop, text):
    for kind, name in CASES:
        laptop.write(name, text)
        collector = kind(laptop.proc, laptop.sys)
        try:
            collector.open()
        except SourceError:
            pass
        else:
            check(outcome(collector))
        collector.close()
