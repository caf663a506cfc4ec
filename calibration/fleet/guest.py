# SPDX-License-Identifier: GPL-2.0-only
"""The part of a fleet's run that is played in a guest, as root: `python -m calibration.fleet.guest ORDERS GIVEN`.

The benchmark's runner, with controllers among the schedulers.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from asa import paths, wire
from calibration.controllers.columns import Controllers, Given
from scenarios.runner import read_orders, serve


def command(orders: Path, given: Path) -> tuple[str, ...]:
    """What the host has a guest run."""
    return (sys.executable, "-P", "-m", "calibration.fleet.guest", str(orders), str(given))


def main(words: Sequence[str]) -> int:
    """Play what the first file orders, with what the second gives to controllers."""
    places = paths.default()
    given = wire.from_json(Path(words[1]).read_bytes(), Given)
    owners = (places.cache.stat().st_uid,)  # who built the schedulers on the host
    controllers = Controllers(places, given, Path(tempfile.gettempdir()), owners)
    serve(read_orders(Path(words[0])), places, controllers, controllers.attend, controllers.told)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
