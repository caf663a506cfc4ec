# SPDX-License-Identifier: GPL-2.0-only
"""Puts the parallel clock into QEMU's source: `python -m scenarios.lab.qemu.change FOLDER`.

The clock is in two files of its own (icount-parallel.c says what it does); QEMU calls it from the places below. Each is
looked for before anything is written: a source in which one is missing, or there twice, is refused as it is.
"""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from asa.core.errors import LabError

_HERE = Path(__file__).parent
OWN = {"icount-parallel.c": "accel/tcg", "icount-parallel.h": "include/system"}
"""Files of ours, and where they go."""

_TCG = "accel/tcg"
_INCLUDE = '#include "system/icount-parallel.h"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A piece of a file that is there once, and what takes its place."""

    file: str
    old: str
    new: str


def _after(file: str, old: str, more: str) -> Place:
    return Place(file=file, old=old, new=old + more)


_COMMON, _OPS, _LOOP = f"{_TCG}/icount-common.c", f"{_TCG}/tcg-accel-ops-icount.c", f"{_TCG}/tcg-accel-ops-rr.c"
_BLOCKS, _FILES = "block/block-backend.c", "hw/9pfs/9p.c"

PLACES = (
    _after(f"{_TCG}/meson.build", "  'icount-common.c',\n", "  'icount-parallel.c',\n"),
    _after(
        "system/vl.c",
        """\
        }, {
            .name = "rrsnapshot",
            .type = QEMU_OPT_STRING,
""",
        """\
        }, {
            .name = "parallel",
            .type = QEMU_OPT_NUMBER,
        }, {
            .name = "speeds",
            .type = QEMU_OPT_STRING,
        }, {
            .name = "shared",
            .type = QEMU_OPT_STRING,
        }, {
            .name = "turbo",
            .type = QEMU_OPT_STRING,
""",
    ),
    # the clock
    _after(_COMMON, '#include "system/cpu-timers-internal.h"\n', _INCLUDE),
    _after(
        _COMMON,
        "    cpu->icount_budget -= executed;\n",
        "    executed = icount_parallel_time(cpu, executed);\n",
    ),
    _after(
        _COMMON,
        "    CPUState *cpu = current_cpu;\n",
        """\

    if (!cpu && icount_parallel_in_round()) {
        return icount_parallel_reached();
    }
""",
    ),
    Place(
        file=_COMMON,
        old="    if (replay_mode != REPLAY_MODE_PLAY) {\n        if (!all_cpu_threads_idle()) {\n",
        new="    if (icount_parallel_in_round() || icount_parallel_io_waits()) {\n        return;\n    }\n\n"
        "    if (replay_mode != REPLAY_MODE_PLAY) {\n        if (!all_cpu_threads_idle()) {\n",
    ),
    Place(
        file=_COMMON,
        old="    icount_sleep = sleep;\n",
        new="    if (!icount_parallel_configure(opts, errp)) {\n        return false;\n    }\n\n"
        "    icount_sleep = sleep;\n",
    ),
    # a vCPU's turn
    _after(_OPS, '#include "tcg-accel-ops-rr.h"\n', _INCLUDE),
    Place(
        file=_OPS,
        old="    cpu->icount_budget = MIN(icount_get_limit(), cpu_budget);\n",
        new="    cpu->icount_budget = icount_parallel() ? cpu_budget : MIN(icount_get_limit(), cpu_budget);\n",
    ),
    Place(
        file=_OPS,
        old="    tcg_handle_interrupt(cpu, mask);\n",
        new="    icount_parallel_interrupt(cpu);\n    tcg_handle_interrupt(cpu, mask);\n",
    ),
    # the loop
    _after(_LOOP, '#include "tcg-accel-ops-icount.h"\n', _INCLUDE),
    Place(
        file=_LOOP,
        old="        if (icount_enabled()) {\n            int cpu_count = rr_cpu_count();\n",
        new="        if (icount_enabled() && !icount_parallel_in_round()) {\n"
        "            int cpu_count = rr_cpu_count();\n",
    ),
    _after(
        _LOOP,
        "        if (!cpu) {\n            cpu = first_cpu;\n        }\n",
        "        if (icount_parallel()) {\n            cpu = icount_parallel_next();\n        }\n",
    ),
    Place(
        file=_LOOP,
        old="                    icount_prepare_for_run(cpu, cpu_budget);\n",
        new="                    if (icount_parallel()) {\n"
        "                        cpu_budget = icount_parallel_budget(cpu);\n"
        "                    }\n"
        "                    icount_prepare_for_run(cpu, cpu_budget);\n",
    ),
    _after(
        _LOOP,
        "                    icount_process_data(cpu);\n                }\n                bql_lock();\n",
        "                if (icount_parallel()) {\n                    icount_parallel_ran(cpu);\n                }\n",
    ),
    Place(
        file=_LOOP,
        old="            cpu = CPU_NEXT(cpu);\n        } /* while",
        new="            cpu = icount_parallel() ? icount_parallel_next() : CPU_NEXT(cpu);\n        } /* while",
    ),
    _after(
        _LOOP,
        "            qatomic_set_mb(&cpu->exit_request, 0);\n        }\n",
        "\n        icount_parallel_settle();\n",
    ),
    _after("target/i386/tcg/misc_helper.c", '#include "helper-tcg.h"\n', _INCLUDE),
    _after(
        "target/i386/tcg/misc_helper.c", "    /* Just let another CPU run.  */\n", "    icount_parallel_pause(cs);\n"
    ),
    # a program's own speed
    _after(
        "target/i386/tcg/misc_helper.c",
        "    cpu_svm_check_intercept_param(env, SVM_EXIT_CPUID, 0, GETPC());\n",
        """\

    if (icount_parallel() && (uint32_t)env->regs[R_EAX] == ICOUNT_PARALLEL_LEAF) {
        env->regs[R_EAX] = icount_parallel_hurry(env_cpu(env), env->cr[3], env->eip, (uint32_t)env->regs[R_ECX]);
        env->regs[R_EBX] = env->regs[R_ECX] = env->regs[R_EDX] = 0;
        return;
    }
""",
    ),
    _after("target/i386/tcg/system/misc_helper.c", '#include "hw/i386/apic.h"\n', _INCLUDE),
    _after(
        "target/i386/tcg/system/misc_helper.c",
        "        cpu_x86_update_cr3(env, t0);\n",
        "        icount_parallel_space(env_cpu(env), t0);\n",
    ),
    # firmware, which the source package lacks, is taken from the installed QEMU
    Place(file="meson.build", old="    unpack_edk2_blobs = bzip2.found()\n", new="    unpack_edk2_blobs = false\n"),
    # requests to the host
    _after(_BLOCKS, '#include "system/runstate.h"\n', _INCLUDE),
    _after(_BLOCKS, "    qatomic_inc(&blk->in_flight);\n", "    icount_parallel_io(1);\n"),
    _after(_BLOCKS, "    qatomic_dec(&blk->in_flight);\n", "    icount_parallel_io(-1);\n"),
    _after(_FILES, '#include "virtio-9p.h"\n', _INCLUDE),
    _after(_FILES, "        QLIST_INSERT_HEAD(&s->active_list, pdu, next);\n", "        icount_parallel_io(1);\n"),
    _after(_FILES, "    QLIST_INSERT_HEAD(&s->free_list, pdu, next);\n", "    icount_parallel_io(-1);\n"),
)
"""Where QEMU calls the parallel clock."""


def change(source: Path) -> None:
    """Put the clock into QEMU's unpacked source. Raises LabError, before anything is written, where it does not fit."""
    texts: dict[Path, str] = {}
    for place in PLACES:
        path = source / place.file
        if path not in texts:
            try:
                texts[path] = path.read_text(encoding="utf-8")
            except OSError as error:
                raise LabError(f"{path}: {error.strerror}; the parallel clock does not fit this QEMU") from error
        count = texts[path].count(place.old)
        if count != 1:
            line = place.old.strip().splitlines()[0]
            raise LabError(f"{path}: {line!r} is there {count} times; the parallel clock does not fit this QEMU")
        texts[path] = texts[path].replace(place.old, place.new)
    for name, folder in OWN.items():
        shutil.copyfile(_HERE / name, source / folder / name)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    change(Path(sys.argv[1]))
