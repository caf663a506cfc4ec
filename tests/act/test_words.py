# SPDX-License-Identifier: GPL-2.0-only
# ruff: noqa: E501, ISC004  # texts as programs print them
"""The line that told why a scheduler ended, out of texts as Rust, anyhow, libbpf, C and sanitisers print them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.act.exits import SCHEDULER, read_exit
from asa.act.words import LONGEST, complaint, last_words
from asa.core.decision import ExitKind

NOTE = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"
PANIC = "called `Result::unwrap()` on an `Err` value: Os { code: 2, kind: NotFound }"
KSYM = "libbpf: extern (func ksym) 'scx_bpf_dsq_move': not found in kernel or module BTFs"
LOADING = """libbpf: failed to load object 'bpf_bpf'
libbpf: failed to load BPF skeleton 'bpf_bpf': -22
Error: Failed to load BPF program

Caused by:
    Invalid argument (os error 22)
"""
VERIFIER = """libbpf: prog 'rusty_init': BPF program load failed: Permission denied
libbpf: prog 'rusty_init': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; int x = *p; @ main.bpf.c:12
7: (61) r1 = *(u32 *)(r2 +0)
R2 invalid mem access 'scalar'
processed 8 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
-- END PROG LOAD LOG --
libbpf: prog 'rusty_init': failed to load: -13
"""
DUMP = """DEBUG DUMP
================================================================================

scx_lavd[812] triggered exit kind 1026:
  runnable task stall (python[244] failed to run for 6.324s)

Backtrace:
  Error: not a line of its own
  check_rq_for_timeouts+0xdf/0x120

CPU states
----------
CPU 0   : nr_run=1 flags=0x0 cpu_rel=0 ops_qseq=1 pnt_seq=2
================================================================================
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # panics: of Rust 1.73 and later, with the thread's number, of several lines, of before
        (f"thread 'main' panicked at src/main.rs:7:9:\n{PANIC}\n{NOTE}", f"panicked at src/main.rs:7:9: {PANIC}"),
        (
            f"thread 'main' (4711) panicked at src/main.rs:7:9:\n{PANIC}\n{NOTE}",
            f"panicked at src/main.rs:7:9: {PANIC}",
        ),
        (
            "thread '<unnamed>' panicked at a/b.rs:1:2:\nboom\nstack backtrace:\n   0: rust_begin_unwind\n",
            "panicked at a/b.rs:1:2: boom",
        ),
        (
            f"x\nthread 'main' panicked at 'no such CPU', src/main.rs:7:9\n{NOTE}",
            "panicked at src/main.rs:7:9: no such CPU",
        ),
        (
            f"thread 'main' panicked at 'it said: 'no'\nand more', a.rs:7:9\n{NOTE}",
            "panicked at a.rs:7:9: it said: 'no' and more",
        ),
        (
            "thread 'main' panicked at a.rs:1:1:\nassertion `left == right` failed: sum\n  left: 1\n right: 2\n" + NOTE,
            "panicked at a.rs:1:1: assertion `left == right` failed: sum left: 1 right: 2",
        ),
        # a second panic that only tells of the first
        (
            f"thread 'w' panicked at a.rs:1:1:\nno such CPU\n{NOTE}thread 'main' panicked at b.rs:2:2:\n"
            "called `Result::unwrap()` on an `Err` value: Any { .. }\n",
            "panicked at a.rs:1:1: no such CPU",
        ),
        (
            f"thread 'w' panicked at a.rs:1:1:\nno such CPU\n{NOTE}EXIT: unregistered from user space\n",
            "panicked at a.rs:1:1: no such CPU",
        ),
        (
            f"\x1b[31mthread 'main' panicked at a.rs:1:1:\x1b[0m\n\x1b[1mboom\x1b[0m\n{NOTE}",
            "panicked at a.rs:1:1: boom",
        ),
        (
            "thread 'main' has overflowed its stack\nfatal runtime error: stack overflow\n",
            "thread 'main' has overflowed its stack",
        ),
        # chains of causes
        (
            "Error: cannot start\n\nCaused by:\n    No such device (os error 19)\n",
            "Error: cannot start: No such device (os error 19)",
        ),
        (
            "Error: a\n\nCaused by:\n    0: b\n    1: c\n       goes on\n\nStack backtrace:\n   0: f\n",
            "Error: a: b: c goes on",
        ),
        ("Error: a\nof two lines\n\nCaused by:\n    b\n", "Error: a: b"),
        ("Error: \n   0: a\n   1: b\n\nLocation:\n   src/main.rs:7\n", "Error: a: b"),
        (
            "error: the following arguments were not provided:\n  --slice <US>\n\nUsage: scx_x\n",
            "error: the following arguments were not provided: --slice <US>",
        ),
        (
            "error: unexpected argument '--z' found\n\n  tip: x\n\nUsage: scx_x\n\nFor more information, try '--help'.\n",
            "error: unexpected argument '--z' found",
        ),
        # libbpf
        (f"{KSYM}\n{LOADING}", f"{KSYM}; Error: Failed to load BPF program: Invalid argument (os error 22)"),
        (
            "libbpf: extern 'scx_bpf_x' not found in kernel BTF\nError: Failed to load BPF program\n\nCaused by:\n    No such process (os error 3)\n",
            "libbpf: extern 'scx_bpf_x' not found in kernel BTF; Error: Failed to load BPF program: No such process (os error 3)",
        ),
        (
            f"libbpf: struct_ops x: member y not found in kernel, skipping it as it's set to zero\n{VERIFIER}{LOADING}",
            "libbpf: prog 'rusty_init': R2 invalid mem access 'scalar'; Error: Failed to load BPF program: Invalid argument (os error 22)",
        ),
        (
            "libbpf: failed to find valid kernel BTF\nlibbpf: Error loading vmlinux BTF: -3\nlibbpf: failed to load object 'x'\n",
            "libbpf: Error loading vmlinux BTF: -3",
        ),
        (
            "libbpf: failed to load object 'x'\nlibbpf: failed to load BPF skeleton 'x': -1\nbye\n",
            "libbpf: failed to load BPF skeleton 'x': -1",
        ),
        # C schedulers
        ("local=1 global=2\nEXIT: runtime error (invalid CPU 7)\n", "EXIT: runtime error (invalid CPU 7)"),
        (
            "[SCX_BUG] scx_simple.c:80 (No such file or directory)\nFailed to attach struct ops\n",
            "[SCX_BUG] scx_simple.c:80 (No such file or directory) Failed to attach struct ops",
        ),
        (
            "scx_simple: invalid option -- 'z'\nA simple sched_ext scheduler.\n\nUsage: scx_simple [-f] [-v]\n  -h  help\n",
            "scx_simple: invalid option -- 'z'",
        ),
        (
            "scx_x: a.c:12: main: Assertion `x > 0' failed.\nAborted (core dumped)\n",
            "scx_x: a.c:12: main: Assertion `x > 0' failed.",
        ),
        ("free(): invalid pointer\nAborted\n", "free(): invalid pointer"),
        ("*** stack smashing detected ***: terminated\n", "*** stack smashing detected ***: terminated"),
        (
            "=====\n==12==ERROR: AddressSanitizer: heap-use-after-free on address 0x6\n    #0 0x5 in f a.c:1\nSUMMARY: AddressSanitizer: x\n==12==ABORTING\n",
            "==12==ERROR: AddressSanitizer: heap-use-after-free on address 0x6",
        ),
        (
            "/usr/bin/scx_x: error while loading shared libraries: libbpf.so.1: cannot open\n",
            "/usr/bin/scx_x: error while loading shared libraries: libbpf.so.1: cannot open",
        ),
        # dumps, which may be cut short
        (
            f"{DUMP}\nError: EXIT: runnable task stall (python[244] failed to run for 6.324s)\n",
            "Error: EXIT: runnable task stall (python[244] failed to run for 6.324s)",
        ),
        (DUMP, "EXIT: runnable task stall (python[244] failed to run for 6.324s)"),
        (DUMP[:400], "EXIT: runnable task stall (python[244] failed to run for 6.324s)"),
        # logged with time and level
        (
            "2026-01-01T10:00:00.123456Z ERROR scx_x: no topology\n2026-01-01T10:00:01Z  INFO scx_x: bye\n",
            "scx_x: no topology",
        ),
        ("10:00:00 [ERROR] no topology\n10:00:00 [INFO] bye\n", "no topology"),
        ("[2026-01-01T10:00:00Z ERROR scx_rusty] no topology\n", "no topology"),
        ("10:00:00 [INFO] x\n10:00:01 Error: no topology\n", "Error: no topology"),
        # libbpf's lines, by the logger of the Rust schedulers
        (
            "12:00:00 [WARN] libbpf: extern (func ksym) 'f': not found in kernel or module BTFs\n"
            "12:00:00 [WARN] libbpf: failed to load object 'bpf_bpf'\n" + LOADING,
            "libbpf: extern (func ksym) 'f': not found in kernel or module BTFs; Error: Failed to load BPF program: "
            "Invalid argument (os error 22)",
        ),
        (
            "2026-01-01T10:00:00Z  WARN scx_utils::libbpf_logger: libbpf: map 'x': failed to create: -EPERM\nError: y\n",
            "libbpf: map 'x': failed to create: -EPERM; Error: y",
        ),
        (
            "[ERROR] libbpf: prog 'x': BPF program load failed: -EACCES\n[ERROR] libbpf: failed to load object 'y'\n",
            "libbpf: prog 'x': BPF program load failed: -EACCES",
        ),
        # a logged error's causes
        (
            "10:00:00 [ERROR] cannot run\n\nCaused by:\n    0: mid\n    1: busy\n10:00:01 [INFO] bye\n",
            "cannot run: mid: busy",
        ),
        # a panic after a panic, in Rust's own words
        (
            f"thread 'main' panicked at a.rs:1:1:\nboom\n{NOTE}thread 'main' panicked at library/core/src/panicking.rs:2:5:\n"
            "panic in a function that cannot unwind\nthread caused non-unwinding panic. aborting.\n",
            "panicked at a.rs:1:1: boom",
        ),
        ("thread 'it's one' panicked at a.rs:1:1:\nboom\n", "panicked at a.rs:1:1: boom"),
        # nothing told
        ("one\ntwo\n" + NOTE, "two"),
        ("", ""),
        ("\n \n", ""),
    ],
)
def test_what_told_the_reason_not_what_came_last(text, words):
    assert last_words(text) == words
    assert last_words(words) == words  # what is kept is read again


def test_the_reason_of_an_exit_is_the_one_told():
    found = read_exit(f"{KSYM}\n{LOADING}", None, 1)
    assert (found.kind, found.source) == (ExitKind.QUIT, SCHEDULER)
    assert found.reason.startswith(KSYM)
    aborted = read_exit(f"thread 'main' panicked at a.rs:1:1:\nboom\n{NOTE}", None, -6)
    assert (aborted.kind, aborted.reason) == (
        ExitKind.KILLED,
        "was ended by signal 6 (SIGABRT): panicked at a.rs:1:1: boom",
    )
    killed = read_exit("Error: long ago", None, -9)
    assert killed.reason == "was ended by signal 9 (SIGKILL)"


def test_figures_are_no_complaint():
    assert complaint("local=1 global=2\nEXIT: unregistered from user space\n") == ""
    assert complaint("slots=4 nice=2") == ""


def test_a_message_without_end_takes_no_time():
    start = time.process_time()
    assert last_words("thread 'main' panicked at 'abc\n" + "y, z\n" * 20_000).startswith("panicked: 'abc y, z")
    assert time.process_time() - start < 2.0  # it took eleven seconds


@given(
    st.lists(
        st.sampled_from(
            [
                NOTE,
                DUMP,
                VERIFIER,
                LOADING,
                PANIC,
                "thread 'a' panicked at x:1:\n",
                "\x1b[31m",
                "EXIT: ",
                "Error: ",
                "Caused by:\n",
                "\n",
            ]
        )
        | st.text()
    )
)
def test_whatever_was_printed_a_short_line_comes_out(parts):
    found = last_words("".join(parts))
    assert found.isprintable()
    assert len(found) <= LONGEST
