# SPDX-License-Identifier: GPL-2.0-only
"""`asa hold`, `asa switch` and `asa resume` with the real agent and real schedulers. Runs as root inside the lab."""

import os
import signal

import pytest
from agents import agent, asa, attached, clean_machine, eventually, pid_of, seen


@pytest.fixture(autouse=True)
def before_and_after():
    with clean_machine():
        yield


def test_the_users_word_goes_before_the_agents(tmp_path):
    with agent(tmp_path, "scx_simple") as running:
        running.until_said("eevdf -> scx_simple in")
        held = asa("hold", "1h")
        assert held.returncode == 0, held.stderr
        assert held.stdout.startswith("held by the user until ")
        assert held.stdout.endswith("; scx_simple in force\n")

        flash = asa("switch", "scx_flash")
        assert flash.returncode == 0, flash.stderr + flash.stdout
        assert flash.stdout == "scx_flash is in force: held by the user on scx_flash until `asa resume`\n"
        assert attached().startswith("flash")

        os.kill(pid_of("scx_flash"), signal.SIGKILL)
        now = seen(mode="hold", scheduler="eevdf", chosen=None, set_aside=[])
        assert now["mode_reason"].startswith("scx_flash, chosen by hand, ended by itself, and the kernel is on eevdf")
        assert attached() == ""

        assert asa("switch", "eevdf", "1h").returncode == 0
        refused = asa("switch", "scx_nest")
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "scx_nest: not on PATH" in refused.stderr

        assert asa("resume").returncode == 0
        assert eventually(lambda: attached().startswith("simple"))
