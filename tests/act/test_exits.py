# SPDX-License-Identifier: GPL-2.0-only
"""Reading why a scheduler ended, from the words that schedulers and kernels use for it."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.act.exits import CODE, KERNEL, NOBODY, SCHEDULER, read_exit, read_reason
from asa.act.words import one_line
from asa.core.decision import ExitKind, SchedulerExit

STALL = "runnable task stall (python[244] failed to run for 6.324s)"
OFFLINE = "unregistered from the main kernel (cpu 1 going offline, exiting scheduler)"
LOG = {
    "unregistered": read_reason("unregistered from user space", "", KERNEL),
    "hotplug": read_reason("unregistered from the main kernel", "", KERNEL),
    "sysrq": read_reason("disabled by sysrq-S", "", KERNEL),
    "stall": read_reason("runnable task stall", "python[244] failed to run for 6.324s", KERNEL, fault=True),
    None: None,
}


@pytest.mark.parametrize(
    ("reason", "message", "kind"),
    [
        ("unregistered from user space", "", ExitKind.UNREGISTERED),
        ("unregistered from BPF", "", ExitKind.UNREGISTERED),
        ("unregistered from BPF", "cpu 3 going online, restarting scheduler", ExitKind.HOTPLUG),
        ("unregistered from the main kernel", "", ExitKind.HOTPLUG),
        ("disabled by sysrq-S", "", ExitKind.SYSRQ),
        ("parent exiting", "", ExitKind.UNREGISTERED),
        ("runtime error", "invalid CPU 7", ExitKind.ERROR),
        ("scx_bpf_error", "failed to create DSQ", ExitKind.ERROR),
        ("runnable task stall", "a[1] failed to run for 5.1s", ExitKind.STALL),
        ("runnable task stalled", "", ExitKind.QUIT),  # nobody's words
        ("<UNKNOWN>", "", ExitKind.QUIT),
    ],
)
def test_the_kernels_reasons(reason, message, kind):
    found = read_reason(reason, message, KERNEL)
    assert (found.kind, found.source) == (kind, KERNEL)
    assert found.reason == (f"{reason} ({message})" if message else reason)


def test_a_reason_of_a_newer_kernel_is_a_fault_when_it_is_told_as_one():
    assert read_reason("left the planet", "", KERNEL, fault=True).kind is ExitKind.ERROR
    assert read_exit("Error: EXIT: left the planet (far)", None, 1).kind is ExitKind.ERROR
    assert read_exit("EXIT: left the planet", None, 0).kind is ExitKind.QUIT


@pytest.mark.parametrize(
    ("words", "log", "code", "kind", "source", "reason"),
    [
        # its own words and the kernel's agree: the fuller ones count
        ("EXIT: disabled by sysrq-S", "sysrq", 0, ExitKind.SYSRQ, KERNEL, "disabled by sysrq-S"),
        (f"Error: EXIT: {STALL} on CPU 1", "stall", 1, ExitKind.STALL, SCHEDULER, f"{STALL} on CPU 1"),
        (f"EXIT: {OFFLINE}", "hotplug", 0, ExitKind.HOTPLUG, SCHEDULER, OFFLINE),
        ("EXIT: unregistered from user space", "unregistered", 0, ExitKind.UNREGISTERED, SCHEDULER, None),
        # only one of them is there
        ("", "stall", 0, ExitKind.STALL, KERNEL, STALL),
        ("slots=4 nice=2", "sysrq", None, ExitKind.SYSRQ, KERNEL, None),
        (f"Error: EXIT: {STALL}", None, 1, ExitKind.STALL, SCHEDULER, STALL),
        ("EXIT: scx_bpf_error (no such task)", None, 0, ExitKind.ERROR, SCHEDULER, None),
        ("", "hotplug", None, ExitKind.HOTPLUG, KERNEL, None),
        ("", "unregistered", 0, ExitKind.UNREGISTERED, KERNEL, None),
        # it went on after an earlier exit, which is not the one that counts
        (f"EXIT: {OFFLINE}", "stall", 1, ExitKind.STALL, KERNEL, None),
        (f"EXIT: {OFFLINE}", "unregistered", 0, ExitKind.UNREGISTERED, KERNEL, None),
        (f"EXIT: {OFFLINE}", "unregistered", -9, ExitKind.KILLED, CODE, "was ended by signal 9 (SIGKILL)"),
        (f"EXIT: {OFFLINE}", None, -9, ExitKind.KILLED, CODE, None),
        # a signal is why, unless the kernel had taken the scheduler out before
        ("", "unregistered", -9, ExitKind.KILLED, CODE, "was ended by signal 9 (SIGKILL)"),
        ("", None, -6, ExitKind.KILLED, CODE, "was ended by signal 6 (SIGABRT)"),
        ("", None, -40, ExitKind.KILLED, CODE, "was ended by signal 40"),
        ("", "stall", -9, ExitKind.STALL, KERNEL, None),
        (f"Error: EXIT: {STALL}", None, -9, ExitKind.STALL, SCHEDULER, None),
        # a fault of its own, the kernel only saw it go
        ("Error: Failed to attach struct ops", None, 1, ExitKind.QUIT, SCHEDULER, "Error: Failed to attach struct ops"),
        ("Error: no such file", "unregistered", 1, ExitKind.QUIT, SCHEDULER, "Error: no such file"),
        ("thread 'main' panicked at src/main.rs:7", None, 101, ExitKind.QUIT, SCHEDULER, None),
        ("Error: nothing serious", "unregistered", 0, ExitKind.UNREGISTERED, KERNEL, None),
        ("slots=4 nice=2", None, 7, ExitKind.QUIT, CODE, "ended by itself with code 7"),
        ("", None, 0, ExitKind.QUIT, CODE, "ended by itself with code 0"),
        ("", None, None, ExitKind.QUIT, NOBODY, None),
    ],
)
def test_the_best_source_first(words, log, code, kind, source, reason):
    found = read_exit(words, LOG[log], code)
    assert (found.kind, found.source) == (kind, source)
    assert reason is None or found.reason == reason


def test_an_exit_in_the_midst_of_words():
    words = "DUMP\n=====\n\nEXIT: old news\nagain\n\x1b[31mError: EXIT: runtime error (bad\tCPU)\x1b[0m\nbye\n"
    assert read_exit(words, None, 1) == SchedulerExit(
        kind=ExitKind.ERROR, reason="runtime error (bad CPU)", source=SCHEDULER
    )


def test_foreign_text_is_tamed():
    assert one_line("\x1b[1;31mred\x1b[0m\r\n\x07 two\u202e\u2028lines\x00") == "red two lines"
    assert len(one_line("x" * 10_000)) == 300


WORDS = st.one_of(
    st.text(),
    st.builds("{}EXIT: {}{}".format, st.text(), st.sampled_from([STALL, OFFLINE, "disabled by sysrq-S"]), st.text()),
)


@given(WORDS, st.sampled_from(list(LOG.values())), st.none() | st.integers(-70, 255))
def test_whatever_it_said_a_short_line_comes_out(words, kernel, code):
    found = read_exit(words, kernel, code)
    assert found.reason.isprintable()
    assert len(found.reason) <= 300
    if kernel is not None and kernel.kind in (ExitKind.SYSRQ, ExitKind.STALL):
        assert found.kind is kernel.kind  # no words can hide it
    elif code == -signal.SIGKILL and kernel is not None:
        assert found.kind is ExitKind.KILLED
