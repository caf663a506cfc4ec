# SPDX-License-Identifier: GPL-2.0-only
"""sd_notify(3) over a real socket."""

import os
import socket

import pytest

from asa.sd_notify import ServiceManager


class Listener(socket.socket):
    """With the address as NOTIFY_SOCKET has it."""

    address = ""


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    with Listener(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listener:
        if request.param == "path":
            listener.bind(str(tmp_path / "notify"))
            listener.address = str(tmp_path / "notify")
        else:
            listener.bind("")  # the kernel makes up a name
            listener.address = "@" + listener.getsockname()[1:].decode()
        yield listener


def heard(listener):
    found = []
    while True:
        try:
            found.append(listener.recv(4096).decode())
        except BlockingIOError:
            return found


def test_a_life(systemd):
    environment = {
        "NOTIFY_SOCKET": systemd.address,
        "WATCHDOG_USEC": "30000000",
        "WATCHDOG_PID": str(os.getpid()),
        "X": "",
    }
    manager = ServiceManager(environment)
    assert environment == {"X": ""}  # no child speaks for us
    assert manager.watchdog_s == 30.0
    manager.ready()
    manager.alive()
    manager.patience(100.0)
    manager.patience(1.0)  # never less than the unit says
    manager.patience(None)
    manager.stopping()
    assert heard(systemd) == [
        "READY=1",
        "WATCHDOG=1",
        "WATCHDOG_USEC=100000000\nWATCHDOG=1",
        "WATCHDOG_USEC=30000000\nWATCHDOG=1",
        "WATCHDOG_USEC=30000000\nWATCHDOG=1",
        "STOPPING=1",
    ]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "-5"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"},
    ],
)
def test_without_a_watchdog(systemd, environment):
    manager = ServiceManager({"NOTIFY_SOCKET": systemd.address, **environment})
    assert manager.watchdog_s is None
    manager.alive()
    manager.patience(10.0)
    assert heard(systemd) == []
    manager.ready()
    assert heard(systemd) == ["READY=1"]


@pytest.mark.parametrize("address", ["", "nonsense", "/does/not/exist", "@asa-nobody-listens", "/" + "x" * 300])
def test_nobody_listens(address):
    manager = ServiceManager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"})
    manager.ready()
    manager.alive()
    manager.stopping()
