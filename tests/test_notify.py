# SPDX-License-Identifier: GPL-2.0-only
"""Notifications: what is told of two statuses, and what arrives at a server on a real bus."""

import json
import select
import shutil
import subprocess
import sys

import msgspec
import pytest
from waiting import LIMIT_S, until

from asa import wire
from asa.bus import Bus
from asa.core.decision import Reason, SwitchOutcome
from asa.notify import Kind, Notifier, tell
from asa.status import Status, Switched, Trying

CONFIG = """<busconfig><type>session</type><listen>unix:path={path}</listen>
<policy context="default"><allow send_destination="*"/><allow receive_type="*"/><allow own="*"/></policy></busconfig>"""
# Another library than ours on the other side. Each call is a line; the server's number of the first one is 41.
SERVER = """
import asyncio, json, sys
from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, dbus_method
class Notifications(ServiceInterface):
    def __init__(self):
        super().__init__("org.freedesktop.Notifications")
        self.shown = 40
    @dbus_method()
    def Notify(self, app: "s", replaces: "u", icon: "s", summary: "s", body: "s", actions: "as", hints: "a{sv}",
               stays: "i") -> "u":
        told = {name: [value.signature, value.value] for name, value in hints.items()}
        print(json.dumps([app, replaces, icon, summary, body, actions, told, stays]), flush=True)
        self.shown += not replaces
        return replaces or self.shown
async def main():
    bus = await MessageBus(bus_address=sys.argv[1]).connect()
    bus.export("/org/freedesktop/Notifications", Notifications())
    await bus.request_name("org.freedesktop.Notifications")
    print("ready", flush=True)
    await bus.wait_for_disconnect()
asyncio.run(main())
"""
LOST = Switched(
    at_ns=5,
    outcome=SwitchOutcome.LOST,
    old="scx_one",
    new="scx_one",
    way="gated",
    why="",
    detail="scx_one ended: <error> & more",
    elapsed_ns=1,
    gap_ns=None,
    ended="",
)


def status(**changes):
    empty = {"int": 0, "str": "", "float": 0.0, "list": [], "dict": {}}
    values = {
        field.name: None if "None" in str(field.type) else empty[str(getattr(field.type, "__name__", field.type))]
        for field in msgspec.structs.fields(Status)
        if field.required
    }
    values |= {"mode": "switching", "scheduler": "eevdf", "reason": Reason.SERVED, "interval_s": 1.0}
    return wire.shaped(values | changes, Status)


CALM = status()
ASIDE = status(set_aside=["scx_one"], lately=(LOST,))
STRANGER = status(mode="hold", mode_reason="scx_layered was attached by somebody else")
REVERT = status(
    reason=Reason.REVERTED,
    scheduler="scx_one",
    sentence="web regressed under scx_one compared with eevdf: timer lateness (p99) 9.0 ms against 2.0 ms "
    "(medians of 6 and 7 blocks of 3 s, p = 0.001, at most 0.01 counts)",
)


def kinds(before, after):
    return [note.kind for note in tell(before, after)]


def test_what_is_told():
    (aside,) = tell(CALM, ASIDE)
    assert (aside.kind, aside.summary) == (Kind.QUARANTINE, "scx_one set aside")
    assert aside.body == (
        "scx_one ended: <error> & more. eevdf goes on. `asa explain` says more, `asa resume` gives it another chance."
    )
    (hold,) = tell(CALM, STRANGER)
    assert (hold.kind, hold.summary) == (Kind.HOLD, "ASA is on hold")
    assert hold.body == "scx_layered was attached by somebody else. Nothing is switched until that ends."
    (revert,) = tell(CALM, REVERT)
    assert (revert.kind, revert.summary) == (Kind.REVERT, "scx_one taken back")
    assert revert.body == (
        "web regressed under scx_one compared with eevdf: timer lateness (p99) 9.0 ms against 2.0 ms. "
        "`asa explain` says more."
    )
    (after_turns,) = tell(CALM, msgspec.structs.replace(REVERT, scheduler="eevdf"))
    assert (after_turns.summary, after_turns.body) == ("A scheduler taken back", revert.body)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, ASIDE),  # what was so at the start is no news
        (status(started_ns=1), ASIDE),  # another agent
        (ASIDE, ASIDE),
        (ASIDE, CALM),  # it may serve again
        (STRANGER, STRANGER),
        (STRANGER, CALM),
        (REVERT, REVERT),
        (CALM, status(mode="hold", mode_reason="held by the user until 14:00", held=True)),  # they know
        (CALM, status(mode="observing", mode_reason="told to")),
        (CALM, status(scheduler="scx_one", reason=Reason.BETTER)),  # a switch is no news
        (CALM, status(lately=(LOST,))),  # by hand: not set aside
    ],
)
def test_what_is_not_told(before, after):
    assert tell(before, after) == ()


QUESTION = Trying(
    use="browse",
    candidate="scx_one",
    in_force="eevdf",
    under_way=False,
    pairs=0,
    most_pairs=24,
    block_s=20.0,
    question=True,
)


def test_a_question_is_asked_once():
    asks = status(trial=QUESTION)
    (note,) = tell(CALM, asks)
    assert "May scx_one be tried against eevdf for browse?" in note.body
    assert tell(asks, asks) == ()
    assert tell(asks, status(trial=msgspec.structs.replace(QUESTION, under_way=True, question=False))) == ()


def test_each_is_told_when_all_come_at_once():
    changes = {"set_aside": ["scx_one"], "lately": (LOST,), "mode": "hold", "mode_reason": "Alt-SysRq-S"}
    changes["trial"] = QUESTION
    after = msgspec.structs.replace(REVERT, **changes)
    assert set(kinds(CALM, after)) == set(Kind)


def test_what_was_not_tried_is_not_told():
    """It would be told several times an hour for as long as an administrator does not want that scheduler."""
    refused = msgspec.structs.replace(LOST, outcome=SwitchOutcome.REFUSED, ended="withdrawn: no (by the daemon)")
    assert tell(CALM, status(set_aside=["scx_one"], lately=(refused,))) == ()


def test_long_words_of_others_are_cut():
    lost = msgspec.structs.replace(LOST, detail="no\n" * 500)
    (note,) = tell(CALM, status(set_aside=["scx_one"], lately=(lost,)))
    assert len(note.body) < 300
    assert "\n" not in note.body
    (silent,) = tell(CALM, status(set_aside=["scx_two"], scheduler=None))
    assert silent.body == "`asa explain` says more, `asa resume` gives it another chance."


class Desktop:
    """A bus, and a server of notifications on it."""

    def __init__(self, folder):
        (folder / "bus.conf").write_text(CONFIG.format(path=folder / "bus"))
        words = ["dbus-daemon", f"--config-file={folder}/bus.conf", "--nofork", "--print-address"]
        self.daemon = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.address = self.daemon.stdout.readline().strip()
        self.server, self.now_s = None, 1000.0
        self.bus = Bus.open(self.address, limit_s=LIMIT_S)
        self.notifier = Notifier(self.bus, lambda: self.now_s)

    def serve(self):
        words = [sys.executable, "-c", SERVER, self.address]
        self.server = subprocess.Popen(words, stdout=subprocess.PIPE, bufsize=0)  # so that select sees what is unread
        assert self.server.stdout.readline() == b"ready\n"
        self.turn()

    def stop_serving(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()
        self.server = None

    def turn(self):
        """Let the bus work until it has answered what was asked before this."""
        answers = []
        peer = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId")
        self.bus.send(*peer, then=answers.append)
        until(lambda: self._advance() or answers, "the bus answers")

    def heard(self):
        """The next call that the server had; its answer has been taken when this is back."""
        until(self._readable, "the server heard of it")
        told = json.loads(self.server.stdout.readline())
        until(lambda: self._advance() or not self.bus.due_in_s(), "the answer came")
        return told

    def close(self):
        self.bus.close()
        if self.server is not None:
            self.stop_serving()
        self.daemon.kill()
        self.daemon.wait()
        self.daemon.stdout.close()

    def _readable(self):
        self._advance()
        return select.select([self.server.stdout], [], [], 0.01)[0]

    def _advance(self):
        select.select([self.bus], [], [], 0.01)
        self.bus.advance()


@pytest.fixture
def desktop(tmp_path):
    if shutil.which("dbus-daemon") is None:
        pytest.skip("needs dbus-daemon; `asa lab setup --tests` installs it")
    found = Desktop(tmp_path)
    yield found
    found.close()


def test_it_arrives_as_the_specification_has_it(desktop):
    desktop.serve()
    desktop.notifier.news(CALM, ASIDE)
    app, replaces, icon, summary, body, actions, hints, stays = desktop.heard()
    assert (app, replaces, icon, actions, stays) == ("ASA", 0, "utilities-system-monitor", [], -1)
    assert summary == "scx_one set aside"
    assert body.startswith("scx_one ended: &lt;error&gt; &amp; more. eevdf goes on. `asa explain`")
    assert hints == {"urgency": ["y", 1]}


def test_the_next_one_replaces_it_and_a_new_server_knows_of_none(desktop):
    desktop.serve()
    desktop.notifier.news(CALM, ASIDE)
    assert desktop.heard()[1] == 0
    desktop.notifier.news(CALM, STRANGER)
    assert desktop.heard()[1] == 41
    desktop.stop_serving()
    desktop.serve()
    desktop.notifier.news(CALM, REVERT)
    assert desktop.heard()[1] == 0


def test_one_of_a_kind_in_a_minute(desktop):
    desktop.serve()
    desktop.notifier.news(CALM, ASIDE)
    desktop.now_s += 59
    desktop.notifier.news(CALM, status(set_aside=["scx_two"]))  # too soon
    desktop.notifier.news(CALM, STRANGER)
    desktop.now_s += 1
    desktop.notifier.news(CALM, status(set_aside=["scx_three"]))
    assert [desktop.heard()[3] for _ in range(3)] == ["scx_one set aside", "ASA is on hold", "scx_three set aside"]


def test_what_no_bus_would_take_is_sent_all_the_same(desktop):
    desktop.serve()
    desktop.notifier.news(CALM, status(mode="hold", mode_reason="a\0b \ud800 c"))
    assert desktop.heard()[4].startswith("ab ? c. Nothing")


def test_nobody_shows_notifications(desktop):
    desktop.notifier.news(CALM, ASIDE)
    desktop.turn()  # the error has come
    desktop.serve()  # a server that comes later hears of what is new then
    desktop.notifier.news(CALM, STRANGER)
    assert desktop.heard()[3] == "ASA is on hold"


def test_a_bus_that_has_gone_or_never_was(desktop):
    desktop.daemon.kill()
    desktop.daemon.wait()
    for seconds in range(0, 600, 100):
        desktop.now_s += seconds
        desktop.notifier.news(CALM, ASIDE)
        desktop.notifier.news(CALM, STRANGER)
    Notifier(None).news(CALM, ASIDE)
