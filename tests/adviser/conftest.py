# SPDX-License-Identifier: GPL-2.0-only
"""A server of a language model, in a thread."""

import pytest
from model_server import serving


@pytest.fixture
def server():
    with serving() as found:
        yield found
