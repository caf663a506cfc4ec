# SPDX-License-Identifier: GPL-2.0-only
"""Processor time by control group: which groups stand for something, and what happens when they come and go."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asa.core.errors import SourceError
from asa.core.sample import GroupUsage, RawSample
from collectors.cgroups import GroupCollector

S = 1_000_000_000
STAT = "usage_usec {used}\nuser_usec 1\nsystem_usec 2\nnice_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"
USER = "user.slice/user-1000.slice/user@1000.service"
DESKTOP = {  # paths as systemd 252 with GNOME 43 makes them; those with a figure are to be found
    "init.scope": 1,
    "system.slice": None,
    "system.slice/ssh.service": 2,
    "system.slice/system-getty.slice": 3,
    "system.slice/system-getty.slice/getty@tty1.service": None,
    "system.slice/docker-1f0c.scope": 4,
    "user.slice": None,
    "user.slice/user-1000.slice": None,
    "user.slice/user-1000.slice/session-2.scope": 5,
    USER: None,
    f"{USER}/init.scope": 6,
    f"{USER}/app.slice": None,
    f"{USER}/app.slice/app-gnome-firefox\\x2desr-4711.scope": 7,
    f"{USER}/app.slice/app-org.gnome.Terminal.slice": 8,
    f"{USER}/app.slice/app-org.gnome.Terminal.slice/vte-spawn-1.scope": None,
    f"{USER}/app.slice/app-graphical.slice": None,
    f"{USER}/app.slice/app-graphical.slice/app-foot-1.scope": 13,
    f"{USER}/session.slice": None,
    f"{USER}/session.slice/org.gnome.Shell@wayland.service": 9,
    f"{USER}/background.slice": None,
    f"{USER}/background.slice/tracker-miner-fs-3.service": 10,
    "machine.slice": None,
    "machine.slice/machine-qemu\\x2d1.scope": 11,
    "machine.slice/machine-qemu\\x2d1.scope/libvirt": None,
    "docker": None,  # the runtime's own driver, without systemd
    "docker/2b1a": 12,
}


class Bench:
    """A mounted tree, a clock that is set by hand, and the collector over both."""

    def __init__(self, root, below="fs/cgroup"):
        self.root = root / below
        self.root.mkdir(parents=True)
        (self.root / "cgroup.controllers").write_text("cpu memory\n")
        self.now_ns = 100 * S
        self.groups = GroupCollector(root, root, lambda: self.now_ns)

    def make(self, path, used):
        (self.root / path).mkdir(parents=True, exist_ok=True)
        (self.root / path / "cgroup.procs").touch()
        (self.root / path / "cpu.stat").write_text(STAT.format(used=used or 0))

    def remove(self, path):
        (self.root / path / "cpu.stat").write_text("")  # for whoever has it open; the kernel says ENODEV
        shutil.rmtree(self.root / path)

    def read(self, after_s=0.0):
        self.now_ns += int(after_s * S)
        return dict(self.groups.read()["groups"].cpu_us)


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.groups.close()


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_desktop(bench):
    for path, used in DESKTOP.items():
        bench.make(path, used)
    bench.groups.open()
    assert bench.read() == {path: used for path, used in DESKTOP.items() if used is not None}


def test_figures_are_read_anew_and_sorted(bench):
    for path in ("system.slice/b.service", "system.slice/a.service"):
        bench.make(path, 1)
    bench.groups.open()
    bench.make("system.slice/b.service", 5)
    assert list(bench.read(1).items()) == [("system.slice/a.service", 1), ("system.slice/b.service", 5)]


def test_groups_come_and_go(bench):
    bench.make("system.slice/a.service", 1)
    bench.groups.open()
    bench.make("system.slice/b.service", 2)
    assert bench.read(1) == {"system.slice/a.service": 1}
    assert bench.read(9) == {"system.slice/a.service": 1, "system.slice/b.service": 2}
    bench.remove("system.slice/a.service")
    assert bench.read(1) == {"system.slice/b.service": 2}
    assert bench.read(10) == {"system.slice/b.service": 2}


def test_no_groups_is_nothing_not_unknown(bench):
    bench.groups.open()
    assert bench.groups.read() == {"groups": GroupUsage(cpu_us=())}


def test_version_1_beside_version_2(tmp_path):
    (tmp_path / "fs/cgroup/cpu").mkdir(parents=True)
    bench = Bench(tmp_path, "fs/cgroup/unified")
    bench.make("system.slice/a.service", 1)
    bench.groups.open()
    assert bench.read() == {"system.slice/a.service": 1}
    bench.groups.close()


@pytest.mark.parametrize(("there", "words"), [("fs/cgroup/cpu", "only version 1"), ("fs", "no cgroups")])
def test_no_version_2(tmp_path, there, words):
    (tmp_path / there).mkdir(parents=True)
    with pytest.raises(SourceError, match=words):
        GroupCollector(tmp_path, tmp_path).open()


def test_of_too_many_those_are_read_that_work(bench):
    idle = {f"system.slice/i{number:03}.service": 1_000_000 if number % 2 else 0 for number in range(140)}
    awake = [f"system.slice/a{number:03}.service" for number in range(10)]
    for path, used in (idle | dict.fromkeys(awake, 0)).items():
        bench.make(path, used)
    bench.groups.open()
    assert len(bench.read()) == 64
    for path in awake:
        bench.make(path, 500)  # neither much nor little in all, but the only ones that do anything now
    found = bench.read(10)
    assert len(found) == 64
    assert [path for path, used in found.items() if used == 500] == awake


def test_descriptors_are_bounded_and_given_back(bench):
    before = descriptors()
    for number in range(100):
        bench.make(f"system.slice/s{number}.service", number)
    bench.groups.open()
    for _ in range(5):
        bench.read(5)
        assert descriptors() == before + 64
    bench.groups.close()
    bench.groups.close()
    assert descriptors() == before


def test_a_tree_that_went_away_is_an_error_for_that_sample(bench):
    bench.make("system.slice/a.service", 1)
    bench.groups.open()
    bench.remove("system.slice/a.service")
    bench.read(10)
    bench.remove(".")
    with pytest.raises(SourceError, match="no such file"):
        bench.read(10)


def test_a_group_that_tells_nothing_does_not_take_the_others(bench):
    bench.make("system.slice/a.service", 1)
    bench.make("system.slice/b.service", 2)
    bench.groups.open()
    (bench.root / "system.slice/a.service/cpu.stat").write_text("usage_usec many\n")
    assert bench.read(1) == {"system.slice/b.service": 2}
    bench.make("system.slice/a.service", 3)
    assert bench.read(10) == {"system.slice/a.service": 3, "system.slice/b.service": 2}


def test_a_name_of_any_bytes_can_be_journalled(bench):
    bench.make(os.fsdecode(b"system.slice/\xff.service"), 1)
    bench.groups.open()
    sample = RawSample(monotonic_ns=1, wall_ns=1, **bench.groups.read())
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sample), type=RawSample) == sample


@pytest.mark.root
def test_the_kernels_own():
    mount = Path("/sys/fs/cgroup")
    roots = [root for root in (mount, mount / "unified") if (root / "cgroup.controllers").exists()]
    if os.geteuid() != 0 or not roots:
        assert "CI" not in os.environ
        pytest.skip("needs root and a mounted cgroup2; both are there under sudo on Debian")
    group = roots[0] / f"asa-test-{os.getpid()}"
    group.mkdir()
    try:
        work = "import time\nwhile time.process_time() < 0.3: pass\ninput()"
        with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE) as process:
            (group / "cgroup.procs").write_text(str(process.pid))
            groups = GroupCollector(Path("/proc"), Path("/sys"))
            groups.open()
            end = time.monotonic() + 20
            while (used_us := dict(groups.read()["groups"].cpu_us)[group.name]) < 250_000 and time.monotonic() < end:
                pass
            assert 250_000 <= used_us < 2_000_000
            process.communicate(b"\n")
        groups.close()
    finally:
        end = time.monotonic() + 5
        while group.exists() and time.monotonic() < end:
            with suppress(OSError):  # busy until the kernel has let go of the process
                group.rmdir()
    assert not group.exists()


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_text(bench, data):
    whole = STAT.format(used=12345).encode()
    text = data.draw(
        st.one_of(
            st.binary(max_size=60),
            st.integers(0, len(whole)).map(lambda length: whole[:length]),
            st.integers(0, 10**40).map(lambda used: STAT.format(used=used).encode()),
            st.sampled_from(
                [b"usage_usec " + b"9" * 5000 + b"\n", whole * 4000, b"usage_usec -1\n", b"usage_usec 1_0\n"]
            ),
        )
    )
    bench.make("system.slice/a.service", 1)
    bench.groups.close()
    bench.groups.open()
    (bench.root / "system.slice/a.service/cpu.stat").write_bytes(text)
    try:
        found = bench.read(1)
    except SourceError:
        return
    assert all(0 <= used < 1 << 64 for used in found.values())
    if found:
        assert text.startswith(b"usage_usec %d\n" % found["system.slice/a.service"]) or b"\nusage_usec " in text
