# SPDX-License-Identifier: GPL-2.0-only
"""Type information as kernels have it, damaged in each way that has a load fail, and newer than is known."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.act import btf

KERNELS = Path("/sys/kernel/btf/vmlinux")
STRINGS = b"\0int\0task_struct\0sched_ext_ops\0bpf_struct_ops_sched_ext_ops\0x\0"


def name(text):
    return STRINGS.index(b"\0" + text + b"\0") + 1 if text else 0


def kind(number, entries=0):
    return number << 24 | entries


INT = struct.pack("=IIII", name(b"int"), kind(1), 4, 32)
TASK = struct.pack("=IIIIII", name(b"task_struct"), kind(4, 1), 4, name(b"x"), 1, 0)
OPS = struct.pack("=III", name(b"sched_ext_ops"), kind(4), 0)
VALUE = struct.pack("=III", name(b"bpf_struct_ops_sched_ext_ops"), kind(4), 0)
POINTER = struct.pack("=III", 0, kind(2), 2)
ARRAY = struct.pack("=IIIIII", 0, kind(3), 0, 1, 1, 5)
TYPES = INT + TASK + OPS + VALUE + POINTER + ARRAY


def made(types=TYPES, strings=STRINGS, *, magic=0xEB9F, version=1, header=24, more=b"", **lengths):
    found = {"type_at": 0, "types": len(types), "string_at": len(types), "strings": len(strings)} | lengths
    words = (found["type_at"], found["types"], found["string_at"], found["strings"])
    return struct.pack("=HBBIIIII", magic, version, 0, header, *words) + more + types + strings


def found(tmp_path, data, **how):
    path = tmp_path / "vmlinux"
    path.write_bytes(data)
    return btf.fault(path, **how)


def test_well_formed(tmp_path):
    assert found(tmp_path, made()) == ("", "")
    assert found(tmp_path, made(header=32, more=bytes(8))) == ("", "")  # a header that has grown


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"\x9f\xeb\x01", "3 bytes are less than its header"),
        (b"\x7fELF" + bytes(100), "it begins with 0x457f"),
        (made(magic=0x9FEB), "in the order of another machine"),
        (made(version=0), "version 0"),
        (made(header=8), "its header claims 8 bytes"),
        (made(header=1 << 20), "its header claims 1048576 bytes"),
        (made(types=TYPES, strings=b"")[:-1], "of "),
        (made(type_at=2), "from 2 on"),
        (made(types=b""), "it has no types"),
        (made(strings=b"x\0"), "its strings"),
        (made(strings=STRINGS[:-1]), "its strings"),
        (made(string_at=0), "its strings are to be"),
        (made(types=TYPES + b"\0\0\0\0"), "type [7] is cut short"),
        (made(types=TYPES + struct.pack("=III", 0, kind(4, 3), 0)), "type [7] is cut short"),
        (made(types=TYPES + struct.pack("=III", 0, kind(0), 0)), "type [7] is of kind 0"),
        (made(types=TYPES + struct.pack("=III", 9999, kind(4), 0)), "type [7] has its name at 9999"),
        (made(types=TYPES + struct.pack("=IIIIII", 0, kind(4, 1), 0, 9999, 1, 0)), "type [7] has its name at 9999"),
        (made(types=TYPES + struct.pack("=III", 0, kind(2), 88)), "type [7] refers to [88], of 7"),
        (made(types=TYPES + struct.pack("=IIIIII", 0, kind(4, 1), 0, 0, 88, 0)), "type [7] refers to [88], of 7"),
        (made(types=TYPES + struct.pack("=IIIIII", 0, kind(3), 0, 88, 1, 1)), "type [7] refers to [88], of 7"),
        (made(strings=STRINGS.replace(b"sched_ext_ops\0", b"sched_ext_opz\0")), "does not name sched_ext_ops"),
    ],
)
def test_damaged(tmp_path, data, why):
    said, remedy = found(tmp_path, data)
    assert said.startswith("is malformed: ")
    assert why in said
    assert "another kernel" in remedy


@pytest.mark.parametrize("data", [made(version=2), made(types=TYPES + struct.pack("=III", 0, kind(20), 0))])
def test_newer_than_is_known(tmp_path, data):
    said, remedy = found(tmp_path, data)
    assert said.startswith("is malformed: ")
    assert "update the schedulers" in remedy


def test_missing_or_unreadable(tmp_path):
    assert btf.fault(tmp_path / "none")[0] == "is missing"
    assert btf.fault(tmp_path)[0] == "cannot be read: is a directory"


def test_a_kernel_without_sched_ext_need_not_name_its_types(tmp_path):
    strings = STRINGS.replace(b"sched_ext_ops", b"sched_txe_ops")
    assert found(tmp_path, made(strings=strings), sched_ext=False) == ("", "")


CALLS = b"scx_bpf_kick_cpu\0scx_bpf_now\0scx_bpf_kick_cpu_impl\0cpu\0aux\0bpf_prog_aux\0void\0"


def functions(*made_of):
    """Types of these functions after TYPES: (name, names of arguments); an `aux` points to struct bpf_prog_aux."""
    strings = STRINGS + CALLS

    def place(text):
        return strings.index(b"\0" + text + b"\0") + 1

    types = TYPES + struct.pack("=III", place(b"bpf_prog_aux"), kind(4), 0)  # [7]
    types += struct.pack("=III", 0, kind(10), 7) + struct.pack("=III", 0, kind(2), 8)  # [8] const, [9] pointer
    number = 9
    for text, arguments in made_of:
        words = [place(one) if part == 0 else (9 if one == b"aux" else 1) for one in arguments for part in (0, 1)]
        types += struct.pack(f"=III{len(words)}I", 0, kind(13, len(arguments)), 0, *words)
        types += struct.pack("=III", place(text), kind(12), number + 1)
        number += 2
    return made(types=types, strings=strings)


def test_an_argument_that_the_kernel_alone_fills_in_fits_no_scheduler(tmp_path):
    # as Debian's 7.2.12 has it: NAME_impl is there for most functions, and not for this one
    said, remedy = found(tmp_path, functions((b"scx_bpf_kick_cpu", (b"cpu", b"aux")), (b"scx_bpf_now", ())))
    assert said.startswith("is malformed: scx_bpf_kick_cpu shows callers an argument")
    assert "KF_IMPLICIT_ARGS" in said
    assert "boot another kernel" in remedy


def test_a_function_with_its_twin_fits(tmp_path):
    both = ((b"scx_bpf_kick_cpu", (b"cpu",)), (b"scx_bpf_kick_cpu_impl", (b"cpu", b"aux")), (b"scx_bpf_now", ()))
    assert found(tmp_path, functions(*both)) == ("", "")
    assert found(tmp_path, functions((b"scx_bpf_kick_cpu", (b"aux", b"cpu")))) == ("", "")  # an argument of callers


def test_this_kernels():
    if not KERNELS.exists():
        assert btf.fault(KERNELS)[0] == "is missing"
        return
    assert btf.fault(KERNELS, sched_ext=Path("/sys/kernel/sched_ext").exists()) == ("", "")


@given(st.data())
def test_whatever_is_in_it_a_line_comes_out(tmp_path_factory, data):
    body = bytearray(data.draw(st.sampled_from([made(), functions((b"scx_bpf_kick_cpu", (b"cpu", b"aux")))])))
    for _ in range(data.draw(st.integers(0, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    said, remedy = found(tmp_path_factory.mktemp("btf"), bytes(body[: data.draw(st.integers(0, len(body)))]))
    assert bool(said) is bool(remedy)
    assert said.isprintable()
