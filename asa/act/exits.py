# SPDX-License-Identifier: GPL-2.0-only
"""Why a scheduler ended: its own words, the kernel's log and its exit code, weighed against each other.

Reads texts only and does no I/O. All of them are foreign: what comes out is one printable line of bounded length.
"""

import re
import signal

from asa.act.words import complaint, one_line
from asa.core.decision import ExitKind, SchedulerExit

SCHEDULER, KERNEL, CODE, NOBODY = "the scheduler", "the kernel's log", "its exit code", "nobody"

# scx_exit_reason() in kernel/sched/ext.c, the same words from 6.12 to 7.2
_KINDS = {
    "unregistered from user space": ExitKind.UNREGISTERED,
    "unregistered from BPF": ExitKind.UNREGISTERED,
    "unregistered from the main kernel": ExitKind.HOTPLUG,  # handle_hotplug() alone ends a root scheduler so
    "disabled by sysrq-S": ExitKind.SYSRQ,
    "parent exiting": ExitKind.UNREGISTERED,
    "runtime error": ExitKind.ERROR,
    "scx_bpf_error": ExitKind.ERROR,
    "runnable task stall": ExitKind.STALL,
}
_FAULTS = (ExitKind.SYSRQ, ExitKind.ERROR, ExitKind.STALL)
_HOTPLUG = re.compile(r"\bcpu \d+ (is )?going (on|off)line\b", re.IGNORECASE)  # some end themselves for it, from BPF
_OWN_FAULTS = (
    signal.SIGABRT,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGTRAP,
    signal.SIGSYS,
)


def read_reason(reason: str, message: str, source: str, *, fault: bool = False) -> SchedulerExit:
    """An exit as struct scx_exit_info words it. `fault`: whether it is one, where the reason is of a newer kernel."""
    known = next((text for text in _KINDS if reason == text or reason.startswith(f"{text} ")), None)
    kind = _KINDS[known] if known else ExitKind.ERROR if fault else ExitKind.QUIT
    text = one_line(f"{reason} ({message})" if message else reason)
    if kind is ExitKind.UNREGISTERED and _HOTPLUG.search(text):
        kind = ExitKind.HOTPLUG
    return SchedulerExit(kind=kind, reason=text, source=source)


def read_exit(words: str, kernel: SchedulerExit | None, code: int | None) -> SchedulerExit:
    """Why it ended.

    `words` are the last that it printed, "" for none; `kernel` what `KernelLog.why` has of it; `code` is its exit code,
    negative for a signal, None while its process lives. Its words know most (they carry the kernel's message also
    where the log does not), but may be of an earlier exit that it outlived, so the log and a signal go before them.
    """
    spoken = _spoken(words)
    if kernel is not None and kernel.kind in _FAULTS:
        return spoken if spoken and spoken.kind is kernel.kind and len(spoken.reason) > len(kernel.reason) else kernel
    if code is not None and code < 0 and not (kernel is None and spoken and spoken.kind in _FAULTS):
        said = complaint(words) if -code in _OWN_FAULTS else ""  # a panic that aborts, a sanitiser, assert(3)
        reason = one_line(f"was ended by {_signal(-code)}{': ' if said else ''}{said}")
        return SchedulerExit(kind=ExitKind.KILLED, reason=reason, source=CODE)
    if spoken is not None and (kernel is None or spoken.kind is kernel.kind):
        return spoken
    if spoken is None and code and (said := complaint(words)):
        return SchedulerExit(kind=ExitKind.QUIT, reason=said, source=SCHEDULER)
    if kernel is not None:
        return kernel
    if code is not None:
        return SchedulerExit(kind=ExitKind.QUIT, reason=f"ended by itself with code {code}", source=CODE)
    return SchedulerExit(kind=ExitKind.QUIT, reason="left the kernel, and nothing says why", source=NOBODY)


def _spoken(words: str) -> SchedulerExit | None:
    # `EXIT: reason (message) on CPU 1`, by UEI_REPORT of the C schedulers and UserExitInfo::report of the Rust ones,
    # which for anything but an orderly end return it as an error: `Error: EXIT: …`
    before, found, rest = words.rpartition("EXIT: ")
    if not found:
        return None
    return read_reason(one_line(rest.partition("\n")[0]), "", SCHEDULER, fault=before.endswith("Error: "))


def _signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"  # a real-time one
