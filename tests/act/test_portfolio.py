# SPDX-License-Identifier: GPL-2.0-only
"""The manifest's rules, and opening a binary: each way to slip another file in must be refused."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
import tuned_policy

from asa import paths
from asa.act.portfolio import Available, Origin, Portfolio, Record, Unavailable
from asa.core.decision import SchedulerName
from asa.core.errors import InputError, SchedulerError

MANIFEST = (
    tuned_policy.MANIFEST
    + """\
  - {name: scx_gone, source: {kind: host, reason: nobody has it}, purpose: second, ops: one_more, help: null,
     paper: false}
"""
)
POLICY = "{id: scx_one:loud, version: 1.0.0, purpose: loud, flags: {--loud: 3}, provenance: {kind: own}}"


@pytest.fixture
def manifest(tmp_path) -> Path:
    path = tmp_path / "manifest.yaml"
    path.write_text(MANIFEST)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/scx_one-loud.yaml").write_text(POLICY)
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    """A cache in which scx_one is installed: a copy of echo, so that what runs can be told."""
    folder = tmp_path / "scx"
    folder.mkdir()
    shutil.copyfile("/bin/echo", folder / "scx_one")
    (folder / "scx_one").chmod(0o755)
    return folder


def record(path: Path, **changes) -> Record:
    known = {
        "path": str(path),
        "origin": Origin.BUILT,
        "version": "1.0.0",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "flags": ("--loud",),
        "installed": "2026-01-01T00:00:00+00:00",
    }
    return Record(**known | changes)


@pytest.fixture
def portfolio(manifest, folder) -> Portfolio:
    portfolio = Portfolio.load(manifest, folder, "")
    portfolio.write_records({"scx_one": record(folder / "scx_one")})
    return portfolio


@pytest.fixture(autouse=True)
def _no_descriptor_is_lost():
    before = os.listdir("/proc/self/fd")  # noqa: PTH208  # names alone are wanted
    yield
    after = os.listdir("/proc/self/fd")  # noqa: PTH208
    assert len(after) <= len(before)  # what tests before had left may be collected meanwhile


def run(opened) -> str:
    try:
        command = {"executable": f"/proc/self/fd/{opened.fd}", "pass_fds": (opened.fd,)}
        return subprocess.run(opened.argv, **command, check=True, capture_output=True, text=True).stdout
    finally:
        os.close(opened.fd)


def test_the_shipped_manifest_has_the_papers_portfolio(tmp_path):
    portfolio = Portfolio.load(paths.manifest(), tmp_path, "")
    entries = [portfolio.entry(name) for name in portfolio.names()]
    paper = {entry.name for entry in entries if entry.paper}
    schedulers = ("p2dq", "bpfland", "lavd", "flash", "rusty", "simple", "nest")  # of the paper, which does not change
    assert paper == {"eevdf", *(f"scx_{name}" for name in schedulers)}
    assert portfolio.name_of_ops("bpfland_1.1.4_x86_64_unknown_linux_gnu") == "scx_bpfland"
    assert isinstance(portfolio.look("eevdf"), Available)
    nest = portfolio.look("scx_nest")
    assert isinstance(nest, Unavailable)
    assert "February 2026" in nest.reason
    assert {"default", "performance", "powersave", "autopilot"} <= set(portfolio.modes()["scx_lavd"])


def test_ops_are_told_by_prefix_and_the_longer_one_wins(portfolio):
    assert portfolio.name_of_ops("one") == "scx_one"
    assert portfolio.name_of_ops("one_1.0.0_x86_64") == "scx_one"
    assert portfolio.name_of_ops("one_more_1.0") == "scx_gone"
    for stranger in ("", "on", "oneself", "_one", "two"):
        assert portfolio.name_of_ops(stranger) is None


def test_look_tells_what_there_is(portfolio, folder):
    there = portfolio.look("scx_one")
    assert isinstance(there, Available)
    assert (there.path, there.origin, there.version) == (folder / "scx_one", Origin.BUILT, "1.0.0")
    assert there.flags == ("--loud",)
    eevdf = portfolio.look("eevdf")
    assert isinstance(eevdf, Available)
    assert (eevdf.origin, eevdf.path) == (Origin.KERNEL, None)
    gone = portfolio.look("scx_gone")
    assert isinstance(gone, Unavailable)
    assert "nobody has it" in gone.reason
    (folder / "scx_one").unlink()
    assert "is gone; run `asa schedulers install scx_one`" in portfolio.look("scx_one").reason
    portfolio.write_records({})
    assert portfolio.look("scx_one").reason == "not installed; run `asa schedulers install scx_one`"


def test_an_unknown_name_lists_the_known(portfolio):
    for question in (portfolio.entry, portfolio.look, portfolio.open):
        with pytest.raises(SchedulerError, match="scx_two: not in the manifest, which has eevdf, scx_one, scx_gone"):
            question(SchedulerName("scx_two"))


def test_what_was_opened_is_what_runs(portfolio, folder):
    opened = portfolio.open(SchedulerName("scx_one:loud"))
    assert opened.argv == ("scx_one", "--loud=3")
    assert opened.path == folder / "scx_one"
    (folder / "scx_one").unlink()
    shutil.copyfile("/bin/false", folder / "scx_one")  # somebody swaps the file between check and start
    assert run(opened) == "--loud=3\n"


def test_default_mode_and_unknown_mode(portfolio):
    assert run(portfolio.open(SchedulerName("scx_one"))) == "\n"
    with pytest.raises(SchedulerError, match="has no mode 'quiet', only default, loud"):
        portfolio.open(SchedulerName("scx_one:quiet"))


def test_eevdf_cannot_be_opened(portfolio):
    with pytest.raises(SchedulerError, match="kernel's own"):
        portfolio.open(SchedulerName("eevdf"))


def append(path):
    with path.open("ab") as file:
        file.write(b"x")


def replace(path, make):
    path.unlink()
    make(path)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (append, "is not the recorded file"),
        (lambda path: path.chmod(0o775), r"writable by others \(mode 0775\)"),
        (lambda path: path.chmod(0o757), r"writable by others \(mode 0757\)"),
        (lambda path: path.chmod(0o644), "not executable"),
        (lambda path: replace(path, lambda path: path.symlink_to("/bin/echo")), "symbolic links"),
        (lambda path: replace(path, os.mkfifo), "not a regular file"),
        (lambda path: replace(path, Path.mkdir), "not a regular file"),
        (Path.unlink, "No such file"),
    ],
)
def test_a_spoilt_binary_is_refused(portfolio, folder, spoil, told):
    spoil(folder / "scx_one")
    with pytest.raises(SchedulerError, match=told) as caught:
        portfolio.open(SchedulerName("scx_one"))
    assert "asa schedulers install" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_change_after_a_good_start_is_found(portfolio, folder):
    binary = folder / "scx_one"
    assert run(portfolio.open(SchedulerName("scx_one"))) == "\n"
    before = binary.stat()
    with binary.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")  # in place, of the same size, with the old time put back
    os.utime(binary, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(SchedulerError, match="is not the recorded file"):
        portfolio.open(SchedulerName("scx_one"))


def test_a_file_that_has_settled_is_hashed_once(portfolio, monkeypatch):
    echo = Path("/bin/echo").resolve()
    portfolio.write_records({"scx_one": record(echo)})
    assert run(portfolio.open(SchedulerName("scx_one:loud"))) == "--loud=3\n"
    monkeypatch.setattr(hashlib, "file_digest", None)
    assert run(portfolio.open(SchedulerName("scx_one:loud"))) == "--loud=3\n"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away needs root; run the tests as root")
def test_a_strangers_binary_is_refused_unless_named(manifest, folder, portfolio):
    os.chown(folder / "scx_one", 12345, 12345)
    with pytest.raises(SchedulerError, match="owned by user 12345"):
        portfolio.open(SchedulerName("scx_one"))
    assert run(Portfolio.load(manifest, folder, "", owners=(12345,)).open(SchedulerName("scx_one"))) == "\n"
    os.chown(folder / "scx_one", 0, 0)
    os.chown(folder / "installed.json", 12345, 12345)
    with pytest.raises(InputError, match="owned by user 12345"):
        portfolio.open(SchedulerName("scx_one"))


def test_what_is_not_installed_says_how(portfolio):
    portfolio.write_records({})
    with pytest.raises(SchedulerError, match="run `asa schedulers install scx_one`"):
        portfolio.open(SchedulerName("scx_one"))
    with pytest.raises(SchedulerError, match="nobody has it"):
        portfolio.open(SchedulerName("scx_gone"))


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"schedulers": {"scx_one": {"path": 1}}}', b'{"other": 1}', b"\xff\xfe", b"null"]
)
def test_a_damaged_record_is_one_clear_line(portfolio, folder, text):
    (folder / "installed.json").write_bytes(text)
    for question in (portfolio.look, portfolio.open):
        with pytest.raises(InputError, match=r"installed.json.*`asa schedulers install`") as caught:
            question(SchedulerName("scx_one"))
        assert "\n" not in str(caught.value)
    assert isinstance(portfolio.look(SchedulerName("eevdf")), Available), "resting needs no record"


def test_the_record_is_written_whole_and_with_safe_rights(portfolio, folder):
    umask = os.umask(0)
    try:
        portfolio.write_records({"scx_one": record(folder / "scx_one", flags=None, flags_reason="aborts")})
    finally:
        os.umask(umask)
    assert {path.name for path in folder.iterdir()} == {"installed.json", "scx_one"}
    assert portfolio.records()["scx_one"].flags_reason == "aborts"
    (folder / "installed.json").chmod(0o666)
    with pytest.raises(InputError, match="writable by others"):
        portfolio.open(SchedulerName("scx_one"))


def test_path_search(manifest, folder, portfolio, tmp_path, monkeypatch):
    bad, good, link = tmp_path / "bad", tmp_path / "good", tmp_path / "link"
    bad.mkdir()
    good.mkdir()
    link.symlink_to(folder)
    for place, rights in ((bad, 0o777), (good, 0o755)):
        shutil.copyfile("/bin/echo", place / "real")
        (place / "real").chmod(rights)
        (place / "scx_gone").symlink_to(place / "real")
    shutil.copyfile("/bin/echo", folder / "scx_gone")
    (folder / "scx_gone").chmod(0o755)

    def found(search):
        return Portfolio.load(manifest, folder, search).find_on_path("scx_gone")

    assert found(f"{folder}:{link}:{tmp_path}/nowhere") is None, "our own cache is not the host"
    assert found(f"{folder}:{bad}:{good}") == good / "real"
    closed, real = tmp_path / "closed", Path.is_file

    def is_file(path):
        if path.is_relative_to(closed):  # what another user than root meets in /root/bin
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    assert found(f"{closed}:{good}") == good / "real"
    monkeypatch.chdir(good)
    assert found(":.") is None, "relative entries depend on where one stands"
    monkeypatch.setenv("PATH", str(good))
    assert found(None) == good / "real"
    why = Portfolio.load(manifest, folder).look("scx_gone").reason
    assert why == f"{good}/real is not recorded yet; run `asa schedulers install scx_gone`"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("name: scx_gone", "name: scx_one", r"schedulers\[1\].name: 'scx_one' .* each one once"),
        ("ops: one_more", "ops: one", r"schedulers\[1\].ops: 'one' .* each one once"),
        ("ops: null", "ops: eevdf", r"schedulers\[0\].ops: 'eevdf'"),
        ("ops: one_more", "ops: null", r"schedulers\[2\].ops: None"),
        ("name: scx_gone", "name: ../../bin/sh", r"schedulers\[2\].name"),
        ("version: 1.0.0", "version: 1.0", r"schedulers\[1\].source.version: 1.0 .* text"),
        ("kind: host", "kind: magic", r"schedulers\[2\].source"),
        ("paper: false", "papers: false", r"schedulers\[2\]"),
        ("low: 1", "low: 9", r"schedulers\[1\].knobs.numbers.--loud.low: 9.0 .* a number below"),
        ("default: 1", "default: 0", r"schedulers\[1\].knobs.numbers.--loud.default: 0.0 .* 1 to 9"),
        ("high: 9, ", "high: 9, at_most: -x, ", r"schedulers\[1\].knobs.numbers.--loud.at_most: '-x'"),
        ("numbers: {--loud: ", "numbers: {loud: ", r"schedulers\[1\].knobs.numbers"),
    ],
)
def test_a_wrong_manifest_names_the_place(manifest, folder, old, new, told):
    assert MANIFEST.count(old) == 1
    manifest.write_text(MANIFEST.replace(old, new))
    with pytest.raises(InputError, match=told) as caught:
        Portfolio.load(manifest, folder, "")
    assert str(manifest) in str(caught.value)


def test_flags_survive_the_record(portfolio, folder):
    text = (folder / "installed.json").read_bytes()
    assert msgspec.json.decode(text)["schedulers"]["scx_one"]["flags"] == ["--loud"]
    assert portfolio.records()["scx_one"] == record(folder / "scx_one")
