# SPDX-License-Identifier: GPL-2.0-only
"""A server of a language model, in a thread."""

import threading

import pytest
from model_server import Server


@pytest.fixture
def server():
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield found
        found.shutdown()
        thread.join()
