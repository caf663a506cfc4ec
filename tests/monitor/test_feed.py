# SPDX-License-Identifier: GPL-2.0-only
"""What the monitor reads, and when: real status files in folders of our own."""

import json
import subprocess
import sys
import time

import pytest
from made_up_status import status
from waiting import until

from asa import wire
from asa.monitor import feed
from asa.monitor.feed import MOST_POINTS, Feed, History, Point
from asa.status import StatusFile


@pytest.fixture
def agent(tmp_path):
    file = StatusFile(tmp_path / "mine")
    yield file
    file.close()


def patiently(monkeypatch):
    """As if the last look had been long ago."""
    monkeypatch.setattr(feed, "_LATE_TICKS", 0.0)
    monkeypatch.setattr(feed, "_MOST_S", 0.0)


def test_each_tick_is_seen_once(agent, tmp_path):
    seen = Feed([tmp_path / "mine"])
    assert not seen.look()  # nothing was there, and nothing is
    agent.write(status(ticks=1))
    assert seen.look()
    assert (seen.status.ticks, seen.folder) == (1, tmp_path / "mine")
    assert not seen.look()
    agent.write(status(ticks=2))
    assert seen.look()
    assert seen.status.ticks == 2


def test_a_file_that_has_not_changed_is_not_read(agent, tmp_path, monkeypatch):
    seen = Feed([tmp_path / "mine"])
    agent.write(status(ticks=1, interval_s=1e6))
    monkeypatch.setattr(feed, "_MOST_S", 1e6)
    assert seen.look()
    monkeypatch.setattr(feed.status, "read", lambda _: pytest.fail("read again"))
    assert not seen.look()


def test_the_users_own_agent_comes_first(agent, tmp_path, monkeypatch):
    seen = Feed([tmp_path / "mine", tmp_path / "system"])
    system = StatusFile(tmp_path / "system")
    system.write(status(ticks=7))
    assert seen.look()
    assert seen.status.ticks == 7
    agent.write(status(ticks=1))
    assert seen.look()
    assert seen.status.ticks == 1
    system.close()


def test_an_agent_that_is_killed_is_noticed(tmp_path, monkeypatch):
    words = [sys.executable, "-c", "import sys; from pathlib import Path; from asa.status import StatusFile; "]
    words[-1] += "StatusFile(Path(sys.argv[1])); print(flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*words, str(tmp_path)], **pipes) as process:
        process.stdout.readline()
        (tmp_path / "status.json").write_bytes(wire.json_bytes(status(pid=process.pid)))
        seen = Feed([tmp_path])
        assert seen.look()
        process.kill()
        process.wait()
    patiently(monkeypatch)
    assert until(seen.look, "it has gone")
    assert seen.status is None


def test_a_damaged_file_is_an_error_and_then_over(agent, tmp_path):
    (tmp_path / "mine/status.json").write_text("{")
    seen = Feed([tmp_path / "mine"])
    assert seen.look()
    assert seen.status is None
    assert "not written by this version of asa" in seen.error
    agent.write(status())
    assert seen.look()
    assert (seen.status is not None, seen.error) == (True, "")


def test_when_to_look_again(agent, tmp_path):
    seen = Feed([tmp_path / "mine"])
    assert seen.next_look_s() == 1.0
    assert seen.late_s() is None
    for updated_s, least_s, most_s in ((0, 0.25, 1.03), (-60, 0.25, 0.25), (3600, 1.0, 1.0)):
        agent.write(status(updated_ns=time.time_ns() + updated_s * 10**9))
        seen.look()
        assert least_s <= seen.next_look_s() <= most_s
    agent.write(status(updated_ns=time.time_ns() - 60 * 10**9))
    seen.look()
    assert seen.late_s() >= 60


def test_history_keeps_its_time_and_its_bound():
    history = History()
    history.add(status(ticks=1, probabilities={"web": 0.25, "idle": 0.75}, scheduler="eevdf", signals={"busy": 0.5}))
    history.add(status(ticks=4, scheduler="scx_one"))  # two were missed
    assert [point.top for point in history.points] == ["idle", None, None, None]
    assert history.points[0].share == 0.75
    assert history.points[0].signals == {"busy": 0.5}
    assert history.points[1] == history.points[2] == Point()
    history.add(status(ticks=10**9))
    assert len(history.points) == MOST_POINTS
    history.add(status(ticks=1, started_ns=5))  # another agent
    assert len(history.points) == 1
    assert history.schedulers == {"eevdf": 0, "scx_one": 1}


def test_processor_time_of_the_agent():
    history = History()
    assert history.cpu_share() is None
    for second in range(100):  # a burst long ago is over
        cpu_ns = 10**9 + second * 5_000_000 if second > 10 else 1
        history.add(status(ticks=second, updated_ns=second * 10**9, cpu_ns=cpu_ns))
    assert history.cpu_share() == pytest.approx(0.005)


def test_json_is_one_object_a_tick(tmp_path):
    launch = (
        "import sys; from pathlib import Path; from asa import paths; from asa.cli.main import main; "
        "here = paths.Places(run=Path(sys.argv[1])); paths.default = lambda: here; "
        "paths.Places = lambda **_: here; main(['monitor', '--json'])"
    )
    words = [sys.executable, "-c", launch, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline()) == {"running": False, "agent": None}
        file = StatusFile(tmp_path)
        for tick in (1, 2):
            file.write(status(ticks=tick))
            told = json.loads(process.stdout.readline())
            assert told["running"]
            assert told["agent"]["ticks"] == tick
        file.close()
        assert json.loads(process.stdout.readline()) == {"running": False, "agent": None}
        process.send_signal(2)
        process.communicate(timeout=60)
    assert process.returncode == 130
