# SPDX-License-Identifier: GPL-2.0-only
"""The bar of the laboratory's commands, in a log: its steps, and how it stands at the end."""

import pytest

from asa.cli.lab.bench import output
from asa.core.errors import LabError


def test_what_has_ended_well_is_whole_and_each_step_is_told_once(capsys):
    with output.progress() as tell:
        tell("compiling", 0.2)
        tell("compiling", 0.98)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "compiling"
    assert last.endswith(" 0:00:00")  # nothing remains


def fail():
    with output.progress() as tell:
        tell("compiling", 0.2)
        raise LabError("no compiler")


def test_what_has_failed_stands_where_it_was(capsys):
    with pytest.raises(LabError):
        fail()
    assert not capsys.readouterr().err.splitlines()[-1].endswith(" 0:00:00")
