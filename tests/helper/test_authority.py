# SPDX-License-Identifier: GPL-2.0-only
"""Who may what, with a real polkitd and real processes of other users; a stand-in for polkit only for nonsense."""

import os
import signal
import time
from pathlib import Path

import pytest
from helper_bus import NOBODY, PrivateBus, turn

from asa.bus import Method, Object
from asa.core.helper_api import Action
from asa.helper.authority import Authority, Verdict
from asa.helper.callers import Callers

POLKIT = "org.freedesktop.PolicyKit1"
PATH = "/org/freedesktop/PolicyKit1/Authority"
FACE = "org.freedesktop.PolicyKit1.Authority"
AGENT = "org.freedesktop.PolicyKit1.AuthenticationAgent"
AGENT_PATH = "/org/example/Agent"
CHECK = "(sa{sv})sa{ss}us"
ACTION = """<action id="{name}"><description>d</description><message>m</message><defaults>
<allow_any>{any}</allow_any><allow_inactive>no</allow_inactive><allow_active>no</allow_active></defaults></action>"""
ANYBODY = {Action.SWITCH: "yes", Action.HOLD: "auth_admin", Action.CONFIGURE: "no"}  # observe is not there at all
ACTIONS = f"""<?xml version="1.0"?><!DOCTYPE policyconfig PUBLIC
"-//freedesktop//DTD PolicyKit Policy Configuration 1.0//EN"
"http://www.freedesktop.org/standards/PolicyKit/1/policyconfig.dtd">
<policyconfig>{"".join(ACTION.format(name=name, any=any_) for name, any_ in ANYBODY.items())}</policyconfig>"""
ADMIN = 'polkit.addAdminRule(function(action, subject) { return ["unix-user:root"]; });'

pytestmark = pytest.mark.root


@pytest.fixture
def private():
    bus = PrivateBus()
    yield bus
    bus.end()


@pytest.fixture
def bus(private):
    return private.connect()


@pytest.fixture
def authority(bus):
    return Authority(bus, Callers(bus))


class Agent:
    """A password dialogue for one process: it hears of questions and does with them what the test says."""

    def __init__(self, bus, pid):
        self.bus = bus
        self.begun, self.cancelled = [], []
        begin = Method(takes="sssa{ss}sa(sa{sv})", run=self.begun.append)
        cancel = Method(takes="s", run=self._cancel)
        methods = {"BeginAuthentication": begin, "CancelAuthentication": cancel}
        bus.serve(Object(path=AGENT_PATH, interface=AGENT, methods=methods, properties={}, signals={}))
        since = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])  # proc_pid_stat(5)
        subject = ("unix-process", {"pid": ("u", pid), "start-time": ("t", since)})
        bus.ask(POLKIT, PATH, FACE, "RegisterAuthenticationAgent", "(sa{sv})ss", (subject, "C", AGENT_PATH), limit_s=30)

    def _cancel(self, request):
        self.cancelled.append(request.body[0])
        request.answer()

    def allow(self):
        """As if an administrator had given the password."""
        cookie = self.begun[0].body[4]
        root = ("unix-user", {"uid": ("u", 0)})
        done = lambda _answer: self.begun[0].answer()  # noqa: E731
        self.bus.send(POLKIT, PATH, FACE, "AuthenticationAgentResponse2", "us(sa{sv})", (0, cookie, root), then=done)

    def dismiss(self):
        """As if it had been closed."""
        self.begun[0].fail(f"{POLKIT}.Error.Cancelled", "closed")


def ask(authority, sender, action, *buses, interactive=False):
    told = []
    authority.ask(sender, action, interactive=interactive, then=told.append)
    turn(*buses, until=lambda: told, what=f"an answer about {action}")
    assert len(told) == 1
    assert len(authority) == 0
    assert "\n" not in told[0].reason
    return told[0]


@pytest.fixture
def dialogue(private, bus, authority):
    """A stranger's open question, and the agent that was told to ask for a password."""
    private.polkit(ACTIONS, ADMIN)
    name, pid = private.stranger(NOBODY)
    agent, told = Agent(private.connect(), pid), []
    authority.ask(name, Action.HOLD, interactive=True, then=told.append)
    turn(bus, agent.bus, until=lambda: agent.begun, what="the dialogue")
    assert told == []
    return name, pid, agent, told


def test_without_polkit_root_alone_may(private, bus, authority):
    name, _ = private.stranger(NOBODY)
    assert ask(authority, private.connect().unique_name, Action.CONFIGURE, bus) == Verdict(allowed=True, reason="")
    refused = ask(authority, name, Action.SWITCH, bus)
    assert not refused.allowed
    assert refused.reason == "polkit does not run on this machine: root alone may do this"


@pytest.mark.parametrize("interactive", [False, True])
def test_what_polkit_says(private, bus, authority, interactive):
    private.polkit(ACTIONS, ADMIN)
    name, _ = private.stranger(NOBODY)
    said = {action: ask(authority, name, action, bus, interactive=interactive) for action in Action}
    assert {action for action, verdict in said.items() if verdict.allowed} == {Action.SWITCH}
    assert "needs an administrator's password" in said[Action.HOLD].reason  # nobody is there to ask for one
    assert "polkit does not allow it to this user" in said[Action.CONFIGURE].reason
    assert "not registered" in said[Action.OBSERVE].reason
    assert all(verdict.reason for verdict in said.values() if not verdict.allowed)
    root = private.connect().unique_name
    assert all(ask(authority, root, action, bus).allowed for action in Action)


def test_rules_of_an_administrator_count(private, bus, authority):
    rules = f'polkit.addRule(function(action, subject) {{ if (action.id == "{Action.CONFIGURE}" && \
        subject.user == "nobody") return polkit.Result.YES; return polkit.Result.NO; }});'
    private.polkit(ACTIONS, rules)
    name, _ = private.stranger(NOBODY)
    assert ask(authority, name, Action.CONFIGURE, bus).allowed
    assert not ask(authority, name, Action.SWITCH, bus).allowed


def test_nobody_is_asked_for_a_password_who_did_not_want_it(private, bus, authority):
    private.polkit(ACTIONS, ADMIN)
    name, pid = private.stranger(NOBODY)
    agent = Agent(private.connect(), pid)
    assert not ask(authority, name, Action.HOLD, bus, agent.bus, interactive=False).allowed
    assert agent.begun == []


def test_a_password_allows(bus, authority, dialogue):
    _, _, agent, told = dialogue
    agent.allow()
    turn(bus, agent.bus, until=lambda: told, what="the answer")
    assert told == [Verdict(allowed=True, reason="")]
    assert len(authority) == 0


def test_a_closed_dialogue_refuses(bus, dialogue):
    _, _, agent, told = dialogue
    agent.dismiss()
    turn(bus, agent.bus, until=lambda: told, what="the answer")
    assert told == [Verdict(allowed=False, reason=f"{Action.HOLD}: the password dialogue was closed")]


def test_a_caller_that_ends_takes_its_question_with_it(private, bus, authority, dialogue):
    _, pid, agent, told = dialogue
    private.kill(pid)
    turn(bus, agent.bus, until=lambda: agent.cancelled, what="the end of the dialogue")
    assert (told, len(authority)) == ([], 0)


def test_a_forgotten_question_is_taken_back(bus, authority, dialogue):
    name, _, agent, told = dialogue
    authority.forget(name)
    authority.forget(name)
    authority.forget(":1.none")
    turn(bus, agent.bus, until=lambda: agent.cancelled, what="the end of the dialogue")
    assert (told, len(authority)) == ([], 0)
    assert ask(authority, name, Action.SWITCH, bus).allowed  # it may ask again


def later(monkeypatch, seconds):
    """From now on it is so much later."""
    now = time.monotonic_ns
    monkeypatch.setattr("time.monotonic_ns", lambda: now() + int(seconds * 1e9))


def test_a_dialogue_that_nobody_answers_ends_after_two_minutes(bus, authority, dialogue, monkeypatch):
    _, _, agent, told = dialogue
    with monkeypatch.context() as soon:
        later(soon, 60)
        bus.advance()
        assert told == []
    later(monkeypatch, 121)
    turn(bus, agent.bus, until=lambda: told and agent.cancelled, what="the end of the dialogue")
    assert not told[0].allowed
    assert "did not answer in time" in told[0].reason


def test_a_polkit_that_hangs_is_a_no(private, bus, authority, monkeypatch):
    daemon = private.polkit(ACTIONS, ADMIN)
    name, _ = private.stranger(NOBODY)
    assert ask(authority, name, Action.SWITCH, bus).allowed
    os.kill(daemon.pid, signal.SIGSTOP)
    told = []
    authority.ask(name, Action.SWITCH, interactive=False, then=told.append)
    bus.advance()
    assert told == []
    later(monkeypatch, 5.1)
    bus.advance()
    assert [verdict.allowed for verdict in told] == [False]
    assert "did not answer in time" in told[0].reason
    os.kill(daemon.pid, signal.SIGCONT)
    assert ask(authority, name, Action.SWITCH, bus).allowed  # the late answer is nobody's
    assert len(told) == 1


def test_a_polkit_that_ends_meanwhile_is_a_no(private, bus, authority):
    daemon = private.polkit(ACTIONS, ADMIN)
    name, _ = private.stranger(NOBODY)
    assert ask(authority, name, Action.SWITCH, bus).allowed
    os.kill(daemon.pid, signal.SIGSTOP)
    told = []
    authority.ask(name, Action.SWITCH, interactive=True, then=told.append)  # on its way: whose call it is, is known
    daemon.kill()
    turn(bus, until=lambda: told, what="the answer")
    assert not told[0].allowed
    assert "did not answer in time" in told[0].reason


@pytest.mark.parametrize(
    ("gives", "answer"),
    [
        ("", ()),
        ("b", (True,)),
        ("s", ("yes",)),
        ("(ub)", ((1, True),)),
        ("(uba{ss})", ((1, False, {}),)),
        ("(bba{ss})b", ((True, False, {}), True)),
        ("a(bba{ss})", ([(True, False, {})],)),
    ],
)
def test_an_odd_answer_is_a_no(private, bus, authority, gives, answer):
    name, _ = private.stranger(NOBODY)
    odd = stand_in(private, gives, lambda request: request.answer(*answer))
    refused = ask(authority, name, Action.SWITCH, bus, odd)
    assert not refused.allowed
    assert "cannot be read" in refused.reason


def test_what_an_error_says_is_one_short_line(private, bus, authority):
    name, _ = private.stranger(NOBODY)
    odd = stand_in(private, "", lambda request: request.fail("org.example.Odd", "many\nlines\n" * 1000))
    refused = ask(authority, name, Action.SWITCH, bus, odd)
    assert not refused.allowed
    assert len(refused.reason) < 300


def stand_in(private, gives, run):
    bus = private.connect()
    check = Method(takes=CHECK, gives=gives, run=run)
    bus.serve(Object(path=PATH, interface=FACE, methods={"CheckAuthorization": check}, properties={}, signals={}))
    bus.own(POLKIT)
    return bus


def test_ten_thousand_callers_leave_nothing(bus, authority):
    told = []
    for first in range(0, 10_000, 200):
        for number in range(first, first + 200):
            authority.ask(f":1.{number + 1000}", Action.SWITCH, interactive=bool(number % 2), then=told.append)
        turn(bus, until=lambda: len(authority) == 0, what="no question open")
    assert told == []  # none of them is there
    assert authority._open == {}
