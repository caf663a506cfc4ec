# SPDX-License-Identifier: GPL-2.0-only
"""Columns with the agent at work: what it is started with, when it is heard, what it cost, what is recorded of it."""

import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from asa import paths, status
from asa.clock import SystemClock
from asa.core.decision import EEVDF, LoadCost, SchedulerName, SwitchEvent, SwitchOutcome
from asa.core.errors import SchedulerError
from asa.core.mark import Phase
from asa.core.sample import CpuCounters, RawSample
from asa.journal import Costs, Journal, SessionHeader
from calibration.controllers import agent as controllers_agent
from calibration.controllers.columns import Given
from calibration.stages import agent as stages_agent
from calibration.stages.agent import Stages, shadowed, write_table
from calibration.stages.record import Recording
from models import versions
from models.train import recorded
from scenarios.application import Tier
from scenarios.recorder import Machine
from scenarios.runner_plan import Trial

MS = 1_000_000
TRIAL = Trial(
    id="001-web+archive-x",
    order=1,
    repeat=1,
    scenario="S15",
    interactive="web",
    background="archive",
    scheduler="x",
    copy=1,
    seed=7,
)


def event(name, outcome, load=None, detail=""):
    return SwitchEvent(
        monotonic_ns=1,
        outcome=outcome,
        old=EEVDF,
        new=SchedulerName(name),
        elapsed_ns=2,
        detail=detail,
        undo="",
        load=load,
    )


def write_journal(path):
    """Three ticks of a shadow: scx_a loads twice and is refused once, scx_b loads once."""
    cost = LoadCost(wall_ns=400 * MS, user_ns=100 * MS, system_ns=60 * MS, memory_bytes=1)
    events = [event("scx_a", SwitchOutcome.SHADOWED, cost)] * 2 + [event("scx_b", SwitchOutcome.SHADOWED, cost)]
    events.append(event("scx_a", SwitchOutcome.REFUSED, detail="it said: no"))
    with Journal.open(path) as journal:
        journal.begin(SessionHeader(started_ns=1, asa_version="0", host="x", kernel="6.18", cpus=2, mode="shadow"))
        for second in range(3):
            journal.add(RawSample(monotonic_ns=second * 10**9, wall_ns=1), None, tuple(events if second == 1 else ()))
            journal.add_costs(
                Costs(
                    monotonic_ns=second * 10**9,
                    collection_us=1000.0,
                    inference_us=None if second == 0 else 600.0,
                    decision_us=100.0,
                    action_us=300.0,
                    journal_us=None,
                    cpu_ns=second * 20 * MS,
                    resident_bytes=None,
                )
            )


@pytest.fixture
def places(tmp_path):
    folder = tmp_path / "sys/kernel/sched_ext"
    folder.mkdir(parents=True)
    (folder / "state").write_text("disabled\n")
    (folder / "enable_seq").write_text("0\n")
    return paths.Places(
        sys=tmp_path / "sys",
        run=tmp_path / "run",
        cache=tmp_path / "cache",
        state=tmp_path / "state",
        config=tmp_path / "no.yaml",
    )


@pytest.fixture
def agents(monkeypatch):
    """The agents that were started: job, command, and the tables that they were given."""
    started = []

    @contextmanager
    def running(job, places, scratch, course, command):
        words = list(command)
        one = {"job": job, "command": words, "tables": [], "alive": True}
        started.append(one)

        def check():
            one["tables"].append(yaml.safe_load(Path(job.settings["table"]).read_text())["classes"])
            if not one["alive"]:
                raise SchedulerError(scheduler="agent", reason="ended with code 1")

        yield check
        if "--journal" in words:
            write_journal(Path(words[words.index("--journal") + 1]))

    monkeypatch.setattr(controllers_agent, "running", running)
    return started


def test_a_journal_tells_loads_ticks_and_the_agents_share(tmp_path):
    write_journal(tmp_path / "journal")
    with Journal.look(tmp_path / "journal") as journal:
        found = shadowed(journal, "scx_a")
    assert found.loads_ms == [160.0, 160.0]
    assert found.walls_ms == [400.0, 400.0]
    assert found.refused == ["it said: no"]
    assert (found.ticks, found.tick_ms, found.inference_ms, found.agent_pct) == (3, 1.8, 0.6, 2.0)


def test_a_shadow_wants_its_scheduler_and_eevdf_by_turns(places, tmp_path, agents, monkeypatch):
    monkeypatch.setattr(stages_agent, "_TURN_S", 0.0)
    stages = Stages(places, Given(), tmp_path / "scratch")
    stages.attend(TRIAL)
    monkeypatch.setattr(stages_agent.Forcing, "check_usable", lambda self, name: None)
    with stages.hold(SchedulerName("shadow:scx_a")) as check:
        for _ in range(4):
            check()
    (agent,) = agents
    assert agent["command"][-1] == "--config"
    assert "--shadow" in agent["command"]
    wanted = [classes["idle"][0]["scheduler"] for classes in agent["tables"]]
    assert wanted == ["scx_a", "eevdf", "scx_a", "eevdf"]
    assert agent["job"].settings["guard"] == {"enabled": False}
    told = stages.told([])
    assert told["shadow"]["loads_ms"] == [160.0, 160.0]
    stages.attend(TRIAL)
    assert "shadow" not in stages.told([])
    assert list((tmp_path / "scratch").glob("*")) == []


def test_a_live_scheduler_has_to_stay_in_force(places, tmp_path, agents):
    stages = Stages(places, Given(), tmp_path / "scratch")
    stages.attend(TRIAL)
    with stages.hold(SchedulerName("live:eevdf")) as check:
        check()
        assert "--shadow" not in agents[0]["command"]
        folder = places.sys / "kernel/sched_ext"
        (folder / "root").mkdir()
        (folder / "root/ops").write_text("simple\n")
        (folder / "state").write_text("enabled\n")
        with pytest.raises(SchedulerError, match="in force no more"):
            check()
    assert "shadow" not in stages.told([])


def test_an_agent_that_ends_is_told(places, tmp_path, agents):
    stages = Stages(places, Given(), tmp_path / "scratch")
    with stages.hold(SchedulerName("live:eevdf")) as check:
        agents[0]["alive"] = False
        with pytest.raises(SchedulerError, match="code 1"):
            check()


def test_one_that_is_not_in_force_in_time_is_given_up(places, tmp_path, agents, monkeypatch):
    monkeypatch.setattr(stages_agent, "_IN_FORCE_LIMIT_S", 0.0)
    monkeypatch.setattr(stages_agent.Forcing, "check_usable", lambda self, name: None)
    stages = Stages(places, Given(), tmp_path / "scratch")
    with pytest.raises(SchedulerError, match="did not bring it into force"), stages.hold(SchedulerName("live:scx_a")):
        pass


def test_one_that_the_agent_could_not_start_is_given_up_at_once_with_its_words(places, tmp_path, agents, monkeypatch):
    """The agent would try again after half a minute, and a minute: those are of the half hour of `asa adapt`."""
    monkeypatch.setattr(stages_agent.Forcing, "check_usable", lambda self, name: None)
    words = {"at_ns": 1, "old": "eevdf", "way": "gated", "why": "test", "elapsed_ns": 2, "gap_ns": None}

    def lately(*events):
        told = [
            status.Switched(**words, new=new, outcome=outcome, detail="no", ended=ended)
            for new, outcome, ended in events
        ]
        monkeypatch.setattr(stages_agent.status, "read", lambda run: SimpleNamespace(pid=1, lately=told))

    stages = Stages(places, Given(), tmp_path / "scratch")
    lately(("scx_b", "failed", "another's"), ("scx_a", "failed", "it said: no BTF"))
    with pytest.raises(SchedulerError, match="it said: no BTF"), stages.hold(SchedulerName("live:scx_a")):
        pass
    lately(("scx_a", "refused", ""))
    with pytest.raises(SchedulerError, match="no"), stages.hold(SchedulerName("live:scx_a")):
        pass


def test_the_agent_of_a_trial_has_the_model_whose_classes_its_table_ranks(places, tmp_path, agents, monkeypatch):
    """And trusts whom the settings trust: it has a state and settings of its own."""
    models = []
    own = paths.base_model()
    monkeypatch.setattr(stages_agent.versions, "in_use", lambda folder: models.append(folder) or own)
    stages = Stages(places, Given(), tmp_path / "scratch", owners=(1000,))
    with stages.hold(SchedulerName("live:eevdf")):
        (agent,) = agents
    assert agent["job"].model == str(own)
    assert set(models) == {versions.folder(places)}
    assert agent["job"].owners == (1000,)


def test_other_names_are_schedulers_and_have_versions(places, tmp_path, agents):
    stages = Stages(places, Given(), tmp_path / "scratch")
    stages.attend(TRIAL)
    with stages.hold(EEVDF) as check:
        check()
        assert stages.version(EEVDF) == stages.version(SchedulerName("live:eevdf"))
    assert agents == []
    assert stages.told([]) == {}


def test_a_table_of_a_mode_names_scheduler_and_mode(tmp_path):
    write_table(tmp_path / "table.yaml", SchedulerName("scx_lavd:powersave"), ["web", "idle"])
    (entry,) = yaml.safe_load((tmp_path / "table.yaml").read_text())["classes"]["web"]
    assert (entry["scheduler"], entry["mode"]) == ("scx_lavd", "powersave")


class Sampler:
    """Ten times as much processor time in each sample."""

    def __init__(self):
        self.count = 0

    def sample(self):
        self.count += 1
        ticks = (self.count * 100, 0, 0, self.count * 100, 0, 0, 0, 0)
        cpu = CpuCounters(
            total=ticks,
            cores=((0, ticks),),
            interrupts=0,
            context_switches=0,
            forks=0,
            softirqs=(0,) * 10,
            runnable=1,
            blocked=0,
        )
        return RawSample(monotonic_ns=time.monotonic_ns(), wall_ns=time.time_ns(), cpu=cpu)


def recording(folder):
    place = Machine(host="lab, toy", kernel="6.18", cpus=1)
    return Recording(Sampler(), SystemClock(), folder, Tier.LAB, place)


def test_what_was_measured_is_recorded_with_its_label(places, tmp_path, agents):
    stages = Stages(places, Given(), tmp_path / "scratch", record=lambda: recording(tmp_path / "recordings"))
    stages.attend(TRIAL)
    with stages.hold(EEVDF):
        time.sleep(0.1)
        start_ns = time.monotonic_ns()
        time.sleep(2.2)
        end_ns = time.monotonic_ns()
    stages.told([(start_ns, end_ns)])
    (path,) = (tmp_path / "recordings").iterdir()
    (session,) = recorded.read(path)
    assert (session.header.label, session.header.seed, session.header.tier) == ("web+archive", 7, "lab")
    assert [mark.phase for mark in session.marks] == [Phase.STARTING, Phase.RUNNING]
    assert len(session.samples) == 3
    rows = recorded.rows(session).rows
    assert {(row.phase, row.interactive, row.background) for row in rows} <= {
        ("starting", "web", "archive"),
        ("running", "web", "archive"),
    }


def test_of_a_trial_that_was_not_measured_nothing_is_recorded(places, tmp_path, agents):
    stages = Stages(places, Given(), tmp_path / "scratch", record=lambda: recording(tmp_path / "recordings"))
    stages.attend(TRIAL)
    with pytest.raises(SchedulerError), stages.hold(EEVDF):
        raise SchedulerError(scheduler="eevdf", reason="lost")
    stages.told([])
    assert not (tmp_path / "recordings").exists()
