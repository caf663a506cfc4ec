# SPDX-License-Identifier: GPL-2.0-only
"""For tests inside the lab: the agent as a user starts it, the switcher, and what the kernel and /proc say."""

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path

from asa import paths
from asa.act import settings
from asa.act.gated.switcher import GatedSwitcher
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.act.undo import UndoJournal
from asa.cli import main
from asa.clock import SystemClock
from asa.config import SwitchSettings
from asa.core.decision import SchedulerName, SwitchOutcome
from asa.status import read as read_status
from models.runtime import Ensemble
from scenarios import planted

SYS = Path("/sys")
LIMIT_S = 90.0  # emulated, on a shared host
OWNER = paths.default().cache.stat().st_uid  # who ran the tests on the host built the schedulers
SECOND_CPU = SYS / "devices/system/cpu/cpu1/online"


def portfolio_of_host():
    return Portfolio.load(paths.manifest(), paths.default().schedulers, owners=[OWNER])


def eventually(what, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if what():
            return True
        select.select([], [], [], 0.05)
    return False


@contextmanager
def clean_machine():
    """Nothing of ours before; nothing left of it after."""
    assert sched_ext_state(SYS).state == "disabled"
    before = settings_now()
    yield
    assert eventually(lambda: sched_ext_state(SYS).state == "disabled"), sched_ext_state(SYS)
    assert eventually(lambda: not scheduler_processes(), 5.0), scheduler_processes()
    assert settings_now() == before


def settings_now():
    return {name: settings.read(SYS, name) for name in (*settings.files(SYS), settings.RCU_EXPEDITED)}


def scheduler_processes():
    """Pids; stand-ins for schedulers are scripts, run from the descriptor that was checked."""
    return [
        pid
        for pid, words in command_lines()
        if words[0].startswith("scx_") or any(word.startswith("/proc/self/fd/") for word in words)
    ]


def pid_of(name):
    """Of the process that runs this scheduler, None when there is none."""
    return next((pid for pid, words in command_lines() if words[0] == name), None)


def command_lines():
    for name in os.listdir("/proc"):  # noqa: PTH208  # asked again and again, and emulated each path object shows
        if name.isdigit():
            with suppress(OSError):
                descriptor = os.open(f"/proc/{name}/cmdline", os.O_RDONLY)
                try:
                    words = os.read(descriptor, 4096)
                finally:
                    os.close(descriptor)
                yield int(name), words.decode(errors="replace").split("\0")


def attached():
    """ops of what is attached, "" for the kernel's own scheduler."""
    state = sched_ext_state(SYS)
    return state.ops if state.state == "enabled" else ""


def start_by_hand(name):
    """A scheduler as somebody else starts it."""
    opened = portfolio_of_host().open(SchedulerName(name))
    try:
        return subprocess.Popen(opened.argv, executable=f"/proc/self/fd/{opened.fd}", pass_fds=(opened.fd,))
    finally:
        os.close(opened.fd)


def other_portfolio(folder, **files):
    """A folder of schedulers like the host's, but with these files in place of some. Gives its XDG_CACHE_HOME."""
    schedulers = folder / "cache/asa/scx"
    schedulers.mkdir(parents=True)
    records = json.loads((paths.default().schedulers / "installed.json").read_text())
    for name, file in files.items():
        digest = subprocess.run(["sha256sum", str(file)], capture_output=True, text=True, check=True).stdout.split()[0]
        records["schedulers"][name] |= {"path": str(file), "sha256": digest}
    record = schedulers / "installed.json"
    record.write_text(json.dumps(records))
    record.chmod(0o644)
    return folder / "cache"


def event_of(switcher, limit_s=LIMIT_S):
    """The next event, by the loop that the agent has."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        event = switcher.poll()
        if event is not None:
            return event
        look_s = switcher.look_in_s()
        select.select(switcher.descriptors(), [], [], 0.2 if look_s is None else look_s)
    raise AssertionError("no event")


def events_until(switcher, what, limit_s=LIMIT_S):
    """Polls until `what()` is true; the events that came."""
    events = []

    def true():
        event = switcher.poll()
        if event is not None:
            events.append(event)
        return what()

    assert eventually(true, limit_s), events
    return events


def gated(folder, portfolio=None, on_step=lambda _: None, **limits):
    """A switcher whose journal is `folder`/undo.json."""
    return GatedSwitcher(
        portfolio=portfolio or portfolio_of_host(),
        undo=UndoJournal(folder / "undo.json"),
        clock=SystemClock(),
        limits=SwitchSettings(**{"attach_limit_s": LIMIT_S, **limits}),
        sys=SYS,
        logs=folder / "logs",
        run=Path("/run/asa-test"),
        on_step=on_step,
    )


def switched(switcher, name):
    """Switch, and be sure that it was done."""
    switcher.begin(SchedulerName(name))
    event = event_of(switcher)
    assert (event.outcome, event.new) == (SwitchOutcome.CONFIRMED, name), event
    return event


class Copy:
    """`asa WORDS` in a copy of this process, as `subprocess.Popen` is used: emulated, an interpreter takes seconds to
    start. That it starts as a program is seen where it is installed, in test_helper_box and test_desktop."""

    def __init__(self, words, output, errors, env=None):
        for name in ("asa.assembly", "asa.cli.run", "asa.inbox"):  # once for all of them, and only where there is one
            importlib.import_module(name)
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            _become(words, output, errors, env or {})

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, limit_s):
        if not eventually(lambda: self.poll() is not None, limit_s):
            raise subprocess.TimeoutExpired("asa", limit_s)
        return self.returncode

    def send_signal(self, sign):
        if self.poll() is None:
            os.kill(self.pid, sign)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _become(words, output, errors, env):
    code = 1
    try:
        os.setsid()
        os.environ.update(env)
        os.dup2(output.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
        main.main([*words])
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001  # in a child, where nobody else tells of it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


class AgentProcess:
    """`asa run` as a user starts it; `ranking` serves every class, `served` gives class -> ranking where it has one."""

    program = ()  # in place of a copy of this process

    def __init__(self, folder, ranking, served=None, **settings):
        self.classes = Ensemble.load(paths.base_model()).classes
        rankings = dict.fromkeys(self.classes, ranking) | (served or {})
        planted.write(folder / "table.yaml", rankings)
        whole = {
            "table": str(folder / "table.yaml"),
            "voting": {"threshold": 0.01, "open_world": False},
            "policy": {"cooldown_s": 0, "dwell_s": 0, "learn": "off"},
            "guard": {"enabled": False},  # an emulated guest that stands still for seconds looks starved
            "quarantine": {"backoff_s": 3600.0},  # the guest may take as long as the 30 s of old
            "switch": {"attach_limit_s": LIMIT_S, "trusted_owners": [OWNER]} | settings.pop("switch", {}),
        }
        self.config = folder / "asa.yaml"
        self.config.write_text(json.dumps(whole | settings))
        words = ["run", "--json", "--config", str(self.config)]
        self.output = folder / "agent.out"
        with self.output.open("wb") as output:
            if self.program:
                command = [sys.executable, *self.program, *words]
                self.process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
            else:
                self.process = Copy(words, output, output)

    def said(self):
        return self.output.read_text()

    def until_said(self, words):
        assert eventually(lambda: words in self.said() or self.process.poll() is not None), self.said()
        assert words in self.said(), self.said()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(LIMIT_S)


@contextmanager
def agent(folder, *ranking, **settings):
    running = AgentProcess(folder, ranking, **settings)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end()


def asa(*words, env=None):
    """What the command says and how it ends."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = Copy(words, output, errors, env)
        try:
            child.wait(LIMIT_S)
        finally:
            child.kill()
            child.wait(LIMIT_S)
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(words, child.returncode, output.read(), errors.read())


def status():
    return json.loads(asa("status", "--json").stdout)


def seen(**wanted):
    """The agent's part of `asa status --json`, once it is all of this."""
    box = []

    def says():
        now = read_status(paths.default().run)  # the command costs a guest seconds of processor time
        box[:] = [now]
        return now is not None and all(getattr(now, name) == value for name, value in wanted.items())

    assert eventually(says), box
    now = status()["agent"]
    assert {name: now[name] for name in wanted} == wanted, now
    return now
