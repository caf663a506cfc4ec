# SPDX-License-Identifier: GPL-2.0-only
"""A bus of our own with a real dbus-daemon, connections of other users, and a real polkitd that knows our actions."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from waiting import LIMIT_S

from asa.bus import Bus, CallError

NOBODY = 65534
_CONFIG = """<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
<allow receive_sender="*"/></policy></busconfig>"""


class PrivateBus:
    """A dbus-daemon that everybody may connect to; `start` begins its life, `end` ends all of it."""

    def __init__(self):
        for program in ("dbus-daemon", "setpriv"):
            if shutil.which(program) is None:
                pytest.skip(f"needs {program}; `asa lab setup --tests` installs it")
        self.folder = Path(tempfile.mkdtemp(prefix="asa-bus-"))  # pytest's own folders are closed to other users
        self.folder.chmod(0o755)
        self._processes = []
        self._buses = []
        self._pids = []
        config, path = self.folder / "bus.conf", self.folder / "bus"
        config.write_text(_CONFIG.format(path=path))
        try:
            daemon = self.spawn("dbus-daemon", f"--config-file={config}", "--nofork", "--print-address")
            self.address = daemon.stdout.readline().strip()
            assert self.address, "dbus-daemon has ended"
        except BaseException:
            self.end()
            raise

    def spawn(self, *command):
        """A program that ends with this process, connected to this bus when it asks for the system's."""
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.folder}/bus"},
        )  # fmt: skip
        self._processes.append(process)
        return process

    def connect(self):
        """Another connection of this process."""
        self._buses.append(Bus.open(self.address, limit_s=LIMIT_S))
        return self._buses[-1]

    def stranger(self, uid):
        """Unique name and process id of a connection of another process of that user."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                signal.alarm(600)
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                bus = Bus.open(self.address, limit_s=LIMIT_S)
                os.write(write, bus.unique_name.encode())
                os.close(write)
                while True:
                    select.select([bus], [], [])
                    bus.advance()
            os._exit(1)
        self._pids.append(pid)
        os.close(write)
        with os.fdopen(read) as told:
            name = told.read()
        assert name.startswith(":"), "the other process cannot connect"
        return name, pid

    def kill(self, pid):
        """End a stranger."""
        self._pids.remove(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def polkit(self, actions, rules="", settled=True):
        """A real polkitd that knows these actions (XML) and rules (JavaScript) alone; its process."""
        program = "/usr/lib/polkit-1/polkitd"
        if not Path(program).exists():
            pytest.skip("needs polkitd; `asa lab setup --tests` installs it")
        for name, text in (("actions/org.asa.test.policy", actions), ("rules.d/50-test.rules", rules)):
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        (self.folder / "none").mkdir(exist_ok=True)
        steps = [
            f"mount --bind {self.folder}/actions /usr/share/polkit-1/actions",
            f"mount --bind {self.folder}/rules.d /etc/polkit-1/rules.d",
            f"mount --bind {self.folder}/none /usr/share/polkit-1/rules.d",
            f"exec {program} --no-debug",
        ]
        daemon = self.spawn("unshare", "--mount", "--propagation", "private", "sh", "-c", " && ".join(steps))
        bus = self.connect()
        end_s = time.monotonic() + LIMIT_S
        while settled:
            with contextlib.suppress(CallError):
                bus.ask("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetNameOwner", "s",
                        ("org.freedesktop.PolicyKit1",))  # fmt: skip
                break
            assert daemon.poll() is None, "polkitd has ended"
            assert time.monotonic() < end_s, "polkitd is not on the bus"
            time.sleep(0.01)
        return daemon

    def end(self):
        """Nothing of it is left."""
        for bus in self._buses:
            bus.close()
        for pid in list(self._pids):
            self.kill(pid)
        for process in self._processes:
            process.kill()
            process.wait()
            process.stdout.close()
        shutil.rmtree(self.folder)


def turn(*buses, until, what="it", limit_s=LIMIT_S):
    """Let all of them work until it is so."""
    end_s = time.monotonic() + limit_s
    while not until():
        assert time.monotonic() < end_s, f"after {limit_s:g} s still not: {what}"
        due = [one for bus in buses if (one := bus.due_in_s()) is not None]
        select.select(buses, [], [], min([0.5, *due]))
        for bus in buses:
            bus.advance()
