# SPDX-License-Identifier: GPL-2.0-only
"""Compiles and attaches the probes with BCC, hands the descriptors over, and ends: the agent never carries LLVM.

Run as `/usr/bin/python3 -I bcc_child.py DESCRIPTOR`, by the system's interpreter, which is the one that has Debian's
python3-bpfcc; so it imports nothing of ASA's. Standard input: a line of JSON (`Order` in collectors.ebpf.bcc), then the
C text. Through the socket DESCRIPTOR goes one message: a line of JSON with, by SCM_RIGHTS (unix(7)), the descriptors of
the maps asked for and of everything attached, in this order. What the compiler and the verifier say goes to stderr,
which is a file: `_verdict` reads it again.
"""

import ctypes
import importlib
import json
import os
import socket
import sys
from typing import Any

_TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")  # where libbcc looks, too
_KPROBES = "/sys/bus/event_source/devices/kprobe"  # since 4.17; the older text interface would outlive its owner
_STDERR = 2


class _MissingError(Exception):
    """This kernel has no such hook; the text says why."""


def _events() -> "str | None":
    for root in _TRACEFS:
        if os.path.isdir(root + "/events"):  # noqa: PTH112  # older interpreters, fewer imports
            return root + "/events"
    return None


def _has(events: "str | None", program: "dict[str, str]") -> None:
    """Raises _MissingError when the hook is known not to be there before anything is compiled."""
    kind, event = program["kind"], program["event"]
    if kind == "tracepoint":
        if events is None:
            raise _MissingError("tracefs is not mounted; run `mount -t tracefs tracefs /sys/kernel/tracing`")
        if not os.path.isdir(events + "/" + event.replace(":", "/")):  # noqa: PTH112
            raise _MissingError("this kernel has no tracepoint " + event)
    elif kind == "kprobe" and not os.path.isdir(_KPROBES):  # noqa: PTH112
        raise _MissingError("this kernel has no kprobes (CONFIG_KPROBES)")


def _attach(bpf: Any, program: "dict[str, str]") -> Any:
    """The descriptor that keeps the program attached."""
    name, event = program["name"].encode(), program["event"].encode()
    if program["kind"] == "tracepoint":
        bpf.attach_tracepoint(tp=event, fn_name=name)
        return bpf.tracepoint_fds[event]
    if program["kind"] == "raw_tracepoint":
        bpf.attach_raw_tracepoint(tp=event, fn_name=name)
        return bpf.raw_tracepoint_fds[event]
    bpf.attach_kprobe(event=event, fn_name=name)
    return bpf.kprobe_fds[b"p_" + event][name]


def _verdict(start: int) -> str:
    """The verifier's last word on a program: libbcc prints it."""
    lines = os.pread(_STDERR, 1 << 20, start).decode(errors="replace").splitlines()
    telling = [line.strip() for line in lines if line.strip() and not line.startswith(("processed ", "bpf", "HINT"))]
    return f" ({telling[-1][-160:]})" if telling else ""


def _work(order: "dict[str, Any]", text: str) -> "tuple[dict[str, Any], list[int]]":
    events, lacking, present = _events(), {}, []
    for program in order["programs"]:
        try:
            _has(events, program)
            present.append(program)
        except _MissingError as error:
            lacking[program["name"]] = str(error)
    # A program's context is laid out after tracefs, so that one whose tracepoint is missing would not compile.
    flags = order["flags"] + ["-DHAVE_" + program["name"] for program in present]
    bpf = importlib.import_module("bcc").BPF(text=text.encode(), cflags=flags)
    descriptors = [bpf[name.encode()].map_fd for name in order["maps"]]
    attached = []
    for program in present:
        ctypes.set_errno(0)
        said = os.lseek(_STDERR, 0, os.SEEK_END)
        try:
            descriptors.append(_attach(bpf, program))
        except Exception as error:  # noqa: BLE001  # what BCC raises
            reason = os.strerror(ctypes.get_errno()).lower() if ctypes.get_errno() else str(error)
            lacking[program["name"]] = f"{program['kind']} {program['event']}: {reason}{_verdict(said)}"
        else:
            attached.append(program["name"])
    return {"attached": attached, "lacking": lacking}, descriptors


def main() -> None:
    """One order, one answer. The process ends without Python's and BCC's own ends, which would detach everything."""
    line = socket.socket(fileno=int(sys.argv[1]))
    order = json.loads(sys.stdin.readline())
    try:
        answer, descriptors = _work(order, sys.stdin.read())
    except ImportError as error:
        answer, descriptors = {"error": f"{error}; install python3-bpfcc"}, []
    except Exception as error:  # noqa: BLE001  # what BCC raises; the reason is on stderr
        answer, descriptors = {"error": str(error)}, []
    socket.send_fds(line, [json.dumps(answer).encode()], descriptors)
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
