# SPDX-License-Identifier: GPL-2.0-only
"""What is written is the text of before, and what was written before is read."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from asa import wire
from asa.core.decision import SchedulerName

ROOT = Path(__file__).resolve().parent.parent
FAST = SchedulerName("scx_lavd:performance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    scheduler: SchedulerName
    before: SchedulerName | None = None
    waiting: tuple[SchedulerName, ...] = ()
    costs: dict[SchedulerName, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfText:
    scheduler: str
    before: str | None = None
    waiting: tuple[str, ...] = ()
    costs: dict[str, int] = field(default_factory=dict)


TOLD = Told(scheduler=FAST, before=FAST.bare, waiting=(FAST,), costs={FAST: 3})
TEXT = OfText(scheduler=str(FAST), before="scx_lavd", waiting=(str(FAST),), costs={str(FAST): 3})


def test_a_name_is_written_as_its_text():
    assert wire.json_bytes(TOLD) == msgspec.json.encode(TEXT) == wire.json_text(TOLD).encode()
    assert wire.packer().encode(TOLD) == msgspec.msgpack.encode(TEXT)
    plain = wire.plain(TOLD)
    assert plain == msgspec.to_builtins(TEXT)
    assert {type(plain["scheduler"]), *map(type, plain["costs"])} == {str}


def test_text_is_read_as_a_name():
    for found in (
        wire.from_json(msgspec.json.encode(TEXT), Told),
        wire.from_msgpack(msgspec.msgpack.encode(TEXT), Told),
    ):
        assert found == TOLD
        assert [one.mode for one in (found.scheduler, *found.waiting, *found.costs)] == ["performance"] * 3
    shaped = wire.shaped(msgspec.to_builtins(TEXT), Told)
    assert shaped == TOLD
    assert [one.mode for one in (shaped.scheduler, *shaped.waiting)] == ["performance"] * 2


def test_what_may_be_anything_stays_what_it_is():
    body = {"web": {"values": {"a": [1, None]}, "name": "x"}}
    assert wire.from_json(msgspec.json.encode(body), dict[str, object]) == body
    assert wire.from_msgpack(msgspec.msgpack.encode(body), dict[str, object]) == body
    assert wire.shaped(body, dict[str, object]) == body


def test_what_is_no_text_is_no_name():
    with pytest.raises(msgspec.ValidationError, match=r"a SchedulerName is text, not int - at `\$\.scheduler`"):
        wire.from_json(b'{"scheduler": 3}', Told)
    with pytest.raises(NotImplementedError, match="a object has no form in a file"):
        wire.json_bytes(object())


def test_everybody_writes_and_reads_here():
    around = re.compile(r"msgspec\.((json|msgpack)\.(encode|decode|Encoder|Decoder)|convert|to_builtins)\(")
    files = (path for package in ("asa", "calibration", "scenarios") for path in (ROOT / package).rglob("*.py"))
    found = [str(path.relative_to(ROOT)) for path in files if around.search(path.read_text())]
    assert found == ["asa/wire.py"]
