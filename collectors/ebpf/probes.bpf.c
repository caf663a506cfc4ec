// SPDX-License-Identifier: GPL-2.0-only
/*
 * The CO-RE programs: they take pids, numbers and addresses out of the kernel's structures and hand them to probes.h.
 *
 * Only the members named here are used; their offsets are put in by libbpf from the running kernel's BTF. Each program
 * is named as the tracepoint it is attached to (kprobes: the function; waiting_tasks: none), and may be left out alone.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#include "stats.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct asa_settings settings = { .layout = ASA_LAYOUT };

struct asa_task;
struct asa_mark;
struct asa_view;
struct task_struct;
static struct asa_stats *this_row(void);
static struct asa_task *task_entry(u32 pid);
static struct asa_mark *mark_entry(u32 index);
static struct asa_view *the_view(void);
static u64 irq_kind(u32 irq);
static bool in_futex(struct task_struct *prev);
static u32 waiter(struct task_struct *task);

#define ASA_ROW() this_row()
#define ASA_TASK(pid) task_entry(pid)
#define ASA_MARK(index) mark_entry(index)
#define ASA_VIEW() the_view()
#define ASA_CPU() bpf_get_smp_processor_id()
#define ASA_PROCESS() (bpf_get_current_pid_tgid() >> 32)
#define ASA_IRQ_KIND(irq) irq_kind(irq)
/* Not rq->clock, which costs 38 ns less: it stands still between a wakeup and the switch that it causes. */
#define ASA_NOW() bpf_ktime_get_ns()
#define ASA_IN_FUTEX(prev) in_futex(prev)
#define ASA_WAITER(next) waiter(next)
#include "probes.h"

#define KERNEL __attribute__((preserve_access_index))

struct rq {
	unsigned int nr_running;
	u64 clock;
} KERNEL;

struct cfs_rq {
	struct rq *rq;
} KERNEL;

struct sched_entity {
	struct cfs_rq *cfs_rq;
} KERNEL;

struct mm_struct;

struct cfs_bandwidth {
	u64 quota;
} KERNEL;

struct task_group {
	int idle;
	unsigned long shares;
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
} KERNEL;

struct sched_info {
	u64 last_queued;
} KERNEL;

struct task_struct {
	int pid;
	unsigned int __state, flags, policy;
	int static_prio;
	struct mm_struct *mm;
	struct sched_entity se;
	struct task_group *sched_task_group;
	struct sched_info sched_info;
} KERNEL;

struct bpf_iter_meta {
	u64 seq_num;
} KERNEL;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} KERNEL;

struct task_struct___before_5_14 {
	long state;
} KERNEL;

/* arch/x86/include/asm/ptrace.h */
struct pt_regs___x86 {
	unsigned long orig_ax, si, cx;
} KERNEL;

/* arch/arm64/include/asm/ptrace.h */
struct pt_regs___arm64 {
	u64 regs[31];
	int syscallno;
} KERNEL;

struct request {
	unsigned int __data_len;
	u64 start_time_ns;
} KERNEL;

struct sock_common {
	unsigned short skc_family;
	unsigned short skc_num;
	unsigned char skc_state;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
} KERNEL;

struct sk_buff {
	struct sock *sk;
	unsigned int len, data_len;
	unsigned short protocol;
	unsigned char *data;
} KERNEL;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set at load: possible CPUs */
	__type(key, u32);
	__type(value, struct asa_stats);
} stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASA_FEWEST_TASKS); /* set at load, a power of two */
	__type(key, u32);
	__type(value, struct asa_task);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASA_MARKS * ASA_MARK_TABLES);
	__type(key, u32);
	__type(value, struct asa_mark);
} marks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct asa_view);
} views SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ASA_IRQ_NUMBERS);
	__type(key, u32);
	__type(value, u64);
} irq_kinds SEC(".maps");

static __always_inline struct asa_stats *this_row(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&stats, &cpu);
}

static __always_inline struct asa_task *task_entry(u32 pid)
{
	u32 index = pid & (u32)settings.task_mask;

	return bpf_map_lookup_elem(&tasks, &index);
}

static __always_inline struct asa_mark *mark_entry(u32 index)
{
	return bpf_map_lookup_elem(&marks, &index);
}

static __always_inline struct asa_view *the_view(void)
{
	u32 only = 0;

	return bpf_map_lookup_elem(&views, &only);
}

static __always_inline u64 irq_kind(u32 irq)
{
	u64 *kind = bpf_map_lookup_elem(&irq_kinds, &irq);

	return kind ? *kind : 0;
}

static __always_inline u64 system_call(struct task_struct *task)
{
	long registers = bpf_task_pt_regs(task); /* since 5.15 */

	if (bpf_core_field_exists(struct pt_regs___x86, orig_ax))
		return ((struct pt_regs___x86 *)registers)->orig_ax;
	if (bpf_core_field_exists(struct pt_regs___arm64, syscallno))
		return ((struct pt_regs___arm64 *)registers)->syscallno;
	return -1;
}

/* A task that sleeps shows the number of its system call in the registers that it saved when it came from user mode. */
static __always_inline bool in_futex(struct task_struct *prev)
{
	u64 number;

	if (!settings.futex || !prev->mm) /* kernel threads have saved none */
		return false;
	number = system_call(prev);
	return number == settings.futex || number == settings.futex_waitv || number == settings.futex_wait;
}

/* include/uapi/linux/sched.h, include/linux/sched.h, sched/prio.h; kernel/sched/sched.h: RUNTIME_INF, NICE_0_LOAD */
#define POLICY_FIFO 1
#define POLICY_RR 2
#define POLICY_IDLE 5
#define POLICY_DEADLINE 6
#define FLAG_KERNEL_THREAD 0x00200000
#define STATIC_PRIO_OF_NICE_0 120
#define NO_QUOTA (~0ULL)
#define SHARES_OF_WEIGHT_100 (1024ULL << 10)
#define MOST_GROUPS 8 /* deeper ones than of a desktop's application are not looked at */

/* Whether one of the groups that the task is in was told to have less than others. */
static __always_inline bool humble_group(struct task_struct *task)
{
	struct task_group *group;

	if (!bpf_core_field_exists(struct task_struct, sched_task_group)) /* no CONFIG_CGROUP_SCHED */
		return false;
	group = task->sched_task_group;
	for (int depth = 0; depth < MOST_GROUPS && group; depth++) {
		if (bpf_core_field_exists(struct task_group, cfs_bandwidth) && group->cfs_bandwidth.quota != NO_QUOTA)
			return true;
		if (bpf_core_field_exists(struct task_group, shares) && group->shares < SHARES_OF_WEIGHT_100)
			return true;
		if (bpf_core_field_exists(struct task_group, idle) && group->idle > 0)
			return true;
		group = group->parent;
	}
	return false;
}

static __always_inline u32 waiter(struct task_struct *task)
{
	u32 policy = task->policy;

	if (policy == POLICY_FIFO || policy == POLICY_RR || policy == POLICY_DEADLINE)
		return ASA_WAITS_REALTIME;
	if (policy == POLICY_IDLE || task->static_prio > STATIC_PRIO_OF_NICE_0 || humble_group(task))
		return ASA_WAITS_HUMBLE;
	return task->flags & FLAG_KERNEL_THREAD ? ASA_WAITS_KERNEL : ASA_WAITS_ORDINARY;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	on_wakeup(task->pid, false);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	on_wakeup(task->pid, true);
	return 0;
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u64 running = 0, state = 0;

	if (!(bool)ctx[0]) { /* else preempted: able to run whatever its state says */
		if (settings.switch_tells_state) /* since 5.18; the task's own state may have changed meanwhile */
			state = (u32)ctx[3];
		else if (bpf_core_field_exists(struct task_struct, __state))
			state = prev->__state;
		else
			state = ((struct task_struct___before_5_14 *)prev)->state;
	}
	if (bpf_core_field_exists(struct cfs_rq, rq)) /* needs CONFIG_FAIR_GROUP_SCHED */
		running = prev->se.cfs_rq->rq->nr_running;
	on_switch(prev->pid, state, next->pid, running, prev, next);
	return 0;
}

/* What `waiting_tasks` has found so far: it is called once for each task, and at last without one. */
struct scan {
	u64 now_ns; /* of the clock of run queues, which last_queued is of */
	u64 longest_ns[ASA_WAITERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scan);
} scans SEC(".maps");

static __always_inline void begin_scan(struct scan *scan)
{
	/* The reader's own CPU has a clock of just now; that of one which idles while a task waits for it may stand. */
	struct task_struct *reader = bpf_get_current_task_btf(); /* since 5.11 */

	scan->now_ns = reader->se.cfs_rq->rq->clock;
	for (int who = 0; who < ASA_WAITERS; who++)
		scan->longest_ns[who] = 0;
}

static __always_inline void end_scan(const struct scan *scan)
{
	u32 first = 0;
	struct asa_stats *row = bpf_map_lookup_elem(&stats, &first);

	if (!row)
		return;
	for (int who = 0; who < ASA_WAITERS; who++)
		row->waiting_ns[who] = scan->longest_ns[who]; /* nobody else writes these words */
	row->scanned_ns = bpf_ktime_get_ns();
}

/*
 * Tasks that wait for a CPU at this moment. sched_info.last_queued is the kernel's own (sched_info_enqueue() and
 * sched_info_arrive() in kernel/sched/stats.h): when a task came to be able to run without running, of any class, and 0
 * when it runs or sleeps. Nothing is added to the hot paths, and one that never runs again is seen.
 */
SEC("iter/task")
int waiting_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 only = 0, who;
	u64 since_ns, waited_ns;
	struct scan *scan = bpf_map_lookup_elem(&scans, &only);

	if (!scan)
		return 0;
	if (!ctx->meta->seq_num)
		begin_scan(scan);
	if (!task) {
		end_scan(scan);
		return 0;
	}
	since_ns = task->sched_info.last_queued;
	if (!since_ns)
		return 0;
	waited_ns = asa_since(scan->now_ns, since_ns);
	if (waited_ns < ASA_LONG_WAIT_NS)
		return 0;
	who = waiter(task);
	if (who < ASA_WAITERS && waited_ns > scan->longest_ns[who])
		scan->longest_ns[who] = waited_ns;
	return 0;
}

#define COUNTED(event, field)     \
	SEC("tp_btf/" #event)     \
	int event(void *ctx)      \
	{                         \
		ASA_COUNT(field); \
		return 0;         \
	}

COUNTED(sched_migrate_task, migrations)
COUNTED(sched_process_fork, forks)
COUNTED(sched_process_exec, execs)
COUNTED(sched_process_exit, exits)
COUNTED(block_rq_issue, block_issued)
COUNTED(tcp_send_reset, connections_reset)
COUNTED(tcp_receive_reset, connections_reset)
COUNTED(tcp_retransmit_skb, retransmits)
COUNTED(sched_process_hang, hung_tasks)
COUNTED(rcu_stall_warning, rcu_stalls) /* since 5.12 */

SEC("tp_btf/contention_begin")
int contention_begin(u64 *ctx)
{
	on_contention_begin(ctx[0], ctx[1], bpf_get_current_pid_tgid());
	return 0;
}

SEC("tp_btf/contention_end")
int contention_end(u64 *ctx)
{
	on_contention_end(ctx[0], ctx[1], bpf_get_current_pid_tgid());
	return 0;
}

SEC("tp_btf/block_rq_complete")
int block_rq_complete(u64 *ctx)
{
	struct request *request = (void *)ctx[0];

	if ((u32)ctx[2] >= request->__data_len) /* else a part of it only */
		on_block_complete(request->start_time_ns);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int irq_handler_entry(void *ctx)
{
	on_irq_entry();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int irq_handler_exit(u64 *ctx)
{
	on_irq_exit(ctx[0]);
	return 0;
}

SEC("tp_btf/softirq_entry")
int softirq_entry(void *ctx)
{
	on_softirq_entry();
	return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_exit(u64 *ctx)
{
	on_softirq_exit(ctx[0]);
	return 0;
}

/*
 * An address as a number, its lower half. The verifier lets nobody reckon with a pointer, but half a pointer is none
 * (for a loader with CAP_PERFMON). In assembler, since the compiler would take the pointer's own register.
 */
static __always_inline u32 address_of(const void *pointer)
{
	u32 half;

	asm volatile("%0 = %1" : "=w"(half) : "w"((u32)(u64)pointer));
	return half;
}

static __always_inline u64 socket_of(struct sock *sk)
{
	return asa_socket(address_of(sk), sk->__sk_common.skc_num);
}

static __always_inline bool is_internet(struct sock *sk)
{
	return sk->__sk_common.skc_family == 2 || sk->__sk_common.skc_family == 10; /* AF_INET, AF_INET6 */
}

SEC("tp_btf/inet_sock_set_state")
int inet_sock_set_state(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	if (sk->sk_protocol == ASA_PROTOCOL_TCP)
		on_tcp_state(ctx[1], ctx[2], socket_of(sk));
	return 0;
}

SEC("tp_btf/net_dev_queue")
int net_dev_queue(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct sock *sk = skb->sk;
	u32 protocol = 0;

	if (sk && is_internet(sk)) {
		u8 state = sk->__sk_common.skc_state;

		/* The small sockets of a connection that is opening or in TIME_WAIT have no more than sock_common. */
		protocol = state == 6 || state == ASA_TCP_NEW_SYN_RECV ? ASA_PROTOCOL_TCP : sk->sk_protocol;
	}
	on_transmit_queued(asa_packet(address_of(skb), skb->len), protocol);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int net_dev_start_xmit(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];

	on_transmit_started(asa_packet(address_of(skb), skb->len));
	return 0;
}

#define ETHERNET_IPV4 bpf_htons_const(0x0800)
#define ETHERNET_IPV6 bpf_htons_const(0x86dd)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define bpf_htons_const(value) ((u16)((value) >> 8 | (value) << 8))
#else
#define bpf_htons_const(value) ((u16)(value))
#endif

SEC("tp_btf/netif_receive_skb")
int netif_receive_skb(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	u16 ethernet = skb->protocol;
	u8 protocol = 0;
	u32 offset = 0;

	/* At this point `data` is the network header. Where the protocol stands: RFC 791 and RFC 8200. */
	if (ethernet == ETHERNET_IPV4)
		offset = 9;
	else if (ethernet == ETHERNET_IPV6)
		offset = 6;
	if (offset && skb->len - skb->data_len > offset)
		bpf_probe_read_kernel(&protocol, sizeof(protocol), skb->data + offset);
	on_received(address_of(skb), protocol);
	return 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int skb_copy_datagram_iovec(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	u16 ethernet = skb->protocol;

	if (ethernet == ETHERNET_IPV4 || ethernet == ETHERNET_IPV6) /* else of a local socket, say */
		on_copied(address_of(skb));
	return 0;
}

SEC("tp_btf/sk_data_ready")
int sk_data_ready(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	if (is_internet(sk) && sk->__sk_common.skc_state != ASA_TCP_LISTEN)
		on_data_ready(socket_of(sk));
	return 0;
}

SEC("tp_btf/sock_recv_length")
int sock_recv_length(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	if (is_internet(sk))
		on_receive_returned(socket_of(sk), ctx[1], ctx[2]);
	return 0;
}

/* void input_event(struct input_dev *dev, unsigned int type, unsigned int code, int value) */
SEC("kprobe/input_event")
int input_event(void *ctx)
{
	u64 type = 0, value = 0;

	if (bpf_core_field_exists(struct pt_regs___x86, orig_ax)) {
		struct pt_regs___x86 *registers = ctx;

		bpf_core_read(&type, sizeof(type), &registers->si);
		bpf_core_read(&value, sizeof(value), &registers->cx);
	} else if (bpf_core_field_exists(struct pt_regs___arm64, regs)) {
		struct pt_regs___arm64 *registers = ctx;

		bpf_core_read(&type, sizeof(type), &registers->regs[1]);
		bpf_core_read(&value, sizeof(value), &registers->regs[3]);
	}
	on_input(type, value);
	return 0;
}

/*
 * struct drm_file *, int crtc, unsigned int seq. Whoever gave a picture is told that it is on the screen; so is who
 * only waited for a refresh. By its name and not by its types, which may be a module's.
 */
SEC("raw_tp/drm_vblank_event_delivered")
int drm_vblank_event_delivered(u64 *ctx)
{
	on_flip(ctx[1], ctx[2]);
	return 0;
}

/* The tracepoint `xrun` is called here first, in kernels with CONFIG_SND_PCM_XRUN_DEBUG: sound/core/pcm_lib.c. */
SEC("kprobe/__snd_pcm_xrun")
int __snd_pcm_xrun(void *ctx)
{
	ASA_COUNT(sound_underruns);
	return 0;
}
