# SPDX-License-Identifier: GPL-2.0-only
"""What is in front by control groups alone: GNOME's mark, the only application, and where groups do not tell."""

import os

import pytest

from asa.core.sample import GroupUsage
from collectors.hints.front import MARK, application

SESSION = "user.slice/user-1000.slice/user@1000.service/app.slice"
MAIL, PAINT = f"{SESSION}/app-gnome-mail-7.scope", f"{SESSION}/app-gnome-paint-8.scope"
TERMINAL = f"{SESSION}/app-org.gnome.Terminal.slice"


class Machine:
    """Control groups below `sys`, with GNOME's marks."""

    def __init__(self, sys):
        self.sys = sys
        self.root = sys / "fs/cgroup"
        self.root.mkdir(parents=True)
        (self.root / "cgroup.controllers").write_text("cpu\n")

    def mark(self, path, text):
        (self.root / path).mkdir(parents=True, exist_ok=True)
        os.setxattr(self.root / path, MARK, text)

    def front(self, *paths, known=("mail", "paint", "dropbox", "chat", "org.gnome.Terminal")):
        groups = GroupUsage(cpu_us=tuple((path, 1) for path in paths))
        return application(groups, self.sys, 1000, lambda name: name in known)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_gnome_marks_the_one_that_has_the_focus(machine):
    machine.mark(MAIL, b"73958211180")  # when it lost it, in us
    machine.mark(PAINT, b"-1")
    assert machine.front(MAIL, PAINT) == "paint"
    machine.mark(PAINT, b"73961034567")
    machine.mark(MAIL, b"-1")
    assert machine.front(MAIL, PAINT) == "mail"
    assert machine.front(MAIL, PAINT, known=()) == "mail"  # of an application without an entry, too


def test_a_terminals_mark_is_on_a_group_within_its_slice(machine):
    machine.mark(f"{TERMINAL}/gnome-terminal-server.service", b"-1")
    assert machine.front(MAIL, TERMINAL) == "org.gnome.Terminal"


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        ((MAIL, "system.slice/cron.service"), "mail"),
        ((MAIL, MAIL.replace("-7", "-9")), "mail"),  # two of its windows
        ((MAIL, PAINT), ""),  # nobody tells which
        ((MAIL, f"{SESSION}/app-dropbox@autostart.service"), "mail"),
        ((MAIL, f"{SESSION}/dbus-:1.2-chat@0.service"), "mail"),
        ((MAIL, PAINT.replace("1000", "1001")), "mail"),  # another user's
        ((f"{SESSION}/app-unheard.of-3.scope",), ""),
        ((), ""),
    ],
)
def test_without_a_mark_the_only_application(machine, paths, name):
    assert machine.front(*paths) == name


def test_marks_that_are_none_and_no_groups_at_all(machine, tmp_path):
    machine.mark(MAIL, b"-2")
    machine.mark(PAINT, b"")
    assert machine.front(MAIL, PAINT) == ""
    assert application(None, tmp_path, 1000, lambda _: True) == ""
    assert application(GroupUsage(cpu_us=((MAIL, 1),)), tmp_path / "none", 1000, lambda _: True) == ""
