# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.inpath.asks`: the adviser's own child asks a real server, one question after the other.

llama.cpp serves a model of random weights here, on one thread. Runs until SIGINT.
"""

import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from asa import wire
from asa.adviser.asking import Child, Question
from calibration.agent import random_model

_SEED, _LOOK_S = 1, 0.1


def main() -> int:
    """Exit code 0 after SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model.gguf"
            random_model.write(model, _SEED)
            with random_model.serving(model) as url:
                _ask(url)
    except KeyboardInterrupt:
        return 0


def _ask(url: str) -> NoReturn:
    number = 0
    while True:
        number += 1
        question = Question(url=url, model="", way="", remote=False, program=f"program-{number}")
        asked = Child(wire.json_bytes(question))
        try:
            while asked.poll() is None:
                time.sleep(_LOOK_S)
        except KeyboardInterrupt:
            asked.end()
            raise


if __name__ == "__main__":
    sys.exit(main())
