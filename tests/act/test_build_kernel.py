# SPDX-License-Identifier: GPL-2.0-only
"""Installation out of a kernel's source, with the real tools where they are quick: make, tar, dpkg."""

import subprocess
from pathlib import Path

import pytest
from build_desk import Desk, desk

from asa import debian
from asa.act import build
from asa.act.build import Status
from asa.act.portfolio import Available

__all__ = ["desk"]  # a fixture
MAKEFILE = """
scx_simple:
	@echo "  CLANG $(CLANG) $(LLVM_STRIP)"
	@test "$(VMLINUX_BTF)" && grep -q struct $(VMLINUX_H) && grep -q kept ../../include/kept && test ! -e ../../drivers
	@mkdir -p build/bin && cp /bin/true build/bin/scx_simple
"""


def kernel_package(folder: Path) -> Path:
    """A small linux-source package: a tarball inside a .deb, with more in it than the build needs."""
    tree = folder / "linux-source-9.9"
    for part in ("tools/sched_ext", "scripts", "kernel/bpf", "include", "drivers"):
        (tree / part).mkdir(parents=True)
    (tree / "include/kept").write_text("kept\n")
    (tree / "tools/sched_ext/Makefile").write_text(MAKEFILE)
    return tree


def make_deb(folder: Path, package: str, fill) -> Path:
    tree = folder / f"tree-{package}"
    (tree / "DEBIAN").mkdir(parents=True)
    fields = "Version: 9.9.1\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: x\n"
    (tree / "DEBIAN/control").write_text(f"Package: {package}\n{fields}")
    fill(tree)
    deb = folder / f"{package}_9.9.1_all.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, deb]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return deb


@pytest.fixture
def kernel(desk, tmp_path) -> Desk:
    """Packages of the kernel source, as `debian.download` gives them; apt itself is tested with asa.debian."""
    kernel_package(tmp_path)

    def source(tree):
        (tree / "usr/src").mkdir(parents=True)
        tarball = tree / "usr/src/linux-source-9.9.tar.xz"
        subprocess.run(["tar", "-C", tmp_path, "-cJf", tarball, "linux-source-9.9"], check=True)

    def headers(tree):
        place = tree / "usr/include/x86_64-linux-gnu/linux/bpf"
        place.mkdir(parents=True)
        (place / "vmlinux.h").write_text("struct task_struct {};\n")

    debs = {"linux-source-9.9": make_deb(tmp_path, "linux-source-9.9", source)}
    debs["linux-bpf-dev"] = make_deb(tmp_path, "linux-bpf-dev", headers)

    def download(package, folder, *, version, **_):
        assert version == (None if package == "linux-bpf-dev" else "9.9.1")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(debs[package]).rename(folder / debs[package].name)

    def versions(pattern, suites, **_):
        assert suites == ("some-backports",)
        return (debian.Offer(package="linux-source-9.9", version="9.9.1"),) if pattern == "linux-source-9.*" else ()

    desk.monkeypatch.setattr(build.debian, "download", download)
    desk.monkeypatch.setattr(build.debian, "versions", versions)
    desk.packages = "[linux-source-8.8, linux-source-9.*]"
    return desk


def kernel_entry(desk: Desk) -> None:
    place = "headers: linux-bpf-dev, suite: some-backports, target: scx_simple"
    desk.entry("scx_simple", f"{{kind: kernel-source, packages: {desk.packages}, {place}}}", help_="null")


def test_a_kernel_target_is_built_from_the_first_package_held(kernel):
    kernel_entry(kernel)
    outcome = kernel.install()["scx_simple"]
    assert outcome.status is Status.BUILT, outcome
    look = kernel.portfolio().look("scx_simple")
    assert isinstance(look, Available)
    assert look.version == "9.9.1"
    assert look.path.read_bytes() == Path("/bin/true").read_bytes()
    assert "  CLANG clang-19 llvm-strip-19" in kernel.watcher.lines
    assert not (kernel.cache / "build").exists()
    assert kernel.install()["scx_simple"].status is Status.KEPT


def test_no_kernel_source_is_held_any_more(kernel):
    kernel.packages = "[linux-source-7.2, linux-source-7.3]"
    kernel_entry(kernel)
    outcome = kernel.install()["scx_simple"]
    assert outcome.status is Status.FAILED
    assert "some-backports holds none of linux-source-7.2, linux-source-7.3" in outcome.detail
