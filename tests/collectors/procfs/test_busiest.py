# SPDX-License-Identifier: GPL-2.0-only
"""The busiest processes: who is followed as they come, work, rest, end, and have their numbers used again."""

import os

import msgspec
import pytest
from busiest_bench import KERNEL, LINE, PAGE, USER, Bench, descriptors

from asa.core.errors import SourceError
from asa.core.sample import BusiestProcesses, ProcessUsage, RawSample
from collectors.procfs import busiest
from collectors.procfs.busiest import MOST_FOLLOWED, BusiestCollector, parse_stat


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.collector.close()


@pytest.mark.parametrize(
    "name", ["cc1", "Web Content", "a) R 1 2 3 (b", ")", "((sd-pam))", "", "new\nline", "kworker/0:1", "\udce4"]
)
def test_counters_whatever_the_name_is(bench, name):
    text = LINE.format(
        pid=812, name=name, flags=USER, minor=11, major=2, user=300, system=40, threads=7, started=99, pages=5
    ).encode(errors="surrogateescape")
    bench.make(812)
    (bench.proc / "812/stat").write_bytes(text)
    usage = ProcessUsage(
        pid=812,
        started_ticks=99,
        user_ticks=300,
        system_ticks=40,
        minor_faults=11,
        major_faults=2,
        threads=7,
        resident_bytes=5 * PAGE,
    )
    bench.opened()
    assert bench.collector.read() == {"busiest": BusiestProcesses(processes=(usage,))}
    assert parse_stat(812, text) == (USER, usage)


def test_processes_come_work_and_go(bench):
    bench.make(10, 20, user=5)
    bench.opened()
    assert bench.read().keys() == {10, 20}
    bench.make(30, user=1)
    bench.work(10, ticks=7)
    found = bench.read()
    assert {pid: usage.user_ticks for pid, usage in found.items()} == {10: 12, 30: 1, 20: 5}
    assert list(found) == [10, 30, 20]  # the busiest of this tick first, then by their last use
    bench.end(20, 30)
    assert bench.read().keys() == {10}


def test_kernel_threads_are_never_followed_nor_read_again(bench):
    bench.make(2, 15, flags=KERNEL, user=9000)
    bench.make(10)
    bench.opened()
    bench.make(16, flags=KERNEL, user=50)
    bench.read()
    bench.looked = 0
    assert bench.ticks(40, 2, 15, 16, 10).keys() == {10}
    assert bench.looked == 0
    bench.end(16)  # and its number goes to a process
    bench.read()
    bench.make(16)
    assert bench.read().keys() == {10, 16}


def test_the_reader_does_not_see_itself(bench):
    bench.make(os.getpid(), 10, user=100)
    bench.opened()
    assert bench.ticks(20, os.getpid(), 10).keys() == {10}


def crowd(bench, idle=160):
    """As many at work as are followed, and idle ones, after some ticks."""
    workers = range(1000, 1000 + MOST_FOLLOWED)
    bench.make(*workers, user=10)
    bench.make(*range(2000, 2000 + idle))
    bench.opened()
    assert bench.ticks(4, *workers, ticks=5).keys() == set(workers)
    return workers


def test_an_old_process_that_begins_to_work_is_found_within_a_round(bench):
    workers = crowd(bench)
    for late in (2000, 2077, 2159):
        ticks = 0
        while late not in bench.ticks(1, late, *workers[1:], ticks=9):  # one of the workers rests
            ticks += 1
            assert ticks <= 16
        workers = [*workers[1:], late]


def test_one_that_works_harder_than_the_least_takes_its_place(bench):
    workers = crowd(bench)
    bench.ticks(64, *workers, ticks=5)
    ticks = 0  # all of them work on: a part of a round of its work may not suffice
    while 2077 not in bench.ticks(1, *workers, ticks=5):
        bench.work(2077, ticks=20)
        ticks += 1
        assert ticks <= 32


def test_a_tick_looks_at_a_sixteenth_of_those_that_are_not_followed(bench):
    workers = crowd(bench)
    for _ in range(40):
        bench.looked = 0
        bench.ticks(1, *workers)
        assert bench.looked == 10


def test_of_very_many_it_looks_at_so_many_and_no_more(bench):
    bench.make(*range(2000, 3500), user=1)
    bench.opened()
    bench.ticks(2)
    bench.looked = 0
    bench.ticks(1)
    assert bench.looked == 64


def test_the_first_ticks_look_at_all(bench):
    bench.make(*range(1000, 1100), user=50)
    bench.make(3000)
    bench.opened()
    assert 3000 in bench.ticks(1, 3000)
    bench.make(3001, started=6)
    bench.collector.close()
    bench.opened()
    bench.read()
    assert 3001 in bench.ticks(1, 3001)


def test_it_begins_with_those_that_used_the_most_a_second_of_their_lives(bench):
    bench.make(*range(100, 130), started=100, user=5000)
    bench.make(500, started=9_900, user=60)  # little, but in one second
    bench.make(501, started=10_000, user=0)
    bench.make(502, started=5, user=10)
    found = bench.opened().read()
    assert 500 in found
    assert not {501, 502} & found.keys()
    assert len(found) == MOST_FOLLOWED


def test_who_rests_for_a_minute_is_not_followed_until_it_works_again(bench):
    bench.make(10, 20, user=5)
    bench.opened()
    bench.work(20)
    bench.read()
    before = descriptors()
    assert bench.ticks(59, 10).keys() == {10, 20}
    assert bench.ticks(1, 10).keys() == {10}
    assert descriptors() == before - 1
    assert bench.ticks(100, 10).keys() == {10}
    assert 20 in bench.ticks(1, 20)


def test_of_too_many_the_idle_give_way_first_and_then_the_least(bench):
    pids = range(1000, 1040)
    bench.make(*pids)
    bench.opened()
    for pid in pids:
        bench.work(pid, ticks=pid - 995)
    assert bench.read().keys() == set(pids[-MOST_FOLLOWED:])
    # 1016 works less than the others; two that rested since are let go before it does
    for _ in range(2):
        bench.work(*pids[18:], ticks=5)
        bench.work(1016, ticks=1)
        bench.read()
    bench.make(5001, 5002, user=1)
    bench.work(*pids[18:], ticks=5)
    bench.work(1016, ticks=1)
    assert bench.read().keys() == {*pids[18:], 1016, 5002 if 5001 not in bench.read() else 5001}


def test_what_was_used_in_several_ticks_is_not_taken_for_one_ticks_use(bench):
    workers = crowd(bench, idle=320)
    bench.work(*range(2000, 2320), ticks=32)  # of 16 ticks: two each
    for _ in range(16):
        assert bench.ticks(1, *workers, ticks=13).keys() == set(workers)


def test_a_flood_is_looked_at_in_part_and_the_newest_first(bench):
    workers = crowd(bench, idle=0)
    before = descriptors()
    bench.make(*range(5000, 5200), user=100)
    bench.looked = 0
    found = bench.ticks(1, *workers)
    assert bench.looked == 32 + 11  # and a sixteenth of the 168 that wait for their turn
    assert len(found) == MOST_FOLLOWED
    assert len(found.keys() & set(range(5168, 5200))) >= MOST_FOLLOWED - 11
    assert descriptors() == before
    ticks = 0
    while 5003 not in bench.ticks(1, 5003, ticks=200):  # the others get their turn
        ticks += 1
        assert ticks <= 16


def test_a_flood_of_those_that_do_nothing_pushes_out_nobody(bench):
    workers = crowd(bench, idle=0)
    bench.make(*range(5000, 5032))
    assert bench.read().keys() == set(workers)  # though all of them rest in this very tick


def test_a_number_that_is_used_again_is_another_process(bench):
    workers = crowd(bench)
    bench.end(workers[0])
    bench.make(workers[0], started=77, user=3)
    bench.ticks(1, *workers[1:])  # the old one is found to have ended
    assert bench.ticks(1, *workers[1:])[workers[0]].started_ticks == 77


def test_so_is_one_whose_number_was_not_followed(bench):
    bench.make(*range(1000, 1000 + MOST_FOLLOWED), user=1000)
    bench.make(3000, user=500)
    bench.opened()
    assert 3000 not in bench.ticks(3)
    bench.end(3000)  # between two listings
    bench.make(3000, started=78, user=3)
    assert bench.ticks(1)[3000].started_ticks == 78


def test_one_that_cannot_be_read_is_no_error_and_tried_again(bench):
    bench.make(10, user=1)
    (bench.proc / "20").mkdir()  # as of hidepid, which lists it and refuses what is in it
    (bench.proc / "30/stat").mkdir(parents=True)
    (bench.proc / "40").mkdir()
    (bench.proc / "40/stat").write_text("40 (cat) R 1\n")
    (bench.proc / "50").mkdir()
    (bench.proc / "50/stat").write_text("50 (cat) R 1")
    bench.opened()
    assert bench.ticks(40, 10).keys() == {10}
    bench.make(20, user=7)
    assert bench.ticks(4, 10).keys() == {10, 20}
    (bench.proc / "10/stat").write_text("garbage\n")  # one that was followed
    assert bench.read().keys() == {20}
    bench.work(10)
    assert bench.ticks(4).keys() == {10, 20}


def test_many_that_cannot_be_read_do_not_hide_the_others(bench):
    for pid in range(1000, 1400):
        (bench.proc / str(pid)).mkdir()
    bench.opened()
    bench.ticks(3)
    bench.make(900, user=1)
    assert bench.read().keys() == {900}


def test_one_that_ends_between_look_and_opening(bench, monkeypatch):
    bench.opened()
    bench.make(10, 20, user=1)

    def refuse(source, path):
        raise SourceError(source=source, reason=f"{path}: no such file or directory")

    monkeypatch.setattr(busiest, "KernelFile", refuse)
    assert bench.read() == {}
    monkeypatch.undo()
    assert bench.ticks(1, 10, 20).keys() == {10, 20}


def test_descriptors_are_bounded_and_given_back(bench, monkeypatch):
    before, most = descriptors(), 0
    text = bench.collector._text

    def look(name):
        nonlocal most
        most = max(most, descriptors())
        return text(name)

    bench.collector._text = look
    bench.made(1)
    bench.make(*range(1000, 1100), user=1)
    bench.opened()
    for number in range(5):
        bench.make(*range(5000 + 100 * number, 5100 + 100 * number), user=2)
        bench.made(5100 + 100 * number)
        bench.ticks(1, *range(1000, 1100))
        assert descriptors() == before + 2 + MOST_FOLLOWED  # /proc and loadavg
    assert most <= before + 2 + MOST_FOLLOWED
    bench.end(*list(bench.figures))
    bench.made(9999)
    assert bench.read() == {}
    assert descriptors() == before + 2
    bench.collector.close()
    bench.collector.close()
    assert descriptors() == before
    with pytest.raises(SourceError, match="not opened"):
        bench.read()


def test_it_can_be_opened_again(bench):
    bench.made(10)
    bench.make(10, user=1)
    bench.opened()
    bench.read()
    bench.collector.close()
    bench.opened()
    assert bench.read().keys() == {10}


def test_only_proc_itself_can_fail(bench, tmp_path, monkeypatch):
    with pytest.raises(SourceError, match="no such file") as caught:
        BusiestCollector(tmp_path / "none", tmp_path).open()
    assert caught.value.source == "busiest"
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match="not a directory"):
        BusiestCollector(tmp_path / "file", tmp_path).open()
    bench.make(10, user=1)
    bench.opened()
    monkeypatch.setattr(os, "listdir", lambda folder: os.open(tmp_path / "none", os.O_RDONLY))
    with pytest.raises(SourceError, match="no such file"):
        bench.read()
    monkeypatch.undo()
    assert bench.read().keys() == {10}


def test_no_process_is_nobody_not_unknown(bench):
    assert bench.opened().collector.read() == {"busiest": BusiestProcesses(processes=())}


def test_proc_is_listed_when_something_was_made(bench, monkeypatch):
    listed = 0
    listdir = os.listdir

    def count(folder):
        nonlocal listed
        listed += 1
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", count)
    bench.make(10, 20, user=1)
    bench.made(20)
    bench.opened()
    assert listed == 1
    bench.ticks(7, 10)
    assert listed == 1
    bench.make(30, user=1)
    bench.made(30)
    assert bench.read().keys() == {10, 20, 30}  # this was the eighth
    assert listed == 2
    bench.end(20)
    assert bench.read().keys() == {10, 30}  # its file tells
    bench.make(40, user=1)
    bench.made(40)
    assert bench.read().keys() == {10, 30, 40}
    assert listed == 3
    bench.make(50, user=1)  # where loadavg does not tell, as in a container
    assert [50 in bench.read() for _ in range(6)] == [False] * 5 + [True]
    (bench.proc / "loadavg").write_text("")
    before = listed
    bench.ticks(3, 10)
    assert listed == before + 3


def test_a_journal_holds_it_compactly_and_reads_samples_from_before(bench):
    bench.make(*range(100, 124), user=123_456, system=99, minor=400_000, started=5_000_000, pages=70_000, threads=40)
    bench.opened()
    fields = bench.collector.read()
    sample = RawSample(monotonic_ns=1, wall_ns=1, **fields)
    encoded = msgspec.msgpack.encode(sample)
    assert msgspec.msgpack.decode(encoded, type=RawSample) == sample
    assert len(encoded) - len(msgspec.msgpack.encode(RawSample(monotonic_ns=1, wall_ns=1))) < 24 * 30
    body = msgspec.msgpack.decode(encoded)
    assert body["busiest"]["processes"][0] == [*sample.busiest.processes[0]]
    del body["busiest"]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(body), type=RawSample) == RawSample(monotonic_ns=1, wall_ns=1)
