# SPDX-License-Identifier: GPL-2.0-only
"""The command line as data: what shell completion and the manual pages are made from.

Reads an argparse parser. What a word may be is told by its choices, its type (a Path is a file) and its metavar, which
`Kind` lists. A description is paragraphs; an epilog is sections: a line `files:`, then lines indented by two, each a
term and, two or more spaces on or in the lines below it that are indented by more, the text about it.
"""

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class Kind(StrEnum):
    """What a word of the command line may be; the value is the metavar that says so."""

    FILE = "FILE"
    FOLDER = "DIR"
    NAME = "NAME"  # of a scheduler, as the manifest has it
    SCHEDULER = "SCHEDULER"  # with or without a mode
    WORKLOAD = "WORKLOAD"
    PAGE = "PAGE"  # a command of asa, for its manual page
    COMMAND = "COMMAND"  # a program of the machine and its arguments
    CHOICE = "CHOICE"  # one of `Word.choices`
    FREE = ""  # anything


class Parser(argparse.ArgumentParser):
    """Shows descriptions and epilogs in the lines in which they are written; so do the parsers of its commands.

    With `groups` (title -> names) its help shows the commands of each group, and no others.
    """

    def __init__(self, *arguments: Any, groups: Mapping[str, tuple[str, ...]] | None = None, **named: Any) -> None:
        named.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*arguments, **named)
        self.groups = groups or {}

    def format_help(self) -> str:
        """As argparse, with commands by group."""
        commands = next((one for one in self._actions if isinstance(one, argparse._SubParsersAction)), None)
        if commands is None or not self.groups:
            return super().format_help()
        told = {one.dest: one for one in commands._choices_actions}
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, names in self.groups.items():
            formatter.start_section(title)
            formatter.add_arguments([told[name] for name in names if name in told])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([one for one in self._actions if one is not commands])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A value that an option or a command takes."""

    metavar: str
    kind: Kind
    choices: tuple[str, ...] = ()
    help: str = ""
    optional: bool = False
    many: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option; `word` is None for a flag."""

    names: tuple[str, ...]
    word: Word | None
    help: str
    metavar: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry of a section."""

    term: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command and what it can do; `path` begins with the program's name."""

    path: tuple[str, ...]
    help: str
    usage: str
    description: tuple[str, ...]
    sections: dict[str, tuple[Item, ...]]
    options: tuple[Option, ...]
    words: tuple[Word, ...]
    children: tuple["Command", ...]

    def all(self) -> Iterator["Command"]:
        """This one and all below it, outer ones first."""
        yield self
        for child in self.children:
            yield from child.all()


def read(parser: argparse.ArgumentParser) -> Command:
    """The whole of `parser`, without what is hidden from its help."""
    return _command(parser, (parser.prog,), "")


def _command(parser: argparse.ArgumentParser, path: tuple[str, ...], told: str) -> Command:
    options, words, children = [], [], []
    for action in parser._actions:  # argparse tells its actions nowhere else
        help_text = _help(parser, action)
        if help_text is None:
            continue
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            children = [_command(one, (*path, name), texts.get(name, "")) for name, one in action.choices.items()]
        elif action.option_strings:
            metavar = _metavar(action)
            word = None if action.nargs == 0 else _word(action, metavar, "")
            options.append(
                Option(
                    names=tuple(action.option_strings),
                    word=word,
                    help=help_text,
                    metavar=metavar if word else "",
                    required=action.required,
                )
            )
        else:
            words.append(_word(action, _metavar(action), help_text))
    return Command(
        path=path,
        help=told,
        usage=" ".join(parser.format_usage().removeprefix("usage:").split()),
        description=tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n", parser.description or "") if part),
        sections=sections(parser.epilog or ""),
        options=tuple(options),
        words=tuple(words),
        children=tuple(children),
    )


def sections(epilog: str) -> dict[str, tuple[Item, ...]]:
    """The sections of an epilog by their titles; one that is written otherwise is a section "notes" of one item."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    items: list[tuple[str, list[str]]] | None = None
    for line in epilog.splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 0 and line.endswith(":"):
            items = found.setdefault(line[:-1], [])
        elif items is None or indent < 2:
            return {"notes": (Item(term="", text=" ".join(epilog.split())),)}
        elif indent == 2:
            term, _, text = line.strip().partition("  ")
            items.append((term, text.split()))
        elif items:
            items[-1][1].extend(line.split())
    return {
        title: tuple(Item(term=term, text=" ".join(text)) for term, text in listed) for title, listed in found.items()
    }


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str | None:
    if action.help == argparse.SUPPRESS:
        return None
    text = action.help or ""
    if "%" in text:
        text = parser._get_formatter()._expand_help(action)  # %(default)s and its like
    return " ".join(text.split())


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "|".join(str(choice) for choice in action.choices)
    return action.dest.upper()


def _word(action: argparse.Action, metavar: str, help_text: str) -> Word:
    choices = tuple(str(choice) for choice in action.choices or ())
    if not choices and re.fullmatch(r"[\w-]+(\|[\w-]+)+", metavar):
        choices = tuple(metavar.split("|"))
    kind = Kind.CHOICE if choices else Kind.FREE
    if not choices and metavar in set(Kind) - {Kind.CHOICE, Kind.FREE}:
        kind = Kind(metavar)
    elif not choices and action.type is Path:
        kind = Kind.FILE
    return Word(
        metavar=metavar,
        kind=kind,
        choices=choices,
        help=help_text,
        optional=action.nargs in ("?", "*") or (bool(action.option_strings) and not action.required),
        many=action.nargs in ("*", "+", argparse.REMAINDER),
    )
