# SPDX-License-Identifier: GPL-2.0-only
"""Texts of DRM drivers and of processor time: what they tell, what is not understood, and what is too wide."""

import re
import time
from contextlib import suppress
from pathlib import Path

import gpu_tree
import pytest
from gpu_bench import KIB, S, i915, xe
from gpu_tree import AMDGPU
from hypothesis import given, settings
from hypothesis import strategies as st

from asa.core.errors import SourceError
from collectors.procfs.drm import parse_fdinfo
from collectors.procfs.gpu import used_ns


@pytest.mark.parametrize("text", [b"1 (a) S 1 2\n", b"\n", b"1 (a) S 0 0 0 0 0 0 0 0 0 0 x 5 0 0\n"])
def test_processor_time_not_understood(text):
    with pytest.raises(SourceError, match="stat: not understood"):
        used_ns(text)


@given(
    text=st.binary(max_size=200)
    | st.integers(0, 10**40).map(lambda n: gpu_tree.STAT.format(pid=1, user=n, system=n).encode())
)
def test_any_text_of_processor_time(text):
    with suppress(SourceError):
        assert used_ns(text) >= 0


def test_our_own_processor_time():
    while time.process_time() < 0.1:
        pass
    before = time.process_time()
    ours_s = used_ns(Path("/proc/self/stat").read_bytes()) / S
    assert (
        before - 0.03 <= ours_s <= time.process_time() + 0.03
    )  # it counts in ticks of 10 ms, for each of the two modes


@pytest.mark.parametrize(
    ("text", "engine_ns", "memory"),
    [
        (i915(render=3, copy=4, memory=2, total=9), 7, 2 * KIB),
        (AMDGPU.format(client=1, render=3, memory=2), 3, 2 * KIB),
        (xe(memory=2), None, 2 * KIB),
        ("drm-client-id:\t1\ndrm-memory-vram:\t1 MiB\ndrm-resident-vram:\t2 MiB\n", None, 2 << 20),
        ("drm-client-id:\t1\ndrm-total-memory:\t5\n", None, 5),  # a driver without drm-resident
        ("drm-client-id:\t1\ndrm-driver:\tmsm\ndrm-maxfreq-gpu:\t800000000 Hz\n", None, None),
    ],
)
def test_texts_of_drivers(text, engine_ns, memory):
    client = parse_fdinfo((gpu_tree.HEAD + text).encode())
    assert (client.engine_ns, client.memory_bytes) == (engine_ns, memory)


@pytest.mark.parametrize(
    "line",
    ["drm-engine-render:\t5", "drm-engine-render:\t5 ms", "drm-engine-render:\t-5 ns", "drm-resident-x:\t5 GB"],
)
def test_what_is_not_understood_is_an_error(line):
    with pytest.raises(SourceError, match="not understood"):
        parse_fdinfo(f"drm-client-id:\t1\n{line}\n".encode())


def numbers_in(client):
    cycles = [number for each in client.cycles.values() for number in (each.busy, each.total, each.capacity)]
    return [*cycles, client.identity[1], client.engine_ns or 0, client.memory_bytes or 0]


@settings(deadline=None)
@given(data=st.data())
def test_any_text(data):
    text = data.draw(
        st.sampled_from([i915(render=5, memory=7), xe(busy=5, total=9), AMDGPU.format(client=1, render=5, memory=7)])
    )
    whole = (gpu_tree.HEAD + text).encode()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    numbers = st.integers(0, 10**40).map(lambda number: str(number).encode())
    bits = st.sampled_from(
        [b"\n", b"-1", b"9" * 5000, b":", b"\x00", b"drm-engine-x:\t", b" ns\n", b"drm-resident-x: "]
    )
    garbled = whole[:start] + data.draw(st.one_of(st.binary(max_size=30), numbers, bits)) + whole[end:]
    try:
        client = parse_fdinfo(garbled)
    except SourceError:
        return
    if client is None:
        assert not re.search(rb"^drm-client-id:", garbled, re.MULTILINE)
    else:
        assert all(0 <= number < 1 << 64 for number in numbers_in(client))


def test_sums_too_wide_for_the_journal():
    keys = f"drm-engine-a:\t{1 << 63} ns\ndrm-engine-b:\t{1 << 63} ns\n"
    with pytest.raises(SourceError, match="wider than any counter"):
        parse_fdinfo(f"drm-client-id:\t1\n{keys}".encode())


def test_long_text():
    engines = "".join(f"drm-engine-{number}:\t1 ns\n" for number in range(50_000))
    assert parse_fdinfo(f"drm-client-id:\t1\n{engines}".encode()).engine_ns == 50_000
