# SPDX-License-Identifier: GPL-2.0-only
"""Boxes for these tests: whole machines in namespaces, each with real systemd, D-Bus, polkit and logind."""

import os

import pytest

from scenarios.lab.box import installed as box_asa
from scenarios.lab.box.machine import Box

_ROOTLESS = os.geteuid() != 0 and os.environ.get("CI") != "true"


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/system/" in str(item.path):
            item.add_marker(pytest.mark.root)
            if _ROOTLESS:
                item.add_marker(pytest.mark.skip(reason="needs root: run the tests by sudo, or with CI=true"))


@pytest.fixture(scope="module")
def box():
    with Box.start() as box:
        yield box


@pytest.fixture(scope="session")
def installed():
    """A box with ASA, as its own command installs it."""
    with Box.start() as box:
        box_asa.install(box)
        yield box


@pytest.fixture
def ada(installed):
    """The session in front."""
    session = installed.login("ada")
    yield session
    installed.logout(session)


@pytest.fixture(autouse=True)
def words(request):
    """What the helper said, where a test fails."""
    yield
    if "installed" in request.fixturenames:
        box = request.getfixturevalue("installed")
        print(box.journal(box_asa.UNIT)[-3000:])
