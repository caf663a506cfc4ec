# SPDX-License-Identifier: GPL-2.0-only
"""Desktop entries: whose categories count, how often files are opened, and what a file cannot do to us."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.hints import entries
from collectors.hints.entries import MOST_A_TICK, Entries, categories_of, folders_of

WRITER = """#!/usr/bin/env xdg-open
[Desktop Entry]
# of an office
Type = Application
Name=Writer
Name[de]=Categories=Game;
Categories=Office;WordProcessor; ;Office;X-Red-Hat-Base;

[Desktop Action new]
Categories=Game;
"""


class Shelf:
    """Two data folders, and entries over them with a clock that is set by hand."""

    def __init__(self, folder):
        self.now_ns = 1
        self.home, self.system = folder / "home", folder / "system"
        self.entries = Entries((self.home, self.system), now_ns=lambda: self.now_ns)
        self.opened = []

    def put(self, name, text, where=None):
        path = (where or self.system) / "applications" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def ask(self, name):
        self.entries.begin()
        return self.entries.categories(name)


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    made = Shelf(tmp_path)
    read = entries._text
    monkeypatch.setattr(entries, "_text", lambda path: made.opened.append(path) or read(path))
    return made


def test_categories_of_the_first_group_alone():
    assert categories_of(WRITER) == ("Office", "WordProcessor", "X-Red-Hat-Base")


@pytest.mark.parametrize(
    ("text", "categories"),
    [
        ("[Desktop Entry]\nType=Application\n", ()),
        ("[Desktop Entry]\nCategories=\n", ()),
        ("Categories=Game;\n", ()),  # of no group
        ("[Desktop Action new]\nCategories=Game;\n", ()),
        ("[Desktop Entry]\nType=Link\nCategories=Game;\n", None),
        ("[Desktop Entry]\nHidden=true\nCategories=Game;\n", None),
        ("[Desktop Entry]\r\nCategories=Game;\r\n", ("Game",)),
        (f"[Desktop Entry]\nCategories={'x' * 65};Game;a\x07b\n", ("Game",)),
        ("", ()),
    ],
)
def test_what_an_entry_says(text, categories):
    assert categories_of(text) == categories


def test_an_entry_of_a_million_categories_has_sixteen():
    assert len(categories_of("[Desktop Entry]\nCategories=" + ";".join(f"C{number}" for number in range(10**5)))) == 16


@given(st.text())
def test_any_text_is_harmless(text):
    found = categories_of(f"[Desktop Entry]\n{text}")
    assert found is None or len(found) <= 16


def test_the_users_own_entry_comes_first(shelf):
    shelf.put("writer.desktop", WRITER)
    assert shelf.ask("writer") == ("Office", "WordProcessor", "X-Red-Hat-Base")
    shelf.put("other.desktop", WRITER)
    shelf.put("other.desktop", "[Desktop Entry]\nCategories=Game;\n", shelf.home)
    assert shelf.ask("other") == ("Game",)


def test_an_entry_in_a_folder_has_the_folder_in_its_id(shelf):
    shelf.put("kde/okular-one.desktop", WRITER)
    assert shelf.ask("kde-okular-one") is not None
    assert shelf.ask("kde-okular") is None


def test_a_file_is_read_once_in_ten_minutes(shelf):
    path = shelf.put("writer.desktop", WRITER)
    for _ in range(100):
        shelf.ask("writer")
        shelf.ask("none")
    assert len([one for one in shelf.opened if one == str(path)]) == 1
    assert len(shelf.opened) == 4  # and a look into either folder for each
    path.write_text("[Desktop Entry]\nCategories=Game;\n")
    shelf.now_ns += 600_000_000_000
    assert shelf.ask("writer") == ("Game",)


def test_five_hundred_are_looked_for_by_and_by(shelf):
    for number in range(500):
        shelf.put(f"one{number}.desktop", WRITER)
    names = [f"one{number}" for number in range(500)]
    for tick in range(1, 126):
        shelf.entries.begin()
        known = sum(shelf.entries.categories(name) is not None for name in names)
        assert known == MOST_A_TICK * tick
    shelf.opened.clear()
    shelf.entries.begin()
    assert all(shelf.entries.categories(name) for name in names)
    assert shelf.opened == []
    for number in range(1000):
        shelf.ask(f"more{number}")
    assert len(shelf.entries._known) == 512


def test_what_is_no_file_says_nothing_and_holds_nobody_up(shelf):
    folder = shelf.put("writer.desktop", WRITER).parent
    os.mkfifo(folder / "pipe.desktop")
    (folder / "folder.desktop").mkdir()
    (folder / "loop.desktop").symlink_to("loop.desktop")
    (folder / "zero.desktop").symlink_to("/dev/zero")
    shelf.put("large.desktop", "#" * (1 << 20) + WRITER)
    (folder / "bytes.desktop").write_bytes(b"[Desktop Entry]\nCategories=\xff\xfe;Game;\n")
    for name in ("pipe", "folder", "loop", "zero", "large"):
        assert shelf.ask(name) == (), name
    assert "Game" in shelf.ask("bytes")


@pytest.mark.parametrize("name", ["", "../writer", "a/b", ".hidden", "a\0b", "x" * 300])
def test_what_is_no_id_is_not_looked_for(shelf, name):
    assert shelf.ask(name) is None
    assert shelf.opened == []


def test_the_folders_of_a_user(tmp_path):
    home = str(tmp_path)
    given = {"HOME": home, "XDG_DATA_DIRS": "/a:relative:/b:/a"}
    own = folders_of(given, 1000, 1000)
    assert own[:2] == (tmp_path / ".local/share", tmp_path / ".local/share/flatpak/exports/share")
    assert own[2:4] == (Path("/a"), Path("/b"))
    assert Path("/var/lib/flatpak/exports/share") in own
    assert folders_of(given | {"XDG_DATA_HOME": "/mine"}, 1000, 1000)[0] == Path("/mine")
    assert Path("/usr/share") in folders_of({"HOME": home}, 1000, 1000)


def test_root_reads_the_entries_of_who_is_at_the_screen():
    others = folders_of({"HOME": "/nobody's", "XDG_DATA_HOME": "/mine"}, 0, 1000)
    assert others[0] == Path("/root/.local/share")
    assert Path("/mine") not in others
    assert len(folders_of({"XDG_DATA_DIRS": ":".join(f"/{number}" for number in range(100))}, 1000, 1000)) == 32
