# SPDX-License-Identifier: GPL-2.0-only
"""What `asa doctor` says of the optional sources, on machines that have them and on one that has nothing."""

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import ClassVar

import pytest
from made_up_status import status
from tried_here import tried

from asa import doctor, paths
from asa.act.loader_facts import LoaderFacts
from asa.bus import BusError
from asa.config import CollectSettings
from asa.core.errors import SourceError
from asa.decide import learning, table
from asa.decide.learning import Learning
from asa.doctor import Level, examine
from asa.status import Switched
from collectors.ebpf.layout import PROGRAMS
from collectors.gnome.install import Condition, Status
from collectors.procfs.gpu import GpuCollector
from models.runtime import Ensemble

FDINFO = "drm-driver:\ti915\ndrm-pdev:\t0000:00:02.0\ndrm-client-id:\t1\ndrm-engine-render:\t5 ns\n"


@pytest.fixture
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/none")  # this machine's units are not asked
    for folder in ("proc", "sys"):
        (tmp_path / folder).mkdir()
    config = tmp_path / "asa.yaml"
    config.write_text("collect: {ebpf: off, desktop: false}\n")
    return paths.Places(
        proc=tmp_path / "proc", sys=tmp_path / "sys", cache=tmp_path, config=config, state=tmp_path / "state"
    )


def findings(places):
    return {finding.subject: finding for finding in examine(places)}


def test_a_machine_that_has_nothing(places):
    found = findings(places)
    for source in ("gpu", "groups", "cpu"):
        assert found[f"source {source}"].level is Level.WARNING
    assert "no GPU with a DRM driver" in found["source gpu"].text
    assert "no cgroups" in found["source groups"].text
    assert "GPU" not in found
    assert "collect.ebpf" in found["eBPF"].text


def test_schedulers_are_built_for_a_kernel_that_loads_them_alone(places):
    found = findings(places)
    assert (found["schedulers"].level, found["schedulers"].command) == (Level.MISSING, ())
    assert "scx_lavd, " in found["more schedulers"].text
    assert "scx_lavd" not in found
    assert "put a binary on PATH" in found["scx_nest"].text  # nothing here can get it
    (places.sys / "kernel/sched_ext").mkdir(parents=True)
    (places.sys / "kernel/sched_ext/state").write_text("disabled\n")
    (places.sys / "kernel/sched_ext/enable_seq").write_text("0\n")
    assert findings(places)["schedulers"].command == ("sudo", "asa", "schedulers", "install")


def test_what_the_distribution_has_is_recorded_and_nothing_built(places, tmp_path, monkeypatch):
    for name in ("scx_lavd", "scx_flash"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = findings(places)
    assert found["schedulers"].command == ("sudo", "asa", "schedulers", "install", "scx_flash", "scx_lavd")
    assert "scx_flash, scx_lavd are on PATH" in found["schedulers"].text
    assert "scx_lavd" not in found["more schedulers"].text


def test_what_is_there_is_shown(places):
    (places.sys / "class/drm/renderD128").mkdir(parents=True)
    (places.proc / "10/fd").mkdir(parents=True)
    (places.proc / "10/fd/4").symlink_to("/dev/dri/renderD128")
    (places.proc / "10/fdinfo").mkdir()
    (places.proc / "10/fdinfo/4").write_text(FDINFO)
    group = places.sys / "fs/cgroup/system.slice/a.service"
    group.mkdir(parents=True)
    (places.sys / "fs/cgroup/cgroup.controllers").touch()
    (group / "cpu.stat").write_text("usage_usec 5\n")
    (places.proc / "10/stat").write_text(f"10 (a b) {'5 ' * 22}\n")
    found = findings(places)
    assert found["GPU"].text == "1 processes hold it; its driver tells busy time"
    assert found["control groups"].text.startswith("1 ")
    assert found["processes"].text == "counters of the 1 busiest are read, without their names"
    assert not {"source gpu", "source groups"} & found.keys()


def test_what_trials_taught(places):
    path = places.state / "learning.json"
    assert findings(places)["learning"].text == f"nothing yet ({path})"
    learning.save(path, Learning(asked=(tried("scx_one"), tried("scx_two", None))))
    assert findings(places)["learning"].text == (
        f"schedulers tried here: 2, of these 1 better, 0 worse, 0 alike ({path})"
    )
    path.write_text("{")
    found = findings(places)["learning"]
    assert found.level is Level.WARNING
    assert str(path) in found.text
    assert "begins anew" in found.text


def test_a_table_that_others_can_change_is_told_to_root(places, monkeypatch):
    own = places.state / "table.yaml"
    own.parent.mkdir()
    own.write_bytes((paths.mapping_tables() / "default.yaml").read_bytes())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(table, "unsafe", lambda path: f"{path} belongs to user 7")
    found = findings(places)["mapping table"]
    assert (found.level, f"{own} belongs to user 7" in found.text) == (Level.WARNING, True)
    assert "only root can write to" in found.remedy
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # this user's agent is this user's
    assert findings(places)["mapping table"].level is Level.OK
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    own.unlink()  # the shipped ones lie where the program does
    found = findings(places)["mapping table"]
    assert found.level is Level.OK
    assert "; measured on no machine; 0 of " in found.text


def test_a_table_of_hints_beside_the_settings_is_told_and_its_faults(places):
    places.config.parent.mkdir(exist_ok=True)
    learnt = Ensemble.load(paths.base_model()).hint_weight
    assert learnt > 0
    assert findings(places)["hints table"].text.endswith(f" and 7 signals; their weight is {learnt:g}")
    own = places.config.with_name("hints.yaml")
    own.write_text("weight: 0.5\n")
    assert findings(places)["hints table"].text.endswith(f"changed by {own}; their weight is 0.5")
    own.write_text("weight: heavy\n")
    found = findings(places)["input"]
    assert (found.level, "weight: 'heavy'" in found.text, str(own) in found.text) == (Level.MISSING, True, True)


def test_the_adviser_is_told_with_what_its_word_counts(places):
    places.config.parent.mkdir(exist_ok=True)
    assert findings(places)["adviser"].text == "off (adviser.yaml)"
    places.config.with_name("adviser.yaml").write_text("use: server\n")
    found = findings(places)["adviser"]
    assert found.text == "http://127.0.0.1:8080/v1: not examined yet; its word counts 0.50 of 1 by 0 programs"
    places.state.mkdir(exist_ok=True)
    (places.state / "adviser.json").write_text("{")
    assert findings(places)["adviser"].level is Level.WARNING


def test_broken_settings_do_not_hide_the_sources(places, monkeypatch):
    asked = []

    def note(proc, sys, settings):
        asked.append(settings)
        return [GpuCollector(proc, sys)]

    monkeypatch.setattr(doctor, "standard", note)
    places.config.write_text("collect: {ebpf: 3}\n")
    found = findings(places)
    assert found["input"].level is Level.MISSING
    assert "source gpu" in found
    assert asked == [CollectSettings()]


class Probes:
    """Stands for eBPF programs, some of which this kernel does not take."""

    name = "ebpf"
    backend = "bcc"
    lacking: ClassVar = {
        "eBPF core": "CO-RE not used: this kernel has no BTF; BCC serves",
        "input_event": "no kprobes here",
    }

    def open(self):
        pass

    def read(self):
        return {}

    def close(self):
        pass


def test_the_backend_of_the_probes_and_what_is_lost_without_a_program(places, monkeypatch):
    places.config.write_text("collect: {desktop: false}\n")
    monkeypatch.setattr(doctor, "standard", lambda *_: [Probes()])
    found = findings(places)
    total = len(PROGRAMS)
    assert found["eBPF"].text == f"bcc: {total - 1} of {total} programs are in the kernel (asked: auto)"
    assert found["eBPF core"].text == "CO-RE not used: this kernel has no BTF; BCC serves"
    lost = "input_keys, input_motions, input_flips, input_flip_ns"
    assert found["eBPF input_event"].text == f"no kprobes here; unknown without it: {lost}"
    assert not {"source eBPF core", "source input_event"} & found.keys()


def test_the_helper_has_the_probes_of_who_is_not_root(places, monkeypatch):
    class Refused(Probes):
        lacking: ClassVar = {"ebpf": "needs root (CAP_BPF and CAP_PERFMON)"}

    places.config.write_text("collect: {desktop: false}\n")
    monkeypatch.setattr(doctor, "standard", lambda *_: [Refused()])
    alone = doctor.Around(uid=1000, helper=False, units={}, release="6.18.0", gate=lambda _: "")
    assert {one.subject: one for one in examine(places, alone)}["source ebpf"].remedy == "sudo asa run"
    found = {one.subject: one for one in examine(places, dataclasses.replace(alone, helper=True))}
    assert "source ebpf" not in found
    assert "the root helper loads the probes" in found["eBPF"].text


def test_probes_that_do_not_come_up_say_why(places, monkeypatch):
    def fail(self):
        raise SourceError(source="ebpf", reason="needs root (CAP_BPF and CAP_PERFMON)")

    places.config.write_text("collect: {desktop: false}\n")
    monkeypatch.setattr(Probes, "open", fail)
    monkeypatch.setattr(doctor, "standard", lambda *_: [Probes()])
    found = findings(places)
    assert "needs root" in found["source ebpf"].text
    assert found["source ebpf"].remedy == "sudo asa run"
    assert "eBPF" not in found


@pytest.mark.root
def test_the_probes_of_this_kernel():
    if os.geteuid() != 0:
        assert "CI" not in os.environ
        pytest.skip("needs root: sudo makes it run")
    found = findings(paths.Places(config=Path("/nowhere/asa.yaml")))
    assert found["eBPF"].text.startswith("core: ")


@pytest.fixture
def switching(places):
    folder = places.sys / "kernel/sched_ext"
    folder.mkdir(parents=True)
    (folder / "state").write_text("disabled\n")
    (folder / "enable_seq").write_text("0\n")
    return places


@pytest.mark.parametrize(
    ("settings", "why", "level", "text"),
    [
        ("", "", Level.OK, "by the gate"),
        ("", "no seccomp", Level.WARNING, "stop, then start, with seconds between them: no seccomp"),
        ("switch: {gate: off}", "", Level.OK, "stop, then start, with seconds between them: switch.gate is off"),
        ("nonsense: 1", "", Level.OK, "by the gate"),
    ],
)
def test_the_way_of_switching_and_why_not_the_better_one(switching, monkeypatch, settings, why, level, text):
    tried = []
    monkeypatch.setattr(doctor, "unusable", lambda folder: tried.append(folder) or why)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with switching.config.open("a") as file:
        file.write(settings)
    found = findings(switching)["switching"]
    assert found.level is level
    assert found.text.startswith(text)
    assert all(folder != switching.run and not folder.exists() for folder in tried)
    assert bool(tried) == ("gate: off" not in settings)


@pytest.mark.parametrize("lacks", ["root", "sched_ext"])
def test_where_nothing_can_be_switched_the_way_is_not_tried(switching, monkeypatch, lacks):
    monkeypatch.setattr(doctor, "unusable", lambda folder: pytest.fail("tried"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000 if lacks == "root" else 0)
    if lacks == "sched_ext":
        (switching.sys / "kernel/sched_ext/state").unlink()
    assert "switching" not in findings(switching)


STATUS = "Name:\t{name}\nState:\tS (sleeping)\nPPid:\t1\nUid:\t0\t0\t0\t0\n"


def put(places, pid, name, *words, unit):
    folder = places.proc / str(pid)
    folder.mkdir()
    (folder / "status").write_text(STATUS.format(name=name))
    (folder / "cmdline").write_text("\0".join([name, *words, ""]))
    (folder / "cgroup").write_text(f"0::/system.slice/{unit}\n")


def rivals_in(places):
    return [finding for finding in examine(places) if finding.subject == "rival"]


def test_a_second_master_is_what_keeps_us_from_switching(places):
    put(places, 7, "scx_loader", "--auto", unit="scx_loader.service")
    put(places, 8, "tuned", unit="tuned.service")
    put(places, 9, "gamemoded", unit="gamemoded.service")
    master, priorities, harmless = rivals_in(places)
    assert (master.level, master.needed) == (Level.MISSING, True)
    assert "scx_lavd by the load" in master.text
    assert master.remedy.startswith("systemctl disable --now scx_loader.service; sudo asa doctor --fix")
    assert (priorities.level, priorities.needed) == (Level.WARNING, False)
    assert priorities.remedy == "systemctl disable --now tuned.service"
    assert (harmless.level, harmless.remedy) == (Level.OK, "")


@pytest.mark.parametrize(("backend", "level"), [("own", Level.MISSING), ("loader", Level.OK)])
def test_a_loader_that_takes_our_orders_is_no_rival(places, backend, level):
    put(places, 7, "scx_loader", unit="scx_loader.service")
    put(places, 8, "scx_flash", unit="scx_loader.service")
    (places.proc / "8/status").write_text(STATUS.format(name="scx_flash").replace("PPid:\t1", "PPid:\t7"))
    with places.config.open("a") as file:
        file.write(f"switch: {{backend: {backend}}}\n")
    (rival,) = rivals_in(places)
    assert rival.level is level
    assert ("switch.backend: loader" in rival.remedy) == (level is Level.MISSING)


@pytest.mark.parametrize(("backend", "level"), [("own", Level.OK), ("loader", Level.WARNING)])
def test_what_scx_loader_says_and_whom_it_refuses(places, backend, level):
    with places.config.open("a") as file:
        file.write(f"switch: {{backend: {backend}}}\n")
    facts = LoaderFacts(knows=("scx_lavd",), told="scx_lavd", mode="gaming", stands_for={"gaming": ("--performance",)})
    around = doctor.Around(uid=0, helper=True, units={}, release="7.1.0", gate=lambda _: "", loader=facts)
    found = {one.subject: one for one in examine(places, around)}["scx_loader"]
    assert found.text.startswith("knows 1 schedulers; was told scx_lavd in mode gaming: --performance")
    assert found.level is level
    assert ("it refuses scx_" in found.text, "scx_simple" in found.remedy) == (backend == "loader",) * 2


def test_nobody_else(places):
    assert findings(places)["rivals"].level is Level.OK


def test_switching_by_the_loader_is_said(switching, monkeypatch):
    monkeypatch.setattr(doctor, "unusable", lambda folder: pytest.fail("tried"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with switching.config.open("a") as file:
        file.write("switch: {backend: loader}\n")
    assert "through scx_loader" in findings(switching)["switching"].text


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("none integrity [confidentiality]\n", Level.MISSING),
        ("none [integrity] confidentiality\n", Level.OK),
        ("[none] integrity confidentiality\n", None),
    ],
)
def test_lockdown_is_named(places, text, level):
    (places.sys / "kernel/security").mkdir(parents=True)
    (places.sys / "kernel/security/lockdown").write_text(text)
    found = findings(places).get("lockdown")
    assert (found.level if found else None) is level
    if level is Level.MISSING:
        assert "confidentiality" in found.text
        assert "lockdown=integrity" in found.remedy


def test_lockdown_by_the_command_line_where_securityfs_is_not_mounted(places):
    (places.proc / "cmdline").write_text("root=/dev/vda quiet lockdown=confidentiality\n")
    assert findings(places)["lockdown"].level is Level.MISSING


def test_a_kernel_without_lockdown_does_not_heed_the_command_line(places):
    (places.proc / "cmdline").write_text("root=/dev/vda quiet lockdown=confidentiality\n")
    (places.sys / "kernel/security").mkdir(parents=True)
    (places.sys / "kernel/security/lsm").write_text("capability,yama,bpf")
    assert "lockdown" not in findings(places)


def test_isolated_cpus_are_named_before_a_switch_is_tried(places):
    (places.sys / "devices/system/cpu").mkdir(parents=True)
    (places.sys / "devices/system/cpu/isolated").write_text("2-3\n")
    found = findings(places)["isolated CPUs"]
    assert (found.level, found.needed) == (Level.MISSING, True)
    assert found.text.startswith("CPUs 2-3 are isolated")


def test_schedulers_of_control_groups_are_named(places):
    group = places.sys / "fs/cgroup/game.scope"
    group.mkdir(parents=True)
    sub = places.sys / f"kernel/sched_ext/root/sub/sub-{group.stat().st_ino}"
    sub.mkdir(parents=True)
    for path, text in (("state", "enabled"), ("enable_seq", "1"), ("root/ops", "qmap")):
        (places.sys / "kernel/sched_ext" / path).write_text(f"{text}\n")
    (sub / "ops").write_text("inner\n")
    (sub / "events").write_text("SCX_EV_INSERT_NOT_OWNED 1\n")
    found = findings(places)
    assert found["sub-scheduler"].text.startswith("inner schedules /game.scope, and ends")
    assert found["events of inner"].level is Level.OK


def test_malformed_type_information_is_named(places):
    assert "is missing" in findings(places)["BTF"].text
    (places.sys / "kernel/btf").mkdir(parents=True)
    (places.sys / "kernel/btf/vmlinux").write_bytes(b"\x9f\xeb\x01\x00" + bytes(100))
    found = findings(places)["BTF"]
    assert (found.level, found.needed) == (Level.MISSING, True)
    assert "is malformed" in found.text
    assert "most sched_ext schedulers, or all, do not load" in found.text
    assert "another build of this kernel" in found.remedy


def test_what_a_load_was_refused_for_last_is_named(places, monkeypatch):
    def switched(name, outcome, detail):
        words = {"old": "eevdf", "new": name, "way": "gated", "why": "", "ended": ""}
        return Switched(at_ns=1, outcome=outcome, detail=detail, elapsed_ns=1, gap_ns=None, **words)

    lately = (
        switched("scx_one", "refused", "scx_one: invalid BTF"),
        switched("scx_two", "refused", "scx_two: no memory"),
        switched("scx_two", "confirmed", "scx_two: confirmed"),
    )
    monkeypatch.setattr(doctor.status, "read", lambda run: status(lately=lately))
    found = findings(places)
    assert found["load of scx_one"].level is Level.WARNING
    assert "invalid BTF" in found["load of scx_one"].text
    assert "load of scx_two" not in found


def test_a_scheduler_that_a_package_has_updated_is_not_ok(places, monkeypatch):
    binary = places.cache / "host/scx_lavd"
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    record = {
        "path": str(binary),
        "origin": "path",
        "version": "1.0.0",
        "sha256": hashlib.sha256(binary.read_bytes()).hexdigest(),
        "flags": None,
        "installed": "2026-01-01T00:00:00+00:00",
    }
    places.schedulers.mkdir(parents=True)
    (places.schedulers / "installed.json").write_text(json.dumps({"schedulers": {"scx_lavd": record}}))
    assert findings(places)["scx_lavd"].level is Level.OK
    assert "schedulers" not in findings(places)
    binary.write_text("#!/bin/sh\n# an upgrade\n")
    found = findings(places)
    assert found["scx_lavd"].level is Level.WARNING
    assert "is not the recorded file" in found["scx_lavd"].text
    assert "asa schedulers record" in found["scx_lavd"].remedy
    assert found["schedulers"].level is Level.MISSING  # none is left that can be switched to
    binary.chmod(0o777)
    assert "writable by others" in findings(places)["scx_lavd"].text


class UserManager:
    """A user's systemd, which is asked for one target."""

    def __init__(self, state):
        self.state, self.closed = state, False

    def ask(self, *words):
        assert words[3:6] == ("ListUnitsByNames", "as", (["graphical-session.target"],))
        if self.state is None:
            raise BusError("nobody answers")
        return ([("graphical-session.target", "", "loaded", self.state, "dead")],)

    def close(self):
        self.closed = True


@pytest.mark.parametrize(
    ("state", "display", "remedy"),
    [
        ("inactive", "wayland-1", "put `exec systemctl --user start asa.service` into"),
        ("active", "wayland-1", "systemctl --user start asa.service"),
        (None, "wayland-1", ""),
        ("inactive", "", ""),
    ],
)
def test_a_session_without_its_agent_is_told(places, tmp_path, monkeypatch, state, display, remedy):
    unit, manager = tmp_path / "asa.service", UserManager(state)
    monkeypatch.setattr(doctor, "_UNITS", (tmp_path / "none.service", unit))
    monkeypatch.setattr(doctor, "_SYSTEMD", tmp_path)
    monkeypatch.setattr(doctor.Bus, "session", lambda: manager)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("WAYLAND_DISPLAY", display)
    assert "start" not in findings(places)  # a checkout
    unit.touch()
    found = findings(places)
    assert ("start" in found) is bool(remedy)
    if remedy:
        assert found["start"].level is Level.WARNING
        assert found["start"].remedy.startswith(remedy)
        assert bool(found["start"].command) is (state == "active")
    assert manager.closed is bool(display)


def test_without_systemd_it_says_what_to_start(places, tmp_path, monkeypatch):
    (tmp_path / "asa.service").touch()
    monkeypatch.setattr(doctor, "_UNITS", (tmp_path / "asa.service",))
    monkeypatch.setattr(doctor, "_SYSTEMD", tmp_path / "none")
    found = findings(places)["start"]
    assert "no systemd here" in found.text
    assert "asa run" in found.remedy


def test_contexts_of_selinux(places, monkeypatch):
    assert "SELinux" not in findings(places)
    (places.sys / "fs/selinux").mkdir(parents=True)
    (places.sys / "fs/selinux/enforce").write_text("1")
    monkeypatch.setattr(doctor.selinux, "wrong", lambda _: ())
    assert findings(places)["SELinux"].level is Level.OK
    monkeypatch.setattr(doctor.selinux, "wrong", lambda _: ("/usr/local/bin/asa", "/etc/asa"))
    found = findings(places)["SELinux"]
    assert found.text.startswith("enforcing; /usr/local/bin/asa and 1 more lack the context")
    assert found.command[:3] == ("sudo", "restorecon", "-R")

    def untold(_):
        raise FileNotFoundError("restorecon is missing")

    monkeypatch.setattr(doctor.selinux, "wrong", untold)
    found = findings(places)["SELinux"]
    assert (found.level, "restorecon is missing" in found.text) == (Level.OK, True)


def test_a_program_that_is_not_installed_says_how_to_install_it(places, monkeypatch):
    alone = doctor.Around(uid=1000, helper=False, units={}, release="6.18.0", gate=lambda _: "")
    found = {one.subject: one for one in examine(places, alone)}
    assert found["installation"].command == ("sudo", "asa", "install")
    beside = {one.subject for one in examine(places, dataclasses.replace(alone, helper=True))}
    monkeypatch.setattr(paths, "is_installed", lambda: True)
    installed = {one.subject for one in examine(places, alone)}
    assert "installation" not in beside | installed


@pytest.mark.parametrize(
    ("desktop", "condition", "command"),
    [
        ("ubuntu:GNOME", Condition.ABSENT, ("asa", "gnome", "install")),
        ("ubuntu:GNOME", Condition.ACTIVE, ()),
        ("ubuntu:GNOME", Condition.NOT_ENABLED, ()),  # somebody switched it off
        ("KDE", Condition.ABSENT, ()),
    ],
)
def test_the_extension_is_installed_by_who_has_a_session_of_gnome(places, monkeypatch, desktop, condition, command):
    places.config.write_text("collect: {ebpf: off}\n")
    monkeypatch.setenv("XDG_CURRENT_DESKTOP", desktop)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    told = Status(condition=condition, text=".", remedy="", shell_version=None, folder="")
    monkeypatch.setattr(doctor.Installation, "status", lambda _: told)
    monkeypatch.setattr(doctor.HostSampler, "missing", property(lambda _: {"desktop": "no desktop tells its focus"}))
    assert findings(places)["source desktop"].command == command
