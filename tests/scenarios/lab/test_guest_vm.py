# SPDX-License-Identifier: GPL-2.0-only
"""The lab with real boots: what a guest offers, what comes back, and that nothing stays behind."""

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from asa import paths
from asa.core.errors import GuestCrashError, LabError, LabTimeoutError
from scenarios.lab import guest
from scenarios.lab.emulator import Clock

pytestmark = pytest.mark.vm

GUEST = r"""
import json, os, platform, socket, sys
from pathlib import Path

disk = os.environ["ASA_LAB_DISK"]
with open(disk, "r+b") as device:
    device.write(b"written in the guest")
Path("/tmp/scratch").write_text("writable")
Path("/dev/shm/scratch").write_text("writable")
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
facts = {
    "argv": sys.argv[2:],
    "kernel": platform.release(),
    "uid": os.getuid(),
    "cpus": os.cpu_count(),
    "sched_ext": Path("/sys/kernel/sched_ext/state").read_text().strip(),
    "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
    "disk_bytes": int(Path("/sys/block", Path(disk).name, "size").read_text()) * 512,
    "root": next(line for line in Path("/proc/mounts").read_text().splitlines() if line.split()[1] == "/"),
    "bpf": Path("/sys/fs/bpf").is_mount(),
    "me": socket.gethostbyname(socket.gethostname()),
    "folder": os.getcwd(),
    "given": os.environ["GIVEN"],
    "bytecode": sys.dont_write_bytecode,
}
packages = Path("/sys/devices/system/cpu").glob("cpu*/topology/physical_package_id")
facts["sockets"] = len({path.read_text() for path in packages})
Path(sys.argv[1]).write_text(json.dumps(facts))
print("to stdout")
print("to stderr", file=sys.stderr)
print("unfinished", end="")
sys.exit(3)
"""
LOOPING = "trap '' INT TERM; echo begun; while :; do :; done"  # a command that only the end of its machine ends
START = """
import sys
from pathlib import Path
from asa import paths
from scenarios.lab import emulator, guest, kernel

cache, out = paths.default().cache, Path(sys.argv[1])
lab = guest.Lab(kernel=kernel.found(cache), emulator=emulator.found(cache))
with guest.Guest.start(["true"], kernel=lab.kernel, emulator=lab.emulator, out=out) as one:
    print(one.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def lab():
    return guest.ready(paths.default().cache, print)


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path):
    yield
    assert [line for line in _processes() if str(tmp_path) in line] == []
    assert list(tmp_path.glob("**/.lab-*")) == []


def _processes():
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile
        if b"qemu" in words[0]:
            lines.append(b" ".join(words).decode())
    return lines


def test_a_guest_offers_what_it_promises_and_brings_everything_back(lab, tmp_path):
    script, facts = tmp_path / "guest.py", tmp_path / "out/facts.json"
    script.write_text(GUEST)
    awkward = ["two words", "$HOME `id` \"'\\", "", "é\n*"]
    normal, errors = [], []
    result = guest.run(
        [sys.executable, str(script), str(facts), *awkward],
        lab=lab,
        out=tmp_path / "out",
        on_output=normal.append,
        on_error=errors.append,
        cpus=4,
        memory_mb=1024,
        disk_mb=32,
        env={"GIVEN": "it's"},
        limit_s=120,
    )
    assert (result.exit_code, normal, errors) == (3, ["to stdout", "unfinished"], ["to stderr"])
    assert 0 < result.boot_s < guest.BOOT_LIMIT_S
    assert 0 < result.run_s < 120
    seen = json.loads(facts.read_text())
    assert seen["argv"] == awkward
    assert seen["kernel"] == lab.kernel.version
    assert (seen["uid"], seen["cpus"], seen["sockets"]) == (0, 4, 1)
    assert seen["sched_ext"] == "disabled"  # it is there, and no scheduler is attached
    assert 800 < seen["memory_mb"] <= 1024
    assert seen["disk_bytes"] == 32 << 20
    assert "cache=0xf" in seen["root"] or "cache=loose" in seen["root"]  # else every import costs four times as much
    assert " ro," in seen["root"]
    assert (seen["bpf"], seen["bytecode"]) == (True, True)
    assert seen["me"].startswith("127.")
    assert (seen["folder"], seen["given"]) == (str(Path.cwd()), "it's")
    assert not Path("/tmp/scratch").exists()  # noqa: S108  # the guest's /tmp is its own
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["console.log", "facts.json"]


def test_under_the_steady_clock_modules_load_and_a_good_end_is_zero(lab, tmp_path):
    lines = []
    command = ["sh", "-c", "modprobe tcp_bbr && lsmod"]
    result = guest.run(command, lab=lab, out=tmp_path, on_output=lines.append, clock=Clock.STEADY, limit_s=120)
    assert result.exit_code == 0
    assert any(line.startswith("tcp_bbr ") for line in lines)


def test_a_command_that_is_not_there_is_127_even_when_it_is_a_shells_own_word(lab, tmp_path):
    lines = []
    assert guest.run(["exit", "0"], lab=lab, out=tmp_path, on_output=lines.append, limit_s=60).exit_code == 127
    assert any("exit" in line and "not found" in line for line in lines)


def test_a_crash_is_told_from_a_failed_command(lab, tmp_path):
    lines = []
    command = ["sh", "-c", "echo before; echo c > /proc/sysrq-trigger; exit 5"]
    with pytest.raises(GuestCrashError, match="sysrq triggered crash") as caught:
        guest.run(command, lab=lab, out=tmp_path, on_output=lines.append, limit_s=120)
    assert lines == ["before"]
    assert str(tmp_path / "console.log") in str(caught.value)
    assert "Kernel panic" in (tmp_path / "console.log").read_text(errors="replace")


def test_a_command_over_its_limit_is_killed_with_its_machine(lab, tmp_path):
    lines = []
    with pytest.raises(LabTimeoutError, match="within 1 s"):
        guest.run(["sh", "-c", LOOPING], lab=lab, out=tmp_path, on_output=lines.append, limit_s=1)
    assert lines in ([], ["begun"])


def test_a_guest_that_hangs_at_boot_is_stopped_in_one_line(lab, tmp_path):
    stopped = ("-S",)  # its CPUs never run
    parts = {"kernel": lab.kernel, "emulator": lab.emulator, "qemu_options": stopped}
    with (
        guest.Guest.start(["true"], **parts, out=tmp_path, boot_limit_s=1) as one,
        pytest.raises(LabError, match="did not boot within 1 s; see") as caught,
    ):
        one.wait(print)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["console.log"]


def test_an_emulator_that_is_not_ours_is_named_with_what_to_do(lab, tmp_path):
    other = replace(lab, emulator=replace(lab.emulator, kvm=False, measuring=lab.emulator.binary))
    with pytest.raises(LabError, match=r"not the lab's own QEMU.*asa lab setup --guests") as caught:
        guest.run(["true"], lab=other, out=tmp_path, on_output=print, clock=Clock.PARALLEL)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_machine_ends_with_its_owner(lab, tmp_path, number):
    owner = subprocess.Popen(
        [sys.executable, "-c", START, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        machine = os.pidfd_open(int(owner.stdout.readline()))
        owner.send_signal(number)
        owner.wait(30)
    try:
        # in less than a boot takes: after that it would end by itself
        assert select.select([machine], [], [], 4)[0], "QEMU outlived its owner"
    finally:
        os.close(machine)
    left = list(tmp_path.glob(".lab-*"))
    assert len(left) == (1 if number == signal.SIGKILL else 0)
    # what a killed owner could not tidy up goes with the next guest in the same folder
    one = guest.Guest.start(["true"], kernel=lab.kernel, emulator=lab.emulator, out=tmp_path)
    with one:
        assert not any(path.exists() for path in left)


def test_the_command_line_gives_the_codes_it_documents(lab, tmp_path):
    def asa_lab(*words):
        command = [sys.executable, "-c", "from asa.cli.main import main; main()", "lab", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)

    done = asa_lab("run", "--limit", "60", "--out", str(tmp_path), "--", "sh", "-c", "echo said; kill -9 $$")
    assert (done.returncode, done.stdout) == (137, "said\n")
    done = asa_lab("run", "--cpus", "99", "--out", str(tmp_path), "--", "true")
    assert done.returncode == 125
    assert done.stderr == "asa: a guest has 1 to 64 CPUs, not 99\n"
    status = json.loads(asa_lab("status", "--json").stdout)
    assert status["kernel"]["version"] == lab.kernel.version
    assert status["kvm"] is lab.emulator.kvm
