# SPDX-License-Identifier: GPL-2.0-only
"""Processes that play for some seconds and tell what they got: hogs, sleepers and pairs, for the probes.

The parent is a real-time task, so that the scheduler under test cannot hold it up. The children are ordinary and
bear the name `asa-verify`. Who does not come back in time counts as starved, and is killed. It runs in guests.
"""

import ctypes
import json
import multiprocessing
import os
import random
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

NAME = b"asa-verify"
GRACE_S = 12.0
"""After the end of a play, how long its processes are waited for."""

Work: TypeAlias = Callable[[float], Any]
"""Is given the end (CLOCK_MONOTONIC in seconds) and tells something that JSON can hold."""

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # prctl(2)
_UNIT, _NAP_S, _CHURN_S = 200, 0.01, 0.005


def play(work: Sequence[Work], seconds: float) -> list[Any]:
    """What each one told; None of who did not come back in time."""
    end_s = time.monotonic() + seconds
    started = [_start(one, end_s) for one in work]
    told: dict[int, bytes] = {descriptor: b"" for _, descriptor in started}
    open_ones, last_s = set(told), end_s + GRACE_S
    while open_ones and (left_s := last_s - time.monotonic()) > 0:
        for descriptor in select.select([*open_ones], [], [], left_s)[0]:
            part = os.read(descriptor, 65_536)
            told[descriptor] += part
            if not part:
                open_ones.discard(descriptor)
    for pid, descriptor in started:
        if descriptor in open_ones:
            os.kill(pid, signal.SIGKILL)
        else:
            os.waitpid(pid, 0)
        os.close(descriptor)
    return [json.loads(told[descriptor]) if told[descriptor] else None for _, descriptor in started]


def reap() -> None:
    """Forget those that were killed, and ended since."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _start(work: Work, end_s: float) -> tuple[int, int]:
    theirs, ours = os.pipe()
    pid = os.fork()
    if pid:
        os.close(ours)
        return pid, theirs
    code = 1
    try:
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(_PR_SET_NAME, NAME)
        os.write(ours, json.dumps(work(end_s)).encode())
        code = 0
    finally:
        os._exit(code)


def hog(*, cpus: Sequence[int] = (), nice: int = 0, group: str = "") -> Work:
    """Computes to the end. Tells CPU seconds and units of work."""

    def work(end_s: float) -> tuple[float, int]:
        _place(cpus, nice, group)
        begun_s, done = time.process_time(), 0
        while time.monotonic() < end_s:
            for _ in range(_UNIT):
                pass
            done += 1
        return time.process_time() - begun_s, done

    return work


def meter(*, cpus: Sequence[int] = ()) -> Work:
    """Sleeps for 10 ms again and again. Tells by how many seconds it woke late: the 99th of 100, and the longest."""

    def work(end_s: float) -> tuple[float, float]:
        _place(cpus, 0, "")
        late = [0.0]
        while (due_s := time.monotonic() + _NAP_S) < end_s:
            time.sleep(_NAP_S)
            late.append(time.monotonic() - due_s)
        return sorted(late)[int(len(late) * 0.99)], max(late)

    return work


def forker(count: int) -> Work:
    """Forks so many that end at once. Tells the seconds that it took, None where it was not done by twice the end."""

    def work(end_s: float) -> float | None:
        begun_s = time.monotonic()
        limit_s = end_s + (end_s - begun_s)
        for _ in range(count):
            pid = os.fork()
            if not pid:
                os._exit(0)
            os.waitpid(pid, 0)
            if time.monotonic() > limit_s:
                return None
        return time.monotonic() - begun_s

    return work


def pipes() -> tuple[Work, Work]:
    """Two that hand a byte to each other. Each tells rounds and the longest one in seconds."""
    (to_b, from_a), (to_a, from_b) = os.pipe(), os.pipe()

    def give(write: int) -> None:
        os.write(write, b"x")

    def take(read: int, left_s: float) -> bool:
        return bool(select.select([read], [], [], left_s)[0]) and bool(os.read(read, 1))

    return _pair(
        lambda: give(from_a), lambda left: take(to_a, left), lambda: give(from_b), lambda left: take(to_b, left)
    )


def futexes() -> tuple[Work, Work]:
    """The same by semaphores, which are futexes."""
    context = multiprocessing.get_context("fork")
    one, other = context.Semaphore(0), context.Semaphore(0)
    return _pair(
        one.release,
        lambda left: other.acquire(timeout=left),
        other.release,
        lambda left: one.acquire(timeout=left),
    )


def _pair(
    give: Callable[[], Any], take: Callable[[float], bool], give_back: Callable[[], Any], hear: Callable[[float], bool]
) -> tuple[Work, Work]:
    def first(end_s: float) -> tuple[int, float]:
        rounds, longest_s = 0, 0.0
        while (now_s := time.monotonic()) < end_s:
            give()
            came = take(max(0.0, end_s + GRACE_S / 2 - now_s))
            longest_s = max(longest_s, time.monotonic() - now_s)
            if not came:
                break
            rounds += 1
        return rounds, longest_s

    def second(end_s: float) -> int:
        while hear(max(0.0, end_s + 0.2 - time.monotonic())):
            give_back()
        return 0

    return first, second


def wanderer(cpus: int, seed: int) -> Work:
    """Binds itself to another CPU each 5 ms. Tells how often, and how often it then ran elsewhere."""

    def work(end_s: float) -> tuple[int, int]:
        libc, draw = ctypes.CDLL(None), random.Random(seed)  # noqa: S311  # to be repeated
        moves = astray = 0
        while time.monotonic() < end_s:
            cpu = draw.randrange(cpus)
            os.sched_setaffinity(0, {cpu})
            moves += 1
            astray += libc.sched_getcpu() != cpu
            time.sleep(_CHURN_S)
        return moves, astray

    return work


def _place(cpus: Sequence[int], nice: int, group: str) -> None:
    if group:
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:  # noqa: PTH123  # the path is text
            file.write(str(os.getpid()))
    if cpus:
        os.sched_setaffinity(0, cpus)
    if nice:
        os.nice(nice)
