# SPDX-License-Identifier: GPL-2.0-only
"""Programs of the kind infer: each for a pass."""

import pytest
from playing import works

from asa.core.kinds import Kind
from scenarios.programs.infer import PROGRAMS

BY_NAME = {one.name: one for one in PROGRAMS}


@pytest.mark.apps
@pytest.mark.parametrize("name", BY_NAME)
def test_works_and_leaves_nothing(name, tmp_path):
    works(BY_NAME[name], tmp_path, cpu_s=0.002)  # a pass is a time, and others may have it


def test_all_are_of_their_kind():
    assert {one.kind for one in PROGRAMS} == {Kind.INFER}
