# SPDX-License-Identifier: GPL-2.0-only
"""What a composition does, by discrete events: the queues, ranks and charges of scx_compose.bpf.c, in microseconds.

Takes a spec and tasks that run and sleep by turns, gives who ran where and who waited. Switches cost nothing, a task
that wakes finds an idle CPU at once, and cores, caches and control groups are not modelled: it tells what the rules
allow, not what a machine does. As in the kernel, the task that ran is in no queue while the next one is looked for.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from calibration.composing.spec import Between, Classes, Order, Placement, Queues, Spec, parameters

_NORMAL_WEIGHT = 100
_LATER_US = 1 << 62  # ranks from here on are of those that did not wait too long
_NEVER = 1 << 63
_STEAL_MOST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`bursts`: pairs of a sleep and a run after it, in us. `listed`: its class where the spec goes by lists.

    `known_us`: how long the like of it ran before, for the longest job first, which knows it once the task ran for
    `named_us`: a program has its name by exec.
    """

    name: str
    bursts: tuple[tuple[int, int], ...]
    weight: int = _NORMAL_WEIGHT
    listed: int = 3
    known_us: int = 0
    named_us: int = 0
    cpus: frozenset[int] | None = None  # where it may run; None: everywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A task on a CPU."""

    task: str
    cpu: int
    since_us: int
    until_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A task in a queue, as one of a class, until it ran or the play ended."""

    task: str
    group: int
    since_us: int
    until_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All that happened until `end_us`."""

    stretches: tuple[Stretch, ...]
    waits: tuple[Wait, ...]
    end_us: int

    def ran_us(self, names: Iterable[str]) -> int:
        """Run time of these tasks together."""
        wanted = set(names)
        return sum(one.until_us - one.since_us for one in self.stretches if one.task in wanted)


def _log(value: int) -> int:
    # log2 in sixteenths, as the C file has it
    some = value | 1
    log = some.bit_length() - 1
    return log * 16 + ((some << 4) >> log) % 16


def play(spec: Spec, tasks: Sequence[Task], cpus: int, end_us: int) -> Trace:
    """The trace of `tasks` on so many CPUs, each in a cluster of its own."""
    return _Machine(spec, tasks, cpus, end_us).play()


@dataclass(slots=True)
class _Running:
    task: Task
    left: list[tuple[int, int]]
    cpu: int
    group: int = 0
    run_us: int = 0  # left of the burst
    ready_us: int = 0
    vtime: float = 0.0
    burst_us: int = 0
    mean_us: int = 0
    total_us: int = 0

    def may(self, cpu: int) -> bool:
        return self.task.cpus is None or cpu in self.task.cpus


@dataclass(slots=True)
class _Cpu:
    task: _Running | None = None
    since_us: int = 0
    token: int = 0  # of the event that ends what it runs


@dataclass(order=True, slots=True)
class _Queued:
    place: float
    number: int
    task: _Running = field(compare=False)


class _Machine:
    """One play."""

    def __init__(self, spec: Spec, tasks: Sequence[Task], cpus: int, end_us: int) -> None:
        numbers = {name: round(one.number.default or 0) for name, one in parameters(spec).items()}
        self._spec = spec
        self._numbers = numbers
        self._slice_us = numbers["slice-us"]
        self._age_us = numbers.get("age-ms", 0) * 1000
        self._end_us = end_us
        self._now_us = 0
        self._count = 0
        self._cpus = [_Cpu() for _ in range(cpus)]
        self._queues: list[list[_Queued]] = [[] for _ in range(max(cpus, 4))]
        self._weights = [numbers.get(f"weight-{group}", _NORMAL_WEIGHT) for group in range(4)]
        self._clocks = [0.0] * 4  # virtual time of each class's queue
        self._served = [0.0] * 4  # run time of each class by its weight
        self._served_now = 0.0
        self._events: list[tuple[int, int, int, object]] = []
        self._stretches: list[Stretch] = []
        self._waits: list[Wait] = []
        for task in tasks:
            at = min(task.cpus) if task.cpus else 0
            self._sleep(_Running(task=task, left=list(task.bursts), cpu=at))

    def play(self) -> Trace:
        """All events until the end."""
        while self._events and self._events[0][0] <= self._end_us:
            self._now_us, _, token, what = heapq.heappop(self._events)
            if isinstance(what, _Running):
                self._wake(what)
            elif isinstance(what, int):
                cpu = self._cpus[what]
                if cpu.task is not None and cpu.token == token:
                    self._stop(what, cpu, cpu.task)
        self._now_us = self._end_us
        for number, cpu in enumerate(self._cpus):
            if cpu.task is not None:
                self._stretch(number, cpu, cpu.task)
        for queue in self._queues:
            for queued in queue:
                self._waited(queued.task)
        return Trace(stretches=tuple(self._stretches), waits=tuple(self._waits), end_us=self._end_us)

    def _at(self, when_us: int, token: int, what: object) -> None:
        self._count += 1
        heapq.heappush(self._events, (when_us, self._count, token, what))

    def _sleep(self, task: _Running) -> None:
        if task.left:
            sleep_us, task.run_us = task.left.pop(0)
            self._at(self._now_us + sleep_us, 0, task)

    def _wake(self, task: _Running) -> None:
        idle = [number for number, cpu in enumerate(self._cpus) if cpu.task is None and task.may(number)]
        if idle:
            first = task.cpu if task.cpu in idle and self._spec.placement is not Placement.CORE else idle[0]
            self._run(first, task)
        else:
            self._enqueue(task)

    def _group_of(self, task: _Running) -> int:
        weight = task.task.weight
        match self._spec.classes:
            case Classes.NONE:
                return 0
            case Classes.NICE:
                return 0 if weight > _NORMAL_WEIGHT else 1 if weight == _NORMAL_WEIGHT else 2
            case Classes.BURST:
                return int(max(task.burst_us, task.mean_us) >= self._numbers["threshold-us"])
            case Classes.CGROUP | Classes.COMM:
                return task.task.listed

    def _place_of(self, task: _Running) -> float:
        match self._spec.order:
            case Order.FIFO:
                return 0
            case Order.SJF:
                after = float(max(task.burst_us, task.mean_us))
            case Order.LJF:
                cap_us = self._numbers["cap-ms"] * 1000
                known_us = task.task.known_us if task.total_us >= task.task.named_us else 0
                long_us = min(max(task.total_us, known_us), cap_us) if task.total_us else cap_us
                after = self._age_us - _log(long_us) * self._age_us // _log(cap_us)
            case Order.EDF:
                after = self._numbers[f"period-us-{task.group}"] * _NORMAL_WEIGHT / task.task.weight
            case Order.VTIME:
                task.vtime = max(task.vtime, self._clocks[task.group] - self._numbers["lag-us"])
                return task.vtime
        return self._now_us + min(after, self._age_us)

    def _queue_of(self, task: _Running) -> int:
        if self._spec.queues is Queues.CLASS:
            return task.group
        return 0 if self._spec.queues is Queues.GLOBAL else task.cpu

    def _enqueue(self, task: _Running) -> None:
        task.ready_us = self._now_us
        group = self._group_of(task)
        if group != task.group:
            task.group, task.vtime = group, self._clocks[group]
        queue = self._queue_of(task)
        if self._spec.between is Between.SHARES and not self._queues[queue]:
            self._served[group] = max(self._served[group], self._served_now - self._numbers["debt-us"])
        self._count += 1
        heapq.heappush(self._queues[queue], _Queued(self._place_of(task), self._count, task))

    def _stretch(self, number: int, cpu: _Cpu, task: _Running) -> int:
        # ends what runs there; gives how long it was
        ran_us = self._now_us - cpu.since_us
        if ran_us:
            one = Stretch(task=task.task.name, cpu=number, since_us=cpu.since_us, until_us=self._now_us)
            self._stretches.append(one)
        return ran_us

    def _waited(self, task: _Running) -> None:
        since_us, name = task.ready_us, task.task.name
        self._waits.append(Wait(task=name, group=task.group, since_us=since_us, until_us=self._now_us))

    def _run(self, number: int, task: _Running) -> None:
        cpu = self._cpus[number]
        task.cpu = number
        self._clocks[task.group] = max(self._clocks[task.group], task.vtime)
        self._count += 1
        cpu.task, cpu.since_us, cpu.token = task, self._now_us, self._count
        self._at(self._now_us + min(self._slice_us, task.run_us), cpu.token, number)

    def _stop(self, number: int, cpu: _Cpu, task: _Running) -> None:
        ran_us = self._stretch(number, cpu, task)
        task.run_us -= ran_us
        task.burst_us += ran_us
        task.total_us += ran_us
        task.vtime += ran_us * _NORMAL_WEIGHT / task.task.weight
        self._served[task.group] += ran_us * _NORMAL_WEIGHT / self._weights[task.group]
        cpu.task = None
        goes_on = task.run_us > 0
        if not goes_on:
            task.mean_us += (task.burst_us - task.mean_us) >> self._numbers.get("ewma-shift", 0)
            task.burst_us = 0
            self._sleep(task)
        chosen = self._next(number, task if goes_on else None)
        if chosen is not None:
            self._run(number, chosen)
        if goes_on and chosen is not task:
            self._enqueue(task)
            self._wake_idle(task)

    def _wake_idle(self, task: _Running) -> None:
        for number, cpu in enumerate(self._cpus):
            if cpu.task is None and task.may(number):
                found = self._next(number, None)
                if found is not None:
                    self._run(number, found)
                return

    def _next(self, cpu: int, prev: _Running | None) -> _Running | None:
        if self._spec.queues is Queues.CLASS:
            return self._next_of_classes(cpu, prev)
        asked = 1 if self._spec.queues is Queues.GLOBAL else len(self._cpus)
        by_length = self._spec.order not in (Order.FIFO, Order.VTIME)
        if prev is not None and by_length and self._place_of(prev) < self._first_place(cpu % asked):
            return prev
        steal = min(self._numbers.get("steal-max", 0), _STEAL_MOST)
        for step in range(min(asked, steal + 1)):
            found = self._take((cpu + step) % asked, cpu)
            if found is not None:
                return found
        return prev

    def _first_place(self, queue: int) -> float:
        # without anybody: others are stolen from, if there are others
        waiting = self._queues[queue]
        return min(waiting).place if waiting else _NEVER if self._spec.queues is Queues.GLOBAL else 0

    def _next_of_classes(self, cpu: int, prev: _Running | None) -> _Running | None:
        own = _NEVER if prev is None else self._rank(prev.group, self._now_us)
        ranks = {
            group: self._rank(group, min(queue).task.ready_us) for group, queue in enumerate(self._queues[:4]) if queue
        }
        for group in sorted(ranks, key=lambda one: (ranks[one], one)):
            if prev is not None and own < ranks[group]:
                return prev
            found = self._take(group, cpu)
            if found is not None:
                if self._spec.between is Between.SHARES and ranks[group] >= _LATER_US:
                    self._served_now = max(self._served_now, self._served[group])
                return found
        return prev

    def _rank(self, group: int, ready_us: int) -> float:
        if ready_us + self._age_us < self._now_us:
            return ready_us
        return _LATER_US + (round(self._served[group]) if self._spec.between is Between.SHARES else group)

    def _take(self, queue: int, cpu: int) -> _Running | None:
        # the first that may run there
        for queued in sorted(self._queues[queue]):
            if queued.task.may(cpu):
                self._queues[queue].remove(queued)
                heapq.heapify(self._queues[queue])
                self._waited(queued.task)
                return queued.task
        return None
