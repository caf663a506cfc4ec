// SPDX-License-Identifier: GPL-2.0-only
/*
 * The BCC programs: they take pids, numbers and addresses out of the tracepoints' own records and hand them to probes.h.
 *
 * bcc.py tells the settings as macros: ASA_CPUS; ASA_TASKS, a power of two; ASA_FUTEX, ASA_FUTEX_WAITV and
 * ASA_FUTEX_WAIT, the numbers of these system calls, where it can be told which one a task is in. BCC lays a
 * `struct tracepoint__GROUP__EVENT` out after tracefs; a program whose tracepoint is not there is left out (HAVE_name),
 * since it would not compile. Raw tracepoints give arguments instead of a record, need no tracefs and cost less (126 ns a
 * wakeup and switch on the development host); they serve wherever an argument is a number, or its address is enough. No
 * program looks into a structure of the kernel but for the registers that a task saved, so these stay unknown: the
 * length of run queues, and which protocol a packet is of.
 */
#include "stats.h"

struct task_struct;
struct asa_task;
struct asa_mark;
struct asa_view;
static struct asa_stats *this_row(void);
static struct asa_task *task_entry(u32 pid);
static struct asa_mark *mark_entry(u32 index);
static struct asa_view *the_view(void);
static u64 irq_kind(u32 irq);
#ifdef ASA_FUTEX
static bool in_futex(void *on_its_stack);
#endif

#define ASA_ROW() this_row()
#define ASA_TASK(pid) task_entry(pid)
#define ASA_MARK(index) mark_entry(index)
#define ASA_VIEW() the_view()
#define ASA_CPU() bpf_get_smp_processor_id()
#define ASA_PROCESS() (bpf_get_current_pid_tgid() >> 32)
#define ASA_IRQ_KIND(irq) irq_kind(irq)
#define ASA_NOW() bpf_ktime_get_ns()
#ifdef ASA_FUTEX
#define ASA_IN_FUTEX(prev) in_futex(prev)
#else
#define ASA_IN_FUTEX(prev) false
#endif
#define ASA_WAITER(next) ASA_WAITERS /* what a task is, only the kernel's types tell */
#include "probes.h"

/* A request under way: when it was queued or issued, and what is missing of it. */
struct asa_request {
	u64 since_ns;
	u32 sectors;
	u32 issued;
};

struct asa_place {
	u64 sector;
	u64 device;
};

BPF_F_TABLE("array", u32, struct asa_stats, stats, ASA_CPUS, BPF_F_MMAPABLE);
BPF_TABLE("array", u32, struct asa_task, tasks, ASA_TASKS);
BPF_TABLE("array", u32, struct asa_mark, marks, ASA_MARKS * ASA_MARK_TABLES);
BPF_TABLE("array", u32, struct asa_view, views, 1);
BPF_F_TABLE("array", u32, u64, irq_kinds, ASA_IRQ_NUMBERS, BPF_F_MMAPABLE);
BPF_TABLE("lru_hash", struct asa_place, struct asa_request, requests, 4096);

static __always_inline struct asa_stats *this_row(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return stats.lookup(&cpu);
}

static __always_inline struct asa_task *task_entry(u32 pid)
{
	u32 index = pid & (ASA_TASKS - 1);

	return tasks.lookup(&index);
}

static __always_inline struct asa_mark *mark_entry(u32 index)
{
	return marks.lookup(&index);
}

static __always_inline struct asa_view *the_view(void)
{
	u32 only = 0;

	return views.lookup(&only);
}

static __always_inline u64 irq_kind(u32 irq)
{
	u64 *kind = irq_kinds.lookup(&irq);

	return kind ? *kind : 0;
}

#ifdef ASA_FUTEX
/*
 * A task in a system call has saved its registers at the top of its kernel stack, which is aligned to its size
 * (task_pt_regs() in arch/x86/include/asm/processor.h, THREAD_SIZE in page_64_types.h: 16 KiB without KASAN; kernels
 * with FRED leave 16 bytes above them, TOP_OF_KERNEL_STACK_PADDING in thread_info.h). The last of them are orig_ax, which
 * is the call's number, ip, cs, flags, sp, ss; 64-bit code has one cs (asm/segment.h), kernel threads have zeros there.
 */
#define STACK_BYTES 16384
#define CS_OF_64_BIT 0x33
BPF_TABLE("array", u32, u64, addresses, ASA_CPUS);

/* The address as a number, which the verifier lets root make of it by this detour only. */
static __always_inline u64 number_of(void *address)
{
	u32 cpu = bpf_get_smp_processor_id();
	volatile u64 *number = addresses.lookup(&cpu);

	if (!number)
		return 0;
	*number = (u64)address;
	return *number;
}

/* The task that leaves. `on_its_stack`: what a raw tracepoint is given lies there (kernel/trace/bpf_trace.c). */
static __always_inline bool in_futex(void *on_its_stack)
{
	u64 end = (number_of(on_its_stack) | (STACK_BYTES - 1)) + 1, saved[8] = {}, number;

	bpf_probe_read_kernel(saved, sizeof(saved), (void *)(end - sizeof(saved)));
	if (saved[4] == CS_OF_64_BIT)
		number = saved[2];
	else if ((u16)saved[2] == CS_OF_64_BIT) /* FRED has more to say above the segment */
		number = saved[0];
	else
		return false;
	return number == ASA_FUTEX || number == ASA_FUTEX_WAITV || number == ASA_FUTEX_WAIT;
}
#endif

#ifndef ASA_BY_RECORD
/*
 * A task is known by its address here, which stands for the pid in probes.h: two tasks whose hashes meet lose some of
 * their latencies, as two pids do there. The idle task of a CPU has pid 0, which its address does not tell before it
 * has left that CPU once.
 */
BPF_TABLE("array", u32, u64, idle_tasks, ASA_CPUS);

static __always_inline u32 task_id(u64 task)
{
	return task * 0x9e3779b97f4a7c15ULL >> 32; /* Knuth's multiplicative hash: 2^64 over the golden ratio */
}

int sched_wakeup(struct bpf_raw_tracepoint_args *args)
{
	on_wakeup(task_id(args->args[0]), false);
	return 0;
}

int sched_wakeup_new(struct bpf_raw_tracepoint_args *args)
{
	on_wakeup(task_id(args->args[0]), true);
	return 0;
}

/* preempt, prev, next, prev_state: the last since 5.18, without which this cannot be attached, and ASA_BY_RECORD is. */
int sched_switch(struct bpf_raw_tracepoint_args *args)
{
	u64 prev = args->args[1], next = args->args[2], state = args->args[0] & 1 ? 0 : (u32)args->args[3];
	u32 cpu = bpf_get_smp_processor_id();
	u64 *idle = idle_tasks.lookup(&cpu);

	if (!idle)
		return 0;
	if (prev != *idle && !state && !(u32)bpf_get_current_pid_tgid())
		*idle = prev; /* the idle task never sleeps */
	on_switch(prev == *idle ? 0 : task_id(prev), state, next == *idle ? 0 : task_id(next), 0, (void *)args, 0);
	return 0;
}
#else
#ifdef HAVE_sched_wakeup
int sched_wakeup(struct tracepoint__sched__sched_wakeup *args)
{
	on_wakeup(args->pid, false);
	return 0;
}
#endif

#ifdef HAVE_sched_wakeup_new
int sched_wakeup_new(struct tracepoint__sched__sched_wakeup_new *args)
{
	on_wakeup(args->pid, true);
	return 0;
}
#endif

/* The record's state (TASK_REPORT, include/linux/sched.h): one bit below 0x80; 0x80 idles, 0x100 was preempted. */
#define REPORT_IDLE 0x80
#define REPORT_STATES 0xff

#ifdef HAVE_sched_switch
int sched_switch(struct tracepoint__sched__sched_switch *args)
{
	u64 state = args->prev_state & REPORT_STATES;

	if (state & REPORT_IDLE)
		state = ASA_TASK_UNINTERRUPTIBLE | ASA_TASK_NOLOAD;
	on_switch(args->prev_pid, state, args->next_pid, 0, 0, 0);
	return 0;
}
#endif
#endif

#define COUNTED(event, field)                           \
	int event(struct bpf_raw_tracepoint_args *args) \
	{                                               \
		ASA_COUNT(field);                       \
		return 0;                               \
	}

COUNTED(sched_migrate_task, migrations)
COUNTED(sched_process_fork, forks)
COUNTED(sched_process_exec, execs)
COUNTED(sched_process_exit, exits)
COUNTED(tcp_send_reset, connections_reset)
COUNTED(tcp_receive_reset, connections_reset)
COUNTED(tcp_retransmit_skb, retransmits)
COUNTED(sched_process_hang, hung_tasks)
COUNTED(rcu_stall_warning, rcu_stalls)

int contention_begin(struct bpf_raw_tracepoint_args *args)
{
	on_contention_begin(args->args[0], args->args[1], bpf_get_current_pid_tgid());
	return 0;
}

int contention_end(struct bpf_raw_tracepoint_args *args)
{
	on_contention_end(args->args[0], args->args[1], bpf_get_current_pid_tgid());
	return 0;
}

/*
 * A request is made some time before it is in either of these records, the first of which is for I/O schedulers. These
 * may merge it into another, or move it to an earlier sector by a merge at its front, and then nothing completes where
 * it began. So what is inserted replaces what was there, and what is issued goes on from an insertion only, none older
 * than ASA_BLOCK_MOST_NS. One that was moved begins with its issue.
 */
static __always_inline void request_begins(u64 device, u64 sector, u32 sectors, bool issued)
{
	struct asa_place place = { .sector = sector, .device = device };
	struct asa_request request = { .since_ns = bpf_ktime_get_ns(), .sectors = sectors, .issued = issued };
	struct asa_request *found = issued ? requests.lookup(&place) : 0;

	if (found && !found->issued && asa_since(request.since_ns, found->since_ns) <= ASA_BLOCK_MOST_NS)
		request.since_ns = found->since_ns;
	requests.update(&place, &request);
}

#ifdef HAVE_block_rq_insert
int block_rq_insert(struct tracepoint__block__block_rq_insert *args)
{
	request_begins(args->dev, args->sector, args->nr_sector, false);
	return 0;
}
#endif

/* The record is of the request that goes up in another one; since 5.11. */
#ifdef HAVE_block_rq_merge
int block_rq_merge(struct tracepoint__block__block_rq_merge *args)
{
	struct asa_place place = { .sector = args->sector, .device = args->dev };

	requests.delete(&place);
	return 0;
}
#endif

#ifdef HAVE_block_rq_issue
int block_rq_issue(struct tracepoint__block__block_rq_issue *args)
{
	ASA_COUNT(block_issued);
	request_begins(args->dev, args->sector, args->nr_sector, true);
	return 0;
}
#endif

#ifdef HAVE_block_rq_complete
int block_rq_complete(struct tracepoint__block__block_rq_complete *args)
{
	struct asa_place place = { .sector = args->sector, .device = args->dev };
	struct asa_request *found = requests.lookup(&place), rest;
	u64 since_ns = 0, sectors = args->nr_sector;

	if (found) {
		rest = *found;
		since_ns = rest.since_ns;
		requests.delete(&place);
		if (sectors && sectors < rest.sectors) { /* a part of it: the rest is another place, and still under way */
			place.sector += sectors;
			rest.sectors -= sectors;
			requests.update(&place, &rest);
			return 0;
		}
	}
	on_block_complete(since_ns);
	return 0;
}
#endif

int irq_handler_entry(struct bpf_raw_tracepoint_args *args)
{
	on_irq_entry();
	return 0;
}

int irq_handler_exit(struct bpf_raw_tracepoint_args *args)
{
	on_irq_exit(args->args[0]);
	return 0;
}

int softirq_entry(struct bpf_raw_tracepoint_args *args)
{
	on_softirq_entry();
	return 0;
}

int softirq_exit(struct bpf_raw_tracepoint_args *args)
{
	on_softirq_exit(args->args[0]);
	return 0;
}

/* The records do not tell a socket's own port: its address alone has to do. */
#define NO_PORT 0

#ifdef HAVE_inet_sock_set_state
int inet_sock_set_state(struct tracepoint__sock__inet_sock_set_state *args)
{
	if (args->protocol == ASA_PROTOCOL_TCP)
		on_tcp_state(args->oldstate, args->newstate, asa_socket((u64)args->skaddr, NO_PORT));
	return 0;
}
#endif

#ifdef HAVE_net_dev_queue
int net_dev_queue(struct tracepoint__net__net_dev_queue *args)
{
	on_transmit_queued(asa_packet((u64)args->skbaddr, args->len), 0);
	return 0;
}
#endif

#ifdef HAVE_net_dev_start_xmit
int net_dev_start_xmit(struct tracepoint__net__net_dev_start_xmit *args)
{
	on_transmit_started(asa_packet((u64)args->skbaddr, args->len));
	return 0;
}
#endif

int netif_receive_skb(struct bpf_raw_tracepoint_args *args)
{
	on_received(args->args[0], 0);
	return 0;
}

int skb_copy_datagram_iovec(struct bpf_raw_tracepoint_args *args)
{
	on_copied(args->args[0]);
	return 0;
}

static __always_inline bool is_internet(u32 family)
{
	return family == 2 || family == 10; /* AF_INET, AF_INET6 */
}

#ifdef HAVE_sk_data_ready
int sk_data_ready(struct tracepoint__sock__sk_data_ready *args)
{
	if (is_internet(args->family))
		on_data_ready(asa_socket((u64)args->skaddr, NO_PORT));
	return 0;
}
#endif

#ifdef HAVE_sock_recv_length
int sock_recv_length(struct tracepoint__sock__sock_recv_length *args)
{
	if (is_internet(args->family))
		on_receive_returned(asa_socket((u64)args->sk, NO_PORT), args->ret, args->flags);
	return 0;
}
#endif

#ifdef HAVE_input_event
int input_event(struct pt_regs *ctx, void *device, unsigned int type, unsigned int code, int value)
{
	on_input(type, value);
	return 0;
}
#endif

int drm_vblank_event_delivered(struct bpf_raw_tracepoint_args *args)
{
	on_flip(args->args[1], args->args[2]);
	return 0;
}

#ifdef HAVE___snd_pcm_xrun
int __snd_pcm_xrun(struct pt_regs *ctx)
{
	ASA_COUNT(sound_underruns);
	return 0;
}
#endif
