# SPDX-License-Identifier: GPL-2.0-only
"""Regimes: what a tick's rates come to, and what the kept recordings of real programs come to."""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest

from asa import paths
from asa.config import Voting
from asa.core.decision import Judgement, Probabilities, Workload
from asa.core.mark import Phase
from asa.core.regime import REGIMES, Doing, Load, Regime, in_words
from asa.decide import regime, voting
from asa.decide.signals import Signals
from asa.journal import Journal
from collectors import rates
from collectors.rates import Rates

RECORDINGS = paths.base_model().parents[1] / "recordings"
QUIET = ("idle", "office", "web")
BUSY = ("archive", "blender", "kernel", "llm", "video")


def tick(busy, *, cpus=4, iowait=0.0, wakeups=100.0, **more):
    """Rates of a machine of which programs use so much, and that wakes so many tasks a second and CPU."""
    known = {
        "cpu_user_share": busy,
        "cpu_nice_share": 0.0,
        "cpu_system_share": 0.0,
        "cpu_irq_share": 0.0,
        "cpu_softirq_share": 0.0,
        "cpu_iowait_share": iowait,
        "wakeups_per_s": None if wakeups is None else wakeups * cpus,
    }
    return Rates(**(known | more))


@pytest.mark.parametrize(
    ("busy", "wakeups", "iowait", "name"),
    [
        (0.01, 20, 0.0, "light-waiting"),  # nobody is there
        (0.07, 560, 0.0, "light-waiting"),  # a browser
        (0.13, 1700, 0.0, "light-waking"),  # audio with small buffers
        (0.26, 60, 0.0, "light-computing"),  # one thread of four
        (0.5, 60, 0.0, "mixed-computing"),
        (0.5, 800, 0.0, "mixed-computing"),  # a game
        (0.4, 1100, 0.0, "mixed-waiting"),
        (0.6, 8000, 0.0, "mixed-waking"),  # a server
        (0.2, 5000, 0.45, "light-waiting"),  # the disk is what all wait for
        (1.0, 20, 0.0, "heavy-computing"),
        (0.99, 50_000, 0.0, "heavy-waking"),
        (0.88, 900, 0.12, "heavy-waiting"),
    ],
)
def test_a_tick_has_a_regime(busy, wakeups, iowait, name):
    found = regime.of(tick(busy, wakeups=wakeups, iowait=iowait), 4)
    assert found.workload == f"regime:{name}"
    assert in_words(found.workload) == f"unknown; regime {name}"
    assert in_words("web+archive") == "web+archive"


def test_there_are_nine():
    assert len(set(REGIMES)) == len(REGIMES) == 9
    assert all("+" not in name for name in REGIMES)  # a table would take it for a class of two parts


@pytest.mark.parametrize("cpus", [1, 2, 8, 64])
def test_a_load_is_relative_to_the_machine(cpus):
    assert regime.of(tick(0.9, cpus=cpus), cpus).load is Load.HEAVY
    assert regime.of(tick(0.5, cpus=cpus), cpus).load is Load.MIXED
    assert regime.of(tick(0.05, cpus=cpus), cpus).load is Load.LIGHT


def changes(found):
    return sum(one != other for one, other in pairwise(found))


def followed(ticks, cpus=4):
    found, last = [], None
    for one in ticks:
        last = regime.of(one, cpus, last)
        found.append(last)
    return found


@pytest.mark.parametrize(
    "pair",
    [
        (tick(0.22, wakeups=10), tick(0.31, wakeups=10)),
        (tick(0.7, wakeups=10), tick(0.86, wakeups=10)),
        (tick(0.5, wakeups=950), tick(0.5, wakeups=1210)),
        (tick(0.4, wakeups=1190), tick(0.4, wakeups=790)),
        (tick(0.4, iowait=0.06), tick(0.4, iowait=0.11)),
        (tick(0.055, wakeups=10), tick(0.08, wakeups=10)),
    ],
)
def test_a_load_near_a_bound_does_not_flicker(pair):
    assert regime.of(pair[0], 4) != regime.of(pair[1], 4)  # alone they lie on two sides
    assert changes(followed(pair * 30)) <= 1


def test_fewer_facts_still_make_a_regime():
    blind = tick(0.6, wakeups=None, context_switches_per_s=8000 * 4 * regime.SWITCHES_A_WAKEUP)
    assert regime.of(blind, 4) == Regime(load=Load.MIXED, doing=Doing.WAKING)
    assert regime.of(tick(0.6, wakeups=None), 4) == Regime(load=Load.MIXED, doing=Doing.COMPUTING)
    assert regime.of(tick(0.01, wakeups=None, iowait=None), 4) == Regime(load=Load.LIGHT, doing=Doing.WAITING)
    assert regime.of(tick(0.0, wakeups=0.0), 4) == Regime(load=Load.LIGHT, doing=Doing.WAITING)
    assert regime.of(tick(1.0, wakeups=0.0), 4) == Regime(load=Load.HEAVY, doing=Doing.COMPUTING)


def test_without_the_cpus_time_it_is_the_one_before():
    before = regime.of(tick(0.9), 4)
    came = replace(tick(0.1), cpu_user_share=None)
    assert regime.of(came, 4, before) == before
    assert regime.of(came, 4) is None
    assert regime.of(tick(0.1), 0) is None


@dataclass
class Played:
    """What of a use was recorded, session by session."""

    measures: list = field(default_factory=list)  # busy, CPUs' worth, iowait, wakeups a CPU, turn in us
    voted: list = field(default_factory=list)
    blind: list = field(default_factory=list)  # the same without eBPF
    changes: int = 0
    minutes: float = 0.0

    def share(self, *parts):
        """Of the ticks: those whose regime has one of these words in it."""
        return sum(any(part in name.split(":")[1].split("-") for part in parts) for name in self.voted) / len(
            self.voted
        )


def running(journal, number):
    """Rates of the ticks in which all of a session's programs worked, with their times and the CPUs online."""
    marks = list(journal.marks(number))
    starts = [mark.monotonic_ns for mark in marks]
    for old, new in pairwise(journal.samples(number)):
        middle_ns = (old.monotonic_ns + new.monotonic_ns) // 2
        phase = marks[max(0, bisect_right(starts, middle_ns) - 1)].phase if marks else Phase.RUNNING
        derived = rates.derive(old, new)
        if phase is Phase.RUNNING and derived is not None and regime.of(derived, 1) is not None:
            yield new.monotonic_ns, derived, len(new.cpu.cores)


def voted(ticks):
    """By the agent's own voting, as if no tick fitted any class of the model."""
    nothing = Probabilities(classes=(Workload("a"),), values=(1.0,))
    state, last, found = voting.FilterState(), None, []
    for at_ns, derived, cpus in ticks:
        last = regime.of(derived, cpus, last)
        unlike = Judgement(probabilities=nothing, score=0.0, known=False)
        state = voting.take(state, Voting(), at_ns, unlike, current=None, regime=last.workload)
        assert state.vote.workload is None
        assert state.vote.unknown
        found.append(state.vote.regime)
    return found


@pytest.fixture(scope="module")
def played():
    """(folder or place, label) -> what was recorded there."""
    found = defaultdict(Played)
    for path in sorted(RECORDINGS.rglob("*.journal.xz")):
        place = path.parent.name if path.parent != RECORDINGS else path.name.split(".")[0].split("-")[0]
        with Journal.unpack(path) as journal:
            for session in journal.sessions():
                ticks = list(running(journal, session.number))
                if len(ticks) < 2:
                    continue
                use = found[place, session.header.label]
                names = voted(ticks)
                unseen = [(at_ns, replace(derived, wakeups_per_s=None), cpus) for at_ns, derived, cpus in ticks]
                use.voted += names
                use.blind += voted(unseen)
                use.changes += changes(names)
                use.minutes += (ticks[-1][0] - ticks[0][0]) / 60e9
                use.measures += [measures(one, cpus) for _, one, cpus in ticks if one.wakeups_per_s is not None]
    return found


def measures(derived, cpus):
    busy = sum(getattr(derived, f"cpu_{kind}_share") for kind in ("user", "nice", "system", "irq", "softirq"))
    woken = derived.wakeups_per_s
    return busy, busy * cpus, derived.cpu_iowait_share or 0.0, woken / cpus, busy * cpus * 1e6 / max(woken, 1e-9)


def quantile(played, labels, place, share):
    return np.quantile([row[place] for label in labels for row in played["scenarios", label].measures], share)


def test_the_bounds_part_the_recordings(played):
    busy, cpus, iowait, wakeups, turn_us = range(5)
    assert quantile(played, (*QUIET, "audio"), busy, 0.95) < regime.MIXED.leave + 0.02
    assert quantile(played, BUSY, busy, 0.1) > regime.MIXED.enter
    assert quantile(played, ("game",), busy, 0.9) < regime.HEAVY.enter + 0.01
    assert quantile(played, ("blender", "kernel"), busy, 0.5) > regime.HEAVY.enter
    assert quantile(played, (*QUIET, "game"), wakeups, 0.9) < regime.WAKEUPS.leave
    assert quantile(played, ("audio", "network", "disk"), wakeups, 0.1) > regime.WAKEUPS.enter
    assert quantile(played, (*BUSY, "game"), turn_us, 0.05) > regime.TURN_US.enter
    assert quantile(played, ("web", "office"), turn_us, 0.95) < regime.TURN_US.leave
    assert quantile(played, ("idle",), cpus, 0.95) < regime.WORK_CPUS.leave
    assert quantile(played, BUSY, cpus, 0.05) > regime.WORK_CPUS.enter
    assert quantile(played, (*QUIET, *BUSY, "audio", "game", "network"), iowait, 0.98) < regime.IO_WAIT.leave
    assert quantile(played, ("disk",), iowait, 0.5) > regime.IO_WAIT.enter


def test_recordings_of_real_programs_fall_into_sensible_regimes(played):
    def share(label, *parts, place="scenarios"):
        return played[place, label].share(*parts)

    assert min(share(label, "light") for label in QUIET) > 0.95
    assert min(share(label, "waiting") for label in QUIET) > 0.95
    assert share("audio", "waking") > 0.9
    assert min(share(label, "computing") for label in (*BUSY, "game")) > 0.9
    assert min(share(label, "mixed", "heavy") for label in (*BUSY, "game")) > 0.9
    assert min(share(f"game+{label}", "heavy") for label in BUSY) > 0.85
    assert share("disk", "waiting") > 0.8
    assert share("network", "waking") > 0.9
    assert share("wakeup", "waking", place="host") > 0.95
    assert share("cpu", "heavy", place="host") > 0.95
    assert share("cpu", "computing", place="lab") == 1.0
    assert min(share(label, "light", place="stand-ins") for label in ("idle", "office", "web", "audio")) > 0.95
    assert min(share(label, "computing", place="stand-ins") for label in BUSY) > 0.95


def test_regimes_stand_still_in_the_recordings(played):
    def a_minute(rows):
        return sum(one.changes for one in rows) / sum(one.minutes for one in rows)

    assert a_minute(played.values()) < 4.0  # what flickers most is work that comes in bursts of seconds
    assert a_minute([played["scenarios", label] for label in (*QUIET, "audio", "blender", "game+blender")]) < 2.0
    assert a_minute([one for (place, _), one in played.items() if place == "stand-ins"]) < 2.0


def test_without_ebpf_the_regimes_are_the_same(played):
    alike = [one == other for found in played.values() for one, other in zip(found.voted, found.blind, strict=True)]
    assert sum(alike) / len(alike) > 0.97


def test_little_to_do_is_over_after_two_ticks_with_more_and_where_somebody_waits():
    light, mixed = (Regime(load=load, doing=Doing.WAITING) for load in (Load.LIGHT, Load.MIXED))
    told = [regime.has_little_to_do(*last, None) for last in ((light, light), (light, mixed), (mixed, light))]
    assert told == [True, True, True]
    assert not regime.has_little_to_do(mixed, mixed, None)
    assert not regime.has_little_to_do(None, None, None)
    assert regime.has_little_to_do(light, light, Signals(wakeup_p99_us=1999.0, cpu_pressure=0.09, input_ms=40.0))
    assert not regime.has_little_to_do(light, light, Signals(wakeup_p99_us=2000.0))
    assert not regime.has_little_to_do(light, light, Signals(underruns=1.0))
