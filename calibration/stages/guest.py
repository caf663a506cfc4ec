# SPDX-License-Identifier: GPL-2.0-only
"""The calibration's part in a guest: `python -m calibration.stages.guest ORDERS OPTIONS` plays what is ordered.

Beside the results it leaves in the shared folder what the machine is (`facts`), and the recordings that are asked for.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from asa import host, paths, wire
from calibration.controllers.columns import Given
from calibration.stages.agent import Stages
from calibration.stages.record import Recorder
from scenarios import runner, runner_folder
from scenarios.application import Tier
from scenarios.session import default_folder

FACTS = "facts"
"""The machine's, an `asa.host.Facts`, in the folder of its results."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How trials are played besides their orders."""

    given: Given = Given()
    record: bool = False


def main(words: Sequence[str]) -> int:
    """Play what a file orders, as another one says."""
    orders = runner.read_orders(Path(words[0]))
    options = wire.from_json(Path(words[1]).read_bytes(), Options)
    places = paths.default()
    out = Path(orders.out)
    runner_folder.write(out / FACTS, host.facts(places.proc, places.sys))
    with ExitStack() as stack:
        recorder = None
        if options.record:
            recorder = Recorder(places, out, Tier.LAB, len(os.sched_getaffinity(0)))
            stack.callback(recorder.close)
        stages = Stages(
            places,
            options.given,
            default_folder(places.cache, lab=True),
            owners=[places.cache.stat().st_uid],  # who built the schedulers on the host
            record=None if recorder is None else recorder.begin,
        )
        runner.serve(orders, places, stages, stages.attend, stages.told)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
