# SPDX-License-Identifier: GPL-2.0-only
"""The BCC backend: the same probes for kernels without BTF, compiled on this machine in a child that ends.

Starts `bcc_child.py` under the system's interpreter, gives it the C text, and takes over the descriptors of what it
attached; they are all that is left of it. BCC asks for the kernel's headers; it gets the few types of `_TYPES` instead:
the contexts of the programs are laid out after tracefs, and no program looks into a structure of the kernel but for the
registers that a task saved, so that no linux-headers package is needed. What only the kernel's own types could tell
stays unknown, and is named in `lacking`.
"""

import json
import os
import platform
import socket
import subprocess
import tempfile
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asa.config import Ebpf
from asa.core.errors import SourceError
from collectors.ebpf import hooks, layout
from collectors.ebpf.reader import SOURCE as _SOURCE
from collectors.procfs.reader import reason_of

PYTHON = Path("/usr/bin/python3")
"""The system's interpreter: python3-bpfcc belongs to it, and to no virtual environment."""

LIMIT_S = 60.0
"""How long the child may take: it took 0.4 s on the development host, 10 s in an emulated guest."""

_CHILD = Path(__file__).with_name("bcc_child.py")
_FOLDER = "/run"  # only root writes there: what root compiles must not lie where TMPDIR says
_LONGEST_ANSWER_BYTES = 1 << 16
_MOST_DESCRIPTORS = 253  # SCM_MAX_FD, include/net/scm.h

# Comes before everything else (`-include ./include/linux/kconfig.h`), so that the other headers may be empty. The names
# are those which BCC's own text (helpers.h, its copy of bpf.h) and the types in tracefs' format files use.
_TYPES = """\
#define CONFIG_BPF_SYSCALL 1
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION({version})
typedef signed char __s8, s8;
typedef unsigned char __u8, u8;
typedef short __s16, s16;
typedef unsigned short __u16, u16, __be16, __le16, __sum16, umode_t;
typedef int __s32, s32, pid_t, clockid_t;
typedef unsigned int __u32, u32, __be32, __wsum, dev_t, fmode_t, gfp_t, gid_t, uid_t;
typedef long long __s64, s64, loff_t;
typedef unsigned long long __u64, u64, __be64, sector_t;
typedef __u64 __attribute__((aligned(8))) __aligned_u64;
typedef unsigned long size_t, uintptr_t;
typedef long ssize_t;
typedef _Bool bool;
enum {{ false, true }};
typedef struct {{ int counter; }} atomic_t;
#define __always_inline inline __attribute__((always_inline))
#ifdef __x86_64__
struct pt_regs {{
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
}};
#endif
"""
_FIRST_HEADER = "include/linux/kconfig.h"
_EMPTY_HEADERS = (
    "include/asm/page.h",
    "include/linux/bpf.h",
    "include/linux/bpf_common.h",
    "include/linux/log2.h",
    "include/linux/types.h",
    "include/linux/version.h",
    "include/uapi/linux/bpf.h",
    "include/uapi/linux/if_packet.h",
    "include/uapi/linux/ptrace.h",
)

_HERE = Path(__file__).parent
_MAPS = ("stats", "irq_kinds")
_NEED_TYPES = {
    "run queue length": ("run_queue_length_sum",),
    "packets by protocol": ("tcp_packets", "udp_packets"),
    "long waits": ("long_waits", "waiting_ns", "scanned_ns"),
}
_FUTEX_FIELDS = ("futex_waits", "futex_wait_ns")
_HELPING = ("block_rq_insert", "block_rq_merge")  # no field of layout.py needs them by name
_BY_RECORD = {  # program -> group of its tracepoint: it needs what the record says, the others an argument
    **dict.fromkeys(("block_rq_insert", "block_rq_merge", "block_rq_issue", "block_rq_complete"), "block"),
    **dict.fromkeys(("inet_sock_set_state", "sk_data_ready", "sock_recv_length"), "sock"),
    **dict.fromkeys(("net_dev_queue", "net_dev_start_xmit"), "net"),
}
_SCHED_BY_RECORD = dict.fromkeys(("sched_switch", "sched_wakeup", "sched_wakeup_new"), "sched")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the child is to do. `programs`: name of the C function -> (kind, event).

    Kinds: tracepoint (event "sched:sched_switch"), raw_tracepoint ("sched_switch"), kprobe ("input_event"). The C text
    sees `HAVE_name` defined for each program whose hook is there. `headers`: name -> text of what it may include;
    `flags` are given to the compiler as they are.
    """

    text: str
    headers: dict[str, str] = field(default_factory=dict)
    programs: dict[str, tuple[str, str]]
    maps: tuple[str, ...]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """What is attached, for as long as `links` are open. `lacking`: program -> why it is not."""

    programs: tuple[str, ...]
    lacking: dict[str, str]
    maps: dict[str, int]  # name -> descriptor
    links: tuple[int, ...]

    def close(self) -> None:
        """Detach everything. Call it once."""
        for descriptor in (*self.links, *self.maps.values()):
            os.close(descriptor)


def attach(order: Order, *, python: Path = PYTHON, limit_s: float = LIMIT_S) -> Attached:
    """Have the child compile and attach. Raises SourceError with the child's last words; then nothing is attached."""
    if not python.exists():
        raise SourceError(source=_SOURCE, reason=f"bcc: no {python}; install python3 and python3-bpfcc")
    try:
        answer, descriptors, said = _run_child(order, python, limit_s)
    except OSError as error:  # no room below /run, an interpreter that cannot be run
        where = f" {error.filename!r}" if error.filename else ""
        raise SourceError(
            source=_SOURCE, reason=f"bcc: its child cannot be started:{where} {reason_of(error)}"
        ) from error
    return _taken(order, answer, descriptors, said)


def _run_child(order: Order, python: Path, limit_s: float) -> tuple[dict[str, Any], list[int], str]:
    """The child's answer, the descriptors with it, and what it said meanwhile."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = _FOLDER if os.access(_FOLDER, os.W_OK) else f"{_FOLDER}/asa"  # the helper's unit writes below the second
    with ours, theirs, tempfile.TemporaryDirectory(prefix="asa-bcc-", dir=folder) as headers:
        write_headers(Path(headers), os.uname().release, order.headers)
        with tempfile.TemporaryFile(dir=headers) as given, tempfile.TemporaryFile(dir=headers) as words:
            given.write(_written(order))
            given.seek(0)
            child = subprocess.Popen(
                [python, "-I", _CHILD, str(theirs.fileno())],
                stdin=given,
                stdout=words,
                stderr=words,
                pass_fds=[theirs.fileno()],
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "BCC_KERNEL_SOURCE": headers},
            )
            theirs.close()  # so that the child's end is seen
            try:
                answer, descriptors = _answer(ours, limit_s)
            finally:
                child.kill()
                child.wait()
            words.seek(0)
            return answer, descriptors, words.read().decode(errors="replace")


def write_headers(folder: Path, release: str, more: dict[str, str]) -> None:
    """The tree that BCC takes for the kernel's headers, with `more` of them. `release`: uname(2)'s."""
    version = ", ".join([*release.partition("-")[0].split(".")[:2], "0"])
    texts = {_FIRST_HEADER: _TYPES.format(version=version)} | dict.fromkeys(_EMPTY_HEADERS, "")
    for name, text in (texts | {f"include/{name}": text for name, text in more.items()}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _written(order: Order) -> bytes:
    programs = [{"name": name, "kind": kind, "event": event} for name, (kind, event) in order.programs.items()]
    head = json.dumps({"programs": programs, "maps": order.maps, "flags": order.flags})
    return f"{head}\n{order.text}".encode()


def _answer(line: socket.socket, limit_s: float) -> tuple[dict[str, Any], list[int]]:
    """What the child sends; an empty answer when it ended without one."""
    line.settimeout(limit_s)
    descriptors = array("i")
    try:  # socket.recv_fds would not pass the flag on
        data, messages, _, _ = line.recvmsg(
            _LONGEST_ANSWER_BYTES, socket.CMSG_LEN(_MOST_DESCRIPTORS * descriptors.itemsize), socket.MSG_CMSG_CLOEXEC
        )
    except TimeoutError:
        return {"error": f"not done after {limit_s:g} s"}, []
    except ConnectionError:  # it ended before it had read its order
        return {}, []
    for level, kind, content in messages:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    return (json.loads(data) if data else {}), list(descriptors)


def _taken(order: Order, answer: dict[str, Any], descriptors: list[int], said: str) -> Attached:
    """The answer as a value. Raises SourceError when nothing came of it."""
    if "attached" not in answer or not answer["attached"]:
        for descriptor in descriptors:
            os.close(descriptor)
        why = answer.get("error") or next(iter(answer.get("lacking", {}).values()), "its child ended without an answer")
        told = telling(said)
        reason = f"bcc: {' '.join(why.split())}" + (f"; it said: {told!r}" if told else "")
        raise SourceError(source=_SOURCE, reason=reason)
    maps = len(order.maps)
    return Attached(
        programs=tuple(answer["attached"]),
        lacking=answer["lacking"],
        maps=dict(zip(order.maps, descriptors, strict=False)),
        links=tuple(descriptors[maps:]),
    )


def telling(said: str) -> str:
    """The line of the child's words that names the trouble: the compiler's first error, else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[-1] if lines else "")[-200:]


class BccStats:
    """A StatsMap of what the child attached. Made by `open_bcc`."""

    def __init__(self, attached: Attached, cpus: int, *, by_record: bool) -> None:
        self.backend = Ebpf.BCC
        self.cpus = cpus
        self.row_bytes = layout.ROW_BYTES  # compiled from this very layout a moment ago
        self.stats_fd = attached.maps["stats"]
        self.irq_kinds_fd = attached.maps["irq_kinds"]
        self.lacking = {name: why for name, why in attached.lacking.items() if name not in _HELPING}
        unfilled = set(sum(_NEED_TYPES.values(), ()))
        self.lacking |= dict.fromkeys(_NEED_TYPES, "only the kernel's BTF tells where it is, which BCC does without")
        if not _futex_calls(by_record=by_record):
            unfilled |= set(_FUTEX_FIELDS)
            self.lacking["futex waits"] = "BCC cannot tell a task's system call (x86-64, Linux 5.18)"
        self.fields = layout.fields_of(attached.programs) - unfilled
        self._attached = attached

    def scan(self) -> None:
        """Nothing: no program here goes over tasks."""

    def close(self) -> None:
        """Detach the programs and give the descriptors back."""
        self._attached.close()


def open_bcc(proc: Path, sys: Path, *, limit_s: float = LIMIT_S, by_record: bool = False) -> BccStats:
    """Compile and attach what this kernel has hooks for. Raises SourceError.

    `by_record`: take the scheduler's programs that read records, which older kernels need, from the start.
    """
    missing = hooks.missing_capabilities(proc)
    if missing:
        raise SourceError(source=_SOURCE, reason=f"needs root ({' and '.join(missing)})")
    cpus, slots = hooks.possible_cpus(sys), hooks.task_slots(proc)
    attached = attach(_order(cpus, slots, by_record=by_record), limit_s=limit_s)
    if "sched_switch" in attached.lacking and not by_record:  # before 5.18 it does not tell the state of who leaves
        attached.close()
        by_record = True
        attached = attach(_order(cpus, slots, by_record=by_record), limit_s=limit_s)
    return BccStats(attached, cpus, by_record=by_record)


def _futex_calls(*, by_record: bool) -> dict[str, int]:
    """The system calls that the programs recognise. A record, which lies in a buffer, leads to no task's registers."""
    numbers = hooks.futex_calls()
    if by_record or numbers is None or platform.machine() != "x86_64":
        return {}
    return dict(zip(("FUTEX", "FUTEX_WAITV", "FUTEX_WAIT"), numbers, strict=True))


def _order(cpus: int, slots: int, *, by_record: bool) -> Order:
    groups = _BY_RECORD | (_SCHED_BY_RECORD if by_record else {})
    programs = {name: ("raw_tracepoint", name) for name in layout.PROGRAMS if name not in layout.ITERATORS}
    programs |= {name: ("tracepoint", f"{group}:{name}") for name, group in groups.items()}
    programs |= {name: ("kprobe", name) for name in layout.BY_KPROBE}
    flags = [f"-DASA_CPUS={cpus}", f"-DASA_TASKS={slots}"]
    if by_record:
        flags.append("-DASA_BY_RECORD")
    flags += [f"-DASA_{name}={number}" for name, number in _futex_calls(by_record=by_record).items()]
    return Order(
        text=(_HERE / "bcc.c").read_text(),
        headers={"stats.h": layout.render(), "probes.h": (_HERE / "probes.h").read_text()},
        programs=programs,
        maps=_MAPS,
        flags=tuple(flags),
    )
