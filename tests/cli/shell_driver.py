# SPDX-License-Identifier: GPL-2.0-only
"""A real shell behind a terminal: keys go in, what its completion made of the line comes out.

`asa` is a function there that prints its words, so that Enter shows the completed line as the shell would run it.
"""

import os
import pty
import select
import shutil
import signal
import time

import pytest

LIMIT_S = 60.0
TAB, ALL, ENTER = "\t", "\x18", "\r"  # ALL: every match into the line (Ctrl-X)

_ASA = """asa() { printf '<%s>' "$@"; echo '!'; }"""
_FLAGS = {"bash": ("--norc", "--noprofile", "-i"), "zsh": ("-f", "-i")}
_START = {
    "bash": (
        "PS1='ready> '",
        "bind 'set enable-bracketed-paste off'",
        r"""bind '"\C-x": insert-completions'""",
    ),
    "zsh": (
        "PS1='ready> '",
        "unset zle_bracketed_paste",
        "autoload -Uz compinit",
        "compinit -D -u",
        "zle -C every complete-word _generic",
        "zstyle ':completion:every:*' completer _all_matches _complete",
        "zstyle ':completion:every:*' insert true",
        "bindkey '^X' every",
        "bindkey '^I' complete-word",
    ),
}


class Shell:
    """bash or zsh, with the script for `asa` loaded, in `folder`."""

    def __init__(self, name, script, folder):
        program = shutil.which(name)
        if program is None:
            pytest.skip(f"{name} is not installed; `asa lab setup --tests` does it")
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            environment = {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
            os.execve(program, [name, *_FLAGS[name]], environment)  # noqa: S606
        self._seen = b""
        lines = (*_START[name], f"source {script}", _ASA, f"cd {folder}", "printf '%s%s\\n' ready -now")
        os.write(self._terminal, ("; ".join(lines) + ENTER).encode())
        self._until(b"ready-now")

    def send(self, keys):
        """Press `keys` and Enter."""
        self._seen = b""
        os.write(self._terminal, (keys + ENTER).encode())

    def press(self, keys):
        """The words of the line after `keys` and Enter."""
        self.send(keys)
        seen = self._until(b"!\r\n")
        answer = seen[: seen.rindex(b"!\r\n")].splitlines()[-1].decode()
        return answer[answer.index("<") + 1 : -1].split("><")

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def _until(self, mark):
        end_s = time.monotonic() + LIMIT_S
        while mark not in self._seen:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, end_s - time.monotonic()))
            assert ready, f"{mark!r} has not come: {self._seen!r}"
            self._seen += os.read(self._terminal, 65536)
        return self._seen
