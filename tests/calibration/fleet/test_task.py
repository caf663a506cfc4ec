# SPDX-License-Identifier: GPL-2.0-only
"""A task of the fleet as a host plays it, with a guest that is none."""

from pathlib import Path

import pytest
from fleet_toys import result

from asa import wire
from asa.core.errors import LabError
from asa.paths import Places
from calibration.controllers.columns import Given
from calibration.fleet.task import Task, play
from scenarios import guests, runner_folder
from scenarios.application import Tier
from scenarios.catalogue import find
from scenarios.lab.guest import GuestResult
from scenarios.lab.machines import fleet
from scenarios.runner import read_orders
from scenarios.runner_plan import Asked, Outcome, make


class FakeGuest:
    """Writes a result for each trial of its orders, then ends."""

    def __init__(self, command, out, outcome):
        self.orders, self.given = read_orders(Path(command[-2])), Path(command[-1])
        self.out, self.lines = out, []
        for trial in self.orders.trials:
            runner_folder.write(out / f"{trial.id}.json", result(trial, outcome))
            self.lines += [f"begin {trial.id}", f"end {trial.id}"]

    def poll(self):
        return None if self.lines else GuestResult(exit_code=0, boot_s=1.0, run_s=1.0, console=self.out)

    def output(self):
        lines, self.lines = self.lines, []
        return lines, []

    def stop(self):
        pass


@pytest.fixture
def task(monkeypatch):
    monkeypatch.setattr(guests, "_LOOK_S", 0.0)
    scenarios = find("P1")
    asked = Asked(
        tier=Tier.LAB,
        scenarios=("P1",),
        schedulers=("eevdf", "agent", "random"),
        repeats=1,
        seed=1,
        seconds=1.0,
        warm_up_s=2.0,
        cpus=4,
    )
    trials = tuple(trial for trial in make(asked, scenarios, "run").trials if trial.then is not None)
    return Task(
        run="abc",
        machine=fleet()[0],
        trials=trials,
        seconds=1.0,
        warm_up_s=2.0,
        given=Given(among=("eevdf",), settings={"interval_s": 2.0}),
        table=b"version: 2",
        model=b"\x00\xff",
    )


def booting(guests, outcome=Outcome.DONE):
    def boots(task):
        def boot(command, out, limit_s):
            given = wire.from_json(Path(command[-1]).read_bytes(), Given)
            contents = Path(given.table).read_bytes(), Path(given.model).read_bytes()
            guests.append((task.machine.name, command[:4], contents, given))
            return FakeGuest(command, out, outcome)

        return boot

    return boots


def test_all_columns_play_in_one_guest_which_gets_what_controllers_need(task, tmp_path):
    guests = []
    played = play(task, Places(state=tmp_path), booting(guests))
    assert (played.trouble, played.machine, played.task) == ("", "vm120", "vm120 001 web+kernel~audio+disk")
    assert [one.trial for one in played.results] == list(task.trials)
    assert len(guests) == 1
    name, words, contents, given = guests[0]
    assert (name, words[2:], contents) == ("vm120", ("-m", "calibration.fleet.guest"), (b"version: 2", b"\x00\xff"))
    assert (given.among, given.settings) == (("eevdf",), {"interval_s": 2.0})
    assert list((tmp_path / "fleet").iterdir()) == []


def test_what_a_failed_trial_left_stays(task, tmp_path):
    played = play(task, Places(state=tmp_path), booting([], Outcome.FAILED))
    assert {one.outcome for one in played.results} == {Outcome.FAILED}
    (folder,) = (tmp_path / "fleet").iterdir()
    assert (folder / "given.json").exists()


def test_a_host_that_cannot_play_says_so(task, tmp_path):
    def boots(task):
        raise LabError("QEMU is not there")

    played = play(task, Places(state=tmp_path), boots)
    assert (played.results, played.trouble) == ((), "QEMU is not there")
    (tmp_path / "file").write_text("")
    assert "file" in play(task, Places(state=tmp_path / "file"), booting([])).trouble
