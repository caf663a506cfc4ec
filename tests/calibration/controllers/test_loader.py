# SPDX-License-Identifier: GPL-2.0-only
"""The rule of scx_loader as a column: when it wants scx_lavd, and at work with a switcher that is none."""

import threading

import pytest
from waiting import until

from asa.core.decision import EEVDF, Standby, SwitchEvent, SwitchOutcome
from asa.core.errors import AsaError, SchedulerError, SourceError
from calibration.controllers import loader as controllers_loader
from calibration.controllers.course import Course, told
from calibration.controllers.loader import LAVD, Busiest, Rule


def wanted(*looks):
    """At each look (second, per cent), whether scx_lavd is wanted."""
    rule = Rule()
    return [rule.step(float(now_s), float(busiest)) for now_s, busiest in looks]


def test_a_cpu_above_90_for_more_than_5_s():
    assert wanted(*((second, 91) for second in range(7))) == [False] * 6 + [True]
    assert not any(wanted(*((second, 90) for second in range(60))))
    assert not any(wanted(*((second, 50 if second % 5 == 4 else 99) for second in range(60))))


def test_all_below_for_more_than_30_s():
    busy = [(second, 100) for second in range(10)]
    calm = [(second, 10) for second in range(10, 42)]
    assert wanted(*busy, *calm)[10:] == [True] * 31 + [False]
    short_rise = [(second, 100 if second in (20, 21, 22) else 10) for second in range(10, 42)]
    assert wanted(*busy, *short_rise)[-1] is False  # it is too short to count
    long_rise = [(second, 100 if 20 <= second < 27 else 10) for second in range(10, 42)]
    assert wanted(*busy, *long_rise)[-1] is True


def stat(folder, *cores):
    head = "cpu  0 0 0 0 0 0 0 0 0 0"
    lines = [f"cpu{number} {' '.join(map(str, ticks))} 0 0" for number, ticks in enumerate(cores)]
    rest = ["intr 1", "ctxt 1", "btime 1", "processes 1", "procs_running 1", "procs_blocked 0", "softirq" + " 0" * 11]
    (folder / "stat").write_text("\n".join([head, *lines, *rest, ""]))


def test_the_busiest_cpu(tmp_path):
    stat(tmp_path, (0,) * 8, (100, 0, 0, 100, 0, 0, 0, 0))
    busiest = Busiest(tmp_path)
    assert busiest() == 0.0
    stat(tmp_path, (50, 0, 0, 50, 0, 0, 0, 0), (100, 0, 0, 200, 0, 0, 0, 0))
    assert busiest() == 50.0
    stat(tmp_path, (50, 0, 0, 100, 50, 0, 0, 0), (190, 1, 2, 203, 0, 2, 2, 0))  # waiting for a disk is not busy
    assert busiest() == pytest.approx(97.0)


class FakeSwitcher:
    """Does what it is told at once, or fails."""

    def __init__(self, outcome=SwitchOutcome.CONFIRMED):
        self.outcome, self.orders, self.events, self.rested = outcome, [], [], threading.Event()
        self.waits, self.looks = (), iter((False, False, True))

    def keep_ready(self, wanted):
        self.waits = wanted

    def standbys(self):
        ready = next(self.looks, True)
        return tuple(Standby(scheduler=name, ready=ready, memory_bytes=0, since_ns=0) for name in self.waits)

    def busy(self):
        return bool(self.events)

    def begin(self, target, why=""):
        self.orders.append(target)
        fields = {"elapsed_ns": 1, "detail": "as ordered", "undo": ""}
        self.events.append(
            SwitchEvent(monotonic_ns=len(self.orders), outcome=self.outcome, old=EEVDF, new=target, **fields)
        )

    def poll(self):
        return self.events.pop() if self.events else None

    def rest(self):
        self.rested.set()
        return True


@pytest.fixture
def quick(monkeypatch):
    for name in ("_LOOK_S", "_BUSY_LOOK_S"):
        monkeypatch.setattr(controllers_loader, name, 0.001)
    for name in ("_HIGH_FOR_S", "_LOW_FOR_S"):
        monkeypatch.setattr(controllers_loader, name, 0.01)
    load = {"pct": 0.0}
    monkeypatch.setattr(controllers_loader, "Busiest", lambda proc: lambda: load["pct"])
    return load


def test_the_rule_at_work(quick, tmp_path):
    switcher, course = FakeSwitcher(), Course()
    with controllers_loader.running(switcher, tmp_path, course) as check:
        assert switcher.waits == (LAVD,)
        quick["pct"] = 99.0
        until(lambda: switcher.orders == [LAVD], "it is started")
        check()
        quick["pct"] = 1.0
        until(lambda: switcher.orders == [LAVD, EEVDF], "it is ended")
        until(lambda: len(course.held) == 2, "both are noted")
    assert switcher.rested.is_set()
    assert course.held == [(1, LAVD), (2, EEVDF)]


class Lame(FakeSwitcher):
    """Its scheduler does not come to wait, and it says so or lets it go."""

    def __init__(self, *events):
        super().__init__()
        self.events, self.looks = list(events), iter([False] * 100)

    def standbys(self):
        return super().standbys() if self.events else ()


def test_one_that_does_not_load_fails_its_trial_before_it_begins(quick, tmp_path):
    said = SwitchEvent(
        monotonic_ns=1, outcome=SwitchOutcome.REFUSED, old=EEVDF, new=LAVD, elapsed_ns=1, detail="as a standby", undo=""
    )
    for switcher, words in ((Lame(said), "as a standby"), (Lame(), "cannot wait, loaded")):
        with pytest.raises(SchedulerError, match=words), controllers_loader.running(switcher, tmp_path, Course()):
            pytest.fail("the trial began")
        assert switcher.rested.is_set()
        assert switcher.orders == []


def test_one_that_loads_for_too_long_fails_its_trial(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(controllers_loader, "_LOAD_LIMIT_S", 0.01)
    switcher = FakeSwitcher()
    switcher.looks = iter([False] * 1000)
    late = pytest.raises(SchedulerError, match="was not loaded within 0 s")
    with late, controllers_loader.running(switcher, tmp_path, Course()):
        pytest.fail("the trial began")
    assert switcher.rested.is_set()


def test_without_proc_nothing_is_loaded(tmp_path):
    switcher = FakeSwitcher()
    with pytest.raises((OSError, SourceError)), controllers_loader.running(switcher, tmp_path, Course()):
        pytest.fail("the trial began")
    assert switcher.waits == ()


def test_one_that_cannot_be_started_is_told_and_not_tried_again(quick, tmp_path):
    switcher, course = FakeSwitcher(SwitchOutcome.FAILED), Course()
    quick["pct"] = 99.0
    looks = []
    quick_busiest = controllers_loader.Busiest(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(controllers_loader, "Busiest", lambda proc: lambda: looks.append(1) or quick_busiest())
        with controllers_loader.running(switcher, tmp_path, course) as check:
            until(lambda: switcher.orders, "it is tried")
            seen = len(looks)
            until(lambda: len(looks) > seen + 30, "the rule goes on")
            check()
    assert switcher.orders == [LAVD]
    assert course.facts["trouble"] == "as ordered"
    assert told(course, [(10, 20)])["held_s"] == {"eevdf": 0.0}


def test_a_rule_that_cannot_look_fails_its_trial(quick, tmp_path, monkeypatch):
    def blind(proc):
        def look():
            raise OSError(5, "Input/output error")

        return look

    monkeypatch.setattr(controllers_loader, "Busiest", blind)
    switcher = FakeSwitcher()
    with controllers_loader.running(switcher, tmp_path, Course()) as check:
        until(switcher.rested.is_set, "it has ended")
        with pytest.raises(AsaError, match=r"the rule of scx_loader ended: .*Input/output error"):
            check()
