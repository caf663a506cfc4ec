# SPDX-License-Identifier: GPL-2.0-only
"""Columns that decide in a trial's course: what each does, what it leaves, and how that is told."""

import json
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from waiting import until

from asa import config, yamlfile
from asa.core.decision import SchedulerName
from asa.core.errors import InputError, SchedulerError
from asa.paths import Places
from calibration.controllers import agent as controllers_agent
from calibration.controllers import columns as controllers
from calibration.controllers.agent import ABLATIONS, Job, running, settings
from calibration.controllers.columns import Controllers, Given
from calibration.controllers.course import Course, told
from scenarios.runner_plan import Trial

S = 1_000_000_000


def trial(label="web+archive", repeat=1, scheduler="random"):
    interactive, _, background = label.partition("+")
    return Trial(
        id="x",
        order=1,
        repeat=repeat,
        scenario="S1",
        interactive=interactive,
        background=background,
        scheduler=scheduler,
        copy=1,
        seed=7,
    )


# what is told


def test_the_agents_code_is_told_by_a_hash_of_what_it_is_made_of(tmp_path, monkeypatch):
    """The version alone would call two states of the tree the same."""
    (tmp_path / "decide").mkdir()
    policy = tmp_path / "decide" / "policy.py"
    policy.write_text("DWELL_S = 3\n")
    monkeypatch.setattr(controllers, "models", SimpleNamespace(__name__="models", __path__=[str(tmp_path)]))
    first = controllers.source()
    assert len(first) == 12
    (tmp_path / "base.npz").write_bytes(b"no code")
    assert controllers.source() == first
    policy.write_text("DWELL_S = 4\n")
    assert controllers.source() != first
    policy.write_text("DWELL_S = 3\n")
    assert controllers.source() == first
    policy.rename(tmp_path / "policy.py")
    assert controllers.source() != first


def test_a_course_is_told_by_window():
    course = Course(
        held=[(5 * S, "eevdf"), (8 * S, "scx_lavd"), (9 * S, "scx_lavd"), (14 * S, "scx_flash")],
        classes=[(9 * S, "web"), (11 * S, "web"), (12 * S, "web+disk"), (25 * S, "game")],
        cpu=[(9 * S, 0), (10 * S, 100_000_000), (20 * S, 600_000_000), (30 * S, 700_000_000)],
        facts={"resident_mb": 50.0},
    )
    assert told(course, [(10 * S, 20 * S), (22 * S, 32 * S)]) == {
        "switched": [[-2.0, "scx_lavd"], [4.0, "scx_flash"]],
        "resident_mb": 50.0,
        "held_s": {"scx_lavd": 4.0, "scx_flash": 6.0},
        "classes": {"web": 1, "web+disk": 1},
        "switches": 1,
        "cpu_pct": 5.0,
        "then": {"held_s": {"scx_flash": 10.0}, "classes": {"game": 1}, "switches": 0, "cpu_pct": None},
    }


def test_a_course_of_nothing_is_the_kernels_own_scheduler():
    assert told(Course(), [(S, 3 * S)])["held_s"] == {"eevdf": 2.0}
    assert told(Course(), []) == {"switched": []}
    assert told(Course(held=[(S, "scx_lavd")]), [])["switched"] == [[0.0, "scx_lavd"]]


# random, and who is sent where


class FakeForcing:
    held = ()

    def __init__(self, places, owners):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @contextmanager
    def hold(self, scheduler):
        self.held.append(scheduler)
        yield lambda: None


@pytest.fixture
def sent(monkeypatch, tmp_path):
    monkeypatch.setattr(controllers, "Forcing", FakeForcing)
    monkeypatch.setattr(FakeForcing, "held", [])
    monkeypatch.setattr(controllers, "version_of", lambda scheduler, portfolio: "1.2")
    given = Given(among=("eevdf", "scx_simple", "scx_flash"))
    return Controllers(Places(run=tmp_path), given, tmp_path)


def test_random_draws_by_the_trial_and_holds_that(sent):
    drawn = {}
    for label in ("web+archive", "web+disk", "game+disk", "game+video", "audio+llm", "office+llm"):
        for repeat in (1, 2, 3):
            for _ in range(2):
                sent.attend(trial(label, repeat))
                with sent.hold(SchedulerName("random")):
                    pass
                name = FakeForcing.held[-1]
                assert drawn.setdefault((label, repeat), name) == name
                assert sent.told([(0, S)])["switched"] == (
                    [] if name == "eevdf" else [[pytest.approx(0, abs=1e9), name]]
                )
                assert sent.version(SchedulerName("random")) == f"{name} 1.2"
    assert set(drawn.values()) == {"eevdf", "scx_simple", "scx_flash"}


def test_a_scheduler_is_held_and_nothing_is_told_of_it(sent):
    with sent.hold(SchedulerName("scx_flash")):
        pass
    assert FakeForcing.held == ["scx_flash"]
    assert sent.told([(0, S)]) == {}
    assert sent.version(SchedulerName("scx_flash")) == "1.2"


def test_names(sent):
    assert controllers.among(["scx_a", "agent", "scx_a", "random"]) == ("eevdf", "scx_a")
    assert controllers.schedulers(["eevdf", "agent:no-guard", "loader-auto", "random"]) == ("eevdf", "scx_lavd")
    controllers.check([*controllers.NAMES, "scx_anything"])
    for wrong in ("agent:no-brain", "random:3", "loader-auto:x"):
        with pytest.raises(InputError, match=f"--scheduler: '{wrong}' is not accepted"):
            controllers.check([wrong])
        with pytest.raises(InputError), sent.hold(SchedulerName(wrong)):
            pass


# the agent

AGENT = """
import json, signal, sys, time
from pathlib import Path
import msgspec
from asa.status import Status, StatusFile

run, do = Path(sys.argv[1]), json.loads(sys.argv[2])
(run / "given").write_text(Path(sys.argv[3]).read_text())
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(1))
unknown = {"float": 0.0, "int": 0, "str": "", "dict": {}, "list": []}
fields = {}
for field in msgspec.structs.fields(Status):
    if field.required:
        origin = getattr(field.type, "__origin__", field.type)
        fields[field.name] = unknown.get(getattr(origin, "__name__", ""), None)
import os
if "learns" in do:
    with (Path(os.environ["XDG_STATE_HOME"]) / "asa/learning.json").open("a") as file:
        file.write(do["learns"])
fields |= {"pid": os.getpid(), "ticks": 1, "mode": do.get("mode", "switching"), "mode_reason": "not root"}
fields |= {"resident_bytes": 60_000_000, "way": "gated"}
status = StatusFile(run)
if not do.get("silent"):
    status.write(Status(**fields))
start = time.monotonic_ns()
for tick in range(3):
    decision = {"monotonic_ns": start + tick, "workload": "web", "current": ["eevdf", "scx_flash"][tick > 1]}
    print(json.dumps({"decision": decision}), flush=True)
print("a warning of Python", flush=True)
if "ends" in do:
    print(json.dumps({"say": "last words"}), flush=True)
    sys.exit(do["ends"])
while not ended or do.get("deaf"):
    time.sleep(0.01)
status.close()
sys.exit(do.get("code", 0))
"""


@pytest.fixture
def agent(tmp_path):
    """Runs a stand-in for `asa run`; at its end nothing of it is left."""
    script = tmp_path / "agent.py"
    script.write_text(AGENT)
    places = Places(run=tmp_path / "run", sys=tmp_path / "sys")
    places.run.mkdir()

    @contextmanager
    def start(course, job=None, **do):
        command = (sys.executable, str(script), str(places.run), json.dumps(do))
        try:
            with running(job or Job(), places, tmp_path / "scratch", course, command) as check:
                yield check
        finally:
            assert list((tmp_path / "scratch").iterdir()) == []

    start.given = places.run / "given"
    start.sys = places.sys
    return start


def test_the_agent_gets_its_files_and_its_course_is_read(agent):
    course = Course()
    job = Job(model="/m.npz", variant="no-guard", owners=(5,))
    with agent(course, job) as check:
        check()
        check()
    given = json.loads(agent.given.read_text())
    assert given["model"] == "/m.npz"
    assert given["guard"] == {"baseline_s": 0, "enabled": False}
    assert given["switch"]["trusted_owners"] == [5]
    assert [name for _, name in course.held] == ["eevdf", "eevdf", "scx_flash"]
    assert [name for _, name in course.classes] == ["web"] * 3
    assert course.facts["resident_mb"] == 60.0
    assert course.facts["way"] == "gated"
    assert len(course.cpu) >= 2


def test_an_agent_goes_on_with_what_it_had_learnt_and_what_it_has_is_kept(agent, tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    (before / "learning.json").write_text("1")
    with agent(Course(), Job(variant="learnt", state=str(before), keep=str(after)), learns="2"):
        pass
    assert (after / "learning.json").read_text() == "12"
    assert (before / "learning.json").read_text() == "1"
    with (
        pytest.raises(SchedulerError, match="cannot keep its state"),
        agent(Course(), Job(state=str(before), keep=str(after)), learns="2"),
    ):
        pass


def test_an_agent_that_ends_early_fails_its_trial(agent):
    with (
        pytest.raises(SchedulerError, match=r"agent: ended with code 3; it said: .*last words"),
        agent(Course(), ends=3) as check,
    ):
        until(lambda: check() and False, "it has ended")


def test_an_agent_that_may_not_switch_is_no_column(agent):
    with pytest.raises(SchedulerError, match="agent: is observing: not root"), agent(Course(), mode="observing"):
        pytest.fail("it was taken")


def test_an_agent_that_does_not_tick_is_given_up(agent, monkeypatch):
    monkeypatch.setattr(controllers_agent, "_START_LIMIT_S", 0.5)
    with pytest.raises(SchedulerError, match="did not tick within 0 s"), agent(Course(), silent=True):
        pytest.fail("it was taken")


def test_an_agent_that_does_not_end_is_killed(agent, monkeypatch):
    monkeypatch.setattr(controllers_agent, "_END_LIMIT_S", 0.5)
    course = Course()
    with pytest.raises(SchedulerError, match="did not end within 0 s and was killed"), agent(course, deaf=True):
        pass
    assert course.held


def test_an_agent_that_fails_at_its_end_fails_the_trial(agent):
    with pytest.raises(SchedulerError, match="ended with code 1"), agent(Course(), code=1):
        pass


def test_what_the_agent_leaves_in_force_is_told(agent):
    folder = agent.sys / "kernel/sched_ext"
    (folder / "root").mkdir(parents=True)
    for name, text in (("state", "enabled"), ("root/ops", "flash_1"), ("enable_seq", "3"), ("nr_rejected", "0")):
        (folder / name).write_text(text + "\n")
    for name in ("switch_all", "hotplug_seq"):
        (folder / name).write_text("0\n")
    with pytest.raises(SchedulerError, match="agent: left flash_1 in force"), agent(Course()):
        pass


def test_a_failing_trial_is_not_covered_up_by_its_agent(agent):
    with pytest.raises(ZeroDivisionError), agent(Course(), code=1):
        raise ZeroDivisionError


@pytest.mark.parametrize("variant", ["", *ABLATIONS])
def test_settings_are_the_agents(variant):
    made = settings(Job(variant=variant, owners=(0, 1000), settings={"interval_s": 2.0, "voting": {"window_s": 4.0}}))
    found = yamlfile.loads(json.dumps(made), config.Settings, "asa.yaml")
    assert (found.interval_s, found.voting.window_s) == (2.0, 4.0)
    assert found.switch.trusted_owners == (0, 1000)
    plain = yamlfile.loads(json.dumps(settings(Job(settings={"interval_s": 2.0}))), config.Settings, "asa.yaml")
    changed = [key for key in ("voting", "policy", "guard") if getattr(found, key) != getattr(plain, key)]
    assert len(changed) == (1 if variant in ("", "no-voting") else 2)  # voting is set above
