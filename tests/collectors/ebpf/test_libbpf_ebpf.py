# SPDX-License-Identifier: GPL-2.0-only
"""libbpf by ctypes: a library that is not there or too old, files that are no objects, the line that tells why."""

import subprocess
import sys
from pathlib import Path

import pytest

from asa.core.errors import SourceError
from collectors.ebpf.libbpf import KernelTypes, Library, Object, telling_line

BTF = Path("/sys/kernel/btf/vmlinux")

VERIFIER = """libbpf: prog 'sched_process_exec': BPF program load failed: Permission denied
libbpf: prog 'sched_process_exec': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; int sched_process_exec(void *ctx) @ probes.bpf.c:240
1: (79) r1 = *(u64 *)(r1 +800)
invalid bpf_context access off=800 size=8
processed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
-- END PROG LOAD LOG --
libbpf: prog 'sched_process_exec': failed to load: -13
libbpf: failed to load object 'probes.bpf.o'
"""


@pytest.fixture(scope="module")
def library():
    return Library()


def test_a_missing_library_says_what_to_install():
    with pytest.raises(SourceError, match=r"^ebpf: libasa-nothing.so.1: cannot be loaded: .*; install libbpf1"):
        Library("libasa-nothing.so.1")


def test_a_library_without_a_function_we_need_is_too_old():
    with pytest.raises(SourceError, match=r"^ebpf: libc.so.6: no bpf_object__open_file: older than 1.0; install"):
        Library("libc.so.6")


OTHER_LIBRARY = """
import ctypes, gc
from collectors.ebpf.libbpf import Library
first = Library()
Library()
gc.collect()
rest = [bytes(64 * size) for size in range(2000)]
del first
gc.collect()
plain = ctypes.CDLL("libbpf.so.1")
plain.bpf_object__open_file.restype = ctypes.c_void_p
plain.bpf_object__open_file(b"/nowhere", None)
print(len(Library().messages))
"""


def test_libbpf_may_print_after_the_one_who_loaded_it_is_gone():
    command = [sys.executable, "-c", OTHER_LIBRARY]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) >= 1


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not an object\n" * 100])
def test_a_file_that_is_no_object(library, tmp_path, content, capfd):
    path = tmp_path / "probes.bpf.o"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"probes.bpf.o: cannot be opened: ") as caught:
        Object(library, path)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")  # libbpf would have printed


def test_the_verifiers_last_word_is_the_telling_line():
    assert telling_line(VERIFIER) == "invalid bpf_context access off=800 size=8"
    cut = VERIFIER.partition("processed")[0]
    assert telling_line(cut) == "invalid bpf_context access off=800 size=8"


def test_without_a_verifiers_log_the_first_warning_tells():
    said = "libbpf: failed to open x: No such file or directory\nlibbpf: second\n"
    assert telling_line(said) == "failed to open x: No such file or directory"
    assert telling_line("") == ""


@pytest.fixture
def types(library):
    if not BTF.exists():
        pytest.skip("this kernel has no BTF: boot one with CONFIG_DEBUG_INFO_BTF to force this test")
    types = KernelTypes(library, BTF)
    yield types
    types.close()
    types.close()


def test_what_the_kernels_types_tell(types):
    assert types.tracepoint_arguments("sched_wakeup") == 1
    assert types.tracepoint_arguments("sched_switch") in (3, 4)
    assert types.tracepoint_arguments("no_such_tracepoint") is None
    assert types.has_member("task_struct", "pid")
    assert not types.has_member("task_struct", "no_such_member")
    assert not types.has_member("no_such_struct", "pid")
    assert types.has_value("bpf_func_id", "BPF_FUNC_ktime_get_ns")
    assert not types.has_value("bpf_func_id", "BPF_FUNC_no_such_function")


def test_types_that_are_not_there_or_garbled(library, tmp_path, capfd):
    with pytest.raises(SourceError, match=r"vmlinux: the kernel has no type information \(CONFIG_DEBUG_INFO_BTF\)$"):
        KernelTypes(library, tmp_path / "vmlinux")
    (tmp_path / "vmlinux").write_bytes(b"garbage" * 100)
    with pytest.raises(SourceError, match="vmlinux: cannot be parsed: "):
        KernelTypes(library, tmp_path / "vmlinux")
    assert capfd.readouterr() == ("", "")
