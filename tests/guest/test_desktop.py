# SPDX-License-Identifier: GPL-2.0-only
"""A desktop from end to end: GNOME Shell, ASA's extension, the daemon in the session, the helper as root, sched_ext.

All of it is as `asa install` and `asa gnome install` leave it, and each is another process with its own rights: what is
focused and typed goes over the user's bus, what is switched over the system's, and the news comes back to the shell.
"""

import json
import shutil
import sqlite3
import subprocess
from collections import deque
from contextlib import contextmanager, suppress
from pathlib import Path

import box_shell  # it lies in a folder of its own, because tests of other parts use it too
import pytest
from agents import attached, clean_machine
from waiting import until

from asa import paths
from asa.core import kinds
from asa.core.errors import JournalError
from asa.decide import tablefile
from asa.journal import Journal
from models.runtime import Ensemble
from scenarios import planted, workloads
from scenarios.lab.box import installed as box_asa
from scenarios.lab.box.machine import Box, end

LIMIT_S = 120.0  # emulated, on a shared host
LABEL, SCHEDULER, OPS = "cpu", "scx_simple", "simple"
AT_HOME = ("sh", "-c", 'cd && exec "$@"', "sh")  # where it may write: stress-ng plays nowhere else
APP, TEXT = "org.asa.Notes", "to the kernel\n"


def settings(classes):
    """What nobody waits for is served by a scheduler, whatever it is taken for; a person in front must not switch."""
    served = {name: [SCHEDULER, "eevdf"] if behind(name) else ["eevdf"] for name in classes}
    whole = {
        "table": "/home/ada/.config/asa/table.yaml",
        "voting": {"open_world": False},  # which use an emulated desktop looks like is judged elsewhere
        "guard": {"enabled": False},  # it would compare a busy guest with a busier one
        "standby": {"count": 0},
        "switch": {"attach_limit_s": LIMIT_S},
    }
    return tablefile.text(planted.table(served)), json.dumps(whole)  # JSON is YAML


def behind(name):
    """Whether it is a class of work without a person in front."""
    return name != kinds.IDLE and kinds.halves(name)[0] is None


@pytest.fixture
def desktop(tmp_path):
    """A box with an installed ASA, ada's session in front, her shell with the extension, and her daemon switching."""
    with clean_machine(), Box.start() as box:
        box_asa.install(box, source=box_asa.staged(paths.default().cache))
        box_shell.prepare(box)
        table, whole = settings(Ensemble.load(paths.base_model()).classes)
        box_shell.give(box, "ada", ".config/asa/table.yaml", table)
        box_shell.give(box, "ada", ".config/asa/asa.yaml", whole)
        ada = box.login("ada")
        shell = box_shell.BoxShell(box, ada, tmp_path)
        try:
            box.run(["systemctl", "--user", "start", "--no-block", "asa.service"], session=ada, check=True)
            box.run(["asa", "gnome", "install"], session=ada, env=shell.env, timeout_s=LIMIT_S, check=True)
            shell.start(LIMIT_S)
            yield Desktop(box, ada, shell)
            box.run(["systemctl", "--user", "stop", "asa.service"], session=ada, timeout_s=LIMIT_S, check=True)
        finally:
            print(Desktop(box, ada, shell).said())
            shell.stop()


class Desktop:
    """What the test does there, and what it looks at."""

    def __init__(self, box, session, shell):
        self.box, self.session, self.shell = box, session, shell
        self.run = box.path / "run/user" / str(box_shell.box_root.USERS[session.user]) / "asa"
        self.journal = shell.home / ".local/state/asa/daemon.sqlite"

    def status(self):
        """The daemon's own words, {} when there are none: the command would cost a guest seconds each time."""
        try:
            return json.loads((self.run / "status.json").read_text())
        except OSError:
            return {}

    def until(self, **wanted):
        """Wait until its status is all of this."""

        def met():
            now = self.status()
            return all(now.get(name) == value for name, value in wanted.items())

        until(met, lambda: f"{wanted} in {self.status()}", LIMIT_S)

    def in_front(self):
        """What the daemon saw of the screen last, None when it saw none: from its journal."""
        # a copy, which may be torn: SQLite would follow the link of /proc that is the box's root to this machine's
        copy = self.shell.folder / self.journal.name
        with suppress(OSError, JournalError, sqlite3.Error):
            for suffix in ("-wal", ""):
                shutil.copyfile(f"{self.journal}{suffix}", f"{copy}{suffix}")
            with Journal.look(copy) as journal:
                for session in journal.sessions():
                    for last in deque(journal.samples(session.number), maxlen=1):
                        return last.desktop
        return None

    @contextmanager
    def workload(self, label):
        """Real programs of that workload, in ada's session."""
        entry = workloads.find(label)
        setting = workloads.Setting(cpus=2, disk=Path("/none"), disk_mb=None, port=0, io_uring=False, lab=True)
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        programs = [
            self.box.spawn([*AT_HOME, *program.argv], session=self.session, **silent)
            for program in workloads.programs(entry, 0, setting)
        ]
        try:
            yield
            assert all(program.poll() is None for program in programs)
        finally:
            for program in programs:
                end(program)

    def said(self):
        """What the parts said, for a test that fails."""
        daemon = self.box.run(["journalctl", "--no-pager", "--output=cat", "_SYSTEMD_USER_UNIT=asa.service"]).stdout
        return "\n".join((daemon[-2000:], self.box.journal(box_asa.UNIT)[-2000:], json.dumps(self.status())))


def in_front(desktop, app):
    """What the daemon saw last, if that was a window of this application and the processes behind it."""
    seen = desktop.in_front()
    return seen if seen is not None and seen.window_class == app and seen.focus is not None else None


def test_from_the_keyboard_to_the_kernel_and_back_to_the_screen(desktop):
    shell = desktop.shell
    desktop.until(mode="switching", scheduler="eevdf")
    # the person opens a window, and types
    window = shell.open_window("Notes", APP)
    seen = until(lambda: in_front(desktop, APP), lambda: f"{APP} in {desktop.in_front()}", LIMIT_S)
    assert (seen.source, seen.overview) == ("gnome", False)
    assert seen.focus.processes > 0
    shell.type_keys(TEXT)
    window.said(f"text {len(TEXT)}")
    until(
        lambda: (now := in_front(desktop, APP)) is not None and now.input_events > seen.input_events,
        lambda: f"input after {seen} in {desktop.in_front()}",
        LIMIT_S,
    )
    # programs play: that they work behind is seen, and the scheduler for it comes
    desktop.until(scheduler="eevdf")  # a window that opens is much like them
    with desktop.workload(LABEL):
        desktop.until(scheduler=SCHEDULER)
        assert behind(desktop.status()["workload"])
        assert attached() == OPS
        # an administrator takes it out by Alt-SysRq-S: that counts, and the person is told
        Path("/proc/sysrq-trigger").write_text("S")
        desktop.until(mode="hold", scheduler="eevdf")
        assert attached() == ""
        shell.notified("ASA is on hold")
        desktop.box.run(["asa", "resume"], session=desktop.session, timeout_s=LIMIT_S, check=True)
        desktop.until(mode="switching", scheduler=SCHEDULER)
        assert attached() == OPS
    told = json.loads(desktop.box.run(["asa", "status", "--json"], session=desktop.session, timeout_s=LIMIT_S).stdout)
    assert (told["running"], told["agent"]["pid"]) == (True, desktop.status()["pid"])
