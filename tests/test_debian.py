# SPDX-License-Identifier: GPL-2.0-only
"""apt and dpkg themselves, against a small archive on disk and a private package database."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from asa import debian
from asa.core.errors import SetupError

OWN = str(debian.release()) if Path("/etc/debian_version").exists() else "bookworm"
BACKPORTS = f"{OWN}-backports"
INSTALLED = """\
Package: asa-there
Status: install ok installed
Architecture: all
Version: 1:2.5-1
Maintainer: nobody <nobody@example.org>
Description: is installed

Package: asa-removed
Status: deinstall ok config-files
Architecture: all
Version: 3.0
Maintainer: nobody <nobody@example.org>
Description: only its configuration is left

"""


def make_deb(folder: Path, package: str, version: str, content: str = "", compress: str = "none") -> Path:
    tree = folder / f"tree-{package}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    fields = {"Package": package, "Version": version, "Architecture": "all", "Maintainer": "nobody <n@example.org>"}
    control = "".join(f"{key}: {value}\n" for key, value in fields.items()) + "Description: a test\n"
    (tree / "DEBIAN/control").write_text(control)
    (tree / "usr/share/asa-test").mkdir(parents=True)
    (tree / f"usr/share/asa-test/{package}").write_text(content or version)
    deb = folder / f"{package}_{version.replace(':', '-')}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", f"-Z{compress}", "--build", tree, deb], check=True, stdout=-3)
    shutil.rmtree(tree)
    return deb


@dataclass
class Archive:
    """A Debian archive in a folder, and an apt that knows nothing else."""

    root: Path
    uri: str

    def publish(self, suite: str, debs: list[Path], machine: str = "") -> None:
        entries = []
        for deb in debs:
            facts = subprocess.run(["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True).stdout
            body = deb.read_bytes()
            place = f"Filename: {deb.relative_to(self.root)}\nSize: {len(body)}\n"
            entries.append(f"{facts}{place}SHA256: {hashlib.sha256(body).hexdigest()}\n")
        index = "\n".join(entries).encode()
        dist = self.root / "dists" / suite
        if not machine:
            told = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True)
            machine = told.stdout.strip()
        relative = f"main/binary-{machine}/Packages"
        (dist / relative).parent.mkdir(parents=True, exist_ok=True)
        (dist / relative).write_bytes(index)
        sums = f"SHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} {relative}\n"
        head = f"Origin: Debian\nSuite: {suite}\nCodename: {suite}\nArchitectures: {machine} all\n"
        (dist / "Release").write_text(f"{head}Components: main\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n{sums}")

    def publish_source(self, suite: str, package: str, versions: list[str]) -> None:
        entries = []
        for version in versions:
            files = {
                f"{package}_{version}.dsc": b"dropped",
                f"{package}_{version.partition('-')[0]}.orig.tar.xz": f"source of {version}".encode(),
                f"{package}_{version}.debian.tar.xz": b"dropped",
            }
            sums = "".join(f" {hashlib.sha256(body).hexdigest()} {len(body)} {name}\n" for name, body in files.items())
            entries.append(f"Package: {package}\nVersion: {version}\nDirectory: pool\nChecksums-Sha256:\n{sums}")
            (orig,) = (name for name in files if ".orig." in name)
            (self.root / "pool" / orig).write_bytes(files[orig])  # Debian's own part has left the mirror
        index = "\n".join(entries).encode()
        dist = self.root / "dists" / suite
        (dist / "main/source").mkdir(parents=True, exist_ok=True)
        (dist / "main/source/Sources").write_bytes(index)
        line = f" {hashlib.sha256(index).hexdigest()} {len(index)} main/source/Sources\n"
        with (dist / "Release").open("a") as file:
            file.write(line)


@pytest.fixture
def database(tmp_path, monkeypatch) -> Path:
    """A package database of our own, which dpkg and dpkg-query use."""
    root = tmp_path / "machine"
    for folder in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text(INSTALLED)
    monkeypatch.setenv("DPKG_ADMINDIR", str(root / "var/lib/dpkg"))
    return root


@pytest.fixture
def archive(tmp_path, monkeypatch, database) -> Archive:
    root = tmp_path / "debian"
    pool = root / "pool"
    pool.mkdir(parents=True)
    found = Archive(root, f"file:{root}")
    found.publish(OWN, [make_deb(pool, "asa-tool", "1.0")])
    versions = ("1.9", "1.10~rc1", "1.10", "1:0.5")
    found.publish(BACKPORTS, [make_deb(pool, "asa-tool", version) for version in versions])
    for folder in ("etc/preferences.d", "etc/trusted.gpg.d", "state/lists/partial", "cache/archives/partial", "log"):
        (tmp_path / "apt" / folder).mkdir(parents=True)
    configuration = tmp_path / "apt/apt.conf"
    configuration.write_text(
        f'Dir::Etc "{tmp_path}/apt/etc"; Dir::Etc::parts "/dev/null"; Dir::State "{tmp_path}/apt/state";\n'
        f'Dir::State::status "{database}/var/lib/dpkg/status"; Dir::Cache "{tmp_path}/apt/cache";\n'
        f'Dir::Log "{tmp_path}/apt/log"; APT::Sandbox::User "root";\n'
        'Acquire::AllowInsecureRepositories "true"; APT::Get::AllowUnauthenticated "true";\n'
        f'DPkg::Options {{ "--root={database}"; "--force-not-root"; "--log={tmp_path}/apt/log/dpkg"; }};\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(configuration))
    (tmp_path / "apt/etc/sources.list").write_text(f"deb {found.uri} {OWN} main\n")
    return found


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.mark.parametrize(
    ("text", "codename"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n', "bookworm"),
        ('ID=debian\nVERSION_CODENAME="trixie"\n', "trixie"),
        ("ID=linuxmint\nVERSION_CODENAME=faye\nDEBIAN_CODENAME=bookworm\n", "bookworm"),
    ],
)
def test_release_of_debian_and_what_derives_from_it(tmp_path, text, codename):
    (tmp_path / "os-release").write_text(text)
    assert debian.release(tmp_path / "os-release") == codename


@pytest.mark.parametrize(
    "text", ['PRETTY_NAME="Fedora Linux 44"\nVERSION_CODENAME=""\n', "ID=ubuntu\nVERSION_CODENAME=noble\n", ""]
)
def test_release_elsewhere_says_what_to_do(tmp_path, text):
    (tmp_path / "os-release").write_text(text)
    with pytest.raises(SetupError, match=r"neither Debian 12 nor 13.* by hand"):
        debian.release(tmp_path / "os-release")


def test_release_without_the_file_names_it(tmp_path):
    with pytest.raises(SetupError, match="nowhere: No such file"):
        debian.release(tmp_path / "nowhere")


def test_missing_knows_installed_removed_unknown_and_too_old(database):
    asked = ["asa-there", "asa-there>=1:2.5", "asa-there>=1:2.10", "asa-there>=9", "asa-removed", "asa-unknown"]
    assert debian.missing(asked) == ("asa-there>=1:2.10", "asa-removed", "asa-unknown")
    assert debian.missing([]) == ()


def test_install_calls_nothing_when_nothing_is_missing(database, tmp_path, monkeypatch, said):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("apt-get", "sudo", "env"):
        (tools / tool).write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexit 1\n")
        (tools / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    debian.install(["asa-there"], report=said.append, cache=tmp_path)
    assert not (tmp_path / "called").exists()
    with pytest.raises(SetupError):  # the tools above are what would have been called
        debian.install(["asa-unknown"], report=said.append, cache=tmp_path)
    assert (tmp_path / "called").exists()


def test_versions_are_the_suites_own_newest_first(archive, tmp_path, said):
    found = debian.versions("asa-t*", (BACKPORTS,), report=said.append, cache=tmp_path / "cache")
    assert [offer.version for offer in found] == ["1:0.5", "1.10", "1.10~rc1", "1.9"]
    assert {offer.package for offer in found} == {"asa-tool"}
    assert debian.versions("asa-x*", (BACKPORTS,), report=said.append, cache=tmp_path / "cache") == ()
    assert len(said) == 1, "fresh lists are not fetched again"


def test_packages_of_another_architecture(archive, tmp_path, said):
    other = "riscv64"  # neither this machine's nor one that tests run on
    deb = make_deb(archive.root, "asa-elsewhere", "3.0")
    archive.publish(BACKPORTS, [deb], other)
    asked = {"suites": [BACKPORTS], "report": said.append, "cache": tmp_path / "cache", "architecture": other}
    offers = debian.versions("asa-else*", **asked)
    assert [(offer.package, offer.version) for offer in offers] == [("asa-elsewhere", "3.0")]
    assert debian.download("asa-elsewhere", tmp_path / "debs", **asked).read_bytes() == deb.read_bytes()


def test_old_lists_are_fetched_again(archive, tmp_path, said):
    debian.versions("asa-tool", (BACKPORTS,), report=said.append, cache=tmp_path / "cache")
    archive.publish(BACKPORTS, [make_deb(archive.root / "pool", "asa-tool", "2.0")])
    (stamp,) = (tmp_path / "cache").rglob("fetched")
    os.utime(stamp, (1_000_000_000, 1_000_000_000))
    found = debian.versions("asa-tool", (BACKPORTS,), report=said.append, cache=tmp_path / "cache")
    assert [offer.version for offer in found] == ["2.0"]


def test_the_mirror_is_debians_own_among_others(archive, tmp_path, said):
    sources = tmp_path / "apt/etc/sources.list"
    vendor = f"deb file:{tmp_path}/vendor/debian {OWN} main\n"
    sources.write_text(f"{vendor}{sources.read_text()}deb {archive.uri} {OWN}-updates main\n")
    assert debian.versions("asa-tool", (BACKPORTS,), report=said.append, cache=tmp_path / "cache")


def test_without_a_source_for_this_release(archive, tmp_path, said):
    (tmp_path / "apt/etc/sources.list").write_text("")
    with pytest.raises(SetupError, match=r"no source of apt serves .* add a Debian mirror"):
        debian.versions("asa-tool", (BACKPORTS,), report=said.append, cache=tmp_path / "cache")


def test_download_is_whole_cached_and_by_version(archive, tmp_path, said):
    def get(version=None):
        return debian.download(
            "asa-tool",
            tmp_path / "debs",
            suites=(BACKPORTS,),
            report=said.append,
            version=version,
            cache=tmp_path / "cache",
        )

    (tmp_path / "debs/.part-old").mkdir(parents=True)
    old = get("1.9")
    assert subprocess.check_output(["dpkg-deb", "-f", old, "Version"], text=True) == "1.9\n"
    new = get("1:0.5")
    assert subprocess.check_output(["dpkg-deb", "-f", new, "Version"], text=True) == "1:0.5\n"
    assert not list((tmp_path / "debs").glob(".part-*"))
    shutil.rmtree(archive.root / "pool")
    assert get("1.9") == old
    assert get() == new, "without a version the newest of what is there"
    with pytest.raises(SetupError, match=r"downloading asa-tool=1\.10"):
        get("1.10")


def test_a_damaged_download_leaves_nothing(archive, tmp_path, said):
    (deb,) = (archive.root / "pool").glob("*_1.9.deb")
    deb.write_bytes(deb.read_bytes()[:-100] + b"x" * 100)
    with pytest.raises(SetupError, match=r"downloading asa-tool=1\.9"):
        debian.download(
            "asa-tool",
            tmp_path / "debs",
            suites=(BACKPORTS,),
            report=said.append,
            version="1.9",
            cache=tmp_path / "cache",
        )
    assert [path.name for path in (tmp_path / "debs").iterdir()] == [".lock"]


def test_the_upstream_tarball_is_had_without_debians_own_part(archive, tmp_path, said):
    archive.publish_source(BACKPORTS, "asa-source", ["1.9-1", "1.10-1~bpo1", "1.11-1"])
    (archive.root / "pool/asa-source_1.11.orig.tar.xz").unlink()
    asked = {"suites": (BACKPORTS,), "report": said.append, "cache": tmp_path / "cache"}
    assert debian.source_versions("asa-source", **asked) == ["1.11-1", "1.10-1~bpo1", "1.9-1"]
    tarball = debian.download_source("asa-source", "1.10-1~bpo1", tmp_path / "sources", **asked)
    assert tarball == tmp_path / "sources/asa-source_1.10.orig.tar.xz"
    assert tarball.read_text() == "source of 1.10-1~bpo1"
    with pytest.raises(SetupError, match=r"downloading the source of asa-source=1\.11-1"):
        debian.download_source("asa-source", "1.11-1", tmp_path / "sources", **asked)
    assert sorted(path.name for path in (tmp_path / "sources").iterdir()) == [".lock", tarball.name]
    assert debian.source_versions("asa-none", **asked) == []


def test_an_unsigned_archive_is_refused(archive, tmp_path, said):
    configuration = tmp_path / "apt/apt.conf"
    configuration.write_text(configuration.read_text().replace("AllowInsecureRepositories", "Ignored"))
    with pytest.raises(SetupError, match="not signed"):
        debian.versions("asa-tool", (BACKPORTS,), report=said.append, cache=tmp_path / "cache")


def test_unpack_is_all_or_nothing(tmp_path):
    deb = make_deb(tmp_path, "asa-tool", "1.0", content="x" * 5000)
    root = debian.unpack(deb, tmp_path / "out")
    assert (root / "usr/share/asa-test/asa-tool").read_text() == "x" * 5000
    deb.write_bytes(deb.read_bytes()[:2500])
    assert debian.unpack(deb, tmp_path / "out") == root, "what is there is whole"
    with pytest.raises(SetupError, match="unpacking"):
        debian.unpack(deb, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert not list(tmp_path.glob(".part-*"))


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="dpkg installs as root only; run the tests as root")


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("own_backports", [False, True])
def test_install_from_another_suite_into_a_private_machine(archive, database, tmp_path, said, own_backports):
    sources = tmp_path / "apt/etc/sources.list"
    if own_backports:  # with a keyring that is not ours: naming the suite twice would be an error of apt
        sources.write_text(f"{sources.read_text()}deb [signed-by=/etc/hostname] {archive.uri} {BACKPORTS} main\n")
    before = sources.read_text()
    debian.install(["asa-tool>=1:0.1"], suites=(BACKPORTS,), report=said.append, cache=tmp_path / "cache")
    assert (database / "usr/share/asa-test/asa-tool").read_text() == "1:0.5"
    assert debian.missing(["asa-tool>=1:0.5"]) == ()
    assert sources.read_text() == before
    assert "installing asa-tool" in said


@pytest.mark.root
@needs_root
def test_install_from_the_machines_own_sources(archive, database, tmp_path, said):
    debian.install(["asa-tool", "asa-there"], report=said.append, cache=tmp_path / "cache")
    assert (database / "usr/share/asa-test/asa-tool").read_text() == "1.0"
    with pytest.raises(SetupError, match="asa-tool>=2"):
        debian.install(["asa-tool>=2"], report=said.append, cache=tmp_path / "cache")
    with pytest.raises(SetupError, match="Unable to locate package asa-unknown"):
        debian.install(["asa-unknown"], report=said.append, cache=tmp_path / "cache")
