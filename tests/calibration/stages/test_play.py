# SPDX-License-Identifier: GPL-2.0-only
"""Where trials are played: guests bring back what they left beside their results; this machine plays as it is."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from stage_players import FACTS, ToyPlayer
from toys import toys

from asa import paths, wire
from asa.act.portfolio import Portfolio
from asa.core.errors import AsaError, SchedulerError
from calibration.stages import play as stages_play
from calibration.stages.guest import Options
from calibration.stages.play import Here, InLab, bare, of_one_time, read_facts, usable
from calibration.stages.record import SUFFIX
from scenarios import catalogue, guests, runner_folder
from scenarios.application import Tier
from scenarios.catalogue import find
from scenarios.lab.guest import GuestResult
from scenarios.lab.machines import alike
from scenarios.runner import Orders
from scenarios.runner_folder import Folder
from scenarios.runner_plan import Asked, make

SCENARIOS = find("web+archive")


@pytest.fixture
def places(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "applications", lambda _tier: toys())
    return paths.Places(
        sys=tmp_path / "sys",
        run=tmp_path / "run",
        cache=tmp_path / "cache",
        state=tmp_path / "state",
        config=tmp_path / "no.yaml",
    )


def folder(path, tier, schedulers=("eevdf",)):
    asked = Asked(
        tier=tier,
        scenarios=tuple(one.label for one in SCENARIOS),
        schedulers=schedulers,
        repeats=1,
        seed=1,
        seconds=0.2,
        warm_up_s=0.0,
        cpus=2,
    )
    return Folder(path, asked, lambda name: make(asked, SCENARIOS, name))


class GuestAtWork:
    """Plays its orders at one look, and leaves a recording of each trial and what it is."""

    def __init__(self, command, out):
        orders = wire.from_json(Path(command[-2]).read_bytes(), Orders)
        self.options = wire.from_json(Path(command[-1]).read_bytes(), Options)
        self.lines = []
        runner_folder.write(out / "facts", FACTS)
        for trial in orders.trials:
            runner_folder.write(out / f"{trial.id}.json", ToyPlayer().result(trial))
            if self.options.record:
                (out / f"{trial.id}{SUFFIX}").write_bytes(b"packed")
            self.lines += [f"begin {trial.id}", f"end {trial.id}"]
        self.out = out

    def poll(self):
        return GuestResult(exit_code=0, boot_s=1.0, run_s=1.0, console=self.out)

    def output(self):
        lines, self.lines = self.lines, []
        return lines, []

    def stop(self):
        pass


@pytest.mark.parametrize("record", [True, False])
def test_guests_bring_back_results_facts_and_recordings(places, tmp_path, monkeypatch, record):
    monkeypatch.setattr(guests, "_LOOK_S", 0.0)
    commands = []

    def boot(command, out, limit_s):
        commands.append(command)
        return GuestAtWork(command, out)

    said = []
    campaign = tmp_path / "campaign"
    player = InLab(
        places=places,
        campaign=campaign,
        options=Options(record=record),
        jobs=2,
        machine=alike(2),
        tell=lambda what, share: said.append(what),
        boot=boot,
    )
    with folder(campaign, Tier.LAB, ("eevdf", "scx_a")) as kept:
        player.play(kept, kept.plan.trials)
        assert len(kept.results()) == len(kept.plan.trials) == 4
    assert read_facts(campaign) == FACTS
    assert len(commands) == 2
    assert commands[0][-3] == "calibration.stages.guest"
    recordings = sorted(path.name for path in (campaign / "recordings").glob("*"))
    assert recordings == (sorted(f"{trial.id}{SUFFIX}" for trial in kept.plan.trials) if record else [])
    assert any("web+archive" in line for line in said)


def test_this_machine_plays_under_its_own_scheduler(places, tmp_path):
    campaign = tmp_path / "campaign"
    player = Here(places=places, campaign=campaign, options=Options(), again=0, tell=lambda what, share: None)
    player.check(["eevdf"])
    with folder(campaign, Tier.REAL) as kept:
        player.play(kept, kept.plan.trials)
        found = kept.results()
    assert {one.outcome for one in found.values()} <= {"done", "disturbed"}
    assert all(one.series for one in found.values())
    assert read_facts(campaign).cpu_model
    assert not (campaign / "recordings").exists()


def test_nothing_is_played_beside_trials_of_another_kernel(places, tmp_path):
    """A larger --repeat after an update would make one table of both."""
    campaign = tmp_path / "campaign"
    player = Here(places=places, campaign=campaign, options=Options(), again=0, tell=lambda what, share: None)
    with folder(campaign, Tier.REAL) as kept:
        first, *others = kept.plan.trials
        kept.keep(msgspec.structs.replace(ToyPlayer().result(first), kernel="3.10.0", scheduler_version="3.10.0"))
        with pytest.raises(AsaError, match=r"trials of kernel 3.10 and .* make no table; name another folder"):
            player.play(kept, others)
        assert len(kept.results()) == 1


def test_the_rounds_before_are_looked_at_before_the_next_one_is_played(places, tmp_path):
    """Stage 3's rounds have folders of their own."""
    campaign = tmp_path / "campaign"
    player = Here(places=places, campaign=campaign, options=Options(), again=0, tell=lambda what, share: None)
    with folder(campaign / "rounds/0001", Tier.REAL) as kept:
        old = ToyPlayer().result(kept.plan.trials[0])
        kept.keep(msgspec.structs.replace(old, kernel="3.10.0"))
    with folder(campaign / "rounds/0002", Tier.REAL) as fresh:
        with pytest.raises(AsaError, match=r"trials of kernel 3.10 and .* make no table"):
            player.play(fresh, fresh.plan.trials)
        assert fresh.results() == {}


def test_trials_are_of_one_kernel_and_of_one_version_of_a_scheduler(tmp_path):
    with folder(tmp_path, Tier.LAB, ("eevdf", "scx_a", "live:scx_a")) as kept:
        results = [ToyPlayer().result(trial) for trial in kept.plan.trials]
    versions = {"eevdf": "6.18.1", "scx_a": "1.0", "live:scx_a": "1.0"}
    told = [msgspec.structs.replace(one, scheduler_version=versions[one.trial.scheduler]) for one in results]
    of_one_time(told)
    of_one_time([*told, msgspec.structs.replace(told[0], kernel="6.18.99", scheduler_version="6.18.99")])
    newer = [msgspec.structs.replace(one, scheduler_version="1.1") for one in told if one.trial.scheduler == "scx_a"]
    with pytest.raises(AsaError, match=r"trials of scx_a 1.0 and 1.1 make no table"):
        of_one_time([*told, *newer])
    with pytest.raises(AsaError, match=r"trials of kernel 6.18 and 7.2 make no table"):
        of_one_time([*told, msgspec.structs.replace(told[0], kernel="7.2.0")])


def test_a_kernel_without_sched_ext_is_told_before_anything_is_played(places, tmp_path):
    player = Here(places=places, campaign=tmp_path, options=Options(), again=0, tell=lambda what, share: None)
    with pytest.raises(AsaError, match="no sched_ext, only eevdf can be in force; --in-lab"):
        player.check(["eevdf", "live:scx_simple"])
    lab = InLab(
        places=places, campaign=tmp_path, options=Options(), jobs=1, machine=alike(2), tell=lambda what, share: None
    )
    with pytest.raises(SchedulerError, match="not in the manifest"):
        lab.check(["scx_none"])


def test_what_could_be_started_and_why_the_others_could_not(tmp_path):
    portfolio = Portfolio.load(paths.manifest(), tmp_path, search="")
    found, lacking = usable(portfolio, modes=True)
    assert found == ("eevdf",)
    assert "scx_lavd:powersave" in lacking
    assert "asa schedulers install" in lacking["scx_simple"]
    assert "scx_lavd:powersave" not in usable(portfolio, modes=False)[1]


def test_columns_need_their_schedulers_once():
    assert bare(["eevdf", "live:scx_a", "shadow:scx_a", "scx_b:performance"]) == ["eevdf", "scx_a", "scx_b:performance"]


def test_facts_that_cannot_be_read_are_one_line(tmp_path):
    assert read_facts(tmp_path).cpus is None
    (tmp_path / stages_play.MACHINE).write_text("{")
    with pytest.raises(AsaError, match="remove it"):
        read_facts(tmp_path)


def test_a_guest_imports_nothing_of_the_statistics():
    """Emulated they take as long as a trial: two thirds of what a guest did before its first one."""
    code = "import sys, calibration.stages.guest; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pandas", "pyarrow", "scipy", "statsmodels"}.isdisjoint(done.stdout.split())
