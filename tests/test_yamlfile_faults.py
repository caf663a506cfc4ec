# SPDX-License-Identifier: GPL-2.0-only
"""`yamlfile.examine`: all faults of a file at once, each with its line; none exactly where `load` takes the file."""

from typing import Annotated

import msgspec
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from asa import config, yamlfile
from asa.core.errors import InputError
from asa.yamlfile import FaultKind

WRONG = """\
voting: {windows_s: 6, window_s: long}
interval_s: -1
switch:
  trusted_owners: [1, -2]
  gate: auto
  gate: off
  gate: on
vote:
  voting: 1
journal: [1]
collect: {gpu: true}
"""


class Leaf(msgspec.Struct, forbid_unknown_fields=True):
    """A struct that stands in lists and mappings."""

    size: int


class Tree(msgspec.Struct, forbid_unknown_fields=True):
    """Parts by number and by name."""

    rows: list[Leaf] = []
    named: dict[str, Annotated[tuple[Leaf, ...], msgspec.Meta(min_length=1)]] = {}


def test_each_part_of_a_list_and_of_a_mapping(tmp_path):
    path = tmp_path / "tree.yaml"
    path.write_text("""\
rows:
  - {size: 1}
  - {size: x}
  - {sise: 2}
  - size: 3
    size: 4
named:
  a: [{size: 1}, 5]
  b: []
  c: {size: 1}
""")
    found = yamlfile.examine(path, Tree)
    assert [(fault.line, fault.key, fault.kind) for fault in found.faults] == [
        (3, "rows[1].size", FaultKind.WRONG),
        (4, "rows[2].sise", FaultKind.UNKNOWN),
        (4, "rows[2].size", FaultKind.WRONG),
        (6, "rows[3].size", FaultKind.DOUBLED),
        (8, "named.a[1]", FaultKind.WRONG),
        (9, "named.b", FaultKind.WRONG),
        (10, "named.c", FaultKind.WRONG),
    ]
    assert found.data["named"]["a"][1] == 5
    assert examined(tmp_path, "a: [").data is None


def examined(tmp_path, text):
    path = tmp_path / "asa.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return yamlfile.examine(path, config.Settings)


def test_all_at_once(tmp_path):
    found = examined(tmp_path, WRONG)
    assert [(fault.line, fault.key, fault.kind) for fault in found.faults] == [
        (1, "voting.windows_s", FaultKind.UNKNOWN),
        (1, "voting.window_s", FaultKind.WRONG),
        (2, "interval_s", FaultKind.WRONG),
        (4, "switch.trusted_owners[1]", FaultKind.WRONG),
        (6, "switch.gate", FaultKind.DOUBLED),
        (7, "switch.gate", FaultKind.DOUBLED),
        (7, "switch.gate", FaultKind.WRONG),
        (8, "vote", FaultKind.UNKNOWN),
        (10, "journal", FaultKind.WRONG),
    ]
    assert found.lines["collect.gpu"] == 11
    assert found.lines["switch.gate"] == 7


@pytest.mark.parametrize("text", ["a: [", "{[1]: 2}", "a: !!python/object/apply:os.system [id]", "\x00", b"\xff\xfe"])
def test_what_cannot_be_read_is_one_fault(tmp_path, text):
    (fault,) = examined(tmp_path, text).faults
    assert (fault.key, fault.kind) == ("", FaultKind.UNREADABLE)


def test_no_file(tmp_path):
    (fault,) = yamlfile.examine(tmp_path / "none.yaml", config.Settings).faults
    assert fault.value == "No such file or directory"


def test_a_file_that_is_its_own_part(tmp_path):
    assert examined(tmp_path, "voting: &a {window_s: *a}").faults
    assert examined(tmp_path, "voting: &a {threshold: 0.5}\npolicy: *a").faults[0].key == "policy.threshold"


values = st.none() | st.booleans() | st.integers(-2, 100) | st.floats() | st.sampled_from(["off", "auto", "core", "x"])
sections = st.dictionaries(
    st.sampled_from(["window_s", "threshold", "gpu", "ebpf", "gate", "trusted_owners", "enabled", "x", "1"]),
    values | st.lists(st.integers(-1, 3), max_size=3),
    max_size=3,
)
files = st.dictionaries(
    st.sampled_from(["voting", "collect", "switch", "guard", "interval_s", "table", "model", "x"]) | st.integers(0, 1),
    values | sections,
    max_size=4,
)


@given(files | values)
@example({"voting": {"window_s": 4}, "collect": {"ebpf": "off"}})
def test_it_says_what_load_says(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "property.yaml"
    path.write_text(yaml.safe_dump(data))
    faults = yamlfile.examine(path, config.Settings).faults
    said = refusal(path)
    assert bool(faults) == (said is not None)
    if said:  # "" is the whole file, of which the key is named here
        assert said in [fault.key for fault in faults]


def refusal(path):
    try:
        config.load(path)
    except InputError as error:
        return error.key
    return None
