# SPDX-License-Identifier: GPL-2.0-only
"""`python -m asa.mcp.child WORDS`: becomes `asa WORDS`, and ends when the server that started it ends.

It asks the kernel for SIGTERM at its parent's end (PR_SET_PDEATHSIG, prctl(2)), which an exec keeps.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


def main() -> None:
    """Comes back only where the server has ended meanwhile."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.environ.get("ASA_SERVER") == str(os.getppid()):
        words = [sys.executable, "-P", "-m", "asa.cli", *sys.argv[1:]]
        os.execv(sys.executable, words)  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main()
