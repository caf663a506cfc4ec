# SPDX-License-Identifier: GPL-2.0-only
"""The object stage, on objects that clang makes of a few lines with a struct sched_ext_ops of their own."""

import subprocess

import pytest

from calibration.verify import objects
from calibration.verify.report import Level

SOURCE = """
typedef unsigned int u32;
typedef unsigned long long u64;
struct task_struct;
struct sched_ext_ops {
	int (*select_cpu)(struct task_struct *p, int prev, u64 flags);
	void (*enqueue)(struct task_struct *p, u64 flags);
	void (*dispatch)(int cpu, struct task_struct *prev);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};
#define SEC(n) __attribute__((section(n), used))
extern int scx_bpf_create_dsq(u64 id, int node) SEC(".ksyms");
extern int scx_bpf_newer(u64 id) __attribute__((weak)) SEC(".ksyms");
struct {
	int (*type)[1];
	int (*max_entries)[ENTRIES];
	u32 *key;
	u64 (*value)[8];
} kept SEC(".maps");
MORE
SEC("struct_ops/enqueue") void enqueue(u64 *ctx)
{
	scx_bpf_create_dsq(1, -1);
	if (scx_bpf_newer)
		scx_bpf_newer(1);
}
SEC("struct_ops/dispatch") void dispatch(u64 *ctx) {}
SEC(".struct_ops.link") struct sched_ext_ops ops = {
	OPS
};
char _license[] SEC("license") = LICENSE;
"""
OPS = '.enqueue = (void *)enqueue, .dispatch = (void *)dispatch, .timeout_ms = 5000, .name = "made"'
RUNNING = """
SEC("struct_ops/running") void running(u64 *ctx)
{
	if (clocks[0] < ctx[0])
		clocks[0] = ctx[0];
}
"""
KERNEL = objects.Kernel("6.18", frozenset({"scx_bpf_create_dsq"}))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A function that compiles it, changed."""
    folder = tmp_path_factory.mktemp("objects")
    made = {}

    def compile_(ops=OPS, entries=16, more="", license_='"GPL"'):
        text = SOURCE.replace("OPS\n", f"{ops}\n").replace("ENTRIES", str(entries)).replace("MORE", more)
        text = text.replace("LICENSE", license_)
        if text not in made:
            words = ["clang-19", "-target", "bpf", "-g", "-O2", "-w", "-x", "c", "-c", "-", "-o", str(folder / "a.o")]
            subprocess.run(words, input=text.encode(), check=True)
            made[text] = (folder / "a.o").read_bytes()
        return made[text]

    return compile_


def faults(data, kernels=(KERNEL,), *, composed=True):
    return {one.rule for one in objects.check(data, kernels, composed=composed) if one.level is Level.FAULT}


def test_a_sound_one_passes_and_its_weak_calls_may_lack(compiled):
    assert list(objects.check(compiled(), (KERNEL,), composed=True)) == []


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        ("name", {"ops": OPS.replace("made", "made/../x")}),
        ("name", {"ops": OPS.replace('"made"', '""')}),
        ("timeout", {"ops": OPS.replace("5000", "30001")}),
        ("timeout", {"ops": OPS.replace("5000", "0")}),
        ("enq-last", {"ops": OPS.replace(".enqueue = (void *)enqueue", ".flags = 2")}),
        ("queue-not-drained", {"ops": OPS.replace(".dispatch = (void *)dispatch,", "")}),
        ("map-memory", {"entries": 1 << 22}),
        ("other-program", {"more": 'SEC("kprobe/do_exit") int spy(void *ctx) { return 0; }'}),
        ("license", {"license_": '"MIT"'}),
        ("types", {"more": f"static u64 clocks[4]; {RUNNING}"}),
    ],
)
def test_a_fault_is_told_by_its_rule(compiled, rule, given):
    assert faults(compiled(**given)) == {rule}


def test_an_array_that_others_may_use_stays_one(compiled):
    assert faults(compiled(more=f"u64 clocks[4]; {RUNNING}")) == set()


def test_a_call_that_a_kernel_lacks(compiled):
    other = objects.Kernel("7.2", frozenset({"scx_bpf_newer"}))
    (one,) = (one for one in objects.check(compiled(), (KERNEL, other), composed=True))
    assert (one.rule, one.text) == ("not-in-kernel", "Linux 7.2 has no scx_bpf_create_dsq")


def test_without_a_kernel_it_is_inconclusive(compiled):
    assert [one.level for one in objects.check(compiled(), composed=True)] == [Level.DOUBT]


def test_what_is_no_object(compiled):
    whole = compiled()
    assert faults(b"") == faults(b"#!/bin/sh\n") == {"no-object"}
    assert faults(whole[:18] + (62).to_bytes(2, "little") + whole[20:]) == {"other-architecture"}
    for part in (20, 64, len(whole) // 2, len(whole) - 1):
        assert faults(whole[:part]) == {"damaged"}, part


def test_an_object_is_found_in_a_program(compiled):
    whole = compiled(entries=1 << 22)
    program = compiled()[:18] + (62).to_bytes(2, "little") + compiled()[20:] + b"\0" * 40 + whole + b"\0" * 7
    assert objects.embedded(program) == [whole]
    assert faults(program) == {"map-memory"}


def test_a_damaged_one_is_never_a_pass_nor_a_crash(compiled):
    whole = compiled()
    for at in range(0, len(whole), len(whole) // 40):
        spoiled = bytearray(whole)
        spoiled[at] ^= 0xFF
        found = list(objects.check(bytes(spoiled), (KERNEL,), composed=True))
        assert all(one.text for one in found)
