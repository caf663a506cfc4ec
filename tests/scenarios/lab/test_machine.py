# SPDX-License-Identifier: GPL-2.0-only
"""The lab without a boot: which kernel is taken, what is known of QEMU and KVM, how a machine is put together."""

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asa import debian
from asa.core.errors import GuestCrashError, LabError
from scenarios.lab import emulator, guest, kernel, machine
from scenarios.lab.emulator import Clock, Emulator

QEMU = Emulator(binary=Path("/usr/bin/qemu-system-x86_64"), version=(10, 0, 2), kvm=None, why="not tried yet")


def quiet(line):
    pass


def test_only_plain_kernels_that_schedulers_load_on_are_taken():
    packages = [
        "linux-image-6.18.15+deb13-amd64",
        "linux-image-6.18.15+deb13-amd64-unsigned",
        "linux-image-6.18.15+deb13-cloud-amd64",
        "linux-image-6.18.15+deb13-rt-amd64",
        "linux-image-6.18.15+deb13-amd64-dbg",
        "linux-image-6.19.2+deb13-amd64",
        "linux-image-6.12.48+deb13-amd64",
        "linux-image-7.2.12+deb13-amd64",
        "linux-image-amd64",
    ]
    assert kernel.plain_versions(packages) == ["6.18.15+deb13-amd64", "6.19.2+deb13-amd64"]


@pytest.mark.parametrize(
    ("versions", "best"),
    [
        (["6.19.2+deb13-amd64", "6.18.99+deb13-amd64", kernel.KNOWN], kernel.KNOWN),
        (["6.19.2+deb13-amd64", "6.18.9+deb13-amd64", "6.18.20+deb13-amd64"], "6.18.20+deb13-amd64"),
        (["6.19.2+deb13-amd64", "6.19.10+deb13-amd64"], "6.19.10+deb13-amd64"),
        ([], None),
    ],
)
def test_the_known_kernel_then_the_newest_6_18_then_6_19(versions, best):
    assert kernel.preferred(versions) == best


_MODULES = ("modules.builtin", "modules.order", "kernel/a.ko")


def _debs(folder, version, config, *, split):
    """Debian's packages of a kernel by their kind: one, or divided as since 7.2."""
    modules = f"usr/lib/modules/{version}"
    image = {f"boot/vmlinuz-{version}": "kernel", f"boot/config-{version}": config}
    parts = {"image": {**image, **{f"{modules}/{name}": "" for name in _MODULES}}}
    if split:
        parts = {
            "image": {f"usr/share/doc/linux-image-{version}/copyright": ""},
            "base": {f"{modules}/config": config, f"{modules}/modules.order": ""},
            "binary": {f"{modules}/vmlinuz": "kernel"},
            "modules": {f"{modules}/{name}": "" for name in _MODULES},
        }
    return {kind: _deb(folder, f"linux-{kind}-{version}", files) for kind, files in parts.items()}


def _deb(folder, package, files):
    tree = folder / package
    control = f"Package: {package}\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody\nDescription: none\n"
    for name, text in {**files, "DEBIAN/control": control}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    deb = folder / f"{package}.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, deb], check=True, capture_output=True)
    return deb


@pytest.fixture
def mirror(monkeypatch, tmp_path):
    """A mirror with one kernel; gives the function that says which."""

    def offer(version, config, *, split=False):
        debs = {f"linux-{kind}-{version}": deb for kind, deb in _debs(tmp_path, version, config, split=split).items()}
        offers = (debian.Offer(package=f"linux-image-{version}", version="1"),)
        monkeypatch.setattr(debian, "versions", lambda *_, **__: offers)
        monkeypatch.setattr(debian, "download", lambda name, *_, **__: debs[name])

    return offer


def test_a_kernel_is_unpacked_so_that_both_kmod_layouts_find_it(mirror, tmp_path):
    mirror("6.18.20+deb13-amd64", "CONFIG_SCHED_CLASS_EXT=y\nCONFIG_DEBUG_INFO_BTF=y\n")
    cache = tmp_path / "cache"
    made = kernel.ensure(cache, quiet)
    assert made.version == "6.18.20+deb13-amd64"
    assert made.image.read_bytes() == b"kernel"
    assert (made.root / "lib/modules" / made.version / "modules.dep").is_file()
    assert (made.root / "usr/lib/modules" / made.version / "modules.dep").is_file()
    assert kernel.found(cache) == made
    assert kernel.ensure(cache, pytest.fail) == made  # nothing to report: it is there


def test_a_version_that_is_asked_for(mirror, tmp_path):
    """Also one on which no scheduler loads, and whose package Debian has divided."""
    version = "7.2.12+deb13-amd64"
    mirror(version, "CONFIG_SCHED_CLASS_EXT=y\nCONFIG_DEBUG_INFO_BTF=y\n", split=True)
    cache = tmp_path / "cache"
    made = kernel.ensure(cache, quiet, release="7.2")
    assert (made.version, made.image.read_bytes()) == (version, b"kernel")
    assert (made.root / "lib/modules" / version / "modules.dep").is_file()
    assert [path.name for path in (cache / "kernels").iterdir() if not path.name.startswith(".")] == [version]
    assert kernel.ensure(cache, pytest.fail, release="7.2.12") == made
    assert kernel.found(cache) is None  # not what the lab takes by itself
    with pytest.raises(LabError, match=r"has no kernel '7\.1'; it has 7\.2"):
        kernel.ensure(cache, quiet, release="7.1")


def test_the_newest_of_a_beginning():
    versions = ["7.2.6+deb13-amd64", "7.2.12+deb13-amd64", "7.20.1-amd64", "6.18.15+deb13-amd64"]
    assert kernel.newest(versions, "7.2") == "7.2.12+deb13-amd64"
    assert kernel.newest(versions, "7.2.6+deb13-amd64") == "7.2.6+deb13-amd64"
    assert kernel.newest(versions, "7.2.1") is None


@pytest.mark.parametrize(
    "config", ["# CONFIG_SCHED_CLASS_EXT is not set\nCONFIG_DEBUG_INFO_BTF=y\n", "CONFIG_SCHED_CLASS_EXT=y\n"]
)
def test_a_kernel_without_sched_ext_or_btf_is_refused(mirror, tmp_path, config):
    mirror("6.18.20+deb13-amd64", config)
    with pytest.raises(LabError, match=r"CONFIG_(SCHED_CLASS_EXT|DEBUG_INFO_BTF)=y not set"):
        kernel.ensure(tmp_path / "cache", quiet)
    assert kernel.found(tmp_path / "cache") is None


def test_an_interrupted_set_up_is_finished_the_next_time(mirror, tmp_path):
    version = "6.18.20+deb13-amd64"
    mirror(version, "CONFIG_SCHED_CLASS_EXT=y\nCONFIG_DEBUG_INFO_BTF=y\n")
    cache = tmp_path / "cache"
    staged = cache / f"kernels/{version}.unpacking"
    staged.parent.mkdir(parents=True)
    debian.unpack(tmp_path / f"linux-image-{version}.deb", staged)  # as a process that died before depmod leaves it
    assert kernel.found(cache) is None
    assert kernel.ensure(cache, quiet).version == version
    assert not staged.exists()


def test_a_mirror_without_a_fitting_kernel_and_a_strange_machine_are_said_plainly(mirror, monkeypatch, tmp_path):
    mirror("7.2.12+deb13-amd64", "")
    with pytest.raises(LabError, match=r"no linux-image-6\.18"):
        kernel.ensure(tmp_path / "cache", quiet)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(LabError, match="'aarch64'"):
        kernel.ensure(tmp_path / "cache", quiet)


def _fake_qemu(folder, text):
    binary = folder / "qemu-system-x86_64"
    binary.write_text(f"#!/bin/sh\necho '{text}'\n")
    binary.chmod(0o755)


def test_qemu_is_found_with_its_version(tmp_path):
    assert emulator.found(tmp_path, str(tmp_path)) is None
    _fake_qemu(tmp_path, "QEMU emulator version 7.2.19 (Debian 1:7.2+dfsg-7)")
    there = emulator.found(tmp_path, str(tmp_path))
    assert there.version == (7, 2, 19)
    assert there.kvm is None
    _fake_qemu(tmp_path, "cannot load libfoo")
    with pytest.raises(LabError, match="cannot load libfoo"):
        emulator.found(tmp_path, str(tmp_path))


def test_an_old_qemu_emulates_with_one_thread_and_steady_is_always_emulation():
    old = replace(QEMU, version=(7, 2, 19), kvm=False)
    assert "tcg,thread=single" in old.options(Clock.WALL)
    assert replace(old, kvm=True).options(Clock.WALL) == ()
    assert QEMU.options(Clock.WALL) == ()
    assert "shift=2,sleep=on" in old.options(Clock.STEADY)


def test_kvm_is_tried_once_and_the_answer_kept_for_this_qemu_only(monkeypatch, tmp_path):
    monkeypatch.setattr(emulator, "_refusal", lambda device: None)
    _fake_qemu(tmp_path, "QEMU emulator version 10.0.2")
    tried = []

    def trial(candidate):
        tried.append(candidate.kvm)
        raise GuestCrashError("no kernel runs here: 'a long story'; see /its/console.log")

    first = emulator.settle_kvm(emulator.found(tmp_path, str(tmp_path)), tmp_path, trial, quiet)
    assert first.kvm is False
    assert first.why == "KVM cannot boot the lab's kernel here: no kernel runs here"
    again = emulator.settle_kvm(emulator.found(tmp_path, str(tmp_path)), tmp_path, trial, quiet)
    assert again == first
    assert tried == [True]

    _fake_qemu(tmp_path, "QEMU emulator version 10.1.0")
    assert emulator.found(tmp_path, str(tmp_path)).kvm is None
    (tmp_path / "lab/kvm.json").write_text("[1")
    assert emulator.found(tmp_path, str(tmp_path)).kvm is None


def test_kvm_that_boots_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(emulator, "_refusal", lambda device: None)
    assert emulator.settle_kvm(QEMU, tmp_path, quiet, quiet).kvm is True


def test_without_a_usable_device_kvm_is_not_tried(monkeypatch, tmp_path):
    monkeypatch.setattr(emulator, "_refusal", lambda device: "/dev/kvm: Permission denied")
    settled = emulator.settle_kvm(QEMU, tmp_path, pytest.fail, pytest.fail)
    assert (settled.kvm, settled.why) == (False, "/dev/kvm: Permission denied")


@settings(deadline=None, max_examples=40)  # each one runs two shells
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_any_argument_survives_the_runner_script(tmp_path_factory, argv):
    folder = tmp_path_factory.mktemp("runner")
    fake = kernel.Kernel(version="6.18", image=Path("/k"), modules=Path("/k/lib/modules/6.18"), tick_hz=250)
    show = ["sh", "-c", 'printf "%s\\0" "$SOME" "$@"', "sh"]
    machine.write_runner([*show, *argv], folder, fake, {"SOME": argv[0]}, disk=False)
    text = (folder / "run").read_bytes().decode("utf-8")
    # what the guest's shell runs, without the preparation of the machine
    exports = text[text.index("export PATH=") : text.index('mkdir -p "$HOME"')]
    call = text[text.index("(exec ") : text.index("code=$?")]
    subprocess.run(["sh", "-c", f"private={shlex.quote(str(folder))}\n{exports}\n{call}"], check=True)
    assert (folder / "stdout").read_bytes().decode("utf-8").split("\0")[:-1] == [argv[0], *argv]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"command": []}, "no command"),
        ({"cpus": 0}, "1 to 64 CPUs, not 0"),
        ({"cpus": 65}, "1 to 64 CPUs, not 65"),
        ({"out": Path("/var/empty/a,b")}, "cannot be shared"),
        ({"env": {"A B": "1"}}, "'A B' cannot be a variable"),
    ],
)
def test_what_cannot_be_booted_is_refused_and_leaves_nothing(tmp_path, options, what):
    asked = {"command": ["true"], "out": tmp_path} | options
    modules = tmp_path / "lib/modules/6.18"
    fake = kernel.Kernel(version="6.18", image=tmp_path / "none", modules=modules, tick_hz=250)
    with pytest.raises(LabError, match=what):
        guest.Guest.start(asked.pop("command"), kernel=fake, emulator=QEMU, **asked)
    assert list(tmp_path.iterdir()) == []


def test_a_crash_is_told_in_the_kernels_own_words():
    console = (
        "[    1.0] smpboot: booted\r\n[   12.345678] BUG: kernel NULL pointer dereference, address: 0\r\n"
        "[   12.345679] Oops: Oops: 0002 [#1] SMP\r\n[   12.4] RIP: 0010:x\r\n"
        "[   12.5] Kernel panic - not syncing: Fatal\r\n"
    )
    told = guest.telling(console)
    assert told.startswith("BUG: kernel NULL pointer dereference, address: 0 / Oops: ")
    assert told.endswith("Kernel panic - not syncing: Fatal")
    assert guest.telling("[    1.0] debug: all is well\n") == ""


def test_a_kernel_with_all_drivers_built_in_gets_an_initramfs_too(tmp_path):
    image = tmp_path / "vmlinuz"
    image.write_bytes(b"Linux version 6.18.15-asa\0")
    plain = kernel.Kernel(version="6.18.15-asa", image=image, modules=tmp_path / "none", tick_hz=1000)
    (tmp_path / "private").mkdir()
    (tmp_path / "out").mkdir()
    size = {"cpus": 2, "memory_mb": 512}
    planned = machine.plan(plain, QEMU, tmp_path / "private", tmp_path / "out", clock=Clock.WALL, **size)
    assert planned[planned.index("-initrd") + 1] == str(tmp_path / "private/initramfs")
    assert b"cache=loose" in (tmp_path / "private/initramfs").read_bytes()
    # of what virtme-ng plans for a script's input and output the console alone is left
    assert not [word for word in planned if word.startswith(("virtio-serial", "virtserialport"))]
    chardevs = [planned[at + 1] for at, word in enumerate(planned) if word == "-chardev"]
    assert chardevs == [f"file,id=console,path={tmp_path}/private/console.log"]
