# SPDX-License-Identifier: GPL-2.0-only
"""A made-up machine for the pure step: it shows what the test says, tick by tick, and switches end as the test says."""

from dataclasses import dataclass, field

from asa.config import PolicySettings, Voting
from asa.core.decision import (
    EEVDF,
    Judgement,
    Permit,
    Probabilities,
    SchedulerExit,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Way,
    Workload,
)
from asa.core.sample import CpuCounters, PressureCounters, RawSample, SchedExtState
from asa.decide.table import Entry, MappingTable
from asa.pipeline import Setup, State, step
from scenarios.planted import evidence

A, B, C, IDLE = Workload("a"), Workload("b"), Workload("c"), Workload("idle")
CLASSES = (A, B, C, IDLE)
ONE, TWO, THREE = SchedulerName("scx_one"), SchedulerName("scx_two"), SchedulerName("scx_three")
RANKINGS = {A: (ONE, TWO, THREE), B: (TWO, ONE), C: (THREE, TWO), IDLE: (EEVDF,)}
S = 10**9
STANDING_BY = Permit(switch=True, stand_by=True)


def processors(ticks, runnable=1):
    """One CPU that has spent these ticks (user, nice, system, idle, ... as /proc/stat has them)."""
    return CpuCounters(
        total=ticks,
        cores=((0, ticks),),
        interrupts=0,
        context_switches=0,
        forks=0,
        softirqs=(0,) * 10,
        runnable=runnable,
        blocked=0,
    )


@dataclass(slots=True)
class Machine:
    """A kernel, a classifier and a switcher in one, tick by tick; the test says what it shows and how switches end."""

    setup: Setup = None
    state: State = field(default_factory=State)
    workload: Workload = IDLE
    attached: SchedulerName = EEVDF
    pressed_us: int = 0  # /proc/pressure/cpu, some
    short_us: int = 0  # /proc/pressure/memory, some
    now_s: int = 0
    battery_saver: bool | None = None
    on_battery: bool | None = None
    suspended_s: int = 0
    news: list = field(default_factory=list)
    orders: list = field(default_factory=list)
    sizes: dict = field(default_factory=dict)
    standbys: tuple = ()  # that the last tick had
    stood_by: dict = field(default_factory=dict)  # second of an order -> was its target among them?
    schema = 0
    classes = CLASSES

    def __post_init__(self):
        self.setup = Setup(
            classifier=self,
            table=MappingTable(
                path="t",
                machine="m",
                provenance="p",
                rankings={
                    name: tuple(Entry(scheduler=scheduler, why=".", evidence=evidence()) for scheduler in ranking)
                    for name, ranking in RANKINGS.items()
                },
            ),
            voting=Voting(window_s=2.0),
            policy=PolicySettings(cooldown_s=10.0),
            name_of_ops=lambda ops: SchedulerName(f"scx_{ops}"),
            permit=Permit(switch=True),
        )

    def judge(self, _):
        probabilities = Probabilities(classes=CLASSES, values=tuple(float(name == self.workload) for name in CLASSES))
        return Judgement(probabilities=probabilities, score=None, known=True)

    def tick(self, pressure=0.0, memory=0.0):
        """One second with so much pressure, judged."""
        self.now_s += 1
        self.pressed_us += int(pressure * 1e6)
        self.short_us += int(memory * 1e6)
        ticks = (self.now_s, 0, 0, self.now_s, 0, 0, 0, 0)
        unknown = dict.fromkeys(PressureCounters.__slots__)
        pressures = unknown | {"cpu_some_us": self.pressed_us, "memory_some_us": self.short_us}
        sample = RawSample(
            monotonic_ns=self.now_s * S,
            wall_ns=10**18 + self.now_s * S,
            cpu=processors(ticks),
            pressure=PressureCounters(**pressures),
            sched_ext=SchedExtState(
                state="disabled" if self.attached == EEVDF else "enabled",
                ops="" if self.attached == EEVDF else self.attached.removeprefix("scx_"),
                enable_seq=self.now_s,
            ),
            battery_saver=self.battery_saver,
            on_battery=self.on_battery,
            suspended_ns=self.suspended_s * S,
        )
        self.standbys = self.state.readiness.chosen
        self.state = step(self.setup, self.state, sample, self.news, self.orders, self.sizes)
        self.news, self.orders = [], []
        return self.state.decision

    def report(self, outcome, new, kind=None):
        """What became of `new`; the kernel is where that leaves it."""
        light = new == EEVDF or new in self.standbys
        event = SwitchEvent(
            monotonic_ns=self.now_s * S,
            outcome=outcome,
            old=self.attached,
            new=new,
            elapsed_ns=S // 50 if light else 6 * S,
            way=Way.STANDBY if new in self.standbys else Way.GATED,
            detail=f"{new} {outcome}",
            undo="",
            exit=None if kind is None else SchedulerExit(kind=kind, reason="as told", source="the scheduler"),
        )
        if outcome is SwitchOutcome.CONFIRMED:
            self.attached = new
        elif outcome in (SwitchOutcome.FAILED, SwitchOutcome.LOST):
            self.attached = EEVDF
        self.news.append(event)

    def run(self, seconds, workload, pressure=lambda _: 0.0, memory=0.0):
        """So many ticks of a class, every switch done at once. `pressure` by the scheduler in force."""
        self.workload = workload
        decisions = []
        for _ in range(seconds):
            decisions.append(self.tick(pressure(self.attached), memory))
            if decisions[-1].switch_to is not None:
                self.report(SwitchOutcome.CONFIRMED, decisions[-1].switch_to)
        return decisions
