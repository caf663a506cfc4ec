# SPDX-License-Identifier: GPL-2.0-only
"""A helper as a process of its own on a private bus, over a sysfs tree in a folder, and callers of it.

Everything is real but the kernel: the stand-in schedulers are real processes, which "attach" by writing into the tree.
Run as a program this is the helper: `stage.py FOLDER ADDRESS IDLE_S [FAULT]`.
"""

import contextlib
import hashlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from waiting import LIMIT_S, until

from asa import paths, wire
from asa.act.portfolio import Origin, Record
from asa.bus import Bus, CallError, Method, Object, Rule
from asa.core.helper_api import BUS_NAME, INTERFACE, PATH

USER = 65534
PROPERTIES = "org.freedesktop.DBus.Properties"
SETTINGS = (
    "switch: {{gate: off, backend: own, stop_limit_s: {stop_limit_s}, attach_limit_s: 60.0}}\ncollect: {{ebpf: off}}\n"
)
STAND_IN = """#!/usr/bin/python3
import os, signal, sys, time
root, ops = {tree!r}, {ops!r}
def put(file, text):
    with open(root + "/new-" + ops, "w") as out: out.write(text)
    os.rename(root + "/new-" + ops, root + "/" + file)
def leave(*_):
    os.unlink(root + "/root/ops"); put("state", "disabled\\n"); sys.exit(0)
if os.path.exists(root + "/refuse"): sys.exit("Error: no such BPF helper")
signal.signal(signal.SIGINT, signal.SIG_IGN if os.path.exists(root + "/deaf") else leave)
put("enable_seq", str(int(open(root + "/enable_seq").read()) + 1))
put("root/ops", ops + "_1.1.4_x86_64\\n"); put("state", "enabled\\n")
while True: time.sleep(60)
"""
CALLER = """
import os, select, subprocess, sys
from asa.bus import Bus
from asa.core.helper_api import BUS_NAME, INTERFACE, PATH
address, uid = sys.argv[1], int(sys.argv[2])
os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
bus = Bus.open(address, limit_s=30.0)
for call in sys.argv[3:]:
    member, signature, body = eval(call)
    bus.ask(BUS_NAME, PATH, INTERFACE, member, signature, body, limit_s=60.0)
print(bus.unique_name, flush=True)
if os.environ.get("HEIR"):
    print(subprocess.Popen(["sleep", "600"], pass_fds=[bus.fileno()]).pid, flush=True)
while True:
    select.select([bus], [], [], bus.due_in_s())
    bus.advance()
"""
FLOOD = """
import os, sys
from jeepney import DBusAddress, MessageFlag, new_method_call
from asa.bus import Bus
from asa.core.helper_api import BUS_NAME, INTERFACE, PATH
address, uid = sys.argv[1], int(sys.argv[2])
os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
message = new_method_call(
    DBusAddress(PATH, BUS_NAME, "org.freedesktop.DBus.Properties"), "GetAll", "s", (INTERFACE,))
message.header.flags |= MessageFlag.no_reply_expected
line = Bus.open(address, limit_s=30.0)._stream._socket
line.setblocking(True)
while True:
    line.sendall(message.serialise(serial=7) * 100)
"""


class Stage:
    """A folder that is the machine, helpers on it, and connections to the bus."""

    def __init__(self, folder, address):
        self.folder, self.address = folder, address
        self.tree = folder / "sys/kernel/sched_ext"
        (self.tree / "root").mkdir(parents=True)
        (self.tree / "state").write_text("disabled\n")
        (self.tree / "enable_seq").write_text("0\n")
        (folder / "asa.yaml").write_text(SETTINGS.format(stop_limit_s=30.0))
        self._install("scx_bpfland", "scx_flash", "scx_lavd")
        self._children, self._buses = [], []

    def _install(self, *names):
        records = {}
        for name in names:
            path = self.folder / "cache/scx" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(STAND_IN.format(tree=str(self.tree), ops=name.removeprefix("scx_")))
            path.chmod(0o755)
            records[name] = Record(
                path=str(path), origin=Origin.BUILT, version="1.1.4", flags=(), installed="2026-01-01T00:00:00+00:00",
                sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            )  # fmt: skip
        record = self.folder / "cache/scx/installed.json"
        record.write_bytes(wire.json_bytes({"schedulers": records}))
        record.chmod(0o644)

    @property
    def places(self):
        where = self.folder
        return paths.Places(
            sys=where / "sys",
            run=where / "run",
            cache=where / "cache",
            state=where / "state",
            config=where / "asa.yaml",
        )

    def deafen(self):
        """From now on stand-ins start that do not hear SIGINT, and helpers that are soon out of patience.

        One that hears it, and is killed since a busy machine lets it do nothing, leaves a tree that no kernel clears.
        """
        (self.tree / "deaf").touch()
        (self.folder / "asa.yaml").write_text(SETTINGS.format(stop_limit_s=1.0))

    def helper(self, *fault, idle_s=600.0, wait=True, **environment):
        """A helper's process; with `wait` it has its name."""
        log = (self.folder / "log").open("ab")
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, __file__]
        words = [str(self.folder), self.address, str(idle_s), *fault]
        path = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            [*command, *words], stderr=log, env={**os.environ, "PYTHONPATH": path, **environment}
        )
        log.close()
        self._children.append(process)
        if wait:
            watcher = self.connect()
            until(lambda: process.poll() is not None or owner(watcher), lambda: f"the helper's name; {self.said()}")
            assert process.poll() is None, self.said()
        return process

    def said(self):
        """What helpers have said so far."""
        return (self.folder / "log").read_text()

    def attached(self):
        """The scheduler in the tree, "" for none."""
        with contextlib.suppress(FileNotFoundError):
            return (self.tree / "root/ops").read_text().partition("_")[0]
        return ""

    def connect(self, uid=0):
        """A connection of this process, as that user."""
        if uid:
            os.setresuid(uid, uid, 0)
        try:
            bus = Bus.open(self.address, limit_s=LIMIT_S)
        finally:
            if uid:
                os.setresuid(0, 0, 0)
        self._buses.append(bus)
        return bus

    def caller(self, *calls, uid=0, heir=False):
        """A process that makes these calls (member, signature, body) and stays; after they have been answered.

        With `heir` a child of it, whose pid is its next line, has its connection too.
        """
        process = self._process(CALLER, uid, *map(repr, calls), stdout=subprocess.PIPE, HEIR="yes" if heir else "")
        process.name = process.stdout.readline().strip()
        assert process.name, f"the caller got no answer; {self.said()}"
        return process

    def flood(self, uid):
        """A process that calls without an end, and waits for no answer."""
        return self._process(FLOOD, uid)

    def _process(self, program, uid, *words, stdout=None, **environment):
        path = str(Path(paths.__file__).parent.parent)
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-c", program, self.address, str(uid), *words]
        environment = {**os.environ, "PYTHONPATH": path, **environment}
        self._children.append(subprocess.Popen(command, stdout=stdout, text=True, env=environment))
        return self._children[-1]

    def turn(self, condition, what="it"):
        """Let all connections of this process work until it is so."""
        end_s = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < end_s, f"after {LIMIT_S:g} s still not: {what}; {self.said()}"
            select.select(self._buses, [], [], 0.02)
            for bus in self._buses:
                bus.advance()

    def call(self, bus, member, signature="", *body, interface=INTERFACE, interactive=False):
        """The answer's values, or the CallError."""
        answers = []
        bus.send(
            BUS_NAME, PATH, interface, member, signature, body, then=answers.append, limit_s=60.0,
            interactive=interactive,
        )  # fmt: skip
        self.turn(lambda: answers, f"the answer to {member}")
        return answers[0]

    def get(self, bus, name):
        """A property's value."""
        return self.call(bus, "Get", "ss", INTERFACE, name, interface=PROPERTIES)[0][1]

    def hear(self, bus, member):
        """Bodies of signals of the helper, as they come."""
        heard = []
        rule = Rule(sender=BUS_NAME, path=PATH, interface=INTERFACE, member=member)
        bus.watch(rule, lambda signal: heard.append(signal.body[0]))
        bus.ask("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetId", limit_s=LIMIT_S)  # after that it is heard
        return heard

    def polkit(self, decide):
        """A stand-in of polkit for what the real one does not do on demand; `decide(action)` -> bool, None: silence."""
        bus = self.connect()
        asked = []

        def check(request):
            asked.append(request.body[1])
            verdict = decide(request.body[1])
            if verdict is not None:
                request.answer((verdict, False, {}))

        bus.serve(
            Object(
                path="/org/freedesktop/PolicyKit1/Authority",
                interface="org.freedesktop.PolicyKit1.Authority",
                methods={
                    "CheckAuthorization": Method(takes="(sa{sv})sa{ss}us", gives="(bba{ss})", run=check),
                    "CancelCheckAuthorization": Method(takes="s", run=lambda request: request.answer()),
                },
            )
        )
        bus.own("org.freedesktop.PolicyKit1")
        return asked

    def end(self):
        """Nothing of it is left."""
        for bus in self._buses:
            bus.close()
        for process in self._children:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()


class Login:
    """A stand-in of logind with one seat, in a process of its own; `front` says whose session is the active one."""

    PROGRAM = """
import select, sys
from asa.bus import Bus, Method, Object, Property
bus, front = Bus.open(sys.argv[1], limit_s=30.0), int(sys.argv[2])
NAME, ROOT = "org.freedesktop.login1", "/org/freedesktop/login1"
bus.serve(Object(path=ROOT, interface=NAME + ".Manager", methods={
    "ListSeats": Method(gives="a(so)", run=lambda request: request.answer([("seat0", ROOT + "/seat/seat0")]))}))
bus.serve(Object(path=ROOT + "/seat/seat0", interface=NAME + ".Seat", methods={}, properties={
    "ActiveSession": Property(signature="(so)", read=lambda: ("c1", ROOT + "/session/c1"))}))
bus.serve(Object(path=ROOT + "/session/c1", interface=NAME + ".Session", methods={}, properties={
    "User": Property(signature="(uo)", read=lambda: (front, ROOT + "/user/u")),
    "Remote": Property(signature="b", read=lambda: False)}))
bus.own(NAME)
print("there", flush=True)
while True:
    ready = select.select([bus, sys.stdin], [], [], bus.due_in_s())[0]
    bus.advance()
    if sys.stdin in ready:
        front = int(sys.stdin.readline())
        bus.emit(ROOT + "/seat/seat0", "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as",
                 (NAME + ".Seat", {}, ["ActiveSession"]))
"""

    def __init__(self, stage, uid):
        path = str(Path(paths.__file__).parent.parent)
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-c", self.PROGRAM, stage.address, str(uid)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert self._process.stdout.readline() == "there\n"

    def front(self, uid):
        """Another user's session comes to the front."""
        self._process.stdin.write(f"{uid}\n")

    def end(self):
        """Gone."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


def owner(bus):
    """Who has the helper's name, "" for nobody."""
    try:
        return bus.ask("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetNameOwner", "s", (BUS_NAME,))[0]
    except CallError:
        return ""


def main(folder, address, idle_s, fault=""):
    """The helper."""
    from asa.act import rivals
    from asa.helper.machine import Host
    from asa.helper.service import Service
    from asa.sd_notify import ServiceManager

    rivals.masters = lambda *_, **__: ()  # this machine's own are no matter of these tests
    stage = Stage.__new__(Stage)
    stage.folder = Path(folder)

    def say(line):
        print(line, file=sys.stderr, flush=True)

    def connect():
        return Bus.open(address, limit_s=LIMIT_S)

    host = Host.open(stage.places, None, say=say, connect=connect)
    if fault == "broken":
        Host.in_force = lambda _: 1 // 0  # what nobody expects: to read the property State
    return Service(connect(), host, ServiceManager(), idle_s=float(idle_s)).run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
