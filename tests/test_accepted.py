# SPDX-License-Identifier: GPL-2.0-only
"""Messages that list choices list the words that are accepted, for every setting and every argument that has some."""

import argparse
import enum
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from asa import accepted, config, yamlfile
from asa.cli import config as config_command
from asa.cli.main import parser
from asa.core.errors import InputError


class Loud(enum.StrEnum):
    YES = "aye"
    NO = "nay"


class Number(enum.Enum):
    ONE = 1
    TWO = 2


class Apple(msgspec.Struct, tag_field="kind", tag="apple"):
    pips: int = 0


class Pear(msgspec.Struct, tag_field="kind", tag="pear"):
    length: float = 0.0


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Loud, "aye, nay"),
        (Number, "1, 2"),
        (Annotated[Loud, Meta(description="x")] | None, "aye, nay or null"),
        (Literal["b", "a"], "a, b"),
        (bool, "true or false"),
        (Annotated[int, Meta(ge=1, le=5)], "a whole number from 1 to 5"),
        (Annotated[float, Meta(gt=0.0, le=600.0)], "a number above 0, up to 600"),
        (Annotated[float, Meta(gt=0.0, lt=1.0)], "a number above 0, below 1"),
        (Annotated[float, Meta(ge=0.0)] | Literal["auto"], "a number from 0 or auto"),
        (Annotated[str, Meta(pattern="^[a-z]+$")], "text of the form ^[a-z]+$"),
        (Annotated[str, Meta(min_length=1, max_length=9)], "text of at least 1 letters and of at most 9 letters"),
        (tuple[Loud, ...], "a list, each of them aye, nay"),
        (list[int], "a list, each of them a whole number"),
        (Annotated[list[int], Meta(min_length=2)], "a list of at least 2, each of them a whole number"),
        (Annotated[dict[str, Loud], Meta(min_length=1)], "keys of one's own, at least 1, each with aye, nay"),
        (tuple[int, str], "a list of 2: a whole number; text"),
        (dict[str, Loud], "keys of one's own, each with aye, nay"),
        (Apple | Pear, "kind: apple, pear"),
        (config.CollectSettings, "a mapping with the keys ebpf, desktop, gpu, groups, processes, timer"),
    ],
)
def test_what_a_type_takes(target, words):
    assert accepted.words(target) == words


@pytest.mark.parametrize("value", ["nonsense", "NONSENSE", "[a]", "{a: 1}", "-1e99", "true"])
def test_every_setting_names_what_it_takes_and_takes_what_it_names(tmp_path, value):
    path = tmp_path / "settings.yaml"
    for setting in config_command.settings(config.Settings(), {}):
        above, _, name = setting.key.rpartition(".")
        line = f"{name}: {value}"
        path.write_text(f"{above}: {{{line}}}\n" if above else f"{line}\n")
        error = refused(path)
        if error is not None:
            assert error.allowed == setting.allowed or error.key != setting.key, setting.key
            assert "`" not in str(error.allowed)
    for setting in config_command.settings(config.Settings(), {}):
        if not isinstance(setting.default, enum.Enum):
            continue
        above, _, name = setting.key.rpartition(".")
        for word in setting.allowed.split(", "):
            path.write_text(f"{above}: {{{name}: {word}}}\n")
            assert config.load(path)


@pytest.mark.parametrize(("ebpf", "words"), [("no", "auto, core, bcc, off"), ("AUTO", "auto, core, bcc, off")])
def test_the_words_of_the_file_not_the_names_in_the_code(ebpf, words):
    with pytest.raises(InputError, match=f"allowed: {words}$"):
        yamlfile.loads(f"collect: {{ebpf: {ebpf}}}", config.Settings, "F")


def refused(path):
    try:
        config.load(path)
    except InputError as error:
        return error
    return None


def arguments(command):
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from arguments(inner)
        elif action.choices is not None:
            yield command, action


def test_every_argument_with_choices_shows_words_that_are_accepted():
    found = list(arguments(parser()))
    assert any(action.dest == "shell" for _, action in found)
    for command, action in found:
        with pytest.raises(argparse.ArgumentError) as caught:
            command._check_value(action, "nonsense")
        said = str(caught.value).partition("choose from ")[2].rstrip(")")
        assert said
        for word in said.split(", "):
            assert word.strip("'") in map(str, action.choices), said
