# SPDX-License-Identifier: GPL-2.0-only
"""Both formats of the extension, parsed by the engines of their GNOME Shell; titles classed as Python does it."""

import json
import random
import re

import engines
import pytest

from asa.core.errors import SetupError
from asa.debian import Codename
from collectors import titles
from collectors.gnome import extension
from collectors.gnome.extension import Format, format_for, render

SPOILED = [
    ("class Focus {", "class Focus {{"),
    ("enable() {", "enable( {"),
    ("const QUIET_MS = 100;", "const QUIET_MS = ;"),
    ("`<node>", "<node>"),
]
TITLES = [
    *("", " ", "Inbox (3) - a@example.com - Mozilla Firefox", "New Tab - Google Chrome", "GNOME Web Browser"),
    *("ann@laptop: ~/src", "~", "~/src/asa", "~/notes.txt", "vim", "bash", "htop", "Terminal", "root@box:/etc"),
    *("main.rs - asa - Visual Studio Code", "thesis.pdf", "Untitled 1 - LibreOffice Writer", "a.C", "x.h", "x.hh"),
    *(
        "example.com",
        "Version 2.5",
        "Files",
        "Calculator",
        "Ünïcode \u2014 Größe.odt",
        "读我.md",
        "x" * 600 + " - Firefox",
    ),
    *("firefox " + "y" * 600, "y" * 300 + " firefox " + "y" * 300, "a@" * 250, "\t~", "a\u00a0~", "Chromebook"),
]


@pytest.mark.gnome
def test_legacy_is_parsed_by_the_engine_of_43():
    engine = engines.gjs(Codename.BOOKWORM)
    script = render(Format.LEGACY)["extension.js"]
    assert engines.parse_legacy(engine, script) == ""
    for good, bad in SPOILED:
        assert good in script
        assert "SyntaxError" in engines.parse_legacy(engine, script.replace(good, bad, 1))


@pytest.mark.gnome
def test_esm_is_parsed_by_the_engine_of_48(tmp_path):
    engine = engines.gjs(Codename.TRIXIE)
    script = render(Format.ESM)["extension.js"]
    assert engines.parse_esm(engine, script, tmp_path) == ""
    for good, bad in [*SPOILED, ("export default", "export defualt")]:
        assert good in script
        assert "SyntaxError" in engines.parse_esm(engine, script.replace(good, bad, 1), tmp_path)
    legacy = render(Format.LEGACY)["extension.js"]
    assert engines.parse_esm(engine, legacy, tmp_path) != ""


@pytest.mark.gnome
@pytest.mark.parametrize(("codename", "format_"), [(Codename.BOOKWORM, Format.LEGACY), (Codename.TRIXIE, Format.ESM)])
def test_a_title_has_the_same_class_in_the_shell_and_in_python(codename, format_):
    chance = random.Random(3)  # noqa: S311  # the same titles each time
    letters = "a.~@:/ \u00a0-\\|()é\u2014" + "firefox.txt~"
    made = ["".join(chance.choices(letters, k=chance.randrange(1, 40))) for _ in range(500)]
    every = TITLES + made
    script = render(format_)["extension.js"]
    part = script[script.index("const TITLE_CLASSES") : script.index("class Focus")]
    told = engines.evaluate(
        engines.gjs(codename), f"{part}; print(JSON.stringify({json.dumps(every)}.map(classOfTitle)))"
    )
    assert told == [titles.class_of(title) for title in every]
    assert set(told) == {"", "browser", "terminal", "document", "other"}


def test_each_version_has_its_format():
    assert [format_for(major) for major in (43, 44)] == [Format.LEGACY] * 2
    assert [format_for(major) for major in range(45, 52)] == [Format.ESM] * 7
    for major in (42, 52):
        with pytest.raises(SetupError, match=f"GNOME Shell {major}"):
            format_for(major)


@pytest.mark.parametrize("format_", list(Format))
def test_what_is_made(format_):
    made = render(format_)
    assert made == render(format_)
    assert set(made) == {"extension.js", "metadata.json"}
    metadata = json.loads(made["metadata.json"])
    assert metadata["uuid"] == extension.UUID
    assert {format_for(int(version)) for version in metadata["shell-version"]} == {format_}
    assert metadata["session-modes"] == ["user"]
    assert metadata["asa-digest"] == extension.digest_of(made)
    script = made["extension.js"]
    assert script.isascii()
    assert script.count("class Focus {") == 1
    assert not re.findall("@[A-Z_]+@", script), "a mark that nothing was put in for"
    assert f"'{extension.NAME}'" in script
    assert f"'{extension.OBJECT_PATH}'" in script


def test_the_digest_is_of_the_text():
    legacy, esm = render(Format.LEGACY), render(Format.ESM)
    assert extension.digest_of(legacy) != extension.digest_of(esm)
    assert legacy["extension.js"].count("imports.") > 0
    assert "imports." not in esm["extension.js"]
