# SPDX-License-Identifier: GPL-2.0-only
"""What is compiled for the lab: a build that is killed takes its tools along, and the next one removes what it left."""

import os
import select
import signal
import subprocess
import sys

from scenarios.lab import building

BUILD = """
import os, sys
from pathlib import Path
from scenarios.lab.building import Tools, folder_of_build

place = Path(sys.argv[1])
with folder_of_build(place, "building-", 1) as part:
    (part / "half.o").write_text("half")
    tools = Tools(what="it", folder=part, log=place / "log", packages=(), env={})
    for line in tools.steps(["sh", "-c", "echo $$; exec sleep 60"]):
        pass
"""


def _tool(log):
    """The process id that the tool has written, once it is there."""
    for _ in range(1000):
        if log.exists() and log.read_text().endswith("\n"):
            return int(log.read_text())
        select.select([], [], [], 0.01)
    raise AssertionError("the tool did not start")


def test_a_killed_build_takes_its_tools_along_and_the_next_removes_what_it_left(tmp_path):
    owner = subprocess.Popen([sys.executable, "-c", BUILD, str(tmp_path)])
    with owner:
        tool = os.pidfd_open(_tool(tmp_path / "log"))
        owner.send_signal(signal.SIGKILL)
    try:
        assert select.select([tool], [], [], 10)[0], "the tool outlived its owner"
    finally:
        os.close(tool)
    (left,) = tmp_path.glob("building-*")
    assert (left / "half.o").read_text() == "half"
    with building.folder_of_build(tmp_path, "building-", 1) as part:
        assert [path.name for path in tmp_path.glob("building-*")] == [part.name]
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
