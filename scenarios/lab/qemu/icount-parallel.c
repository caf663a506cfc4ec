/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parallel clock of -icount: virtual CPUs that run at the same time, each at a speed of its own.
 *
 * Upstream's one-thread loop lets vCPUs run one after the other, and counts the instructions of all of them into one
 * clock: two busy vCPUs get half the work done that two real ones would. Here each vCPU has a time of its own. The
 * loop always takes the vCPU that is furthest behind, sets the clock to its time, and lets it run. In a round no vCPU
 * gets more than a quantum ahead of the time that all have reached; a round also ends where the next timer is due. So:
 *
 * - Every clock of the guest follows (TSC, LAPIC timer, HPET): all derive from QEMU_CLOCK_VIRTUAL.
 * - The clocks of two busy vCPUs differ by a quantum at most, each for itself never goes back.
 * - An idle vCPU that another one interrupts wakes at the interrupter's time, which is exact; the interrupter stops
 *   for it. A busy one sees the interrupt at its own time, which is a quantum off at most.
 * - A timer that is armed in a round ends the round when it is due. It is exact for a vCPU that is not ahead.
 * - While one vCPU alone is busy, nobody can be ahead of it: rounds are long then.
 * - A vCPU that waits in a loop executes PAUSE, which gives the turn to those behind it. So it sees soon that what it
 *   waits for has come. The instruction takes its time: else most of the host's would go into such loops.
 *
 * A vCPU's speed is a share of the full one: speeds= by its index among the possible CPUs; shared= for each of two or
 * more threads of a core that are busy together; turbo= by the number of busy cores. Instructions of a slow vCPU take
 * longer; the fractions are carried on.
 *
 * A program may ask for another speed of its own: what it executes, in the kernel, too, then takes less time, on any vCPU.
 * Code that is not part of the machine that is stood in for pays so what it pays on a faster one. It is known by its page
 * tables, and by the page of the instruction that asked: page tables that were freed and given to another program have
 * another page there, or none. A vCPU that has become idle keeps them until the next program comes.
 *
 * A request to the host (a file, a block) takes the host's time. While vCPUs are busy the guest's goes on as well. Had all
 * become idle, upstream's clock would jump from timer to timer meanwhile, as far as it comes; here it waits for the host.
 *
 * Not done: record and replay.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/cutils.h"
#include "qemu/main-loop.h"
#include "qemu/seqlock.h"
#include "qemu/timer.h"
#include "hw/boards.h"
#include "system/cpus.h"
#include "system/cpu-timers.h"
#include "system/cpu-timers-internal.h"
#include "system/icount-parallel.h"

#define FULL 1000000                     /* a speed of 100 %: three percentages are multiplied */
#define ALONE_NS (10 * SCALE_MS)         /* a round of one busy vCPU: the main loop's threads wait for it */
#define PAUSE 140                        /* instructions: as many cycles, Intel's optimization manual, "PAUSE" */
#define SLOWEST_PCT 1
#define FASTEST_PCT 100
#define HURRIED_PCT 10000                /* at most, of the vCPU's own speed */
#define HURRIED 64                       /* programs, at most */
#define PAGE 4096
#define SPACE 0x000ffffffffff000         /* the page tables' address in CR3, without PCID and flags */

typedef struct VCPUTime {
    int64_t at;                          /* how far it is, in instructions of full speed */
    int64_t speed;                       /* of what it executes now, in millionths of full speed */
    int64_t rest;                        /* of a division by the speed */
    int64_t hurry;                       /* percentage of its speed, of the program that it executes; 0: 100 */
    bool outside;                        /* woken by another thread than the vCPUs' */
    bool stuck;                          /* busy, and yet nothing to do in this round */
    bool paused;                         /* it came back from a loop that waits */
} VCPUTime;

typedef struct Hurried {
    uint64_t space;
    vaddr at;                            /* of the instruction's page */
    hwaddr page;
    int64_t pct;
} Hurried;

static struct {
    int64_t quantum_ns;                  /* 0: not this clock */
    GArray *speeds, *turbo;              /* percentages, int */
    int64_t shared;                      /* percentage */
    VCPUTime *vcpus;                     /* by cpu_index */
    unsigned threads;                    /* of a core */
    bool in_round;
    int64_t start, limit;                /* of the round */
    int requests;                        /* that are with the host */
    Hurried hurried[HURRIED];            /* the oldest at `oldest` once all are taken */
    unsigned oldest;
} clk;

static bool percentage(const char *text, const char **end, const char *name, int64_t *value, Error **errp)
{
    if (qemu_strtoi64(text, end, 10, value) < 0 || *value < SLOWEST_PCT || *value > FASTEST_PCT) {
        error_setg(errp, "icount: %s: '%s' does not begin with a percentage from %d to %d", name, text, SLOWEST_PCT,
                   FASTEST_PCT);
        return false;
    }
    return true;
}

static GArray *percentages(QemuOpts *opts, const char *name, Error **errp)
{
    const char *text = qemu_opt_get(opts, name);
    GArray *values = g_array_new(false, false, sizeof(int));

    while (text) {
        int64_t value;
        const char *end;

        if (!percentage(text, &end, name, &value, errp) || (*end && *end != ':')) {
            if (errp && !*errp) {
                error_setg(errp, "icount: %s: percentages are parted by colons, not by '%s'", name, end);
            }
            g_array_free(values, true);
            return NULL;
        }
        g_array_append_vals(values, &(int){ value }, 1);
        text = *end ? end + 1 : NULL;
    }
    return values;
}

bool icount_parallel_configure(QemuOpts *opts, Error **errp)
{
    uint64_t quantum = qemu_opt_get_number(opts, "parallel", 0);
    const char *shared = qemu_opt_get(opts, "shared"), *end;

    if (!quantum) {
        if (qemu_opt_get(opts, "speeds") || shared || qemu_opt_get(opts, "turbo")) {
            error_setg(errp, "icount: speeds, shared and turbo need parallel=NANOSECONDS");
            return false;
        }
        return true;
    }
    if (qemu_opt_get_bool(opts, "sleep", true) || qemu_opt_get(opts, "rr") ||
        !g_strcmp0(qemu_opt_get(opts, "shift"), "auto")) {
        error_setg(errp, "icount: parallel needs sleep=off and a fixed shift, and can neither record nor replay");
        return false;
    }
    if (quantum > SCALE_MS) {
        error_setg(errp, "icount: parallel: a quantum is 1 to %d ns", SCALE_MS);
        return false;
    }
    clk.shared = FASTEST_PCT;
    if (shared && (!percentage(shared, &end, "shared", &clk.shared, errp) || *end)) {
        if (errp && !*errp) {
            error_setg(errp, "icount: shared: one percentage, not '%s'", shared);
        }
        return false;
    }
    clk.speeds = percentages(opts, "speeds", errp);
    clk.turbo = clk.speeds ? percentages(opts, "turbo", errp) : NULL;
    clk.quantum_ns = clk.turbo ? quantum : 0;
    return clk.turbo;
}

bool icount_parallel(void)
{
    return clk.quantum_ns;
}

bool icount_parallel_in_round(void)
{
    return clk.in_round;
}

int64_t icount_parallel_reached(void)
{
    return clk.start;
}

static VCPUTime *time_of(CPUState *cpu)
{
    return &clk.vcpus[cpu->cpu_index];
}

static bool busy(CPUState *cpu)
{
    return cpu_can_run(cpu) && !cpu_thread_is_idle(cpu);
}

static void set_clock(int64_t icount)
{
    seqlock_write_lock(&timers_state.vm_clock_seqlock, &timers_state.vm_clock_lock);
    qatomic_set_i64(&timers_state.qemu_icount, icount);
    seqlock_write_unlock(&timers_state.vm_clock_seqlock, &timers_state.vm_clock_lock);
}

/* When the next timer is due, seen from the clock as it is set; realtime timers are the host's affair. */
static int64_t due(void)
{
    int64_t ns = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL, QEMU_TIMER_ATTR_ALL);

    return icount_get_raw() + icount_round(ns < 0 || ns > INT32_MAX ? INT32_MAX : ns);
}

static int64_t percent(GArray *values, unsigned at)
{
    return at < values->len ? g_array_index(values, int, at) : FASTEST_PCT;
}

static int64_t turbo(void)
{
    unsigned cores = 0, last = UINT_MAX;
    CPUState *cpu;

    if (!clk.turbo->len) {
        return FASTEST_PCT;
    }
    CPU_FOREACH(cpu) {
        unsigned core = cpu->cpu_index / clk.threads;

        if (core != last && busy(cpu)) {
            last = core;
            cores++;
        }
    }
    return percent(clk.turbo, MIN(MAX(cores, 1), clk.turbo->len) - 1);
}

static bool shares(CPUState *cpu)
{
    CPUState *other;

    if (clk.threads < 2 || clk.shared == FASTEST_PCT) {
        return false;
    }
    CPU_FOREACH(other) {
        if (other != cpu && other->cpu_index / clk.threads == cpu->cpu_index / clk.threads && busy(other)) {
            return true;
        }
    }
    return false;
}

static int64_t speed_of(CPUState *cpu)
{
    int64_t speed = percent(clk.speeds, cpu->cpu_index) * (shares(cpu) ? clk.shared : FASTEST_PCT) * turbo();

    return time_of(cpu)->hurry ? MAX(speed * time_of(cpu)->hurry / 100, 1) : speed;
}

int64_t icount_parallel_time(CPUState *cpu, int64_t executed)
{
    VCPUTime *own;
    int64_t scaled;

    if (!clk.in_round) {
        return executed;
    }
    own = time_of(cpu);
    if (own->speed == FULL) {
        return executed;
    }
    scaled = executed * FULL + own->rest;
    own->rest = scaled % own->speed;
    return scaled / own->speed;
}

static void begin(void)
{
    int running = 0;
    CPUState *cpu;

    if (!clk.vcpus) {
        clk.threads = MAX(current_machine->smp.threads, 1);
        clk.vcpus = g_new0(VCPUTime, current_machine->smp.max_cpus);
    }
    clk.start = icount_get_raw();
    CPU_FOREACH(cpu) {
        VCPUTime *own = time_of(cpu);

        own->at = MAX(own->at, clk.start);
        own->outside = own->stuck = false;
        running += busy(cpu);
    }
    clk.limit = clk.start + icount_round(running > 1 ? clk.quantum_ns : ALONE_NS);
    clk.limit = MAX(MIN(clk.limit, due()), clk.start + 1);
    clk.in_round = true;
}

/* All vCPUs that are busy have come to the limit; had all become idle, time stands where the last of them did. */
static void end(void)
{
    int64_t last = clk.start;
    bool idle = true;
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        last = MAX(last, time_of(cpu)->at);
        idle &= !busy(cpu);
    }
    set_clock(idle ? last : clk.limit);
    clk.in_round = false;
}

CPUState *icount_parallel_next(void)
{
    CPUState *cpu, *next = NULL;

    if (!clk.in_round) {
        begin();
    }
    CPU_FOREACH(cpu) {
        VCPUTime *own = time_of(cpu);

        if (own->at < clk.limit && !own->stuck && busy(cpu) && (!next || own->at < time_of(next)->at)) {
            next = cpu;
        }
    }
    if (next) {
        set_clock(time_of(next)->at);
    } else {
        end();
    }
    return next;
}

int64_t icount_parallel_budget(CPUState *cpu)
{
    VCPUTime *own = time_of(cpu);

    own->speed = speed_of(cpu);
    return MAX(((clk.limit - own->at) * own->speed - own->rest) / FULL, 1);
}

void icount_parallel_ran(CPUState *cpu)
{
    VCPUTime *own = time_of(cpu);
    int64_t now = icount_get_raw();
    CPUState *other;

    own->stuck = now == own->at && cpu->halted;
    own->at = now + (own->paused ? PAUSE * FULL / own->speed : 0);
    own->paused = false;
    CPU_FOREACH(other) {
        VCPUTime *woken = time_of(other);

        if (woken->outside) {
            woken->outside = false;
            woken->at = MAX(woken->at, now);
            clk.limit = MIN(clk.limit, woken->at + icount_round(clk.quantum_ns));
        }
    }
    clk.limit = MIN(clk.limit, MAX(due(), clk.start + 1));
}

/* The time of the vCPU that executes, without an account of it: this may be in the middle of a block. */
static int64_t now_executing(CPUState *cpu)
{
    int64_t left = cpu->neg.icount_decr.u16.low + cpu->icount_extra;

    return qatomic_read_i64(&timers_state.qemu_icount) + (cpu->icount_budget - left) * FULL / time_of(cpu)->speed;
}

void icount_parallel_interrupt(CPUState *cpu)
{
    VCPUTime *own;

    if (!clk.in_round || !cpu->halted || !cpu_thread_is_idle(cpu)) {
        return;
    }
    own = time_of(cpu);
    if (current_cpu && current_cpu->running) {
        own->at = MAX(own->at, now_executing(current_cpu));
        clk.limit = MIN(clk.limit, own->at + icount_round(clk.quantum_ns));
        cpu_exit(current_cpu);
    } else {
        own->outside = true;
    }
}

void icount_parallel_pause(CPUState *cpu)
{
    if (clk.in_round) {
        time_of(cpu)->paused = true;
    }
}

static Hurried *hurried(uint64_t space)
{
    int i;

    for (i = 0; i < HURRIED; i++) {
        if (clk.hurried[i].pct && clk.hurried[i].space == (space & SPACE)) {
            return &clk.hurried[i];
        }
    }
    return NULL;
}

uint64_t icount_parallel_hurry(CPUState *cpu, uint64_t space, vaddr at, uint64_t pct)
{
    Hurried *own = hurried(space);
    hwaddr page = cpu_get_phys_page_debug(cpu, at & -(vaddr)PAGE);

    if (!clk.in_round || !pct || pct > HURRIED_PCT || page == -1) {
        return 0;
    }
    if (!own) {
        own = &clk.hurried[clk.oldest];
        clk.oldest = (clk.oldest + 1) % HURRIED;
    }
    *own = (Hurried){ .space = space & SPACE, .at = at & -(vaddr)PAGE, .page = page, .pct = pct };
    time_of(cpu)->hurry = pct;           /* from its next turn on */
    return pct;
}

void icount_parallel_space(CPUState *cpu, uint64_t space)
{
    Hurried *own = clk.in_round ? hurried(space) : NULL;
    VCPUTime *time;

    if (!clk.in_round) {
        return;
    }
    if (own && cpu_get_phys_page_debug(cpu, own->at) != own->page) {
        own->pct = 0;
        own = NULL;
    }
    time = time_of(cpu);
    if (time->hurry != (own ? own->pct : 0)) {
        icount_update(cpu);              /* what it executed until here took the time of the speed until here */
        time->hurry = own ? own->pct : 0;
        time->speed = speed_of(cpu);
        cpu_exit(cpu);                   /* its budget is of the other speed */
    }
}

void icount_parallel_settle(void)
{
    if (clk.in_round && all_cpu_threads_idle()) {
        end();
    }
}

void icount_parallel_io(int more)
{
    if (clk.quantum_ns && qatomic_add_fetch(&clk.requests, more) == 0) {
        qemu_notify_event(); /* the clock may go on */
    }
}

bool icount_parallel_io_waits(void)
{
    return qatomic_read(&clk.requests) > 0;
}
