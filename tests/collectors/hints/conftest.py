# SPDX-License-Identifier: GPL-2.0-only
"""A desk for tests of hints."""

import pytest
from services_desk import Desk


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    yield made
    made.close()
