# SPDX-License-Identifier: GPL-2.0-only
"""The real agent's loop over a scripted kernel, with a client's work beside it: orders go by files and SIGUSR1."""

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from daemon_bench import ONE, TWO, Bench
from made_up_status import status

from asa import requests
from asa.core.decision import EEVDF, Order, OrderKind, SchedulerName
from asa.core.errors import InputError
from asa.lease import Watch
from asa.mcp.changes import Changes
from asa.mcp.trying import Who
from asa.paths import Places
from asa.reporter import told_use
from asa.status import StatusFile

BOT = Who(client="bot", version="1", session="aa")
OTHER = Who(client="other", version="2", session="bb")


class Host:
    """Schedulers that the scripted kernel knows."""

    def known(self, policy):
        if policy not in (ONE, TWO, EEVDF):
            raise InputError(path="id", key="", value=policy, allowed="an id that `policies` lists")
        return SchedulerName(policy)

    def look(self, name):
        return None, ""


@dataclass
class Machine:
    """What `Changes` knows of a machine."""

    places: Places

    def host(self):
        return Host()


@dataclass
class StandIn:
    """`signals`: of a tick, by the scheduler in force. ONE serves, as the table has it."""

    folder: Path
    signals: dict = field(default_factory=lambda: {EEVDF: 100.0, ONE: 100.0, TWO: 50.0})
    more: dict = field(default_factory=dict)  # of the status

    def __post_init__(self):
        self.run = self.folder / "run"
        self.machine = Machine(Places(run=self.run, state=self.folder))
        self.file, self.watch, self.bench = StatusFile(self.run), Watch(self.run), Bench(ONE, TWO)
        self.bench.agent.publish = self._publish
        self.bench.agent.take_orders, self.bench.agent.lapsed = self._take, self._lapsed
        self._done = threading.Event()
        self.failure = None

    def _take(self):
        taken = requests.take(self.run)
        for one in taken:
            self.watch.note(one)
        return tuple(requests.order(one, time.time_ns()) for one in taken)

    def _lapsed(self):
        return tuple(Order(kind=OrderKind.LAPSE, lease=gone) for gone in self.watch.gone())

    def _publish(self, agent, decision):
        state, current = agent.state.books.policy, agent.switcher.current()
        held = state.held
        found = {
            "mode": "hold" if state.hold else "switching",
            "mode_reason": state.hold,
            "workload": decision.workload,
            "scheduler": current,
            "reason": decision.reason,
            "sentence": decision.sentence,
            "held": held is not None,
            "chosen": None if held is None else held.scheduler,
            "client": "" if held is None else held.client,
            "lease": "" if held is None else held.lease,
            "told": told_use(agent.state.books.told),
            "interval_s": 0.02,
            "signals": {"wakeup_p99_us": self.signals[current], "cpu_pressure": 0.2, "underruns": None},
        }
        self.file.write(status(**(found | self.more)))
        if self._done.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    def during(self, work):
        """What `work(self)` comes to while the agent runs."""
        came = []

        def working():
            try:
                self.until(lambda found: found.scheduler == ONE)
                came.append(work(self))
            except BaseException as error:  # noqa: BLE001  # told below
                self.failure = error
            finally:
                self._done.set()

        beside = threading.Thread(target=working)
        beside.start()
        try:
            self.bench.agent.run(limit_s=120.0)
        finally:
            beside.join(60.0)
            self.file.close()
        if self.failure is not None:
            raise self.failure
        return came[0]

    def until(self, fits):
        """The first status that fits."""
        from asa import status as statuses

        end_s = time.monotonic() + 60.0
        while time.monotonic() < end_s:
            found = statuses.read(self.run)
            if found is not None and fits(found):
                return found
            time.sleep(0.005)
        raise AssertionError(f"not within a minute: {found}")

    def changes(self, **more):
        return Changes(self.machine, **({"second_s": 0.002} | more))
