# SPDX-License-Identifier: GPL-2.0-only
"""Where a desktop's bus is, out of its D-Bus address."""

import pytest

from collectors.session import unix_addresses


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("unix:path=/run/user/1000/bus", ["/run/user/1000/bus"]),
        ("unix:path=/run/a%20b,guid=00", ["/run/a b"]),
        ("unix:abstract=/tmp/dbus-x,guid=1;unix:path=/b", ["\0/tmp/dbus-x", "/b"]),
        ("tcp:host=localhost,port=1;autolaunch:", []),
        ("", []),
        (";;unix:;=", []),
    ],
)
def test_addresses(address, names):
    assert unix_addresses(address) == names
