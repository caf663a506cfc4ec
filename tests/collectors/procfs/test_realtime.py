# SPDX-License-Identifier: GPL-2.0-only
"""Threads of real-time classes: found among others, counted, and their CPU time."""

import os
import threading
import time
from pathlib import Path

import pytest

from asa.core.errors import SourceError
from collectors.procfs.realtime import RealtimeCollector

FIFO, RR, BATCH, DEADLINE = 1, 2, 3, 6
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
KERNEL = 0x00200000
STAT = (
    "{thread} (a) b) S 1 7 7 0 -1 {flags} 9 0 1 0 {user} {system} 9 9 20 0 5 0 42 0 1000 1 {zeros} "
    "{priority} {policy} 0 0\n"
)


class Tree:
    def __init__(self, proc):
        self.proc = proc
        proc.mkdir()

    def thread(self, pid, thread, policy=0, user=0, system=0, flags=4194560):
        folder = self.proc / f"{pid}/task/{thread}"
        folder.mkdir(parents=True, exist_ok=True)
        # 16 fields from the address of the code (26) to the processor (39)
        text = STAT.format(
            thread=thread, flags=flags, user=user, system=system, zeros=" ".join("0" * 14), priority=50, policy=policy
        )
        (folder / "stat").write_text(text)

    def end(self, pid, thread):
        (self.proc / f"{pid}/task/{thread}/stat").unlink()
        (self.proc / f"{pid}/task/{thread}").rmdir()


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "proc")


def opened(tree):
    collector = RealtimeCollector(tree.proc, tree.proc)
    collector.open()
    return collector


def read(collector):
    found = collector.read()["realtime"]
    return found.threads, found.cpu_ns


def test_an_audio_server_has_a_thread_or_two(tree):
    tree.thread(10, 10)
    tree.thread(10, 11, FIFO, user=500)
    tree.thread(20, 20, BATCH)
    tree.thread(30, 30, RR)
    tree.thread(40, 40, DEADLINE)
    tree.thread(2, 2, FIFO, flags=KERNEL)  # migration/0
    collector = opened(tree)
    assert read(collector) == (3, 0)
    tree.thread(10, 11, FIFO, user=503, system=2)
    tree.thread(30, 30, RR, user=1)
    assert read(collector) == (3, 6 * TICK_NS)


def test_one_that_becomes_real_time_is_found_in_its_turn(tree):
    for pid in range(10, 60):
        tree.thread(pid, pid)
    collector = opened(tree)
    assert read(collector) == (0, 0)
    tree.thread(40, 41, FIFO, user=100)
    assert [read(collector)[0] for _ in range(32)][-1] == 1
    tree.thread(40, 41, FIFO, user=104)
    assert read(collector) == (1, 4 * TICK_NS)  # what it used before it was found is another time's
    tree.thread(40, 41, user=200)
    assert [read(collector)[0] for _ in range(32)][-1] == 0


def test_those_that_end_leave_what_they_used(tree):
    tree.thread(10, 10)
    for thread in (11, 12):
        tree.thread(10, thread, FIFO)
    collector = opened(tree)
    for thread in (11, 12):
        tree.thread(10, thread, FIFO, user=7)
    assert read(collector) == (2, 14 * TICK_NS)
    tree.end(10, 11)
    assert [read(collector) for _ in range(3)][-1] == (1, 14 * TICK_NS)


def test_very_many_are_counted_and_read_in_turn(tree):
    for thread in range(100, 224):
        tree.thread(100, thread, FIFO)
    collector = opened(tree)
    read(collector)
    for thread in range(100, 224):
        tree.thread(100, thread, FIFO, user=3)
    assert [read(collector) for _ in range(4)][-1] == (124, 124 * 3 * TICK_NS)


@pytest.mark.parametrize("text", ["", "garbage", "7 (a) S 1", "7 (a) S x x x x x x x x x x x x x x x"])
def test_garbage_is_no_thread(tree, text):
    tree.thread(10, 11, FIFO)
    (tree.proc / "10/task/11/stat").write_text(text)
    assert read(opened(tree)) == (0, 0)


def test_without_proc_there_is_a_reason(tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        RealtimeCollector(tmp_path / "none", tmp_path).open()


def test_a_thread_of_this_host():
    ready, done = threading.Event(), threading.Event()
    refused = []

    def work():
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        except PermissionError as error:
            refused.append(error)
        ready.set()
        end_s = time.monotonic() + 0.1
        while time.monotonic() < end_s:
            pass
        done.wait(10)

    collector = RealtimeCollector(Path("/proc"), Path("/sys"))
    before = 0
    thread = threading.Thread(target=work)
    thread.start()
    try:
        ready.wait(10)
        collector.open()
        before = len(collector._found.get(os.getpid(), {}))
    finally:
        done.set()
        thread.join()
        collector.close()
    assert before == (0 if refused else 1)
