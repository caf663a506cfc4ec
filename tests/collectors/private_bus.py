# SPDX-License-Identifier: GPL-2.0-only
"""A real dbus-daemon of our own, and peers on it that say what a test wants them to.

What peers say is written by dbus-fast, a second opinion on the bytes that our own module reads.
"""

import os
import shutil
import subprocess

from dbus_fast import Message, Variant
from jeepney import HeaderFields, MessageType
from waiting import until

from asa.bus import BusError, Stream
from collectors.gnome import extension
from collectors.session import connected, unix_addresses

BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
STATE = {
    "pid": Variant("u", 4242),
    "app": Variant("s", "org.gnome.Terminal.desktop"),
    "window-class": Variant("s", "gnome-terminal-server"),
    "title-class": Variant("s", "terminal"),
    "client": Variant("s", "wayland"),
    "sandboxed-app": Variant("s", ""),
    "fullscreen": Variant("b", True),
    "overview": Variant("b", False),
    "idle-ms": Variant("t", 1200),
    "input-events": Variant("t", 77),
    "seq": Variant("t", 5),
}
_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen>
<policy context="default"><allow send_destination="*"/><allow receive_type="*"/><allow own="*"/></policy>
</busconfig>
"""


class PrivateBus:
    """A dbus-daemon at `address`; it may be stopped and started again there."""

    def __init__(self, folder, uid=None):
        self.folder = folder
        self.uid = os.geteuid() if uid is None else uid
        self.path = folder / "bus"
        self.address = f"unix:path={self.path}"
        self._process = None
        (folder / "bus.conf").write_text(_CONFIG.format(path=self.path))
        self.start()

    def start(self):
        user = {} if self.uid == os.geteuid() else {"user": self.uid, "group": self.uid, "extra_groups": []}
        # the kernel ends it if the test is killed
        command = ["setpriv", "--pdeathsig", "KILL", "--", shutil.which("dbus-daemon"), "--nofork", "--nopidfile"]
        command.append(f"--config-file={self.folder}/bus.conf")
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, cwd="/", **silent, **user)
        until(self._answers, "the bus takes connections")

    def stop(self):
        self._process.kill()
        self._process.wait()
        self.path.unlink(missing_ok=True)

    def _answers(self):
        assert self._process.poll() is None, "dbus-daemon ended"
        try:
            connected([str(self.path)], self.uid).close()
        except OSError:
            return False
        return True


class Peer:
    """A client with `names` that answers calls of members in `answers`: (signature, body), or None for silence; or what
    makes one of these out of the call's body.
    """

    def __init__(self, bus, *names):
        self.answers = {"GetState": ("a{sv}", [dict(STATE)]), "GetAll": ("a{sv}", [properties()])}
        self.calls = []  # (member, sender)
        self._connection = Stream.over(connected(unix_addresses(bus.address), bus.uid), bus.uid)
        self._silenced = []
        self._replies = set()  # serials that were answered
        self._call(*BUS, "Hello")
        for name in names:
            self.request(name)
        self.pump()

    def request(self, name):
        self._call(*BUS, "RequestName", "su", name, 0)

    def release(self, name):
        self._call(*BUS, "ReleaseName", "s", name)
        self.pump()

    def signal(self, member, signature, body, *, interface=extension.NAME, path=extension.OBJECT_PATH, to=None):
        message = Message.new_signal(path, interface, member, signature, body)
        message.destination = to
        self._queue(message)

    def call(self, to, member, signature="", *body):
        self._call(to, "/", "org.asa.Test", member, signature, *body)

    def flush(self):
        self._connection.flush()

    def pump(self):
        """Answer what has come."""
        try:
            for message in self._connection.receive():
                if message.kind is MessageType.method_call:
                    self.calls.append((message.field(HeaderFields.member), message.field(HeaderFields.sender)))
                    self._answer(message)
                else:
                    self._replies.add(message.field(HeaderFields.reply_serial))
            self._connection.flush()
        except BusError:
            return  # its bus is gone

    def flood(self, count, send):
        """Call `send(number)` `count` times; returns when the bus has passed all of it on."""
        for number in range(count):
            send(number)
            until(self._sent, "the bus takes it")
        serial = self._call(*BUS, "GetId")
        self._connection.flush()
        until(lambda: self.pump() or serial in self._replies, "the bus's answer")

    def speak_again(self):
        """Answer what was left unanswered."""
        waiting, self._silenced = self._silenced, []
        for message in waiting:
            self._answer(message)
        self.pump()

    def close(self):
        self._connection.close()

    def _sent(self):
        self._connection.flush()
        return not self._connection.waits_to_send

    def _call(self, destination, path, interface, member, signature="", *body):
        return self._queue(Message(destination, path, interface, member, signature=signature, body=list(body)))

    def _queue(self, message):
        connection = self._connection
        connection._serial += 1
        message.serial = connection._serial
        data = bytes(message._marshall(False))
        connection._out.append((data, []))
        connection._out_bytes += len(data)
        return message.serial

    def _answer(self, call):
        member = call.field(HeaderFields.member)
        answer = self.answers.get(member, ("error", "org.asa.No"))
        if callable(answer):
            answer = answer(*call.body())
        asked = Message("a.b", "/", None, member, serial=call.header.serial)
        asked.sender = call.field(HeaderFields.sender)
        if answer is None:
            self._silenced.append(call)
        elif answer[0] == "error":
            self._queue(Message.new_error(asked, answer[1], "no"))
        else:
            self._queue(Message.new_method_return(asked, *answer))


def properties(version=None, shell="43.9"):
    """What GetAll of the extension's interface answers."""
    version = Variant("u", extension.API_VERSION) if version is None else version
    return {"ApiVersion": version, "ShellVersion": Variant("s", shell)}


def state(**changes):
    """STATE with changed values; '-' is written '_'. None leaves the key out."""
    changed = dict(STATE)
    for key, value in changes.items():
        name = key.replace("_", "-")
        if value is None:
            del changed[name]
        else:
            changed[name] = value if isinstance(value, Variant) else Variant(changed[name].signature, value)
    return changed
