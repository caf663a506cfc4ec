# SPDX-License-Identifier: GPL-2.0-only
"""What the Debian package's scripts tell systemd, on a tree in a folder and with stand-ins for its commands."""

import subprocess
from pathlib import Path

import pytest
import yaml

SCRIPTS = Path(__file__).resolve().parents[2] / "packaging/debian"
COMMANDS = ("asa", "systemctl", "deb-systemd-helper", "deb-systemd-invoke", "py3compile", "py3clean")


@pytest.fixture
def ran(tmp_path):
    """Runs a script; gives what it called, a line each."""
    called, commands = tmp_path / "called", tmp_path / "bin"
    commands.mkdir()
    for name in COMMANDS:
        (commands / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{called}\n')
        (commands / name).chmod(0o755)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    for user in (1000, 1001):
        manager = tmp_path / f"run/user/{user}/systemd/private"
        manager.parent.mkdir(parents=True)
        manager.touch()
    (tmp_path / "run/user/109").mkdir()  # without a service manager

    def run(script, *words):
        called.unlink(missing_ok=True)
        text = (SCRIPTS / f"asa.{script}").read_text().replace("/run/", f"{tmp_path}/run/")
        subprocess.run(["sh", "-c", text, script, *words], check=True, env={"PATH": f"{commands}:/usr/bin:/bin"})
        return called.read_text().splitlines()

    return run


def test_an_upgrade_restarts_the_helper_and_then_the_daemons_that_run(ran):
    said = ran("postinst", "configure", "0.9")
    daemons = [f"systemctl --user --machine={user}@.host" for user in (1000, 1001)]
    assert said[said.index("systemctl try-restart asa-helper.service") :] == [
        "systemctl try-restart asa-helper.service",
        "systemctl try-restart asa-system.service",
        *(f"{daemon} {what}" for daemon in daemons for what in ("daemon-reload", "try-restart asa.service")),
    ]


def test_a_first_installation_restarts_nothing(ran):
    assert not [line for line in ran("postinst", "configure", "") if "restart" in line]


def test_a_removal_ends_the_system_s_agent_before_the_helper_and_leaves_it_disabled(ran):
    said = ran("prerm", "remove")
    order = ("deb-systemd-invoke stop asa-system.service", "deb-systemd-invoke stop asa-helper.service")
    assert [line for line in said if line in order] == list(order)
    assert "systemctl --quiet disable asa-system.service" in said
    assert said.index("asa doctor --undo") > said.index(order[-1])
    upgrade = ran("prerm", "upgrade", "0.9")
    assert not [line for line in upgrade if "asa-system" in line or "--undo" in line]


def test_an_update_of_a_scheduler_has_it_recorded_anew(ran):
    assert ran("postinst", "triggered", "/usr/bin/scx_lavd") == ["asa schedulers record"]
    assert "asa schedulers record" not in ran("postinst", "configure", "0.9")


def test_each_scheduler_of_the_manifest_that_a_package_may_bring_triggers_it():
    manifest = yaml.safe_load((SCRIPTS.parents[1] / "scx_bin/manifest.yaml").read_text())
    names = {entry["name"] for entry in manifest["schedulers"] if entry["source"]["kind"] != "kernel"}
    lines = [line for line in (SCRIPTS / "asa.triggers").read_text().splitlines() if not line.startswith("#")]
    assert sorted(lines) == sorted(f"interest-noawait /usr/bin/{name}" for name in names)
