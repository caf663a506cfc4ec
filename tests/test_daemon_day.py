# SPDX-License-Identifier: GPL-2.0-only
"""Half a day of 43,200 ticks in a minute or so: the real step, setup, model and journal over recordings of real
programs, on a machine whose schedulers come up, fail, get lost and are replaced by strangers. Run as a program it plays
them, so that its memory is its own, and prints what it found; the test judges that.
"""

import gc
import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from asa import paths
from asa.act.portfolio import Portfolio
from asa.config import PolicySettings, Voting
from asa.core.decision import EEVDF, Order, OrderKind, Permit, SchedulerName, SwitchEvent, SwitchOutcome, Way
from asa.core.sample import SchedExtState
from asa.decide import table
from asa.journal import Journal, SessionHeader
from asa.pipeline import Setup, State, step
from asa.replay import replay, usual_delays
from asa.report.reading import ticks
from models.runtime import Ensemble
from scenarios import planted
from scenarios.demo import SERVED

S, HOUR = 10**9, 3600
HALF_DAY = 12 * HOUR
SIZE_MB = 64.0  # the default of the setting
KEPT_FROM = 11 * HOUR  # from here to the end is decided again from the journal
STRANGER = "layered_of_somebody"


def made_setup():
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    return Setup(
        classifier=Ensemble.load(paths.base_model()),
        table=planted.into(table.load(paths.mapping_tables() / "default.yaml", portfolio.modes()), SERVED),
        voting=Voting(),
        policy=PolicySettings(),
        name_of_ops=portfolio.name_of_ops,
        permit=Permit(switch=True, stand_by=True),
    )


def recordings():
    """Class of use -> sessions of it, each a list of samples."""
    found = {}
    for path in sorted((paths.base_model().parents[1] / "recordings").glob("*.journal.xz")):
        with Journal.unpack(path) as journal:
            for session in journal.sessions():
                samples = list(journal.samples(session.number))
                found.setdefault(session.header.label, []).append(samples)
    return found


def played(random_, sessions):
    """Samples without end: a class for some minutes, then another."""
    while True:
        workload = random_.choice(sorted(sessions))
        for _ in range(random_.randint(1, 20)):
            yield from random_.choice(sessions[workload])


@dataclass(slots=True)
class Machine:
    """A kernel that mostly obeys."""

    random: random.Random
    attached: str = EEVDF
    ordered: SchedulerName | None = None
    stranger_until: int = 0  # second
    outcomes: Counter = field(default_factory=Counter)

    def state(self):
        ops = STRANGER if self.stranger_until else self.attached.partition(":")[0].removeprefix("scx_")
        attached = bool(self.stranger_until) or self.attached != EEVDF
        return SchedExtState(state="enabled" if attached else "disabled", ops=ops if attached else "", enable_seq=0)

    def news(self, second, standbys):
        """What became of the last tick's order, and what came by itself."""
        found = []
        if self.ordered is not None:
            new, self.ordered = self.ordered, None
            failure = (SwitchOutcome.REFUSED, SwitchOutcome.FAILED)[self.random.random() < 0.5]
            outcome = failure if new != EEVDF and self.random.random() < 0.05 else SwitchOutcome.CONFIRMED
            way = Way.STANDBY if new in standbys else Way.GATED
            found.append(self._event(second, outcome, new, way))
            if outcome is not SwitchOutcome.REFUSED:
                self.attached = new if outcome is SwitchOutcome.CONFIRMED else EEVDF
        if self.attached != EEVDF and self.random.random() < 1 / HOUR:
            found.append(self._event(second, SwitchOutcome.LOST, SchedulerName(self.attached), Way.GATED))
            self.attached = EEVDF
        if second % (5 * HOUR) == 4 * HOUR:
            found.append(self._event(second, SwitchOutcome.FOREIGN, SchedulerName(STRANGER), Way.PLAIN))
            self.attached, self.stranger_until = EEVDF, second + 120
        if self.stranger_until and second >= self.stranger_until:
            self.stranger_until = 0
        self.outcomes.update(str(event.outcome) for event in found)
        return tuple(found)

    def _event(self, second, outcome, new, way):
        return SwitchEvent(
            monotonic_ns=second * S,
            outcome=outcome,
            old=SchedulerName(self.attached),
            new=new,
            elapsed_ns=S // 20,
            detail=f"{new} {outcome}",
            undo="",
            way=way,
            gap_ns=S // 25,
        )


def orders_at(second):
    """What the user says: a hold now and then, and that ASA go on after a stranger's scheduler."""
    if second % (6 * HOUR) == 5 * HOUR:
        return (Order(kind=OrderKind.HOLD, until_ns=10**18 + (second + 600) * S, until="later"),)
    return (Order(kind=OrderKind.RESUME),) if second % (5 * HOUR) == 4 * HOUR + 300 else ()


def half_a_day(path):
    """Play it; what was found, as it is printed."""
    made, random_ = made_setup(), random.Random(1)  # noqa: S311  # the same day each time
    samples, machine = played(random_, recordings()), Machine(random_)
    state, kept, resident_mb, largest_mb = State(), None, [], 0.0
    with Journal.open(path, size_mb=SIZE_MB) as journal:
        journal.begin(SessionHeader(started_ns=10**18, asa_version="0", host="h", kernel="6", cpus=2))
        for second in range(1, HALF_DAY + 1):
            news, orders = machine.news(second, state.readiness.chosen), orders_at(second)
            sizes = dict.fromkeys(state.readiness.chosen, 6_000_000)
            sample = replace(
                next(samples), monotonic_ns=second * S, wall_ns=10**18 + second * S, sched_ext=machine.state()
            )
            state = step(made, state, sample, news, orders, sizes)
            journal.add(sample, state.decision, news, orders, sizes)
            machine.ordered = None if machine.stranger_until else state.decision.switch_to
            if second == KEPT_FROM:
                kept = state
            if second % (HOUR // 4) == 0:
                largest_mb = max(largest_mb, sum(one.stat().st_size for one in path.parent.iterdir()) / 1e6)
            if second % HOUR == 0:
                gc.collect()
                resident_mb.append(_resident_mb())
    with Journal.look(path) as journal:
        end = (tick for tick in ticks(journal, 1) if tick.sample.monotonic_ns > KEPT_FROM * S)
        again = replay(end, made, kept, usual_delays(journal.events(1)))
        left = journal.ticks(1)
    return {
        "resident_mb": resident_mb,
        "largest_mb": largest_mb,
        "left": left,
        "outcomes": machine.outcomes,
        "marks": len(state.books.bars.marks),
        "compared": again.compared,
        "differing": again.differing,
        "by_field": again.by_field,
        "orders_again": (again.recorded_switches, again.replayed_switches, again.same_switches),
    }


def _resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.slow
def test_half_a_day(tmp_path):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # as `asa run` has it
    words = [sys.executable, __file__, str(tmp_path / "journal.sqlite")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=900)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["outcomes"]) == {"confirmed", "refused", "failed", "lost", "foreign"}
    assert found["outcomes"]["confirmed"] > 100
    # the bound holds between two commits; the write-ahead log beside it may grow by what one of them moves
    assert found["largest_mb"] < SIZE_MB * 1.3
    assert HOUR <= found["left"] < HALF_DAY  # the oldest went, the last hour is whole
    first_hours, last_hours = found["resident_mb"][1:5], found["resident_mb"][-4:]
    assert min(last_hours) - max(first_hours) < 2.0, found["resident_mb"]
    assert (found["compared"], found["differing"]) == (HOUR, 0), found["by_field"]
    assert len(set(found["orders_again"])) == 1
    assert found["orders_again"][0] > 0


if __name__ == "__main__":
    print(json.dumps(half_a_day(Path(sys.argv[1]))))
