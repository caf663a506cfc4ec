# SPDX-License-Identifier: GPL-2.0-only
"""What happens to a laptop, with the whole agent on a real kernel: battery saver, a processor that goes, tasks that are
frozen for a suspend, schedulers that the kernel refuses after an update.

Runs as root inside the lab. The lab's machine has no battery, so a file is put where its platform profile would be.
No machine is suspended: `pm_test` (Documentation/power/basic-pm-debugging.rst) freezes all tasks and thaws them again.
"""

import json
import subprocess
from pathlib import Path

import pytest
from agents import (
    SECOND_CPU,
    SYS,
    agent,
    asa,
    attached,
    clean_machine,
    eventually,
    other_portfolio,
    pid_of,
)

from asa import paths
from asa.act.kernel import sched_ext_state
from asa.status import read as read_status
from models.runtime import Ensemble
from scenarios import planted

ACPI = SYS / "firmware/acpi"
POWER = SYS / "power"


@pytest.fixture(autouse=True)
def before_and_after():
    with clean_machine():
        yield


@pytest.fixture
def profile():
    """The platform profile, which anybody may write here."""
    subprocess.run(["mount", "-t", "tmpfs", "none", str(ACPI)], check=True)
    file = ACPI / "platform_profile"
    file.write_text("balanced\n")
    yield file
    subprocess.run(["umount", str(ACPI)], check=True)


@pytest.fixture
def second_cpu():
    yield SECOND_CPU
    SECOND_CPU.write_text("1")


def classes():
    return Ensemble.load(paths.base_model()).classes


def table_of(folder, *entries):
    """A table that has these for every class."""
    path = folder / "power.yaml"
    planted.write(path, dict.fromkeys(classes(), entries))
    return str(path)


def told(running, what=lambda _: True, **wanted):
    """The first status that is all of this and of which `what` is true."""
    box = [None]

    def so():
        box[0] = now = read_status(paths.default().run)
        return now is not None and all(getattr(now, name) == value for name, value in wanted.items()) and what(now)

    assert eventually(so), (box, running.said())
    return box[0]


def ready(now):
    return [one.scheduler for one in now.standbys if one.ready]


def test_battery_saver_is_followed_both_ways(tmp_path, profile):
    saving = planted.entry("scx_bpfland:powersave", efficient=True)
    table = table_of(tmp_path, "scx_simple", "eevdf", saving)
    with agent(tmp_path, "scx_simple", table=table) as running:
        assert "battery saver" not in told(running, scheduler="scx_simple", reason="served").sentence
        profile.write_text("low-power\n")
        now = told(running, scheduler="scx_bpfland:powersave", reason="served")
        assert now.sentence.endswith("on battery saver")
        assert [place.scheduler for place in now.ranking] == ["scx_bpfland:powersave", "eevdf", "scx_simple"]
        assert attached().startswith("bpfland")
        assert b"powersave" in Path(f"/proc/{pid_of('scx_bpfland')}/cmdline").read_bytes()
        profile.write_text("balanced\n")
        now = told(running, scheduler="scx_simple", reason="served", switches=3)
        assert (now.failures, now.set_aside) == (0, [])
        assert running.end() == 0


def served_by_one_with_another_standing_by():
    """Whatever the guest is taken for, scx_simple serves; scx_flash would serve a game beside a download."""
    return {name: ["scx_flash" if name == "play+network" else "scx_simple"] for name in classes()}


def stays_in_force(running):
    """Three more ticks, with the standby ready, and nothing was held against anybody. Gives the standby's pid."""
    ticks = told(running).ticks + 3
    now = told(running, lambda now: now.ticks >= ticks and ready(now) == ["scx_flash"] and attached() == "simple")
    assert (now.switches, now.failures, now.set_aside) == (1, 0, []), running.said()
    return pid_of("scx_flash")


def test_a_processor_that_goes_under_the_agent_and_comes_back(tmp_path, second_cpu):
    served = served_by_one_with_another_standing_by()
    with agent(tmp_path, served=served) as running:
        running.until_said("eevdf -> scx_simple in")
        waiting = stays_in_force(running)
        for word in ("0", "1"):
            sequence = sched_ext_state(SYS).enable_seq
            second_cpu.write_text(word)
            assert eventually(lambda old=sequence: sched_ext_state(SYS).enable_seq > old), word  # it loads itself anew
            assert eventually(lambda old=waiting: pid_of("scx_flash") not in (old, None)), word  # and the standby too
            waiting = stays_in_force(running)
        assert running.end() == 0


def freeze():
    """As at the beginning of a suspend, and back. Raises OSError when not all tasks could be frozen."""
    (POWER / "pm_test").write_text("freezer")
    try:
        (POWER / "state").write_text("freeze")
    finally:
        (POWER / "pm_test").write_text("none")


def test_tasks_are_frozen_and_thawed_under_a_scheduler_and_a_standby(tmp_path):
    served = served_by_one_with_another_standing_by()
    with agent(tmp_path, served=served) as running:
        running.until_said("eevdf -> scx_simple in")
        waiting = stays_in_force(running)
        for _ in range(2):
            freeze()
            assert stays_in_force(running) == waiting
        asa("switch", "scx_flash")
        last = told(running, scheduler="scx_flash").lately[-1]
        assert (last.outcome, last.way) == ("confirmed", "standby")
        assert running.end() == 0


def test_one_that_the_kernel_refuses_after_an_update_is_set_aside(tmp_path, monkeypatch):
    # the real one, shown the types of another kernel: as after an update, it does not load
    other = tmp_path / "other.btf"
    other.write_bytes(Path("/sys/kernel/btf/vmlinux").read_bytes()[:4096])
    real = json.loads((paths.default().schedulers / "installed.json").read_text())["schedulers"]["scx_bpfland"]["path"]
    wrapped = tmp_path / "scx_bpfland"
    wrapped.write_text(f'#!/bin/sh\nexec {real} --btf-custom-path {other} "$@"\n')
    wrapped.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(other_portfolio(tmp_path, scx_bpfland=wrapped)))
    with agent(tmp_path, "scx_bpfland", "scx_simple") as running:
        now = told(running, scheduler="scx_simple")
        assert now.set_aside == ["scx_bpfland"]
        refused = next(one for one in now.lately if one.new == "scx_bpfland")
        assert refused.outcome == "refused"
        assert "Failed to load BPF program" in refused.detail
        (line,) = [line for line in running.said().splitlines() if "set aside, eevdf stays" in line]
        assert "Failed to load BPF program" in line
        assert running.end() == 0
