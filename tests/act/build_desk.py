# SPDX-License-Identifier: GPL-2.0-only
"""A desk to install schedulers at: a manifest, a cache, and a small cargo of our own, which takes what lies ready."""

import json
import os
from pathlib import Path

import pytest

from asa.act import build
from asa.act.build import Outcome
from asa.act.portfolio import Portfolio

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

    def entry(self, name, source, *, help_="[--help]", policies=None):
        ops = "null" if source == "{kind: kernel}" else name.removeprefix("scx_")
        head = f"  - {{name: {name}, source: {source}, purpose: p, ops: {ops}, paper: true"
        numbers = {flag: {"unit": "x", "low": 0, "high": 9, "default": 0} for flag in ("--slice-us", "--speed")}
        knobs = json.dumps({"numbers": numbers, "switches": ["-v"]})
        self.entries.append(f"{head}, help: {help_}, knobs: {knobs}}}\n")
        for mode, flags in (policies or {}).items():
            policy = {"id": f"{name}:{mode}", "version": "1", "purpose": "p", "flags": flags}
            path = self.root / f"policies/{name}-{mode}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({**policy, "provenance": {"kind": "own"}}))

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
