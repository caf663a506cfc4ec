# SPDX-License-Identifier: GPL-2.0-only
"""Manual pages in troff (man(7) macros) from a `grammar.Command`: asa(1), and one page for each of its commands.

argparse-manpage 4.8 was tried: its page of `asa config` has no exit status and none of the actions' examples and files.

A page depends on the parser, the version and SOURCE_DATE_EPOCH alone, so that packages can be built again.
"""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import asa
from asa.cli.grammar import Command, Item, Option, Word
from asa.core.errors import InputError

_MANUAL = "Adaptive Scheduling Agent"
_TITLES = ("exit status", "environment", "files", "examples", "notes")
_EXIT_STATUS = (
    Item(term="0", text="it was done"),
    Item(term="1", text="it could not be done; one line on standard error says why and what to do"),
)
_ALWAYS = (
    Item(term="2", text="the command line is not one that asa knows"),
    Item(term="130", text="it was interrupted"),
    Item(term="141", text="who read its output left before the end"),
)


def pages(top: Command, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """All pages by the name of their file. Raises InputError for a SOURCE_DATE_EPOCH that is no time."""
    date = _date(environment)
    found = {"asa.1": _join(_page(top, date))}
    found.update({f"{'-'.join(child.path)}.1": _join(_page(child, date)) for child in top.children})
    return found


def _page(command: Command, date: str) -> Iterator[str]:
    name = "-".join(command.path)
    is_top = len(command.path) == 1
    yield f'.TH {_dashes(name.upper())} 1 "{date}" "asa {asa.__version__}" "{_MANUAL}"'
    yield ".nh\n.ad l"  # names are not to be torn apart
    yield ".SH NAME"
    purpose = command.help or asa.__doc__.partition(": ")[2].rstrip(".")
    yield rf"{_dashes(name)} \- {_text(purpose)}"
    yield ".SH SYNOPSIS"
    for one in _with_usage(command):
        yield from _usage(one)
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command)
    if is_top:
        yield ".SH COMMANDS"
        for child in command.children:
            yield from _item(_bold(child.path[-1]), child.help)
    elif command.children:
        yield ".SH ACTIONS"
        for child in command.children:
            yield f'.SS "{_dashes(" ".join(child.path))}"'
            yield from _paragraphs(child)
            yield from _arguments(child, skip="--help")
    if command.words or command.options:
        yield ".SH OPTIONS"
        yield from _arguments(command)
    yield from _sections(command)
    others = [one for one in ("asa", *(f"asa-{child.path[-1]}" for child in command.children if is_top)) if one != name]
    if others:
        yield ".SH SEE ALSO"
        yield ",\n".join(rf"\fB{_dashes(one)}\fR(1)" for one in others)


def _with_usage(command: Command) -> Iterator[Command]:
    if command.children and len(command.path) > 1:
        yield from command.children
    else:
        yield command


def _usage(command: Command) -> Iterator[str]:
    # argparse knows what excludes what; its words are kept together per bracket, so that no option is torn apart
    path = " ".join(command.path)
    yield f'.SY "{_dashes(path)}"'
    rest = command.usage.removeprefix(path).strip()
    depth, word = 0, ""
    for letter in f"{rest} ":
        depth += (letter in "[({") - (letter in "])}")
        if letter == " " and depth == 0:
            if word:
                yield _marked(word)
            word = ""
        else:
            word += letter
    yield ".YS\n.nh"  # YS has hyphenation go on


def _marked(word: str) -> str:
    parts = re.split(r"(?<![\w-])(--?[\w-]+)|([A-Z][A-Z,]*(?![\w-]))", word)
    text = "".join(
        _bold(part) if number % 3 == 1 else rf"\fI{_plain(part)}\fR" if number % 3 == 2 else _plain(part)
        for number, part in enumerate(parts)
        if part
    )
    return _start(text.replace(" ", r"\ ").replace(r"|\ ", "| "))


def _paragraphs(command: Command) -> Iterator[str]:
    texts = command.description or (f"{command.help[:1].upper()}{command.help[1:]}.",)
    for number, text in enumerate(texts):
        if number:
            yield ".PP"
        yield _text(text)


def _arguments(command: Command, skip: str = "") -> Iterator[str]:
    for word in command.words:
        yield from _item(_value(word), word.help)
    for option in command.options:
        if skip not in option.names:
            yield from _item(_option(option), option.help)


def _option(option: Option) -> str:
    value = "" if option.word is None else rf" {_value(option.word)}"
    return ", ".join(_bold(name) + value for name in option.names)


def _value(word: Word) -> str:
    if word.choices and "|" in word.metavar:
        return "|".join(_bold(choice) for choice in word.choices)
    return rf"\fI{_plain(word.metavar)}\fR" + (" ..." if word.many else "")


def _sections(command: Command) -> Iterator[str]:
    family = (command, *(() if len(command.path) == 1 else command.children))
    for title in _TITLES:
        told = [(one, one.sections[title]) for one in family if title in one.sections]
        if title == "exit status":
            yield ".SH EXIT STATUS"
            yield from _exit_status(command, told)
        elif told:
            yield f".SH {title.upper()}"
            items = dict.fromkeys(item for _, listed in told for item in listed)
            for item in items:
                yield from _item(_bold(item.term), item.text) if item.term else (_text(item.text),)


def _exit_status(command: Command, told: list[tuple[Command, tuple[Item, ...]]]) -> Iterator[str]:
    for one, listed in told:
        if one is not command:
            yield f'.SS "{_dashes(" ".join(one.path))}"'
        for item in listed:
            yield from _item(_bold(item.term), item.text)
    if any(one is not command for one, _ in told):
        yield '.SS "each of them"'
    codes = {item.term for _, listed in told for item in listed}
    general = (*(() if told else _EXIT_STATUS), *_ALWAYS)
    for item in general:
        if item.term not in codes:
            yield from _item(_bold(item.term), item.text)


def _item(term: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield _start(term)
    yield _text(text) if text else r"\&"


def _text(text: str) -> str:
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _start(_plain(text))
    return _start("".join(_bold(part) if number % 2 else _plain(part) for number, part in enumerate(parts)))


def _bold(text: str) -> str:
    return rf"\fB{_dashes(text)}\fR"


def _dashes(text: str) -> str:
    return _escaped(text).replace("-", r"\-")


def _plain(text: str) -> str:
    return re.sub(r"(?<![\w\\])-", r"\-", _escaped(text))  # of an option; within a word it is a hyphen


def _escaped(text: str) -> str:
    for letter, name in (("\\", r"\e"), ("~", r"\(ti"), ("^", r"\(ha"), ("'", r"\(aq")):
        text = text.replace(letter, name)
    return "".join(letter if ord(letter) < 128 else rf"\[u{ord(letter):04X}]" for letter in text)


def _start(line: str) -> str:
    return rf"\&{line}" if line[:1] in (".", "'") else line


def _date(environment: Mapping[str, str]) -> str:
    text = environment.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return ""
    try:
        return datetime.fromtimestamp(int(text), UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError) as error:
        raise InputError(
            path="environment", key="SOURCE_DATE_EPOCH", value=text, allowed="seconds since 1970, or nothing"
        ) from error


def _join(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"
