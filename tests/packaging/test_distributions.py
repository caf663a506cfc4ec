# SPDX-License-Identifier: GPL-2.0-only
"""Packages for Arch, Fedora and Nix: of this version, of the one list of files, and leaving nothing of ASA running."""

import json
import re
import subprocess
from argparse import Namespace
from pathlib import Path, PurePosixPath

import pytest

import asa
from asa.cli.lab import deb
from asa.install import payload
from asa.install.payload import Item
from asa.install.system import System

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
PKGBUILD, SPEC = PACKAGING / "arch/PKGBUILD", PACKAGING / "rpm/asa.spec"
SHOW = """
source "$1"
set -- "$pkgname" "$pkgver" "$install" "${backup[*]}" "${depends[*]}"
python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "$@"
"""


def test_both_are_of_this_version():
    done = subprocess.run(["bash", "-euc", SHOW, "bash", str(PKGBUILD)], capture_output=True, text=True, check=True)
    name, version, install, backup, depends = json.loads(done.stdout)
    assert (name, version) == ("asa", asa.__version__)
    assert (PKGBUILD.parent / install).exists()
    assert backup == str(payload.SETTINGS).lstrip("/")
    assert {"libbpf", "libelf", "polkit", "python", "systemd"} <= set(depends.split())
    assert re.search(r"^Version: (.*)$", SPEC.read_text(), re.MULTILINE)[1] == asa.__version__


def test_the_nix_package_has_the_same_files_beside_the_program():
    text = (PACKAGING / "nix/package.nix").read_text()
    assert re.search(r'version = "(.*)";', text)[1] == asa.__version__
    assert set(re.search(r"dependencies = .*\[ (.*) \]", text)[1].split()) == {*payload.NEEDED, *payload.WELCOME}
    rows = re.findall(r'^ +"([^"]+)" = \[ (.*) \];$', text, re.MULTILINE)
    there = {f"/usr/{folder}/{name}" for folder, names in rows for name in re.findall(r'"([^"]+)"', names)}
    data = {path.name for path in payload.DATA.iterdir()}
    assert there == {str(item.path) for item in payload._data() if item.path.name in data}


def test_the_package_function_stages_the_list(tmp_path):
    checkout, calls = tmp_path / "checkout", tmp_path / "calls"
    (checkout / "packaging/arch").mkdir(parents=True)
    for name in ("PKGBUILD", "asa.hook"):
        (checkout / "packaging/arch" / name).write_bytes((PACKAGING / "arch" / name).read_bytes())
    (checkout / "LICENSE").write_text("GPL")
    tool = checkout / ".venv/bin/asa"
    tool.parent.mkdir(parents=True)
    tool.write_text(f'#!/bin/sh\necho "$@" >{calls}; mkdir -p "$4/usr/lib/asa"; echo "x = 1" >"$4/usr/lib/asa/a.py"\n')
    tool.chmod(0o755)
    words = 'startdir=$1 pkgdir=$2; source "$startdir/PKGBUILD"; package'
    subprocess.run(["bash", "-euc", words, "bash", str(checkout / "packaging/arch"), str(tmp_path / "pkg")], check=True)
    assert calls.read_text() == f"lab deb --stage {tmp_path}/pkg\n"
    made = {str(path.relative_to(tmp_path / "pkg")) for path in (tmp_path / "pkg").rglob("*") if path.is_file()}
    compiled = {name for name in made if name.endswith(".pyc")}
    assert len(compiled) == 1
    assert made - compiled == {
        "usr/lib/asa/a.py",
        "usr/share/libalpm/hooks/asa.hook",
        "usr/share/licenses/asa/LICENSE",
    }


def test_staging_puts_the_files_of_the_list_there_with_their_modes(tmp_path, monkeypatch):
    items = (
        Item(path=PurePosixPath("/usr/bin/asa"), body=b"#!", executable=True),
        Item(path=PurePosixPath("/usr/lib/asa/a.py"), body=b"x"),
    )
    monkeypatch.setattr(System, "check", lambda _: None)
    monkeypatch.setattr(payload, "payload", lambda _: items)
    assert deb.run(Namespace(stage=tmp_path / "pkg", out=None)) == 0
    made = {path.relative_to(tmp_path / "pkg"): path for path in (tmp_path / "pkg").rglob("*") if path.is_file()}
    assert {f"/{name}": (path.read_bytes(), path.stat().st_mode & 0o777) for name, path in made.items()} == {
        "/usr/bin/asa": (b"#!", 0o755),
        "/usr/lib/asa/a.py": (b"x", 0o644),
    }


@pytest.fixture
def ran(tmp_path):
    """Runs text of a shell with stand-ins for commands; gives what it called, a line each."""
    called, commands = tmp_path / "called", tmp_path / "bin"
    commands.mkdir()
    for name in ("asa", "systemctl", "rm"):
        (commands / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{called}\n')
        (commands / name).chmod(0o755)
    (tmp_path / "run/systemd/system").mkdir(parents=True)

    def run(text, *words):
        called.unlink(missing_ok=True)
        text = text.replace("/run/systemd", f"{tmp_path}/run/systemd")
        subprocess.run(["sh", "-c", text, "sh", *words], check=True, env={"PATH": f"{commands}:/usr/bin:/bin"})
        return called.read_text().splitlines() if called.exists() else []

    return run


def section(name):
    return SPEC.read_text().split(f"\n%{name}\n")[1].split("\n%")[0]


def test_a_removal_ends_what_runs_and_puts_back_what_was_taken_over(ran):
    arch = (PACKAGING / "arch/asa.install").read_text()
    for said in (ran(f"{arch}\npre_remove"), ran(section("preun"), "0")):
        stopped = [line for line in said if line.startswith("systemctl stop ")]
        assert {word for line in stopped for word in line.split()[2:]} == {"asa-system.service", "asa-helper.service"}
        assert "systemctl --global disable asa.service" in said
        assert said.index("asa doctor --undo") > said.index(stopped[-1])
    assert ran(section("preun"), "1") == []
    for said in (ran(f"{arch}\npost_remove"), ran(section("postun"), "0")):
        assert "rm -rf /var/lib/asa" in said


def test_an_upgrade_restarts_what_runs(ran):
    arch = (PACKAGING / "arch/asa.install").read_text()
    for said in (ran(f"{arch}\npost_upgrade"), ran(section("postun"), "1")):
        assert said == ["systemctl try-restart asa-helper.service asa-system.service"]
