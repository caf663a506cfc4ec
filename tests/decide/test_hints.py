# SPDX-License-Identifier: GPL-2.0-only
"""The table of hints: the shipped one, the user's changes, and each fault in one line."""

import re
from pathlib import Path

import pytest

from asa import paths
from asa.core.errors import InputError
from asa.core.evidence import MOST_WEIGHT
from asa.core.kinds import Kind
from asa.decide import hints, table
from asa.decide.evidence import AGREED
from asa.decide.hints import Signal

# https://specifications.freedesktop.org/menu-spec/latest/category-registry.html, those that the table may name
REGISTERED = """
AudioVideo Audio Video Development Education Game Graphics Network Office Science Settings System Utility
Building Debugger IDE GUIDesigner Profiling RevisionControl Translation Calendar ContactManagement Database
Dictionary Chart Email Finance FlowChart PDA ProjectManagement Presentation Spreadsheet WordProcessor 2DGraphics
VectorGraphics RasterGraphics 3DGraphics Scanning OCR Photography Publishing Viewer TextTools InstantMessaging Chat
IRCClient Feed FileTransfer News P2P RemoteAccess Telephony VideoConference WebBrowser WebDevelopment Midi Mixer
Sequencer Tuner TV AudioVideoEditing Player Recorder DiscBurning Music ArtificialIntelligence Emulator Archiving
Compression FileTools FileManager TerminalEmulator Filesystem Monitor TextEditor
"""


@pytest.fixture
def settings(tmp_path):
    return tmp_path / "asa.yaml"


def own(settings, text):
    settings.with_name(hints.NAME).write_text(text)
    return hints.load(settings, 0.5)


def test_the_shipped_table_names_categories_and_each_signal_and_counts_by_the_model(settings):
    found = hints.load(settings, 0.25)
    assert found.weight == 0.25
    assert set(found.categories) <= set(REGISTERED.split())
    assert set(found.signals) == set(Signal)
    kinds = {kind for row in (*found.categories.values(), *found.signals.values()) for kind in row}
    assert kinds == set(Kind)  # something speaks for each
    assert (paths.mapping_tables() / hints.NAME) not in table.shipped(paths.mapping_tables())


def test_a_browser_speaks_for_films_and_calls_too_but_less_than_what_would_tell_a_kind(settings):
    found = hints.load(settings, 0.5)
    rows = [found.categories["WebBrowser"], *(found.packages[name] for name in ("about::browser", "web::browser"))]
    for row in rows:
        assert row[Kind.BROWSE] > row[Kind.WATCH] == row[Kind.CALL] > row[Kind.BROWSE] / 2
        assert row[Kind.CALL] < AGREED


def test_the_users_lines_come_first_and_take_out(settings):
    shipped = hints.load(settings, 0.5)
    found = own(settings, "categories: {Game: {watch: 0.5}, Office: {}, X-Mine: {infer: 1.0}}\nsignals: {sound: {}}\n")
    assert found.categories["Game"] == {Kind.WATCH: 0.5}
    assert found.categories["X-Mine"] == {Kind.INFER: 1.0}
    assert "Office" not in found.categories
    assert found.categories["WebBrowser"] == shipped.categories["WebBrowser"]
    assert set(found.signals) == set(Signal) - {Signal.SOUND}
    assert found.weight == 0.5


@pytest.mark.parametrize("weight", [0, 1, MOST_WEIGHT])
def test_the_users_weight_comes_before_the_models(settings, weight):
    assert own(settings, f"weight: {weight}\n").weight == weight


def test_an_empty_file_changes_nothing(settings):
    assert own(settings, "") == hints.load(Path("/nowhere/asa.yaml"), 0.5)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("categories: {Game: {fly: 1.0}}", "categories.Game"),
        ("categories: {Game: {play: 1.5}}", "categories.Game.play"),
        ("categories: {Game: {play: yes}}", "categories.Game.play"),
        ("categories: {Game: 1}", "categories.Game"),
        ("signals: {moon: {play: 1.0}}", "signals"),
        ("signal: {}", "signal"),
        ("weight: -1", "weight"),
        ("weight: .nan", "weight"),
        ("version: 2", "version"),
        ("categories: {Game: {play: 1.0}, Game: {play: 0.5}}", ""),
        ("- 1", ""),
        ("{", ""),
    ],
)
def test_a_fault_is_one_line_that_says_where(settings, text, key):
    with pytest.raises(InputError) as fault:
        own(settings, text)
    assert fault.value.path == str(settings.with_name(hints.NAME))
    assert fault.value.key.startswith(key)
    assert "\n" not in str(fault.value)
    assert re.search(r"allowed|must be|one of|valid", str(fault.value)), str(fault.value)
