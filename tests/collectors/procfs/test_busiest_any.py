# SPDX-License-Identifier: GPL-2.0-only
"""The collector of the busiest processes over any text and any events."""

import gc

import msgspec
import pytest
from busiest_bench import KERNEL, LINE, USER, Bench, descriptors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asa.core.errors import SourceError
from asa.core.sample import ProcessUsage
from collectors.procfs.busiest import MOST_FOLLOWED, parse_stat

WHOLE = LINE.format(
    pid=1, name="x", flags=USER, minor=1, major=2, user=3, system=4, threads=5, started=6, pages=7
).encode()
quick = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def understood(text):
    try:
        flags, usage = parse_stat(1, text)
    except SourceError:
        return None
    assert all(0 <= number < 1 << 64 for number in (flags, *usage))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(usage), type=ProcessUsage) == usage
    return usage


@quick
@given(text=st.binary(max_size=300))
def test_any_bytes(text):
    understood(text)


@quick
@given(name=st.binary(max_size=70), data=st.data())
def test_any_name(name, data):
    assert understood(WHOLE.replace(b"(x)", b"(" + name + b")")) == understood(WHOLE)
    assert understood(WHOLE) is not None


@quick
@given(data=st.data())
def test_garbled_cut_or_huge_anywhere(data):
    start = data.draw(st.integers(0, len(WHOLE)))
    end = data.draw(st.integers(start, min(len(WHOLE), start + 60)))
    numbers = st.integers(0, 1 << 70).map(lambda number: str(number).encode())
    odd = st.sampled_from([b"-1", b"1_0", b"\x00", b")", b" ) ", b"9" * 5000, b"\n", b"18446744073709551615"])
    understood(WHOLE[:start] + data.draw(st.binary(max_size=20) | numbers | odd) + WHOLE[end:])
    assert understood(WHOLE.replace(b")", b"")) is None
    cut = understood(WHOLE[:start])
    assert cut is None or start == len(WHOLE)  # half a number is no number


@pytest.mark.parametrize("field", [6, 7, 9, 11, 12, 17, 19, 21])
def test_numbers_at_the_edge(field):
    start, _, rest = WHOLE.rpartition(b")")
    fields = rest.split(b" ")
    for number, known in ((b"0", True), (b"18446744073709551615", field != 21), (b"18446744073709551616", False)):
        fields[field + 1] = number  # the first is the empty one before the state
        text = start + b")" + b" ".join(fields)
        assert (understood(text) is not None) is known, number


actions = st.lists(
    st.tuples(st.sampled_from(["make", "kernel", "end", "work", "again", "read"]), st.integers(100, 160)), max_size=80
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(actions=actions, told=st.booleans())
def test_whatever_happens_those_followed_are_there_and_have_their_own_counters(tmp_path_factory, actions, told):
    bench = Bench(tmp_path_factory.mktemp("any"))
    bench.make(*range(100, 130), user=1)
    if told:
        bench.made(130)
    gc.collect()  # closes now what other tests left open, and not in between
    before = descriptors()
    bench.opened()
    starts = 10
    try:
        for action, pid in actions:
            if action in {"make", "kernel"} and pid not in bench.figures:
                bench.make(pid, flags=KERNEL if action == "kernel" else USER)
            elif action == "end" and pid in bench.figures:
                bench.end(pid)
            elif action == "again" and pid in bench.figures:
                bench.end(pid)
                starts += 1
                bench.make(pid, started=starts)
            elif action == "work" and pid in bench.figures:
                bench.work(pid, ticks=3)
            if told and action in {"make", "kernel", "again"}:
                bench.made(f"{pid}{starts}")
            if action == "read":
                found = bench.read()
                assert len(found) <= MOST_FOLLOWED
                assert descriptors() == before + 1 + told + len(found)
                for one, usage in found.items():
                    figures = bench.figures[one]
                    assert figures["flags"] == USER
                    assert (usage.started_ticks, usage.user_ticks) == (figures["started"], figures["user"])
        works = [pid for pid, figures in bench.figures.items() if figures["flags"] == USER][-2:]
        assert bench.ticks(26, *works).keys() >= set(works)  # a round, and eight without a listing
    finally:
        bench.collector.close()
    assert descriptors() == before
