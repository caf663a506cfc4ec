# SPDX-License-Identifier: GPL-2.0-only
"""Stand-ins for scx_simple that behave badly, as executable files.

Scripts, and for the one that stalls a scheduler of its own: it takes only tasks of policy SCHED_EXT and loses each of
them, and is attached by libbpf.so.1 (or, where that is older than 1.2, by bpf(2) itself).
"""

import subprocess
import sys

_HEAD = f"""#!{sys.executable} -IS
import ctypes, os, platform, sys, time
SYSCALL = {{"x86_64": 321, "aarch64": 280}}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)


def attach(map_fd):  # bpf(BPF_LINK_CREATE) of a struct_ops map
    attributes = ctypes.create_string_buffer(64)
    ctypes.memmove(attributes, b"".join(n.to_bytes(4, "little") for n in (map_fd, 0, 44, 0)), 16)
    return libc.syscall(SYSCALL, 28, attributes, 64)


"""
_SLEEPS = "time.sleep(1000)\n"
_QUITS = 'print("Error: I never work", flush=True)\nsys.exit(7)\n'
_ATTACHES_NOTHING = "attach(0xFFFFFFFF)\n" + _SLEEPS
_DIES_AT_ITS_ATTACH = "attach(0xFFFFFFFF)\n" + _QUITS
_LOSES = """
bpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
for name in ("bpf_object__open_file", "bpf_object__find_map_by_name", "bpf_map__attach_struct_ops"):
    getattr(bpf, name).restype = ctypes.c_void_p
opened = ctypes.c_void_p(bpf.bpf_object__open_file(OBJECT.encode(), None))
lossy = ctypes.c_void_p(bpf.bpf_object__find_map_by_name(opened, b"lossy"))
bpf.bpf_map__set_map_flags(lossy, 1 << 13)  # BPF_F_LINK
if bpf.bpf_object__load(opened):
    sys.exit("Error: it does not load")
made = bpf.bpf_map__attach_struct_ops(lossy)
if not made or (not hasattr(bpf, "bpf_link__update_map") and attach(bpf.bpf_map__fd(lossy)) < 0):
    sys.exit(f"Error: it does not attach: {os.strerror(ctypes.get_errno())}")
while not os.path.exists("/sys/kernel/sched_ext/root"):
    time.sleep(0.01)
while os.path.exists("/sys/kernel/sched_ext/root"):
    time.sleep(0.05)
"""
_SOURCE = r"""
typedef unsigned long long u64;
struct task_struct;
struct sched_ext_ops {
    int (*select_cpu)(struct task_struct *p, int cpu, u64 flags);
    void (*enqueue)(struct task_struct *p, u64 flags);
    u64 flags;
    unsigned int timeout_ms;
    char name[128];
};
__attribute__((section("struct_ops/stay"), used)) int stay(u64 *context) { return (int)context[1]; }
__attribute__((section("struct_ops/lose"), used)) int lose(u64 *context) { return 0; }
__attribute__((section(".struct_ops"), used)) struct sched_ext_ops lossy = {
    .select_cpu = (void *)stay,
    .enqueue = (void *)lose,
    .flags = 1 << 3, /* SCX_OPS_SWITCH_PARTIAL */
    .timeout_ms = 2000,
    .name = "simple",
};
char licence[] __attribute__((section("license"), used)) = "GPL";
"""


def _write(path, body):
    path.write_text(_HEAD + body)
    path.chmod(0o755)
    return path


def sleeps(folder):
    """Never comes to its attach."""
    return _write(folder / "sleeps", _SLEEPS)


def quits(folder):
    """Ends with code 7 while it loads, and says why."""
    return _write(folder / "quits", _QUITS)


def attaches_nothing(folder):
    """Comes to its attach, which then fails; and stays."""
    return _write(folder / "attaches_nothing", _ATTACHES_NOTHING)


def dies_at_its_attach(folder):
    """Comes to its attach, which then fails; and ends."""
    return _write(folder / "dies_at_its_attach", _DIES_AT_ITS_ATTACH)


def loses(folder):
    """Attaches as `simple`, and never runs a task that it is given."""
    source, built = folder / "lossy.bpf.c", folder / "lossy.bpf.o"
    source.write_text(_SOURCE)
    command = ["clang-19", "-target", "bpf", "-O2", "-g", "-c", str(source), "-o", str(built)]
    subprocess.run(command, check=True, timeout=120)
    return _write(folder / "loses", f"OBJECT = {str(built)!r}\n{_LOSES}")
