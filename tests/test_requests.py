# SPDX-License-Identifier: GPL-2.0-only
"""What a user asks of the agent arrives once, whole, from the right user, or not at all."""

import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asa import requests
from asa.core.decision import Order, OrderKind, SchedulerName
from asa.requests import Hold, RequestError, Resume, Switch

S = 10**9
NOON_NS = 1_792_670_400 * S  # 2026-10-22 12:00 UTC


def test_sent_is_taken_once_and_in_order(tmp_path):
    paths = [requests.send(tmp_path, Resume(scheduler=name)) for name in (None, "scx_b", "scx_a")]
    assert stat.S_IMODE(paths[0].stat().st_mode) & 0o022 == 0
    assert requests.take(tmp_path) == (Resume(), Resume(scheduler="scx_b"), Resume(scheduler="scx_a"))
    assert requests.take(tmp_path) == ()
    assert list(tmp_path.iterdir()) == []


def test_every_kind_arrives_as_it_was_sent(tmp_path):
    sent = (Resume(scheduler="scx_a"), Hold(), Hold(until_ns=NOON_NS), Switch(scheduler="scx_a:fast", until_ns=7))
    for one in sent:
        requests.send(tmp_path, one)
    assert requests.take(tmp_path) == sent


@pytest.fixture
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_as_the_policy_takes_it():
    half_past = NOON_NS + 1800 * S
    assert requests.order(Resume(scheduler="scx_a"), NOON_NS) == Order(kind=OrderKind.RESUME, scheduler="scx_a")
    assert requests.order(Hold(), NOON_NS) == Order(kind=OrderKind.HOLD)
    assert requests.order(Hold(until_ns=half_past), NOON_NS) == Order(
        kind=OrderKind.HOLD, until_ns=half_past, until="14:30"
    )
    later = NOON_NS + 5 * 86_400 * S
    assert requests.order(Switch(scheduler="scx_a", until_ns=later), NOON_NS) == Order(
        kind=OrderKind.SWITCH, scheduler="scx_a", until_ns=later, until="2026-10-27 13:00"
    )
    assert requests.order(requests.Try(), NOON_NS) == Order(kind=OrderKind.TRY)
    tried = requests.order(requests.Try(scheduler="scx_a"), NOON_NS)
    assert (tried, type(tried.scheduler)) == (Order(kind=OrderKind.TRY, scheduler="scx_a"), SchedulerName)
    assert requests.order(requests.Untry(), NOON_NS) == Order(kind=OrderKind.UNTRY)
    assert requests.order(Hold(until_ns=2**63 - 1), NOON_NS).until.startswith("2262-")


@pytest.mark.parametrize(
    "body",
    [
        '{"request": "hold", "until_ns": -1}',
        '{"request": "hold", "until_ns": 9223372036854775808}',
        '{"request": "hold", "scheduler": "scx_a"}',
        '{"request": "switch"}',
        '{"request": "switch", "scheduler": ""}',
        '{"request": "stop"}',
    ],
)
def test_what_is_no_request_is_dropped(tmp_path, body):
    (tmp_path / "request-1.json").write_text(body)
    assert requests.take(tmp_path) == ()


def test_what_is_still_being_written_is_not_seen(tmp_path):
    path = requests.send(tmp_path, Resume())
    path.rename(f"{path}.new")
    assert requests.take(tmp_path) == ()


def test_there_is_a_bound(tmp_path):
    for _ in range(16):
        requests.send(tmp_path, Resume())
    with pytest.raises(RequestError, match="16 requests wait already"):
        requests.send(tmp_path, Resume())
    assert len(requests.take(tmp_path)) == 16


def test_a_folder_that_is_gone_or_none_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match="cannot be written"):
        requests.send(tmp_path / "file", Resume())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away; run the tests as root")
def test_a_strangers_file_is_dropped(tmp_path):
    path = requests.send(tmp_path, Resume())
    os.chown(path, 65_534, -1)
    assert requests.take(tmp_path) == ()
    assert not path.exists()


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path):
    (tmp_path / "real").write_text('{"request": "resume"}')
    (tmp_path / "request-1.json").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "request-2.json")
    (tmp_path / "request-3.json").write_text('{"request": "resume"}' + " " * 5000)
    requests.send(tmp_path, Resume(scheduler="scx_a"))
    assert requests.take(tmp_path) == (Resume(scheduler="scx_a"),)
    assert [path.name for path in tmp_path.iterdir()] == ["real"]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.one_of(st.binary(max_size=100), st.text(max_size=50).map(str.encode)))
def test_whatever_stands_in_a_file_the_agent_goes_on(tmp_path, body):
    (tmp_path / "request-1.json").write_bytes(body)
    assert requests.take(tmp_path) == ()
    assert list(tmp_path.iterdir()) == []


class Agent:
    """An agent of which `requests` sees what the script says, one step a look: (is the file there, status)."""

    def __init__(self, monkeypatch, *script):
        self.script, self.now_ns = list(script), 0
        monkeypatch.setattr(requests, "time", self)
        monkeypatch.setattr(requests, "status", self)
        monkeypatch.setattr(requests, "send", lambda *_: self)
        monkeypatch.setattr(requests, "wake", lambda *_: None)

    time_ns = monotonic_ns = lambda self: self.now_ns

    def monotonic(self):
        return self.now_ns / S

    def read(self, _):
        return self.script[0][1]

    def exists(self):
        return self.script[0][0]

    def unlink(self, **_):
        return None

    def sleep(self, _):
        self.now_ns += S
        if len(self.script) > 1:
            self.script.pop(0)


@dataclass(frozen=True)
class Told:
    updated_ns: int
    word: str = ""
    interval_s: float = 1.0
    pid: int = 1


def ask(word, limit_s=0.0):
    before = Told(-S, "old")
    return requests.ask(None, before, None, settled=lambda found: found.word in word, limit_s=limit_s)


def test_what_was_settled_before_must_be_told_anew(monkeypatch):
    Agent(monkeypatch, (True, Told(0, "old")), (False, Told(S // 2, "old")), (False, Told(3 * S // 2, "new")))
    assert ask(("old", "new")).word == "new"  # the second may have been written before the request was taken


def test_what_was_not_settled_before_is_believed_at_once(monkeypatch):
    Agent(monkeypatch, (True, Told(0, "old")), (False, Told(S // 2, "new")), (False, Told(S // 2, "older")))
    assert ask(("new",)).word == "new"


def test_once_it_was_taken_there_is_more_time(monkeypatch):
    slow = [(False, Told(second * S, "on its way")) for second in range(30)]
    Agent(monkeypatch, (True, Told(0, "old")), *slow, (False, Told(31 * S, "new")))
    assert ask(("new",), limit_s=60.0).word == "new"
    Agent(monkeypatch, (True, Told(0, "old")), *slow, (False, Told(31 * S, "new")))
    assert ask(("new",)).word == "on its way"


def child(code):
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_an_agent_that_listens_is_woken():
    code = (
        "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7)); print(flush=True); signal.pause()"
    )
    with child(code) as agent:
        requests.wake(agent.pid)
        assert agent.wait(20) == 7


def test_one_that_would_be_ended_by_the_signal_is_left_alone():
    with child("import signal; print(flush=True); signal.pause()") as agent:
        with pytest.raises(RequestError, match="takes no requests"):
            requests.wake(agent.pid)
        assert agent.poll() is None
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(20) == -signal.SIGTERM


def test_one_that_has_ended_is_said():
    with pytest.raises(RequestError, match="has just ended"):
        requests.wake(2**22 + 1)
