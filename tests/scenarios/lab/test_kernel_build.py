# SPDX-License-Identifier: GPL-2.0-only
"""The lab's own kernel with a made-up source and make: what is kept, what a failed build leaves, what it says."""

import shutil

import pytest

from asa.core.errors import LabError
from scenarios.lab import building, kernel, kernel_build

MAKE = r"""#!/bin/sh
set -e
for last; do :; done
case $last in
allnoconfig)
    grep -q asa_machine.o drivers/cpufreq/Makefile && [ -s drivers/cpufreq/asa_machine.c ]
    cp asa.config .config ;;
modules)
    echo "  CC      init/main.o"; echo "  CC      drivers/cpufreq/asa_machine.o"
    %s
    mkdir -p arch/x86/boot; echo image > arch/x86/boot/bzImage; echo map > System.map ;;
modules_install)
    release=6.18.15$(sed -n 's/^CONFIG_LOCALVERSION="\(.*\)"/\1/p' .config)
    for word; do case $word in INSTALL_MOD_PATH=*) to=${word#*=}/lib/modules/$release ;; esac; done
    mkdir -p "$to"; : > "$to/modules.dep"; ln -s "$PWD" "$to/build" ;;
esac
"""


@pytest.fixture
def cache(builds, tmp_path):
    """A cache with Debian's kernel and a source of Linux."""
    debians = builds.cache / "kernels/6.18.15+deb13-amd64"
    (debians / "lib/modules" / debians.name).mkdir(parents=True)
    (debians / "lib/modules" / debians.name / "modules.dep").touch()
    (debians / "boot").mkdir()
    (debians / f"boot/vmlinuz-{debians.name}").touch()
    tree = tmp_path / "linux-6.18.15"
    (tree / "drivers/cpufreq").mkdir(parents=True)
    (tree / "drivers/cpufreq/Makefile").write_text("obj-y += cpufreq.o\n")
    builds.pack(tree, builds.cache / "kernels/source/linux_6.18.15.orig.tar.xz")
    return builds.cache


@pytest.fixture
def make(builds):
    """Puts the made-up make in its place; `trouble` is what it does while compiling."""

    def put(trouble=":", version="6.18.15"):
        builds.put("make", (MAKE % trouble).replace("6.18.15", version))

    put()
    return put


def test_a_kernel_is_built_once_and_kept_with_how_it_was_built(cache, make):
    told = []
    make("sleep 0.2")
    made = kernel.ensure(cache, pytest.fail, 1000, tell=lambda *step: told.append(step))
    assert made.version == kernel_build.release("6.18.15", 1000)
    assert made.tick_hz == 1000
    assert made.image.read_text() == "image\n"
    assert (made.root / "usr/lib/modules" / made.version / "modules.dep").is_file()
    assert not (made.modules / "build").is_symlink()  # what it points to is gone
    options = (made.image.parent / f"config-{made.version}").read_text().splitlines()
    assert "CONFIG_HZ_1000=y" in options
    assert "CONFIG_SCHED_CLASS_EXT=y" in options
    built = kernel_build.read(cache / "kernels" / made.version)
    assert (built.release, built.tick_hz, built.source) == (made.version, 1000, "linux_6.18.15.orig.tar.xz")
    assert 0.2 <= built.seconds < 60
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert "compiling Linux 6.18.15, 1000 Hz" in {what for what, _ in told}
    assert "asa_machine.o" in (cache / "logs/build-kernel-1000.log").read_text()
    assert kernel.ensure(cache, pytest.fail, 1000, tell=pytest.fail) == made == kernel.found(cache, 1000)
    assert kernel.found(cache, 250) is None
    assert kernel.found(cache).version == kernel.KNOWN  # Debian's stays what is taken without a tick rate


def test_another_tick_rate_is_another_kernel_and_steps_are_told_line_by_line(cache, make):
    lines = []
    slow = kernel.ensure(cache, lines.append, 250)
    assert slow.tick_hz == 250
    assert slow.version != kernel.ensure(cache, print, 1000).version
    assert lines == list(dict.fromkeys(lines))
    assert "compiling Linux 6.18.15, 250 Hz" in lines


def test_other_options_make_another_kernel(cache, make, monkeypatch, tmp_path):
    first = kernel.ensure(cache, print, 1000)
    shutil.copytree(kernel_build._DATA, tmp_path / "data")
    with (tmp_path / "data/guest.config").open("a") as file:
        file.write("CONFIG_BTRFS_FS=y\n")
    monkeypatch.setattr(kernel_build, "_DATA", tmp_path / "data")
    assert kernel.found(cache, 1000) is None
    assert kernel.ensure(cache, print, 1000).version != first.version
    assert first.image.is_file()  # a checkout with the old options still finds its own


def test_a_failed_build_says_one_line_and_leaves_what_was_there(cache, make, fault):
    trouble, words = fault
    before = kernel.ensure(cache, print, 250)
    there = sorted((cache / "kernels").iterdir())
    make(trouble)
    with pytest.raises(LabError, match=words) as caught:
        kernel.ensure(cache, print, 1000)
    assert "\n" not in str(caught.value)
    assert [path for path in sorted((cache / "kernels").iterdir()) if path.name != ".ensure-1000"] == there
    assert kernel.found(cache, 250) == before
    assert kernel.found(cache).version == kernel.KNOWN
    make()
    assert kernel.ensure(cache, print, 1000).tick_hz == 1000


def test_no_make_no_room_and_no_folder_for_the_log_are_said_plainly(cache, builds, monkeypatch):
    for name in ("setpriv", "tar", "xz"):
        (builds.tools / name).symlink_to(shutil.which(name))
    monkeypatch.setattr(building, "_PATH", str(builds.tools))
    with pytest.raises(LabError, match="failed to execute make: No such file"):
        kernel.ensure(cache, print, 1000)
    monkeypatch.setattr(kernel_build, "_NEEDED_MB", 1 << 40)
    with pytest.raises(LabError, match="MB are free; make room"):
        kernel.ensure(cache, print, 1000)
    (cache / "logs/build-kernel-1000.log").unlink()
    (cache / "logs").rmdir()
    (cache / "logs").write_text("in the way")
    with pytest.raises(LabError, match="logs: File exists while building the kernel"):
        kernel.ensure(cache, print, 1000)


def test_what_a_killed_build_left_goes_with_the_next(cache, make):
    left, others = cache / "kernels/building-1000-x/half", cache / "kernels/building-250-y"
    left.mkdir(parents=True)
    others.mkdir()
    half = cache / "kernels" / kernel_build.release("6.18.15", 1000) / "boot"
    half.mkdir(parents=True)
    assert kernel.ensure(cache, print, 1000).root == half.parent
    assert not left.parent.exists()
    assert others.exists()  # that one may be under way


def test_an_option_that_the_version_does_not_know_is_named(cache, builds):
    builds.put("make", MAKE.replace("cp asa.config", "grep -v SCHED_CLASS_EXT asa.config >"))
    with pytest.raises(LabError, match="does not take CONFIG_SCHED_CLASS_EXT=y"):
        kernel.ensure(cache, print, 1000)


def test_the_source_is_that_of_the_kernel_here_else_the_newest_that_the_mirror_has(cache, builds, make):
    kept = cache / "linux_6.18.12.orig.tar.xz"
    next((cache / "kernels/source").iterdir()).rename(kept)
    versions = ["7.2.12-1~bpo13+1", "6.19.6-2~bpo13+1", "6.18.15-1~bpo13+1", "6.18.12-1~bpo13+1", "6.12.8-1"]
    asked = builds.mirror(versions, "6.18.12-1~bpo13+1", kept)
    lines = []
    make(version="6.18.12")
    made = kernel.ensure(cache, lines.append, 1000)
    assert asked == ["6.18.15-1~bpo13+1", "6.18.12-1~bpo13+1"]
    assert made.version.startswith("6.18.12-asa-1000hz-")
    assert "404; trying the next version" in lines
    assert kernel.ensure(cache, pytest.fail, 1000, tell=pytest.fail) == made


def test_a_mirror_without_a_source_and_a_strange_tick_rate_are_said_plainly(cache, builds):
    next((cache / "kernels/source").iterdir()).unlink()
    builds.mirror(["7.2.12-1~bpo13+1"])
    with pytest.raises(LabError, match=r"has no source of Linux 6\.18 or 6\.19 \(it has 7\.2.*\); put one in"):
        kernel.ensure(cache, print, 1000)
    asked = builds.mirror([f"6.18.{number}-1" for number in range(9, 0, -1)])
    with pytest.raises(LabError, match=r"has no source of Linux 6\.18 or 6\.19 \(404\); put one in"):
        kernel.ensure(cache, print, 1000)
    assert asked == ["6.18.9-1", "6.18.8-1", "6.18.7-1"]  # each may be 150 MB
    with pytest.raises(LabError, match="no kernel of 300 Hz; take 1000 or 250"):
        kernel.ensure(cache, print, 300)


def test_options_end_with_the_tick_rate_and_name_nothing_twice():
    lines = kernel_build.options(1000, "-asa").splitlines()
    assert lines[-2:] == ["CONFIG_HZ_1000=y", 'CONFIG_LOCALVERSION="-asa"']
    names = [line.partition("=")[0] for line in lines if line and not line.startswith("#")]
    assert len(names) == len(set(names))
