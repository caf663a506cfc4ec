# SPDX-License-Identifier: GPL-2.0-only
"""A mapping table as a file: what is written is read back, a kill leaves the old one, every fault is named."""

import datetime
import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asa.core.errors import AsaError, InputError
from asa.decide import table, tablefile
from asa.host import Facts, Kind
from asa.yamlfile import FaultKind

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {"eevdf": ("default",), "scx_lavd": ("default", "performance"), "scx_flash": ("default",)}
FILE = """\
version: 2
machine: {name: laptop, cpu_model: AMD, cpus: 16, kinds: [{cores: 8, max_mhz: 4700}], memory_gb: 32.9, kernel: 6.18.5}
measured:
  date: 2026-11-23
  command: asa adapt
  tier: real
  seed: 1
  kernel: 6.18.5
  schedulers: {scx_lavd: 1.1.4, scx_flash: 1.1.4}
provenance: measured
costs:
  scx_lavd: {switch_ms: 41, overhead_pct: 0.6, runs: 5}
classes:
  web:
    - {scheduler: scx_lavd, why: measured, score: 0.91, low: 0.88, high: 0.93, runs: 6}
    - {scheduler: eevdf, why: measured, score: 0.8, low: 0.7, high: 0.9, runs: 6}
    - {scheduler: scx_flash, why: a prior}
"""


def written(folder, text, name="t.yaml"):
    (folder / name).write_text(text)
    return folder / name


def test_the_format_of_the_document(tmp_path):
    file = table.read(written(tmp_path, FILE))
    assert file.machine.kinds == (Kind(cores=8, max_mhz=4700),)
    assert file.measured.date == datetime.date(2026, 11, 23)
    assert file.costs["scx_lavd"] == table.Cost(switch_ms=41.0, overhead_pct=0.6, runs=5)
    assert file.classes["web"][0].score == 0.91
    assert file.classes["web"][2].score is None
    assert table.check(tmp_path / "t.yaml", KNOWN) == ()


def test_the_documents_example_is_right(tmp_path):
    example = (ROOT / "docs/mapping-table.md").read_text().split("```yaml\n")[1].partition("```")[0]
    assert table.check(written(tmp_path, example), KNOWN | {"scx_lavd": ("default", "performance", "powersave")}) == ()


def test_what_is_written_is_for_people_too(tmp_path):
    file = table.read(written(tmp_path, FILE))
    table.write(tmp_path / "new.yaml", file)
    lines = (tmp_path / "new.yaml").read_text().splitlines()
    assert lines[:3] == ["version: 2", "machine:", "  name: laptop"]
    assert "  scx_lavd: {switch_ms: 41.0, overhead_pct: 0.6, runs: 5}" in lines
    assert "  - {scheduler: scx_flash, why: a prior}" in lines


names = st.text(min_size=1, max_size=12)
figures = st.floats(allow_nan=False, allow_infinity=False)
entries = st.builds(
    table.Entry,
    scheduler=st.sampled_from(list(KNOWN)) | st.text(max_size=8),
    mode=st.sampled_from(["default", "performance", "off", "null", "1"]),
    why=names,
    score=st.none() | figures,
    low=st.none() | figures,
    high=st.none() | figures,
    error=st.none() | figures,
    runs=st.none() | st.integers(1, 1000),
    efficient=st.booleans(),
)
facts = st.builds(
    Facts,
    cpu_model=st.none() | st.text(max_size=8),
    cpus=st.none() | st.integers(1, 1_000_000),
    smt=st.none() | st.booleans(),
    kinds=st.none() | st.lists(st.builds(Kind, cores=st.integers(1, 9)), max_size=2).map(tuple),
    memory_gb=st.none() | st.floats(0.1, 1e6),
    kernel=st.none() | st.text(max_size=8),
)
measured = st.builds(
    table.Measured,
    date=st.dates(),
    command=names,
    tier=st.sampled_from(["real", "lab"]),
    seed=st.none() | st.integers(-(2**40), 2**40),
    kernel=names,
    schedulers=st.dictionaries(names, st.text(max_size=8), max_size=2),
)
costs = st.builds(
    table.Cost,
    switch_ms=st.none() | st.floats(0, 1e6),
    overhead_pct=st.none() | st.floats(-100, 100),
    runs=st.integers(1, 99),
)
files = st.builds(
    table.TableFile,
    version=st.sampled_from([1, 2]),
    machine=st.tuples(names, facts).map(lambda both: table.Machine(name=both[0], **msgspec.structs.asdict(both[1]))),
    measured=st.none() | measured,
    provenance=names,
    costs=st.dictionaries(names, costs, max_size=2),
    classes=st.dictionaries(st.text(max_size=12), st.lists(entries, min_size=1, max_size=3), max_size=3),
)
ODD = table.TableFile(
    version=2,
    machine=table.Machine(name="2026-11-23", cpu_model="no: #", kernel="6.18"),
    provenance="\x85\u2028 a\n\n b\ttab \U0001f600 \ufeff 'q' \"d\" \\ ",
    classes={
        key: [table.Entry(scheduler=key, why=key + "x")] for key in ("", "=", "<<", "null", "~", "1.1", "off", "? -")
    },
)


@given(files)
@example(ODD)
def test_what_is_written_is_read_back(tmp_path_factory, file):
    path = tmp_path_factory.getbasetemp() / "round" / "table.yaml"
    path.unlink(missing_ok=True)
    table.write(path, file)
    assert table.read(path) == msgspec.structs.replace(file, version=2)
    again = path.read_bytes()
    table.write(path, table.read(path))
    assert path.read_bytes() == again
    assert [one.name for one in path.parent.iterdir()] == ["table.yaml"]


def test_what_does_not_read_back_leaves_the_old_one(tmp_path, monkeypatch):
    path = written(tmp_path, FILE)
    file = table.read(path)
    monkeypatch.setattr(tablefile, "text", lambda file: FILE.replace("0.91", "0.90"))
    with pytest.raises(AsaError, match="read back"):
        table.write(path, file)
    monkeypatch.setattr(tablefile, "text", lambda file: "version: [")
    with pytest.raises(InputError):
        table.write(path, file)
    assert path.read_text() == FILE
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("at", ["os.fsync", "os.rename", "asa.decide.tablefile.read"])
def test_a_kill_before_the_rename_leaves_the_old_one_byte_for_byte(tmp_path, at):
    path = written(tmp_path, FILE)
    module, _, name = at.rpartition(".")
    code = f"""
import os, pathlib, signal, sys
import asa.decide.tablefile
from asa.decide import table
path = pathlib.Path(sys.argv[1])
file = table.read(path)
{module}.{name} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
table.write(path, file)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -9
    assert path.read_text() == FILE
    assert len(list(tmp_path.iterdir())) == 2  # and what the dead one had begun
    table.write(path, table.read(path))
    assert table.read(path).classes == table.read(written(tmp_path, FILE, "again.yaml")).classes


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AsaError, match=r"file/t.yaml: cannot write the mapping table"):
        table.write(tmp_path / "file/t.yaml", table.read(written(tmp_path, FILE)))


def test_the_old_one_is_kept_beside_the_new_one(tmp_path):
    new = written(tmp_path, "# mine\n" + FILE, "new.yaml")
    place = tmp_path / "state/table.yaml"
    assert table.put_keeping(place, new, KNOWN) is None
    assert place.read_bytes() == new.read_bytes()
    assert table.put_keeping(place, new, KNOWN) is None  # the same
    first = place.read_bytes()
    for number in (1, 2):
        before = place.read_bytes()
        new.write_text(f"# {number}\n{FILE}")
        assert table.put_keeping(place, new, KNOWN) == place.with_name(f"table.yaml.{number}")
        assert place.with_name(f"table.yaml.{number}").read_bytes() == before
    assert place.with_name("table.yaml.1").read_bytes() == first
    new.write_text("version: 9")
    with pytest.raises(InputError):
        table.put_keeping(place, new, KNOWN)
    assert sorted(one.name for one in place.parent.iterdir()) == ["table.yaml", "table.yaml.1", "table.yaml.2"]


def test_a_failed_import_leaves_all_as_it_was(tmp_path, monkeypatch):
    place, new = written(tmp_path, FILE, "table.yaml"), written(tmp_path, "# n\n" + FILE, "new.yaml")
    real = tablefile.put
    # the backup can be made, the new one cannot
    monkeypatch.setattr(tablefile, "put", lambda path, body, **named: fail() if path == place else real(path, body))

    def fail():
        raise AsaError("no room")

    with pytest.raises(AsaError, match="no room"):
        table.put_keeping(place, new, KNOWN)
    assert place.read_text() == FILE
    assert sorted(one.name for one in tmp_path.iterdir()) == ["new.yaml", "table.yaml"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_that_cannot_be_flushed_never_loses_the_old_one(tmp_path, monkeypatch, replaced):
    place, new = written(tmp_path, FILE, "table.yaml"), written(tmp_path, "# n\n" + FILE, "new.yaml")
    real, flushed = os.fsync, []

    def fsync(fd):
        flushed.append(stat.S_ISDIR(os.fstat(fd).st_mode))
        # the fourth is of the folder: after the backup's file and folder and the new one's file
        if len(flushed) == (4 if replaced else 3):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(AsaError, match="power cut" if replaced else "cannot write"):
        table.put_keeping(place, new, KNOWN)
    assert flushed == [False, True, False, True][: len(flushed)]
    kept = {one.name: one.read_text() for one in tmp_path.iterdir()}
    changed = {"table.yaml": new.read_text(), "table.yaml.1": FILE} if replaced else {"table.yaml": FILE}
    assert kept == changed | {"new.yaml": new.read_text()}


def test_what_is_written_may_keep_the_old_one_too(tmp_path):
    path = tmp_path / "table.yaml"
    file = table.read(written(tmp_path, FILE, "new.yaml"))
    assert table.write_keeping(path, file) is None
    path.write_text("# mine\n" + FILE)
    assert table.write_keeping(path, file) == tmp_path / "table.yaml.1"
    assert (tmp_path / "table.yaml.1").read_text() == "# mine\n" + FILE
    assert path.read_text() == table.text(file)
    assert table.write_keeping(path, file) is None  # the same


@pytest.mark.parametrize(("sign", "left"), [("SIGKILL", {"table.yaml.1"}), ("SIGINT", set())])
def test_an_end_after_the_copy_leaves_the_old_one_byte_for_byte(tmp_path, sign, left):
    path = written(tmp_path, FILE, "table.yaml")
    code = f"""
import os, pathlib, signal, sys
from asa.decide import table
path, rename = pathlib.Path(sys.argv[1]), os.rename
def renamed(part, to, **folders):
    if to == path.name:
        os.kill(os.getpid(), signal.{sign})
    return rename(part, to, **folders)
os.rename = renamed
table.write_keeping(path, table.read(path))
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=False, capture_output=True)
    assert done.returncode == -signal.Signals[sign]
    assert path.read_text() == FILE
    assert {one.name for one in tmp_path.iterdir() if not one.name.startswith(".")} == {"table.yaml"} | left
    assert all((tmp_path / name).read_text() == FILE for name in left)


def test_a_file_that_changes_between_check_and_import_is_not_taken(tmp_path):
    place = written(tmp_path, FILE, "table.yaml")
    new = written(tmp_path, FILE.replace("scx_lavd, why", "scx_other, why"), "new.yaml")
    with pytest.raises(InputError, match="scx_other"):
        table.put_keeping(place, new, KNOWN)
    assert place.read_text() == FILE


def test_nothing_is_written_through_a_link(tmp_path):
    path, other = tmp_path / "table.yaml", written(tmp_path, "theirs", "other")
    (tmp_path / f".table.yaml.{os.getpid()}-{threading.get_native_id()}.part").symlink_to(other)
    table.write(path, table.read(written(tmp_path, FILE)))
    assert other.read_text() == "theirs"
    assert not path.is_symlink()


@pytest.mark.parametrize(
    ("figures", "key"),
    [
        ("score: 7.5", "score"),  # in a hundred: every switch would pay
        ("score: 0.9, low: -3, high: 0.93", "low"),
        ("score: 0.9, low: 0.8, high: 900", "high"),
        ("score: 0.9, error: 0", "error"),
        ("score: 0.9, error: .inf", "error"),
        ("error: 0.1", "score"),
    ],
)
def test_figures_that_cannot_be_are_faults(tmp_path, figures, key):
    text = FILE.replace("score: 0.91, low: 0.88, high: 0.93, runs: 6", figures)
    assert text != FILE
    (fault,) = table.check(written(tmp_path, text), KNOWN)
    assert fault.key.endswith(f"[0].{key}")
    assert fault.line is not None


@pytest.mark.parametrize("runs", ["1000000001", "0", "1e3"])
def test_runs_are_a_number_that_can_be_counted(tmp_path, runs):
    (fault,) = table.check(written(tmp_path, FILE.replace("runs: 5", f"runs: {runs}")), KNOWN)
    assert fault.key == "costs.scx_lavd.runs"


WRONG = """\
version: 3
machine: {cpus: 0, kinds: [{cores: 1, mhz: 3}]}
measured: {date: soon, command: c, tier: real, kernel: 6.18, schedulers: {scx_lavdd: 1.0.0}}
provenance: p
costs:
  scx_x: {runs: 1, switch_ms: .inf}
  scx_lavd:fast: {runs: 1}
  scx_flash: {runs: 0}
classes:
  web:
    - {scheduler: scx_flsh, why: w}
    - {scheduler: scx_lavd, mode: fast, why: w, score: 0.5, low: 0.6}
    - {scheduler: scx_flash, why: 3}
    - {scheduler: eevdf, why: w, runs: 2}
    - {scheduler: eevdf, why: w, score: .nan}
  idle: []
  disk:
    - {scheduler: eevdf, why: w, scores: 1}
"""


def test_every_fault_is_named_with_its_key_and_line(tmp_path):
    found = table.check(written(tmp_path, WRONG), KNOWN)
    assert [(fault.line, fault.key) for fault in found] == [
        (1, "version"),
        (2, "machine.cpus"),
        (2, "machine.kinds[0].mhz"),
        (2, "machine.name"),
        (3, "measured.date"),
        (3, "measured.kernel"),
        (3, "measured.schedulers.scx_lavdd"),
        (6, "costs.scx_x"),
        (6, "costs.scx_x.switch_ms"),
        (7, "costs.scx_lavd:fast"),
        (8, "costs.scx_flash.runs"),
        (11, "classes.web[0].scheduler"),
        (12, "classes.web[1].mode"),
        (12, "classes.web[1].score"),
        (13, "classes.web[2].why"),
        (14, "classes.web[3].score"),
        (15, "classes.web[4]"),
        (15, "classes.web[4].score"),
        (16, "classes.idle"),
        (18, "classes.disk[0].scores"),
    ]


@pytest.mark.parametrize(
    "text", ["", "classes: 3", "- 1", "version: 2\nclasses: {web: {}}\ncosts: []\nmeasured: 1", "a: ["]
)
def test_whatever_stands_there_is_a_fault(tmp_path, text):
    path = written(tmp_path, text)
    assert table.check(path, KNOWN)
    with pytest.raises(InputError):
        table.load(path, KNOWN)


@given(files)
def test_check_says_what_load_says(tmp_path_factory, file):
    path = tmp_path_factory.getbasetemp() / "said" / "table.yaml"
    table.write(path, file)
    keys = [fault.key for fault in table.check(path, KNOWN)]
    said = refusal(path)
    assert said in keys if said is not None else keys == []


def refusal(path):
    try:
        table.load(path, KNOWN)
    except InputError as error:
        return error.key
    return None


def test_faults_that_only_a_person_can_mend_are_not_of_a_kind_of_their_own(tmp_path):
    (fault,) = table.check(written(tmp_path, FILE.replace("scx_flash, why", "scx_fash, why")), KNOWN)
    assert (fault.kind, fault.value, fault.allowed) == (FaultKind.WRONG, "scx_fash", "eevdf, scx_flash, scx_lavd")


def test_a_regime_may_be_ranked_by_its_name(tmp_path):
    ranked = FILE + "  regime:heavy-computing:\n    - {scheduler: scx_flash, why: it did better here}\n"
    path = written(tmp_path, ranked)
    assert table.check(path, KNOWN) == ()
    assert [one.scheduler for one in tablefile.read(path).classes["regime:heavy-computing"]] == ["scx_flash"]
    table.write(path, tablefile.read(path))
    assert table.check(path, KNOWN) == ()
    assert "regime:heavy-computing" in tablefile.read(path).classes


def test_a_regime_that_there_is_not_is_a_fault(tmp_path):
    path = written(tmp_path, FILE + "  regime:heavy-thinking:\n    - {scheduler: scx_flash, why: a guess}\n")
    (fault,) = table.check(path, KNOWN)
    assert (fault.key, fault.value) == ("classes.regime:heavy-thinking", "regime:heavy-thinking")
    assert "regime:heavy-computing" in fault.allowed
    assert fault.line == len(path.read_text().splitlines()) - 1
    with pytest.raises(InputError, match="heavy-thinking"):
        tablefile.read_checked(path, KNOWN)
