# SPDX-License-Identifier: GPL-2.0-only
"""A journal of which a page is damaged: each read says so in one line, as the commands that read it do."""

import lzma
import sqlite3

import pytest

from asa import paths
from asa.book import Book
from asa.cli import explain_features
from asa.cli.main import main
from asa.config import JournalSettings
from asa.core.decision import SwitchEvent, SwitchOutcome
from asa.core.errors import JournalError
from asa.core.sample import RawSample
from asa.journal import Journal, SessionHeader

HEADER = SessionHeader(started_ns=1, asa_version="0", host="here", kernel="6", cpus=2)
EVENT = SwitchEvent(
    monotonic_ns=1, outcome=SwitchOutcome.CONFIRMED, old="eevdf", new="scx_flash", elapsed_ns=1, detail="", undo=""
)
READS = {
    "session": lambda journal: journal.sessions(),
    "sample": lambda journal: list(journal.samples(1)),
    "sample_session": lambda journal: journal.ticks(1),
    "event": lambda journal: list(journal.heard(1)),
    "told": lambda journal: list(journal.told(1)),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "j.sqlite"
    with Journal.open(path) as journal:
        journal.begin(HEADER)
        journal.add(RawSample(monotonic_ns=1, wall_ns=1), events=(EVENT,), sizes={"scx_flash": 1})
    return path


def damage(path, name):
    """The first page of a table or an index is no page any more."""
    with sqlite3.connect(path) as db:
        (number,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    db.close()
    with path.open("r+b") as body:
        body.seek((number - 1) * size)
        body.write(b"\xff" * size)


@pytest.mark.parametrize("name", READS)
def test_each_read_says_so(file, name):
    with Journal.look(file) as journal:
        assert READS[name](journal)
    damage(file, name)
    with (
        Journal.look(file) as journal,
        pytest.raises(JournalError, match=r"j\.sqlite: cannot be read as a journal: .*"),
    ):
        READS[name](journal)


def test_of_a_packed_one_too(file, tmp_path):
    damage(file, "sample")
    packed = tmp_path / "j.journal.xz"
    packed.write_bytes(lzma.compress(file.read_bytes()[:18] + b"\x01\x01" + file.read_bytes()[20:]))  # in no WAL mode
    with Journal.unpack(packed) as journal, pytest.raises(JournalError, match="journal: cannot be read as a journal"):
        list(journal.samples(1))


@pytest.mark.parametrize("wrong", [b"\x81\xabasa_version\xa1\xff", 5])
def test_a_row_that_is_no_text_or_no_bytes(file, wrong):
    with sqlite3.connect(file) as db:
        db.execute("UPDATE session SET header = ?", (wrong,))
    db.close()
    with Journal.look(file) as journal, pytest.raises(JournalError, match="session 1 is not of this version"):
        journal.sessions()


def test_a_list_of_tables_that_is_no_text(file, tmp_path):
    body = file.read_bytes()
    file.write_bytes(body.replace(b"CREATE TABLE sample", b"CRE\xffTE TABLE sample"))
    with pytest.raises(JournalError, match="cannot be read as a journal"):
        Journal.look(file)
    said = []
    book = Book(file, JournalSettings(), said.append, needed=False)
    book.begin(HEADER)  # SQLite's own message is no text either
    book.close()
    assert "moved to" in said[0]


@pytest.mark.parametrize(
    "words",
    [
        ("journal", "list"),
        ("journal", "export"),
        ("report",),
        ("journal", "replay"),
        ("explain", "--journal"),
        ("journal", "show"),
    ],
)
def test_commands_say_it_in_one_line(file, words, capsys, monkeypatch, tmp_path):
    here = paths.Places(run=tmp_path / "run", state=tmp_path, config=tmp_path / "none.yaml")
    monkeypatch.setattr(paths, "default", lambda: here)
    for name in ("sample", "event"):
        damage(file, name)
    with pytest.raises(SystemExit) as ended:
        main([*words, str(file)])
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"asa: {file}: cannot be read as a journal: ")


def test_an_explanation_goes_on_without_it(file, tmp_path):
    damage(file, "sample")
    assert "cannot be read as a journal" in explain_features.recognition(file, tmp_path).wrong
