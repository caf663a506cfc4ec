/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parallel clock of -icount: virtual CPUs that run at the same time, each at a speed of its own.
 * What it does and how exact it is: icount-parallel.c.
 */
#ifndef ICOUNT_PARALLEL_H
#define ICOUNT_PARALLEL_H

#include "hw/core/cpu.h"
#include "qemu/option.h"

/* Read parallel=, speeds=, shared= and turbo= of -icount; false with an error when they make no sense. */
bool icount_parallel_configure(QemuOpts *opts, Error **errp);

/* Is the clock parallel, and does one of its rounds go on? */
bool icount_parallel(void);
bool icount_parallel_in_round(void);

/* What a thread that is no vCPU reads: the time that every vCPU has reached. In instructions. */
int64_t icount_parallel_reached(void);

/* The time that @executed instructions take on @cpu, in instructions of a vCPU of full speed. */
int64_t icount_parallel_time(CPUState *cpu, int64_t executed);

/* The vCPU that is furthest behind and may run in this round, with the clock set to its time; NULL at a round's end. */
CPUState *icount_parallel_next(void);

/* How many instructions it may execute now. */
int64_t icount_parallel_budget(CPUState *cpu);

/* It has executed them, or has come back earlier. */
void icount_parallel_ran(CPUState *cpu);

/* An interrupt is about to be raised for @cpu: had it been idle, it has been so until now. */
void icount_parallel_interrupt(CPUState *cpu);

/* It executes PAUSE, and comes back from it. */
void icount_parallel_pause(CPUState *cpu);

/*
 * CPUID with this in EAX: the program that executes it, at @at and with the page tables @space, runs at ECX per cent of each
 * vCPU's speed from now on. EAX is that then, and 0 where it is refused. Without this clock it is CPUID as ever.
 */
#define ICOUNT_PARALLEL_LEAF 0x41534100
uint64_t icount_parallel_hurry(CPUState *cpu, uint64_t space, vaddr at, uint64_t pct);

/* @cpu, which executes, has these page tables from now on. */
void icount_parallel_space(CPUState *cpu, uint64_t space);

/* End the round when no vCPU has anything to do. */
void icount_parallel_settle(void);

/* So many more requests of devices are with the host. While one is and all vCPUs are idle, time stands still. */
void icount_parallel_io(int more);
bool icount_parallel_io_waits(void);

#endif
