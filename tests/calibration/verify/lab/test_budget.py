# SPDX-License-Identifier: GPL-2.0-only
"""Instructions that the kernel follows, by number of CPUs: the verdict, and what a program's facts say."""

import ctypes
import os
import struct
from pathlib import Path

import pytest

from asa.act.gate.links import BPF_SYSCALL
from asa.core.errors import LabError
from calibration.verify.lab import budget, programs
from calibration.verify.lab.judge import Probed
from calibration.verify.report import Level


def found(*counts, name="dispatch"):
    return list(budget.judge({cpus: {name: count} for cpus, count in zip(budget.CPUS, counts, strict=True)}))


def test_what_does_not_grow_is_told():
    (only,) = found(700, 700, 700, 700)
    assert only.level is Level.NOTE
    assert "dispatch, by number of CPUs: 700 with 1, 700 with 2, 700 with 4, 700 with 9; 0.1 %" in only.text


@pytest.mark.parametrize(
    ("counts", "levels"),
    [
        ((1000, 2000, 4000, 9000), [Level.NOTE]),  # 64,000 with 64 CPUs
        ((17_000, 34_000, 68_000, 153_000), [Level.DOUBT, Level.NOTE]),  # 1,088,000
        ((153_000, 68_000, 34_000, 17_000), [Level.NOTE]),
        ((100, 100, 100, 500_000), [Level.DOUBT, Level.NOTE]),
        ((100, 100, 100, 500_001), [Level.FAULT, Level.NOTE]),
        ((500_001, 100, 100, 100), [Level.FAULT, Level.NOTE]),
    ],
)
def test_growth_is_told_before_a_larger_machine_refuses(counts, levels):
    assert [one.level for one in found(*counts)] == levels


def test_the_expectation_is_of_a_line():
    (doubt, _) = found(17_000, 34_000, 68_000, 153_000)
    assert "153000 instructions with 9 CPUs, and by that growth 1088000 with 64" in doubt.text


def test_each_program_has_the_budget_of_its_own():
    counts = {4: {"init": 400_000, "dispatch": 450_000}, 9: {"init": 400_000, "dispatch": 600_000}}
    fault, note = budget.judge(counts)
    assert (fault.level, fault.text.partition(":")[0]) == (Level.FAULT, "dispatch")
    assert "450000 with 4, 600000 with 9" in note.text


def test_a_guest_that_tells_nothing_is_no_pass():
    told = [Probed(probe="load"), Probed(probe="instructions", values={"dispatch": 12.0, "init": None})]
    assert budget.counts(told, 4) == {"dispatch": 12}
    with pytest.raises(LabError, match="with 9 CPUs told of no program"):
        budget.counts(told[:1], 9)


def test_a_programs_facts_lie_where_the_kernel_puts_them():
    """The members before `verified_insns`, as include/uapi/linux/bpf.h has them since Linux 5.16."""
    words, pointer = ctypes.c_uint32, ctypes.c_uint64

    class Info(ctypes.Structure):
        _fields_ = [
            *((name, words) for name in ("type", "id")),
            ("tag", ctypes.c_uint8 * 8),
            *((name, words) for name in ("jited_prog_len", "xlated_prog_len")),
            *((name, pointer) for name in ("jited_prog_insns", "xlated_prog_insns", "load_time")),
            *((name, words) for name in ("created_by_uid", "nr_map_ids")),
            ("map_ids", pointer),
            ("name", ctypes.c_char * 16),
            *((name, words) for name in ("ifindex", "gpl_compatible")),
            *((name, pointer) for name in ("netns_dev", "netns_ino")),
            *((name, words) for name in ("nr_jited_ksyms", "nr_jited_func_lens")),
            *((name, pointer) for name in ("jited_ksyms", "jited_func_lens")),
            *((name, words) for name in ("btf_id", "func_info_rec_size")),
            ("func_info", pointer),
            *((name, words) for name in ("nr_func_info", "nr_line_info")),
            *((name, pointer) for name in ("line_info", "jited_line_info")),
            *((name, words) for name in ("nr_jited_line_info", "line_info_rec_size")),
            *((name, words) for name in ("jited_line_info_rec_size", "nr_prog_tags")),
            *((name, pointer) for name in ("prog_tags", "run_time_ns", "run_cnt", "recursion_misses")),
            ("verified_insns", words),
        ]

    made = bytes(Info(name=b"compose_enqueue", verified_insns=1234))
    assert programs.parsed(made + struct.pack("II", 7, 7)) == ("compose_enqueue", 1234)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="reading the kernel's programs needs root: sudo make test")
def test_the_count_is_the_one_that_the_kernel_tells_of_a_descriptor():
    before = programs.ids()
    code = ctypes.create_string_buffer(struct.pack("<BBhi", 0xB7, 0, 0, 0) * 5 + struct.pack("<BBhi", 0x95, 0, 0, 0))
    license_ = ctypes.create_string_buffer(b"GPL")
    where = (ctypes.addressof(code), ctypes.addressof(license_))
    # BPF_PROG_LOAD of a socket filter with six instructions
    facts = ctypes.create_string_buffer(
        struct.pack("<IIQQIIQII16s", 1, 6, *where, 0, 0, 0, 0, 0, b"counted_program"), 128
    )
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(BPF_SYSCALL[os.uname().machine], 5, facts, len(facts))
    if descriptor < 0:
        pytest.skip(f"bpf(2) loads nothing here: {os.strerror(ctypes.get_errno())}; needs CAP_SYS_ADMIN")
    try:
        told = Path(f"/proc/self/fdinfo/{descriptor}").read_text().split()
        assert programs.followed(before)["counted_program"] == int(told[told.index("verified_insns:") + 1]) == 6
    finally:
        os.close(descriptor)
