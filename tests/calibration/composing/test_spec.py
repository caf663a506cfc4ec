# SPDX-License-Identifier: GPL-2.0-only
"""What fills the slots of a composed scheduler: presets, refusals, the C header, the manifest's entry."""

import itertools
import re

import msgspec
import pytest
import yaml

from asa import wire
from asa.act import manifest
from asa.core.errors import InputError
from calibration.composing import spec
from calibration.composing.spec import Between, Classes, Order, Placement, Queues, Spec

SOURCE = spec.PRESETS.parent / "scx_compose.bpf.c"
LOADER = spec.PRESETS.parent / "scx_compose.c"


def composed(**slots):
    return Spec(**({"id": "mine", "purpose": "a test", "order": Order.FIFO} | slots))


def fitting():
    """All specs whose slots go together."""
    for classes, order, queues, between, placement in itertools.product(Classes, Order, Queues, Between, Placement):
        one = composed(classes=classes, order=order, queues=queues, between=between, placement=placement)
        try:
            spec.check(one, "")
        except InputError:
            continue
        yield one


def test_the_presets_are_those_that_the_documentation_names_and_each_is_whole():
    assert spec.preset_names() == ["cgroup", "edf", "fifo", "ljf", "sjf", "two_level", "vtime"]
    for name in spec.preset_names():
        assert spec.load(name, {}).id == name


def test_virtual_time_has_the_numbers_of_scx_simple():
    one = spec.load("vtime", {})
    assert (one.classes, one.queues, one.between, one.placement) == ("none", "global", "none", "default")
    numbers = {name: found.number.default for name, found in spec.parameters(one).items()}
    assert numbers == {"slice-us": 20_000, "lag-us": 20_000}


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ({"queues": "class"}, "classes: 'none' is not accepted; allowed: another than none with queues: class"),
        ({"queues": "class", "classes": "nice"}, "between: 'none' is not accepted; allowed: shares or priority"),
        ({"between": "shares"}, "between: 'shares' is not accepted; allowed: none, unless queues is class"),
        ({"classes": "nice"}, "classes: 'nice' is not accepted; allowed: none, unless queues is class or order is edf"),
        (
            {"parameters": {"age-ms": 5}},
            "parameters.age-ms: 5 is not accepted; allowed: parameters of these slots: slice-us",
        ),
        (
            {"parameters": {"slice-us": 0}},
            "parameters.slice-us: 0 is not accepted; allowed: a whole number of us, 100 to 20000",
        ),
        ({"order": "lottery"}, "order: 'lottery' is not accepted; allowed: fifo, vtime, sjf, ljf, edf"),
        ({"id": 'x"\n#include "y'}, "id: "),
    ],
)
def test_what_does_not_go_together_is_told_in_one_line(tmp_path, slots, message):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"id": "mine", "purpose": "a test", "order": "fifo"} | slots))
    with pytest.raises(InputError) as caught:
        spec.load(str(path), {})
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_an_unknown_preset_and_a_parameter_out_of_range_are_told():
    with pytest.raises(InputError, match="'vtme' is not accepted; allowed: one of cgroup, edf"):
        spec.load("vtme", {})
    with pytest.raises(InputError, match=r"--param: parameters\.slice-us: 99 is not accepted"):
        spec.load("vtime", {"slice-us": 99})


def test_between_queues_an_age_limit_is_always_there_and_far_below_the_watchdog():
    for one in fitting():
        numbers = {name: found.number for name, found in spec.parameters(one).items()}
        if one.between is not Between.NONE or one.order not in (Order.FIFO, Order.VTIME):
            assert 1 <= numbers["age-ms"].low < numbers["age-ms"].high <= 1_000


def test_a_header_has_names_that_the_c_files_know_and_places_that_they_have():
    source, loader = SOURCE.read_text(), LOADER.read_text()
    for one in fitting():
        text = spec.header(one)
        text.encode("ascii")
        for slot, value in one.slots.items():
            name = f"{slot}_{value}".upper()
            assert f"#define {slot.upper()} {name}\n" in text
            assert re.search(rf"^#define {name} \d", source, re.M)
        for place in re.findall(r'X\("[^"]+", (\w+)', text):
            assert re.search(rf"^const volatile u32 .*\b{place}\b", source, re.M), place
    for name in re.findall(r"^#define ((?:CLASSES|QUEUES)_\w+ \d)", loader, re.M):
        assert f"#define {name}" in source  # both files number them alike


def test_the_watchdog_of_a_composition_is_at_most_30_s():
    assert int(re.search(r"\.timeout_ms\s*= (\d+)", SOURCE.read_text())[1]) <= 30_000


def test_the_agent_knows_a_composition_by_the_manifest_that_is_written(tmp_path):
    for name in spec.preset_names():
        one = spec.load(name, {})
        path = tmp_path / "manifest.yaml"
        path.write_text(yaml.safe_dump(wire.plain({"schedulers": [spec.entry(one)]})))
        (found,) = manifest.read(path).schedulers
        assert (found.name, found.ops) == (f"scx_compose_{name}", f"compose_{name}")
        assert set(found.knobs.numbers) == {f"--{parameter}" for parameter in spec.parameters(one)}
        assert found.knobs.wrong({"--slice-us": 99}) is not None


def test_parameters_given_are_the_new_defaults():
    one = spec.load("two_level", {"weight-0": 300})
    assert spec.parameters(one)["weight-0"].number.default == 300
    assert 'X("weight-0", weight[0], "weight", 1, 1000, 300)' in spec.header(one)
    assert msgspec.convert(wire.plain(one), Spec) == one
