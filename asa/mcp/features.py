# SPDX-License-Identifier: GPL-2.0-only
"""`python -m asa.mcp.features JOURNAL [MODEL]`: what carried the last recognition, as one JSON object.

A child of the server: NumPy and the model take a sixth of a server's memory, and this is all that needs them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from asa import wire
from asa.cli import explain_features
from asa.core.errors import AsaError

_LIMIT_S = 60.0
_ROOT = Path(__file__).parents[2]  # of this program: clients hand no PYTHONPATH on


def asked(journal: Path, model: str | None) -> dict[str, Any]:
    """Ask such a child; `model` is the settings' own. Raises AsaError with its last line."""
    words = [sys.executable, "-P", "-m", "asa.mcp.features", str(journal), *([model] if model else [])]
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
    except subprocess.TimeoutExpired:
        raise AsaError(f"features: not told within {_LIMIT_S:g} s; ask again when the machine is less busy") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"it ended with {done.returncode}"]
        raise AsaError(f"features: {lines[-1].removeprefix('asa: ')}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(journal: str, model: str | None = None) -> int:
    """Print it; 1 with one line on standard error where it cannot be told."""
    from models import versions

    try:
        found = explain_features.recognition(Path(journal), Path(journal).with_name(versions.FOLDER), model)
    except AsaError as error:
        print(f"asa: {error}", file=sys.stderr)
        return 1
    print(wire.json_text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
