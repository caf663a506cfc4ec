# SPDX-License-Identifier: GPL-2.0-only
"""The child that compiles: what it hands over, what it says when something is missing, what it leaves behind."""

import mmap
import os
import re
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import second_source

from asa.config import Ebpf
from asa.core.errors import SourceError
from collectors.ebpf import bcc, hooks, layout
from collectors.ebpf.reader import StatsReader

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="loading eBPF programs needs root: sudo make test"),
]

PROC, SYS = Path("/proc"), Path("/sys")
TEXT = """
BPF_F_TABLE("array", u32, u64, counts, 512, BPF_F_MMAPABLE);
static __always_inline void count(u32 which) { u64 *at = counts.lookup(&which); if (at) *at += 1; }
#ifdef HAVE_on_call
int on_call(struct tracepoint__syscalls__sys_enter_getppid *args) { count(0); return 0; }
#endif
int on_fork(struct bpf_raw_tracepoint_args *args) { count(1); return 0; }
#ifdef HAVE_on_nothing
int on_nothing(struct tracepoint__sched__no_such_event *args) { count(2); return 0; }
#endif
int on_nothing_raw(struct bpf_raw_tracepoint_args *args) { count(2); return 0; }
"""
ORDER = bcc.Order(
    text=TEXT,
    programs={
        "on_call": ("tracepoint", "syscalls:sys_enter_getppid"),
        "on_fork": ("raw_tracepoint", "sched_process_fork"),
        "on_nothing": ("tracepoint", "sched:no_such_event"),
        "on_nothing_raw": ("raw_tracepoint", "no_such_event"),
    },
    maps=("counts",),
)


@pytest.fixture(scope="module", autouse=True)
def tracefs():
    second_source.mount_tracefs()


@pytest.fixture
def attached():
    made = bcc.attach(ORDER)
    yield made
    made.close()


def programs():
    """Names of the eBPF programs in the kernel that are ours."""
    listed = subprocess.run(["bpftool", "prog", "show"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"name (on_(?:call|fork|nothing)\w*)", listed))


def test_programs_count_into_the_map(attached):
    assert attached.programs == ("on_call", "on_fork")
    with mmap.mmap(attached.maps["counts"], 4096, prot=mmap.PROT_READ) as pages:
        words = memoryview(pages).cast("Q")
        before = words[0], words[1]
        for _ in range(7):
            os.getppid()
        subprocess.run(["true"], check=True)
        assert words[0] >= before[0] + 7
        assert words[1] >= before[1] + 1
        words.release()


def test_what_the_kernel_lacks_is_named(attached):
    assert attached.lacking == {
        "on_nothing": "this kernel has no tracepoint sched:no_such_event",
        "on_nothing_raw": "raw_tracepoint no_such_event: no such file or directory",
    }


def test_the_child_is_gone_and_its_descriptors_are_not_inherited(attached):
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if b"bcc_child" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    for descriptor in (*attached.links, *attached.maps.values()):
        assert not os.get_inheritable(descriptor)


def test_closing_detaches():
    made = bcc.attach(ORDER)
    assert {"on_call", "on_fork"} <= programs()
    made.close()
    deadline = time.monotonic() + 10
    while programs() and time.monotonic() < deadline:  # the kernel frees programs after a grace period
        os.sched_yield()
    assert not programs()


def test_nothing_is_left_when_the_child_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(bcc, "_FOLDER", str(tmp_path))
    with pytest.raises(SourceError, match=r"^ebpf: bcc: Failed to compile .*; it said: '/virtual/main.c:1:.* error: "):
        bcc.attach(replace(ORDER, text="int on_fork("))
    with pytest.raises(SourceError, match=r"^ebpf: bcc: not done after 0.01 s$"):
        bcc.attach(ORDER, limit_s=0.01)
    with pytest.raises(SourceError, match="raw_tracepoint no_such_event: no such file or directory"):
        bcc.attach(replace(ORDER, programs={"on_nothing_raw": ("raw_tracepoint", "no_such_event")}))
    assert not list(tmp_path.iterdir())
    assert not programs()


def test_headers_never_lie_where_the_environment_says(tmp_path, monkeypatch):
    written = []
    write = bcc.write_headers
    monkeypatch.setattr(bcc, "write_headers", lambda folder, *rest: (written.append(folder), write(folder, *rest)))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path))
    bcc.attach(ORDER).close()
    (folder,) = written
    assert folder.parent == Path("/run")
    assert not folder.exists()
    assert not Path("/run").stat().st_mode & 0o022  # nobody else writes there


def test_a_program_that_the_verifier_refuses_costs_only_itself():
    bad = "int on_exec(struct bpf_raw_tracepoint_args *args) { return *(volatile char *)16; }"
    made = bcc.attach(
        replace(ORDER, text=TEXT + bad, programs=ORDER.programs | {"on_exec": ("raw_tracepoint", "sched_process_exec")})
    )
    made.close()
    assert made.programs == ("on_call", "on_fork")
    assert re.fullmatch(
        r"raw_tracepoint sched_process_exec: permission denied \(.*invalid mem.*\)", made.lacking["on_exec"]
    )


def interpreter(folder, text):
    """A program in the place of python3."""
    made = folder / "python3"
    made.write_text(text)
    made.chmod(0o755)
    return made


def test_an_interpreter_without_bcc_is_told(tmp_path):
    plain = interpreter(tmp_path, '#!/bin/sh\nshift\nexec /usr/bin/python3 -I -S "$@"\n')  # -S: no dist-packages
    with pytest.raises(SourceError, match=r"^ebpf: bcc: No module named 'bcc'; install python3-bpfcc$"):
        bcc.attach(ORDER, python=plain)
    with pytest.raises(SourceError, match=r"no .*/nowhere; install python3 and python3-bpfcc"):
        bcc.attach(ORDER, python=tmp_path / "nowhere")


def test_what_cannot_be_run_is_told(tmp_path, monkeypatch):
    file = tmp_path / "python3"
    file.write_text("")
    with pytest.raises(SourceError, match=r"^ebpf: bcc: its child cannot be started: .*permission denied$"):
        bcc.attach(ORDER, python=file)
    monkeypatch.setattr(bcc, "_FOLDER", str(tmp_path / "nowhere"))
    with pytest.raises(SourceError, match=r"^ebpf: bcc: its child cannot be started: .*no such file or directory$"):
        bcc.attach(ORDER)


def test_a_child_that_dies_leaves_its_last_words(tmp_path):
    dying = interpreter(tmp_path, "#!/bin/sh\necho first >&2\necho 'out of paper' >&2\nexit 3\n")
    with pytest.raises(SourceError, match=r"^ebpf: bcc: its child ended without an answer; it said: 'out of paper'$"):
        bcc.attach(ORDER, python=dying)


def test_without_tracefs_only_programs_that_need_records_are_lost(tmp_path):
    blind = interpreter(
        tmp_path,
        "#!/bin/sh\n"
        "exec unshare --mount sh -c "
        '\'umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null; exec /usr/bin/python3 "$@"\' sh "$@"\n',
    )
    made = bcc.attach(ORDER, python=blind)
    made.close()
    assert made.programs == ("on_fork",)
    assert made.lacking["on_call"] == "tracefs is not mounted; run `mount -t tracefs tracefs /sys/kernel/tracing`"


# Fields of kernels with kprobes, and with the modules of screens and of sound.
OF_SOME_KERNELS = {
    *("input_keys", "input_motions", "input_flips", "input_flip_ns"),
    *("flips", "flip_gaps", "drawn_ns", "drawn_refreshes", "missed_frames", "sound_underruns"),
}


def test_what_it_fills_and_what_it_cannot():
    stats = bcc.open_bcc(PROC, SYS)
    try:
        assert stats.backend is Ebpf.BCC
        assert stats.cpus == hooks.possible_cpus(SYS)
        unfilled = {field.name for field in layout.FIELDS} - stats.fields - OF_SOME_KERNELS
        assert unfilled == {
            *("run_queue_length_sum", "tcp_packets", "udp_packets"),
            *("long_waits", "waiting_ns", "scanned_ns"),
        }
        assert {"run queue length", "packets by protocol", "long waits"} <= set(stats.lacking)
        here = {"input_event", *layout.OF_MODULES}
        assert set(stats.lacking) <= {"run queue length", "packets by protocol", "long waits", *here}
    finally:
        stats.close()


def test_without_permission_it_says_which(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text("Name:\tasa\nCapEff:\t0000000000000000\n")
    with pytest.raises(SourceError, match=r"^ebpf: needs root \(CAP_BPF and CAP_PERFMON\)$"):
        bcc.open_bcc(tmp_path, SYS)


def test_rows_are_mapped_by_the_reader_of_both_backends():
    stats = bcc.open_bcc(PROC, SYS)
    reader = StatsReader(stats)
    try:
        before = reader.read()
        subprocess.run(["true"], check=True)
        after = reader.read()
    finally:
        reader.close()
        stats.close()
    assert after.execs >= before.execs + 1
    assert after.switches > before.switches
    assert after.tcp_packets is None


def test_headers_are_few_and_made_for_the_running_kernel(tmp_path):
    bcc.write_headers(tmp_path, "6.12.48+deb13-amd64", {"stats.h": "int x;"})
    assert "KERNEL_VERSION(6, 12, 0)" in (tmp_path / "include/linux/kconfig.h").read_text()
    assert (tmp_path / "include/stats.h").read_text() == "int x;"
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.h")) < 4096
