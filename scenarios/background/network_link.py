# SPDX-License-Identifier: GPL-2.0-only
"""The way between iperf3's two ends: a veth pair into an unnamed network namespace, which dies with its last process.

As root the near end is in our own namespace. Without root the driver is started anew inside a user namespace of its
own, where it is root; and where that is refused too the way is the loopback. `Link.facts` says which it is. Changes
nothing of the machine's other interfaces.
"""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from asa.core.errors import AsaError

_BLOCK: Final = 198 << 24 | 19 << 16  # 198.19.0.0/16, half of what RFC 2544 sets aside for measuring networks
_START_LIMIT_S = 20.0
_INSIDE = "ASA_NETWORK_INSIDE"  # set for the driver that was started anew


class LinkError(AsaError):
    """The two ends cannot be brought together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A way to send."""

    address: str  # of the far end
    there: tuple[str, ...]  # before a command that shall run at the far end
    facts: Mapping[str, str]  # for the versions

    def free_port(self) -> int:
        """One that no server at the far end has, as far as can be told from here."""
        if self.there:
            return 5201 + secrets.randbelow(20_000)  # the far end is ours alone
        with socket.socket() as probe:
            probe.bind((self.address, 0))
            return int(probe.getsockname()[1])


@contextmanager
def make_link(parameters: Mapping[str, object], ending: Callable[[], bool]) -> Iterator[Link]:
    """The best way that this machine allows, removed at the end. May start the driver anew instead of returning."""
    holder = subprocess.Popen(("unshare", "--net", "--", "sleep", "infinity"), stderr=subprocess.PIPE)
    near = f"asa{secrets.token_hex(4)}"
    try:
        refusal = _join(holder, near, ending)
        if not refusal:
            kind = "two namespaces" if _INSIDE in os.environ else "host and namespace"
            yield _link(holder.pid, near, parameters, kind)
            return
        if _INSIDE not in os.environ and _ip_works_inside():
            holder.kill()
            holder.wait()
            os.environ[_INSIDE] = "1"
            again = ("unshare", "--map-root-user", "--net", "--", sys.executable, *sys.orig_argv[1:])
            os.execvp(again[0], again)  # noqa: S606
        yield Link(address="127.0.0.1", there=(), facts={"link": f"loopback: {refusal}"})
    finally:
        _run("ip", "link", "delete", near)
        holder.kill()
        holder.wait()


def _link(pid: int, near: str, parameters: Mapping[str, object], kind: str) -> Link:
    """Gives both ends their addresses."""
    there = ("nsenter", f"--target={pid}", "--net", "--")
    first = _BLOCK + 4 * secrets.randbelow(1 << 14)
    mtu = str(parameters["mtu_bytes"])
    facts = {"link": kind}
    for prefix, device, number in (((), near, first + 1), (there, "far", first + 2)):
        for words in (
            ("address", "add", f"{_text(number)}/30", "dev", device),
            ("link", "set", device, "mtu", mtu, "up"),
        ):
            refusal = _run(*prefix, "ip", *words)
            if refusal:
                raise LinkError(f"ip {' '.join(words)}: {refusal}")
        if parameters["delay_ms"] or parameters["loss_pct"]:
            netem = ("netem", "delay", f"{parameters['delay_ms']}ms", "loss", f"{parameters['loss_pct']}%")
            refusal = _run(*prefix, "tc", "qdisc", "add", "dev", device, "root", *netem)
            facts["netem"] = f"refused: {refusal}" if refusal else "yes"
    return Link(address=_text(first + 2), there=there, facts=facts)


def _join(holder: subprocess.Popen[bytes], near: str, ending: Callable[[], bool]) -> str:
    """A veth pair from here into the holder's namespace; in words what was refused, "" for nothing."""
    here, deadline = _namespace(os.getpid()), time.monotonic() + _START_LIMIT_S
    while _namespace(holder.pid) in ("", here):
        if holder.poll() is not None:
            said = b"" if holder.stderr is None else holder.stderr.read()
            return said.decode(errors="replace").strip() or "no namespace"
        if time.monotonic() > deadline or ending():
            return "no namespace in time"
        time.sleep(0.01)
    return _run("ip", "link", "add", near, "type", "veth", "peer", "name", "far", "netns", str(holder.pid))


def _ip_works_inside() -> bool:
    return not _run("unshare", "--map-root-user", "--net", "--", "ip", "link", "add", "type", "veth")


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:  # it has ended
        return ""


def _run(*argv: str) -> str:
    """Runs a set-up program; what it complains of when it fails, "" when it does not."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{argv[0]}: {error.strerror}"
    return "" if done.returncode == 0 else done.stderr.strip() or f"{argv[0]} ended with code {done.returncode}"


def _text(address: int) -> str:
    return socket.inet_ntoa(address.to_bytes(4, "big"))
