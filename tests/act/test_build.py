# SPDX-License-Identifier: GPL-2.0-only
"""Installation with the real tools where they are quick (make, tar, dpkg) and a small cargo of our own."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa import debian, paths
from asa.act import build
from asa.act.build import Outcome, Status, parse_flags
from asa.act.portfolio import Available, Origin, Portfolio
from asa.core.errors import SchedulerError

HELP = """\
scx_one: an example with --no-such flag in prose.

Usage: scx_one [OPTIONS]

Options:
  -s, --slice-us <SLICE_US>
          Maximum slice in microseconds; see also --other

          [default: 1000]

      --virt-llc[=<VIRT_LLC>]
          Cores per partition (-1 = off)
  -v, --verbose...
          More
  -h, --help
          Print help (see a summary with '-h')

Libbpf Options:
      --relaxed-maps <RELAXED_MAPS>
          Parse loosely
"""
# tools/sched_ext/scx_simple.c, help_fmt
C_HELP = """A simple sched_ext scheduler.

Usage: scx_simple [-f] [-v]

  -f            Use FIFO scheduling instead of weighted vtime scheduling
  -v            Print libbpf debug messages
  -h            Display this help and exit
"""
SCHEDULER = f"""#!/bin/sh
case "$1" in
--help) cat <<'END'
{HELP}
END
;;
--version) echo 'scx_one: 1.2.3 x86_64-unknown-linux-gnu' ;;
*) exit 1 ;;
esac
"""
# answers like cargo, checks what it is given, and "builds" what lies in $CRATES
CARGO = """#!/bin/sh
set -eu
case "$1" in
--version) echo "cargo 1.95.0 (f2d3ce0bd 2026-03-21)"; exit ;;
install) ;;
*) exit 2 ;;
esac
[ "$2 $3" = "--locked --root" ]
[ "$BPF_CLANG" = clang-19 ]
mkdir -p "$CARGO_TARGET_DIR" "$4/bin"
touch "$CARGO_TARGET_DIR/object"
echo "   Compiling $5"
echo "$5" >> "$CRATES/built"
[ -e "$CRATES/${5%@*}" ] || { echo "error: could not find $5 in registry" >&2; exit 101; }
cp "$CRATES/${5%@*}" "$4/bin/${5%@*}"
"""
MAKEFILE = """
scx_simple:
	@echo "  CLANG $(CLANG) $(LLVM_STRIP)"
	@test "$(VMLINUX_BTF)" && grep -q struct $(VMLINUX_H) && grep -q kept ../../include/kept && test ! -e ../../drivers
	@mkdir -p build/bin && cp /bin/true build/bin/scx_simple
"""


class Watcher:
    def __init__(self):
        self.lines: list[str] = []
        self.begun: list[tuple[str, int, int]] = []
        self.ended: list[Outcome] = []

    def begin(self, name, position, total):
        self.begun.append((name, position, total))

    def line(self, text):
        self.lines.append(text)

    def end(self, outcome):
        self.ended.append(outcome)


class Desk:
    """A manifest, a cache and a PATH to install with."""

    def __init__(self, root: Path, monkeypatch) -> None:
        self.root, self.monkeypatch = root, monkeypatch
        self.cache, self.crates, self.tools, self.host = (root / name for name in ("cache", "crates", "tools", "host"))
        for folder in (self.crates, self.tools, self.host):
            folder.mkdir()
        self.executable(self.tools / "cargo", CARGO)
        self.executable(self.tools / "rustc", "#!/bin/sh\necho 'rustc 1.95.0'\n")
        monkeypatch.setenv("PATH", f"{self.tools}:{os.environ['PATH']}")
        monkeypatch.setenv("CRATES", str(self.crates))
        self.entries: list[str] = []
        # every package a build asks for is there, in a database of our own: nothing may be installed from here
        status = root / "dpkg/status"
        (root / "dpkg/info").mkdir(parents=True)
        (root / "dpkg/updates").mkdir()
        packages = {*build._CRATE_PACKAGES, *build._KERNEL_PACKAGES}
        head = "Status: install ok installed\nArchitecture: all\nVersion: 1\nMaintainer: nobody <n@example.org>\n"
        status.write_text("".join(f"Package: {name}\n{head}Description: x\n\n" for name in sorted(packages)))
        monkeypatch.setenv("DPKG_ADMINDIR", str(root / "dpkg"))

    @staticmethod
    def executable(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def entry(self, name, source, *, help_="[--help]", modes="{default: []}"):
        ops = "null" if source == "{kind: kernel}" else name.removeprefix("scx_")
        head = f"  - {{name: {name}, source: {source}, purpose: p, ops: {ops}, paper: true"
        self.entries.append(f"{head}, help: {help_}, modes: {modes}}}\n")

    def crate(self, name, version="1.2.3", **more):
        self.entry(name, f"{{kind: crate, crate: {name}, version: {version}}}", **more)

    def portfolio(self) -> Portfolio:
        manifest = self.root / "manifest.yaml"
        manifest.write_text("schedulers:\n" + "".join(self.entries))
        return Portfolio.load(manifest, self.cache / "scx", str(self.host))

    def install(self, *names) -> dict[str, Outcome]:
        self.watcher = Watcher()
        outcomes = build.install(self.portfolio(), self.cache, self.watcher, names)
        assert tuple(self.watcher.ended) == outcomes
        return {outcome.name: outcome for outcome in outcomes}

    def built(self) -> list[str]:
        log = self.crates / "built"
        return log.read_text().split() if log.exists() else []


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def test_a_crate_is_built_recorded_and_kept(desk):
    desk.crate("scx_one", modes="{default: [], fast: [--slice-us=5, -v]}")
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    outcome = desk.install()["scx_one"]
    assert outcome.status is Status.BUILT, outcome
    look = desk.portfolio().look("scx_one")
    assert isinstance(look, Available)
    assert (look.origin, look.version, look.path) == (Origin.BUILT, "1.2.3", desk.cache / "scx/scx_one")
    assert look.sha256 == hashlib.sha256(SCHEDULER.encode()).hexdigest()
    assert look.flags == ("-s", "--slice-us", "--virt-llc", "-v", "--verbose", "-h", "--help", "--relaxed-maps")
    assert "   Compiling scx_one@1.2.3" in desk.watcher.lines
    assert not (desk.cache / "build").exists(), "gigabytes, and nothing is left to build"
    os.close(desk.portfolio().open("scx_one", "fast").fd)
    assert desk.install()["scx_one"].status is Status.KEPT
    assert desk.built() == ["scx_one@1.2.3"]


def test_what_changed_is_built_again(desk):
    desk.crate("scx_one")
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    desk.install()
    binary = desk.cache / "scx/scx_one"
    for spoil in (lambda: binary.write_text("x"), binary.unlink, lambda: binary.chmod(0o777)):
        spoil()
        assert desk.install()["scx_one"].status is Status.BUILT
    (desk.cache / "scx/installed.json").write_text("{")
    assert desk.install()["scx_one"].status is Status.BUILT
    assert any("starting a new one" in line for line in desk.watcher.lines)
    desk.entries.clear()
    desk.crate("scx_one", "1.2.4")
    assert desk.install()["scx_one"].status is Status.BUILT
    assert desk.built()[-1] == "scx_one@1.2.4"
    assert len(desk.built()) == 6


def test_one_failure_does_not_stop_the_others_and_keeps_the_tree(desk):
    desk.entry("eevdf", "{kind: kernel}", help_="null")
    desk.crate("scx_bad")
    desk.crate("scx_one")
    desk.entry("scx_rare", "{kind: host, reason: nobody has it}", help_="null")
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    outcomes = desk.install()
    kinds = [outcome.status for outcome in outcomes.values()]
    assert kinds == [Status.KERNEL, Status.FAILED, Status.BUILT, Status.UNAVAILABLE]
    detail = outcomes["scx_bad"].detail
    assert "cargo ended with 101" in detail
    assert "could not find scx_bad@1.2.3" in detail
    assert "\n" not in detail
    log = desk.cache / "logs/build-scx_bad.log"
    assert str(log) in detail
    assert "error: could not find" in log.read_text()
    assert (desk.cache / "build/target/object").exists(), "the next try goes on from here"
    assert desk.watcher.begun == [("eevdf", 1, 4), ("scx_bad", 2, 4), ("scx_one", 3, 4), ("scx_rare", 4, 4)]
    desk.executable(desk.crates / "scx_bad", SCHEDULER)
    assert [outcome.status for outcome in desk.install("scx_bad").values()] == [Status.BUILT]


def test_names_are_checked_first_and_taken_in_the_manifests_order(desk):
    desk.crate("scx_one")
    desk.crate("scx_two")
    with pytest.raises(SchedulerError, match="scx_tow: not in the manifest"):
        desk.install("scx_one", "scx_tow")
    assert desk.built() == []
    desk.install("scx_two", "scx_one")
    assert desk.built() == ["scx_one@1.2.3", "scx_two@1.2.3"]


def test_the_hosts_own_comes_first_and_is_recorded(desk):
    desk.crate("scx_one", "9.9.9")
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    desk.executable(desk.host / "scx_one", SCHEDULER)
    assert desk.install()["scx_one"].status is Status.FOUND
    look = desk.portfolio().look("scx_one")
    assert (look.origin, look.version, look.path) == (Origin.PATH, "1.2.3", desk.host / "scx_one")
    assert desk.install()["scx_one"].status is Status.KEPT
    desk.executable(desk.host / "scx_one", SCHEDULER + "# an upgrade\n")
    with pytest.raises(SchedulerError, match="is not the recorded file"):
        desk.portfolio().open("scx_one")
    assert desk.install()["scx_one"].status is Status.FOUND
    os.close(desk.portfolio().open("scx_one").fd)
    (desk.host / "scx_one").unlink()
    assert desk.install()["scx_one"].status is Status.BUILT
    assert desk.portfolio().look("scx_one").origin is Origin.BUILT


def test_a_host_scheduler_that_went_away_is_forgotten(desk):
    desk.entry("scx_rare", "{kind: host, reason: nobody has it}", help_="null")
    desk.executable(desk.host / "scx_rare", SCHEDULER)
    assert desk.install()["scx_rare"].status is Status.FOUND
    assert desk.portfolio().records()["scx_rare"].flags_reason == "the manifest knows no way to ask it"
    (desk.host / "scx_rare").unlink()
    assert desk.install()["scx_rare"].status is Status.UNAVAILABLE
    assert desk.portfolio().records() == {}


def test_a_mode_must_use_flags_that_the_binary_has(desk):
    desk.crate("scx_one", modes="{default: [], fast: [--speed, '3']}")
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    outcome = desk.install()["scx_one"]
    assert outcome.status is Status.FAILED
    assert "mode 'fast' of the manifest uses '--speed'" in outcome.detail
    assert not isinstance(desk.portfolio().look("scx_one"), Available)


def test_a_binary_that_does_not_tell_its_flags_is_usable(desk):
    desk.crate("scx_one", modes="{default: [], fast: [--speed]}")
    desk.executable(desk.crates / "scx_one", "#!/bin/sh\necho '[SCX_BUG] kernel too old?' >&2\nexit 1\n")
    assert desk.install()["scx_one"].status is Status.BUILT
    record = desk.portfolio().records()["scx_one"]
    assert record.flags is None
    assert "kernel too old?" in record.flags_reason


def test_help_on_stderr_with_an_error_code_counts(desk):
    desk.crate("scx_one")
    desk.executable(desk.crates / "scx_one", f"#!/bin/sh\ncat >&2 <<'END'\n{HELP}\nEND\nexit 255\n")
    desk.install()
    assert "--slice-us" in desk.portfolio().records()["scx_one"].flags


def test_modes_are_checked_again_though_the_binary_is_kept(desk):
    desk.crate("scx_one")
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    desk.install()
    desk.entries.clear()
    desk.crate("scx_one", modes="{default: [], fast: [--speed, '3']}")
    outcome = desk.install()["scx_one"]
    assert outcome.status is Status.FAILED
    assert "'--speed'" in outcome.detail
    assert desk.built() == ["scx_one@1.2.3"]


def test_a_build_without_its_binary_fails(desk):
    desk.crate("scx_one")
    desk.executable(desk.tools / "cargo", "#!/bin/sh\necho 'cargo 1.95.0'\n")
    outcome = desk.install()["scx_one"]
    assert outcome.status is Status.FAILED
    assert "made no" in outcome.detail


def test_an_old_cargo_gives_way_to_debians(desk):
    desk.crate("scx_one")
    desk.executable(desk.tools / "cargo", "#!/bin/sh\necho 'cargo 1.85.0'\n")
    asked = []

    def install(packages, **_):
        asked.append(tuple(packages))
        if "cargo-web" in packages:
            raise SchedulerError(scheduler="apt", reason="stop here: what is wanted is known")

    desk.monkeypatch.setattr(build.debian, "install", install)
    desk.install()
    assert asked[-1] == ("cargo-web", "rustc-web")


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


def test_flags_of_the_c_schedulers():
    assert parse_flags(C_HELP) == ("-f", "-v", "-h")


@given(st.text() | st.from_regex(r"\A *(-\w, )?--?[\w<>\[\]=. -]*\n?\Z"))
def test_flags_of_any_text_look_like_flags(text):
    for flag in parse_flags(text):
        assert flag.startswith("-")
        assert flag in text
        assert " " not in flag


@pytest.mark.parametrize("name", ["scx_bpfland", "scx_flash", "scx_p2dq", "scx_rusty", "scx_lavd", "scx_cosmos"])
def test_long_and_short_help_of_the_real_ones_agree(name):
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    look = portfolio.look(name)
    if not isinstance(look, Available):
        pytest.skip(f"{look.reason}")
    short = subprocess.run([look.path, "-h"], check=False, capture_output=True, text=True)  # lavd ends with 255
    assert set(parse_flags(short.stdout + short.stderr)) == set(look.flags)
    assert {"--help", "-h", "--stats", "--kconfig"} <= set(look.flags)


def test_the_loader_is_built_once_and_is_no_scheduler(desk):
    desk.crate("scx_one")
    desk.executable(desk.crates / "scx_loader", "#!/bin/sh\n")
    watcher = Watcher()
    path = build.loader(desk.portfolio(), desk.cache, watcher)
    assert (path.name, os.access(path, os.X_OK)) == ("scx_loader", True)
    assert "   Compiling scx_loader@1.1.3" in watcher.lines
    assert build.loader(desk.portfolio(), desk.cache, watcher) == path
    assert desk.built() == ["scx_loader@1.1.3"]
    assert desk.portfolio().records() == {}
