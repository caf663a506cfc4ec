# SPDX-License-Identifier: GPL-2.0-only
"""A controller's turn: nothing else is in force or loaded, the agent's lock is free, and what it did is kept."""

import time
from contextlib import contextmanager

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from switchback_runs import run

from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import SchedulerError
from calibration.oracle import rounds
from calibration.switchback import guest, tables
from calibration.switchback.guest import Turns


class Switcher:
    def __init__(self, said):
        self.said = said

    def current(self):
        return EEVDF

    def rest(self):
        self.said.append("rests")
        return True

    def poll(self):
        self.said.append("polled")


class Forcing:
    def __init__(self):
        self.said = []

    def switcher(self, _kind):
        self.said.append("a new switcher")
        return Switcher(self.said)

    @contextmanager
    def apart(self):
        self.said.append("free")
        yield
        self.said.append("locked")


class Controllers:
    def __init__(self, said, dies=""):
        self.said, self.dies = said, dies

    @contextmanager
    def hold(self, name):
        self.said.append(f"{name} decides")

        def alive():
            if self.dies:
                raise SchedulerError(scheduler=name, reason=self.dies)

        yield alive
        self.said.append(f"{name} ends")


def turns(dies=""):
    forcing = Forcing()
    return Turns(
        switcher=Switcher(forcing.said), forcing=forcing, controllers=Controllers(forcing.said, dies)
    ), forcing.said


def test_a_controller_decides_while_nothing_of_ours_is_loaded():
    ours, said = turns()
    with ours.deciding(SchedulerName("agent")):
        ours.check()
    assert said == ["rests", "free", "agent decides", "agent ends", "locked", "a new switcher"]
    ours.check()
    assert said[-1] == "polled"


def test_one_that_ends_is_the_trouble_of_its_turn_and_the_run_goes_on():
    ours, said = turns(dies="ended with code 1")
    with pytest.raises(SchedulerError, match="ended with code 1"), ours.deciding(SchedulerName("agent")):
        ours.check()
    assert said[-1] == "a new switcher"
    assert ours.alive is None


def test_a_run_without_a_place_for_one_says_so():
    with pytest.raises(SchedulerError, match="no place for it"), Turns(switcher=Switcher([])).deciding("agent"):
        pass


class Scene:
    def __init__(self, said):
        self.said = said

    def hear(self):
        self.said.append("heard")

    def forget(self, _ns):
        self.said.append("forgotten")

    def last(self, seconds):
        time.sleep(seconds)


def test_an_agent_at_work_for_long_is_measured_by_nobody_and_tells_what_it_did():
    ours, said = turns()
    ours.controllers.told = lambda windows: {"windows": windows}
    plain = run((EEVDF, "agent:learnt"), rounds=3)
    orders = msgspec.structs.replace(plain.orders, schedulers=("agent:learnt",), lasts_s=0.05)
    made = guest.lasting(Scene(said), ours, msgspec.structs.replace(plain, orders=orders, blocks=()))
    (block,) = made.blocks
    assert (block.scheduler, block.series, block.window_s) == ("agent:learnt", [], 0.05)
    ((start_ns, end_ns),) = block.told["windows"]
    assert end_ns - start_ns >= 50_000_000
    assert said[:5] == ["rests", "free", "agent:learnt decides", "heard", "forgotten"]
    assert said[-1] == "a new switcher"
    assert rounds.of_runs([made]) == []


def test_what_it_did_is_kept_and_a_round_has_whom_it_held(tmp_path):
    made = run((EEVDF, "agent"), rounds=3)
    told = {"held_s": {"eevdf": 1.0, "scx_flash": 4.0}, "cpu_pct": 0.4}
    blocks = tuple(msgspec.structs.replace(one, told=told if one.scheduler == "agent" else {}) for one in made.blocks)
    made = msgspec.structs.replace(made, blocks=blocks)
    tables.write(tmp_path, [made])
    (again,) = tables.read(tmp_path)
    assert [one.told for one in again.blocks] == [one.told for one in blocks]
    assert {(one.scheduler, one.held) for one in rounds.of_runs([again])} == {("agent", "scx_flash"), ("eevdf", "")}
    old = pq.read_table(tmp_path / tables.BLOCKS).drop_columns(["told"])  # as it was kept before
    pq.write_table(pa.table(old), tmp_path / tables.BLOCKS)
    assert [one.told for one in tables.read(tmp_path)[0].blocks] == [{}] * len(blocks)
    assert guest.is_controller("agent")
