# SPDX-License-Identifier: GPL-2.0-only
"""The daemon as a user unit beside the helper: without sched_ext it observes; it finds a helper that comes again."""

import json

import pytest
from waiting import until

from scenarios.lab.box import installed as box_asa

LIMIT_S = 60.0


def status(box, session):
    """What `asa status` says to the user; None: no agent is running."""
    return json.loads(box.run(["asa", "status", "--json"], session=session).stdout).get("agent")


@pytest.fixture
def daemon(installed, ada):
    installed.run(["systemctl", "--user", "start", "asa.service"], session=ada, check=True)
    until(lambda: status(installed, ada), "a status of the daemon", LIMIT_S)
    yield ada
    installed.run(["systemctl", "--user", "stop", "asa.service"], session=ada, check=True)


def ebpf(box, session):
    agent = status(box, session)
    return agent is not None and agent["backends"].get("ebpf")


def test_it_is_the_users_and_observes(installed, daemon):
    until(lambda: status(installed, daemon)["ticks"] > 2, "three ticks", LIMIT_S)
    agent = status(installed, daemon)
    assert installed.run(["ps", "-o", "user=", "-p", str(agent["pid"])]).stdout.strip() == "ada"
    assert agent["workload"] is not None or agent["probabilities"]
    if agent["mode"] == "observing":
        assert "sched_ext" in agent["mode_reason"]


def test_probes_come_back_after_the_helper_was_killed(installed, daemon):
    if not until(
        lambda: ebpf(installed, daemon) or "no BTF" in json.dumps(status(installed, daemon)), "probes", LIMIT_S
    ):
        return
    killed = box_asa.helper_pid(installed)
    installed.run(["kill", "-KILL", str(killed)], check=True)
    until(lambda: box_asa.helper_pid(installed) not in {0, killed}, "another helper", LIMIT_S)
    until(lambda: status(installed, daemon)["missing_sources"].get("ebpf") is None, "probes of the new one", LIMIT_S)


def test_no_helper_at_all_is_said_and_not_the_end(installed, ada):
    installed.systemctl("mask", "--now", "--runtime", box_asa.UNIT)
    try:
        installed.run(["systemctl", "--user", "start", "asa.service"], session=ada, check=True)
        until(lambda: (status(installed, ada) or {"ticks": 0})["ticks"] > 2, "three ticks", LIMIT_S)
        assert "ebpf" in status(installed, ada)["missing_sources"]
        assert status(installed, ada)["mode"] == "observing"
    finally:
        installed.run(["systemctl", "--user", "stop", "asa.service"], session=ada, check=True)
        installed.systemctl("unmask", "--runtime", box_asa.UNIT)
