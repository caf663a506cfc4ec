/* SPDX-License-Identifier: GPL-2.0-only */
/* Makes an ordinary library of probes.h, with one CPU's row at a time and a clock that the test sets. */
#include <stdbool.h>
#include <stdint.h>

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

#include "stats.h"

struct task_struct;
struct asa_task;
struct asa_mark;
struct asa_view;
static struct asa_task *task_entry(u32 pid);
static struct asa_mark *mark_entry(u32 index);
static struct asa_view *the_view(void);

struct asa_stats rows[2];
u64 test_ns, network_irq, clock_calls;
u32 test_cpu, test_process;
u32 test_waiter;
bool futex;

#define ASA_ROW() (&rows[test_cpu])
#define ASA_TASK(pid) task_entry(pid)
#define ASA_MARK(index) mark_entry(index)
#define ASA_VIEW() the_view()
#define ASA_CPU() test_cpu
#define ASA_PROCESS() test_process
#define ASA_IRQ_KIND(irq) ((irq) == network_irq ? ASA_IRQ_NETWORK : 0)
#define ASA_NOW() (clock_calls++, test_ns)
#define ASA_IN_FUTEX(prev) futex
#define ASA_WAITER(next) test_waiter
#include "probes.h"

#define TASKS 64
static struct asa_task tasks[TASKS];
static struct asa_mark marks[ASA_MARKS * ASA_MARK_TABLES];

static struct asa_task *task_entry(u32 pid)
{
	return &tasks[pid % TASKS];
}

static struct asa_mark *mark_entry(u32 index)
{
	return index < ASA_MARKS * ASA_MARK_TABLES ? &marks[index] : 0;
}

static struct asa_view views;

static struct asa_view *the_view(void)
{
	return &views;
}

void blind(void) { views = (struct asa_view){}; }
void wakeup(u32 pid, int is_new) { on_wakeup(pid, is_new); }
void leave(u32 prev, u64 state, u32 next, u64 running) { on_switch(prev, state, next, running, 0, 0); }
void latency(u64 ns) { asa_to_latency(rows[test_cpu].wakeup_latency_hist, ns, 1); }
void octave(u64 ns) { asa_to_octave(rows[test_cpu].burst_hist, ns, 1); }
void contention_begin(u64 lock, u32 flags, u32 pid) { on_contention_begin(lock, flags, pid); }
void contention_end(u64 lock, int ret, u32 pid) { on_contention_end(lock, ret, pid); }
void block_complete(u64 start) { on_block_complete(start); }
void irq_entry(void) { on_irq_entry(); }
void irq_exit(u32 irq) { on_irq_exit(irq); }
void softirq_entry(void) { on_softirq_entry(); }
void softirq_exit(u32 kind) { on_softirq_exit(kind); }
void tcp_state(u32 old, u32 new, u64 socket) { on_tcp_state(old, new, socket); }
void transmit_queued(u64 packet, u32 protocol) { on_transmit_queued(packet, protocol); }
void transmit_started(u64 packet) { on_transmit_started(packet); }
void received(u64 address, u32 protocol) { on_received(address, protocol); }
void copied(u64 address) { on_copied(address); }
void data_ready(u64 socket) { on_data_ready(socket); }
void receive_returned(u64 socket, int ret, u32 flags) { on_receive_returned(socket, ret, flags); }
void input(u32 type, int value) { on_input(type, value); }
void flip(u32 crtc, u32 seq) { on_flip(crtc, seq); }
