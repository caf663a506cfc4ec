# SPDX-License-Identifier: GPL-2.0-only
"""`asa hold`, `asa switch` and `asa resume` with the real agent and real schedulers. Runs as root inside the lab."""

import os
import signal
import subprocess
import sys

import pytest
from agents import agent, asa, attached, clean_machine, eventually, pid_of, seen

CLIENT = """
import time
from asa import requests
from asa.lease import Lease, Note
folder, agent = requests.agent()
lease = Lease(folder, Note(lease="one", client="bot", what="it tries scx_flash", pid=1, since_ns=0))
wish = requests.Switch(scheduler="scx_flash", client="bot", lease="one", until_ns=time.time_ns() + 3600 * 10**9)
after = requests.ask(folder, agent, wish, settled=lambda found: found.scheduler == "scx_flash", limit_s=90.0)
print(after.scheduler, flush=True)
time.sleep(3600)
"""
"""A client of MCP, as far as the agent knows: it is killed in its trial."""


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

        client = subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, text=True)
        try:
            assert client.stdout.readline() == "scx_flash\n"
            assert attached().startswith("flash")
        finally:
            client.kill()
            client.communicate()
        assert eventually(lambda: attached().startswith("simple"))
        assert seen(scheduler="scx_simple", held=False)["mode"] == "switching"
