# SPDX-License-Identifier: GPL-2.0-only
"""The documents: they are where they say, name commands that exist, and generated pages are those of today."""

import re
from pathlib import Path

import pytest

from asa.cli.main import COMMANDS, LAB_COMMANDS, main
from asa.core.kinds import Kind
from scenarios import catalogue

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
BY_HAND = ("README.md", "CONTRIBUTING.md", "helping.md", "install.md", "laptop.md", "limits.md", "what-happens.md")
MOST_WORDS, MOST_IN_A_SENTENCE = 900, 25


def test_the_readme_fits_a_minute():
    assert len((ROOT / "README.md").read_text().split()) <= MOST_WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_index_names_every_page():
    index = (ROOT / "docs/README.md").read_text()
    assert {page.name for page in PAGES[3:]} - {"README.md"} <= set(re.findall(r"\((?:\.\./)?([\w-]+\.md)\)", index))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_each_command_that_is_named_exists(page):
    named = re.findall(r"(?:^|[`\s])asa ([a-z]+)(?: ([a-z]+))?", page.read_text(), re.MULTILINE)
    inside = {one for one in named if f"asa {one[0]}" in "".join(re.findall(r"`[^`]*`", page.read_text()))}
    for first, second in inside:
        assert first in COMMANDS, f"asa {first}"
        assert first != "lab" or second in (*LAB_COMMANDS, ""), f"asa lab {second}"


@pytest.mark.parametrize(
    ("name", "words"),
    [("settings.md", ["config", "show", "--markdown"]), ("commands.md", ["lab", "man", "--markdown"])],
)
def test_a_generated_page_is_as_of_now(name, words, capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert capsys.readouterr().out == (ROOT / "docs" / name).read_text(), f"write it anew: asa {' '.join(words)}"


@pytest.mark.parametrize("name", BY_HAND)
def test_sentences_are_short(name):
    """20 words a sentence are the rule; a quarter more is what a list or a path may cost."""
    path = ROOT / name if (ROOT / name).exists() else ROOT / "docs" / name
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    text = "\n\n".join(line for line in text.split("\n\n") if not line.lstrip().startswith(("|", "<", "!")))
    sentences = re.split(r"(?<=[.:!?;])\s+|\n\s*[-*\d]+[.)]?\s|\n\n", text)
    assert [one for one in sentences if len(one.split()) > MOST_IN_A_SENTENCE] == []


@pytest.mark.parametrize("kind", Kind)
def test_the_benchmarks_page_lists_the_programs_of_a_kind(kind):
    names = ", ".join(f"`{one.name}`" for one in catalogue.of_kind(kind))
    assert not names or f"| {kind} | {names} |" in (ROOT / "docs/benchmark.md").read_text()


def test_the_benchmarks_page_lists_what_is_of_no_kind():
    names = ", ".join(f"`{one.name}`" for one in catalogue.situations())
    assert names in " ".join((ROOT / "docs/benchmark.md").read_text().split())


def test_installing_lists_what_other_distributions_need():
    rows = [
        line.split("|")[1:-1] for line in (ROOT / "docs/install.md").read_text().splitlines() if line.startswith("|")
    ]
    head = next(row for row in rows if row[0].strip() == "for")
    assert [cell.strip().split()[0] for cell in head[1:]] == ["Debian", "Arch", "Fedora", "NixOS"]
    needed = rows[rows.index(head) + 2 :]
    clang = next(row for row in needed if "eBPF" in row[0])
    assert all("clang" in cell for cell in clang[1:])
