/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is counted and how, shared by the CO-RE and the BCC programs: plain functions over pids, numbers and addresses.
 *
 * Before including this, a backend includes the header of collectors/ebpf/layout.py and defines
 *   ASA_ROW()             struct asa_stats * of this CPU, or NULL
 *   ASA_TASK(pid)         struct asa_task * for a pid (pid & (entries - 1) of an array of at least ASA_FEWEST_TASKS), or NULL
 *   ASA_MARK(index)       struct asa_mark * out of an array of ASA_MARKS * ASA_MARK_TABLES, or NULL
 *   ASA_CPU()             number of this CPU
 *   ASA_PROCESS()         pid of the process of the task on this CPU, which is the one that leaves while a switch asks
 *   ASA_VIEW()            struct asa_view *, the only one, or NULL
 *   ASA_IRQ_KIND(irq)     a u64 out of an array of ASA_IRQ_NUMBERS, 0 for what is not in it
 *   ASA_NOW()             CLOCK_MONOTONIC in ns
 *   ASA_IN_FUTEX(prev)    whether `prev`, which goes to sleep, is inside futex(2); asked for timed sleeps only
 *   ASA_WAITER(next)      who `next` is, which comes to the CPU after a long wait: ASA_WAITS_ORDINARY and so on, or
 *                         ASA_WAITERS where that cannot be told; asked for few
 * The struct types of the maps are declared below: the macros are expanded later than their definition.
 *
 * Rows are written by their own CPU only, without atomics: the hot programs run with interrupts off (under the run
 * queue's lock). An event that interrupts the program of the same event on the same CPU is not seen by it (the kernel
 * keeps a program from nesting), which loses one count.
 */
#ifndef ASA_PROBES_H
#define ASA_PROBES_H

struct asa_task {
	u64 state; /* since << ASA_KIND_BITS | kind; 0: runs, or is not timed */
	u32 pid;   /* whose entry this is at present */
	u32 weight; /* for how many it counts: the mask of its draw, and one */
};

struct asa_mark {
	u64 key; /* 0: free */
	u64 since_ns;
};

/* A crtc and its last picture. */
struct asa_screen {
	u64 flipped_ns; /* 0: free */
	u64 gaps;       /* the last eight intervals in refreshes, a byte each; 0: there was none yet */
	u64 often;      /* how often each of them is there, a byte each */
	u32 crtc;
	u32 seq; /* the refresh that showed it, as the kernel counts them */
};

struct asa_view {
	u64 input_ns; /* the oldest press that no picture has followed; 0: none */
	struct asa_screen screens[ASA_SCREENS];
};

#define ASA_KIND_BITS 3
#define ASA_KIND_MASK ((1 << ASA_KIND_BITS) - 1)
enum asa_kind {
	ASA_RUNS,
	ASA_WOKEN,    /* waits for a CPU since it was woken */
	ASA_REQUEUED, /* waits for a CPU since it was taken off one */
	ASA_RESTS,    /* off the CPU in a way that is neither of the next three: stopped, traced, an idle kernel thread */
	ASA_ASLEEP,
	ASA_IN_FUTEX_WAIT,
	ASA_BLOCKED,
};

/*
 * A task's own state, include/linux/sched.h; these values are unchanged since 4.14. The text tracepoint sched_switch
 * has another encoding: there 0x100 is a task able to run (0 here), 0x80 an idle kernel thread (ASA_TASK_NOLOAD here).
 */
#define ASA_TASK_INTERRUPTIBLE 0x1
#define ASA_TASK_UNINTERRUPTIBLE 0x2
#define ASA_TASK_ENDS 0xb0 /* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD */
#define ASA_TASK_NOLOAD 0x400

static __always_inline u32 asa_log2(u64 value)
{
	u32 log2 = 0, rest = value >> 32;

	if (rest)
		log2 = 32;
	else
		rest = value;
	if (rest >= 1u << 16) {
		rest >>= 16;
		log2 += 16;
	}
	if (rest >= 1u << 8) {
		rest >>= 8;
		log2 += 8;
	}
	if (rest >= 1u << 4) {
		rest >>= 4;
		log2 += 4;
	}
	if (rest >= 1u << 2) {
		rest >>= 2;
		log2 += 2;
	}
	return log2 + (rest >= 2);
}

static __always_inline void asa_to_latency(u64 *slots, u64 elapsed_ns, u64 weight)
{
	u32 log2 = asa_log2(elapsed_ns), slot = 0;

	if (log2 >= ASA_LATENCY_FIRST_LOG2)
		slot = (log2 - ASA_LATENCY_FIRST_LOG2) * 4 + ((elapsed_ns >> (log2 - 2)) & 3) + 1;
	asm volatile("" : "+r"(slot)); /* keeps the compiler from testing a copy that the verifier does not connect */
	if (slot >= ASA_LATENCY_SLOTS)
		slot = ASA_LATENCY_SLOTS - 1;
	slots[slot] += weight;
}

static __always_inline void asa_to_octave(u64 *slots, u64 elapsed_ns, u64 weight)
{
	u32 log2 = asa_log2(elapsed_ns), slot = 0;

	if (log2 >= ASA_OCTAVE_FIRST_LOG2)
		slot = log2 - ASA_OCTAVE_FIRST_LOG2 + 1;
	asm volatile("" : "+r"(slot));
	if (slot >= ASA_OCTAVE_SLOTS)
		slot = ASA_OCTAVE_SLOTS - 1;
	slots[slot] += weight;
}

/* The mask as it is now, read once: the reader may change it between a draw and the weight that goes with it. */
static __always_inline u64 asa_sample_mask(struct asa_stats *row)
{
	return *(volatile u64 *)&row->sample_mask;
}

/* Whether this event is one of those to time. Drawn, not counted off: loads have a period, too. */
static __always_inline bool asa_drawn(struct asa_stats *row, u64 mask)
{
	if (!mask)
		return true;
	row->random = row->random * 6364136223846793005ULL + 1442695040888963407ULL; /* Knuth's MMIX generator */
	return !(row->random >> 33 & mask);
}

static __always_inline u64 asa_since(u64 now_ns, u64 start_ns)
{
	return now_ns > start_ns ? now_ns - start_ns : 0; /* clocks of two CPUs may differ by some ns */
}

/*
 * A task's way: it leaves the CPU (asleep or requeued), is woken, comes to a CPU. Whether it is timed is drawn when it
 * leaves, and each later step goes by its entry alone: a start is paired with its own end, or with none. With a mask,
 * one in mask + 1 is timed and counts for as many, so sums and histograms stay right on average. The weight is that of
 * the draw, whatever the mask has become until the end.
 */
static __always_inline void on_wakeup(u32 pid, bool is_new)
{
	struct asa_stats *row = ASA_ROW();
	struct asa_task *task;
	u64 now_ns, slept_ns, weight;
	u32 kind;

	if (!row)
		return;
	row->wakeups++;
	task = ASA_TASK(pid);
	if (!task)
		return;
	if (is_new) {
		u64 mask = asa_sample_mask(row);

		if (asa_drawn(row, mask)) {
			task->pid = pid;
			task->weight = mask + 1;
			task->state = ASA_NOW() << ASA_KIND_BITS | ASA_WOKEN;
		} else if (task->pid == pid) {
			task->state = 0; /* of a task that had this pid before */
		}
		return;
	}
	if (task->pid != pid)
		return;
	kind = task->state & ASA_KIND_MASK;
	if (kind < ASA_RESTS)
		return; /* not timed, or woken while it was still able to run */
	now_ns = ASA_NOW();
	slept_ns = asa_since(now_ns, task->state >> ASA_KIND_BITS);
	task->state = now_ns << ASA_KIND_BITS | ASA_WOKEN;
	weight = task->weight;
	if (kind == ASA_BLOCKED) {
		row->blocked += weight;
		row->blocked_ns += slept_ns * weight;
	} else if (kind != ASA_RESTS) {
		row->sleep_ns += slept_ns * weight;
		asa_to_octave(row->sleep_hist, slept_ns, weight);
		if (kind == ASA_IN_FUTEX_WAIT) {
			row->futex_waits += weight;
			row->futex_wait_ns += slept_ns * weight;
		}
	}
}

static __always_inline u32 asa_sleep_kind(u64 state)
{
	if (state & ASA_TASK_NOLOAD)
		return ASA_RESTS;
	if (state & ASA_TASK_UNINTERRUPTIBLE)
		return ASA_BLOCKED;
	return state & ASA_TASK_INTERRUPTIBLE ? ASA_ASLEEP : ASA_RESTS;
}

static __always_inline void asa_to_long_waits(struct asa_stats *row, u32 waiter, u64 waited_ns, u64 weight)
{
	u32 slot = 0;

	for (u32 next = 1; next < ASA_LONG_WAIT_SLOTS; next++)
		slot += waited_ns >= (u64)ASA_LONG_WAIT_NS << next;
	asm volatile("" : "+r"(waiter)); /* as in asa_to_latency */
	asm volatile("" : "+r"(slot));
	if (waiter < ASA_WAITERS && slot < ASA_LONG_WAIT_SLOTS)
		row->long_waits[waiter * ASA_LONG_WAIT_SLOTS + slot] += weight;
}

/* `next` comes to the CPU at `now_ns`, having waited as the state and the weight of its entry say. */
static __always_inline void asa_arrives(struct asa_stats *row, u64 state, u64 weight, u64 now_ns,
					struct task_struct *next)
{
	u64 waited_ns = asa_since(now_ns, state >> ASA_KIND_BITS);
	u32 kind = state & ASA_KIND_MASK;

	if (kind == ASA_WOKEN) {
		row->wakeup_latency_ns += waited_ns * weight;
		asa_to_latency(row->wakeup_latency_hist, waited_ns, weight);
	} else if (kind == ASA_REQUEUED) {
		row->requeue_latency_ns += waited_ns * weight;
		asa_to_latency(row->requeue_latency_hist, waited_ns, weight);
	} else {
		return;
	}
	if (waited_ns >= ASA_LONG_WAIT_NS)
		asa_to_long_waits(row, ASA_WAITER(next), waited_ns, weight);
}

/*
 * A turn of the process on this CPU is over, which counts for `used_ns` and `weight` turns; `goes_on`: it could have gone
 * on. Without a slot of its own it has to win one. A slot that changes hands is emptied before it has its new name, and
 * tells when it was used after all else: who reads it meanwhile sees the old one with little, never the new one with
 * much, and looks again.
 */
static __always_inline void asa_to_process(struct asa_stats *row, u64 used_ns, u64 weight, u64 now_ns, bool goes_on)
{
	u32 pid = ASA_PROCESS(), at = pid * 0x9e3779b1u >> (32 - ASA_PROCESS_SETS_LOG2); /* Knuth's: 2^32 over the golden ratio */
	struct asa_process *slot, *other;

	asm volatile("" : "+r"(at));
	at = (at << 1) & (ASA_PROCESSES - 2);
	slot = &row->processes[at];
	other = &row->processes[at + 1];
	if (slot->pid != pid && other->pid == pid)
		slot = other;
	if (slot->pid != pid) {
		if (other->kept_ns < slot->kept_ns)
			slot = other;
		if (slot->kept_ns > used_ns && asa_since(now_ns, slot->used_ns) < ASA_PROCESS_IDLE_NS) {
			slot->kept_ns -= used_ns;
			return;
		}
		slot->burst_ns = 0;
		slot->bursts = 0;
		slot->involuntary = 0;
		slot->kept_ns = 0;
		asm volatile("" ::: "memory");
		slot->pid = pid;
	}
	slot->burst_ns += used_ns;
	slot->bursts += weight;
	if (goes_on)
		slot->involuntary += weight;
	used_ns += slot->kept_ns;
	slot->kept_ns = used_ns < ASA_PROCESS_MOST_KEPT_NS ? used_ns : ASA_PROCESS_MOST_KEPT_NS;
	asm volatile("" ::: "memory");
	slot->used_ns = now_ns;
}

/*
 * `state`: the state `prev` leaves in, 0 when it is able to run. `running`: tasks on this run queue. Pid 0 is the idle
 * task: never timed. `prev` and `next` themselves are for ASA_IN_FUTEX and ASA_WAITER only.
 */
static __always_inline void on_switch(u32 prev_pid, u64 state, u32 next_pid, u64 running, struct task_struct *prev,
				      struct task_struct *next)
{
	struct asa_stats *row = ASA_ROW();
	struct asa_task *task, *coming = 0;
	u64 now_ns = 0, waiting = 0, on_since_ns, mask, weight = 0;
	u32 kind = ASA_REQUEUED;
	bool drawn;

	if (!row)
		return;
	row->switches++;
	row->run_queue_length_sum += running;
	if (prev_pid && !state)
		row->involuntary_switches++;
	mask = asa_sample_mask(row);
	drawn = asa_drawn(row, mask);
	on_since_ns = row->on_since_ns;
	if (next_pid) {
		coming = ASA_TASK(next_pid);
		if (coming && coming->pid == next_pid) {
			waiting = coming->state;
			weight = coming->weight; /* the entry may be prev's, too */
		}
	}
	if (drawn || on_since_ns || waiting)
		now_ns = ASA_NOW();
	if (on_since_ns && prev_pid) { /* BCC may learn only now that it was the idle task */
		u64 burst_ns = asa_since(now_ns, on_since_ns);

		row->burst_ns += burst_ns * row->on_weight;
		asa_to_octave(row->burst_hist, burst_ns, row->on_weight);
		asa_to_process(row, burst_ns * row->on_weight, row->on_weight, now_ns, !state);
	}
	row->on_since_ns = drawn && next_pid ? now_ns : 0;
	row->on_weight = mask + 1;
	if (drawn && prev_pid && !(state & ASA_TASK_ENDS)) {
		if (state)
			kind = asa_sleep_kind(state);
		if (kind == ASA_ASLEEP && ASA_IN_FUTEX(prev))
			kind = ASA_IN_FUTEX_WAIT;
		task = ASA_TASK(prev_pid);
		if (task) {
			task->pid = prev_pid;
			task->weight = mask + 1;
			task->state = now_ns << ASA_KIND_BITS | kind;
		}
	}
	if (waiting) {
		asa_arrives(row, waiting, weight, now_ns, next);
		coming->state = 0;
	}
}

/* include/trace/events/lock.h */
#define ASA_LOCK_SPINS 0x1
#define ASA_LOCK_IS_MUTEX 0x20

static __always_inline struct asa_mark *asa_mark(u32 table, u64 key)
{
	u32 slot = key * 0x9e3779b97f4a7c15ULL >> 32; /* Knuth's multiplicative hash: 2^64 over the golden ratio */

	return ASA_MARK(table * ASA_MARKS + slot % ASA_MARKS);
}

/* The start of what `key` stands for; not drawn: an older start of the same key is forgotten all the same. */
static __always_inline void asa_start(u32 table, u64 key, bool drawn)
{
	struct asa_mark *mark = asa_mark(table, key);

	if (!mark)
		return;
	if (drawn) {
		mark->since_ns = ASA_NOW();
		mark->key = key;
	} else if (mark->key == key) {
		mark->key = 0;
	}
}

/* Time since the start of the same key, which is forgotten; 0: there was none. */
static __always_inline u64 asa_end(u32 table, u64 key)
{
	struct asa_mark *mark = asa_mark(table, key);
	u64 elapsed_ns;

	if (!mark || mark->key != key)
		return 0;
	elapsed_ns = asa_since(ASA_NOW(), mark->since_ns);
	mark->key = 0;
	return elapsed_ns ? elapsed_ns : 1;
}

/*
 * A lock that spins is waited for on one CPU, which an interrupt may make wait for another one: the inner wait is
 * kept, the outer one lost. A lock that sleeps is waited for by a task. A mutex begins again and again (spinning,
 * sleeping, spinning) before its one end: the first beginning counts.
 */
static __always_inline u64 asa_waiter(u64 lock, u32 pid)
{
	return lock + pid;
}

/* What this CPU spins for. Not in its row, which a process without privileges may read: this is an address. */
static __always_inline struct asa_mark *asa_spin(void)
{
	return ASA_MARK(ASA_MARK_SPIN * ASA_MARKS + ASA_CPU() % ASA_MARKS);
}

static __always_inline void on_contention_begin(u64 lock, u32 flags, u32 pid)
{
	struct asa_stats *row = ASA_ROW();
	struct asa_mark *mark;
	u64 key;

	if (!row)
		return;
	if (flags & ASA_LOCK_SPINS && !(flags & ASA_LOCK_IS_MUTEX)) {
		mark = asa_spin();
		if (mark) {
			mark->since_ns = ASA_NOW();
			mark->key = lock;
		}
		return;
	}
	key = asa_waiter(lock, pid);
	mark = asa_mark(ASA_MARK_LOCK, key);
	if (mark && mark->key != key) {
		mark->since_ns = ASA_NOW();
		mark->key = key;
	}
}

static __always_inline void on_contention_end(u64 lock, int ret, u32 pid)
{
	struct asa_stats *row = ASA_ROW();
	struct asa_mark *spin = asa_spin();
	u64 waited_ns;

	if (!row)
		return;
	if (spin && spin->key == lock) {
		waited_ns = asa_since(ASA_NOW(), spin->since_ns);
		spin->key = 0;
	} else {
		waited_ns = asa_end(ASA_MARK_LOCK, asa_waiter(lock, pid));
		if (!waited_ns)
			return;
	}
	row->lock_contentions++;
	row->lock_wait_ns += waited_ns;
	if (ret)
		row->lock_failures++;
}

/* What is only counted: ASA_COUNT(forks). */
#define ASA_COUNT(field)                          \
	do {                                      \
		struct asa_stats *row_ = ASA_ROW(); \
		if (row_)                         \
			row_->field++;            \
	} while (0)

/* `start_ns`: when the request was made, 0 when the kernel keeps no account of it. */
static __always_inline void on_block_complete(u64 start_ns)
{
	struct asa_stats *row = ASA_ROW();
	u64 elapsed_ns;

	if (!row)
		return;
	row->block_completed++;
	if (!start_ns)
		return;
	elapsed_ns = asa_since(ASA_NOW(), start_ns);
	row->block_latency_ns += elapsed_ns;
	asa_to_latency(row->block_latency_hist, elapsed_ns, 1);
}

static __always_inline void on_irq_entry(void)
{
	struct asa_stats *row = ASA_ROW();

	if (row)
		row->irq_since_ns = ASA_NOW();
}

static __always_inline void on_irq_exit(u32 irq)
{
	struct asa_stats *row = ASA_ROW();
	u64 elapsed_ns;

	if (!row || !row->irq_since_ns) /* the entry came before the programs did */
		return;
	elapsed_ns = asa_since(ASA_NOW(), row->irq_since_ns);
	row->irq_since_ns = 0;
	row->interrupts++;
	row->interrupt_ns += elapsed_ns;
	if (ASA_IRQ_KIND(irq) == ASA_IRQ_NETWORK) {
		row->network_interrupts++;
		row->network_interrupt_ns += elapsed_ns;
	}
}

static __always_inline void on_softirq_entry(void)
{
	struct asa_stats *row = ASA_ROW();

	if (row)
		row->softirq_since_ns = ASA_NOW();
}

static __always_inline void on_softirq_exit(u32 kind)
{
	struct asa_stats *row = ASA_ROW();

	if (!row || !row->softirq_since_ns)
		return;
	asm volatile("" : "+r"(kind));
	if (kind < ASA_SOFTIRQ_KINDS) {
		row->softirqs[kind]++;
		row->softirq_ns[kind] += asa_since(ASA_NOW(), row->softirq_since_ns);
	}
	row->softirq_since_ns = 0;
}

#define ASA_PROTOCOL_TCP 6
#define ASA_PROTOCOL_UDP 17
/* include/net/tcp_states.h, exported to BPF */
#define ASA_TCP_ESTABLISHED 1
#define ASA_TCP_SYN_SENT 2
#define ASA_TCP_SYN_RECV 3
#define ASA_TCP_CLOSE 7
#define ASA_TCP_LISTEN 10
#define ASA_TCP_NEW_SYN_RECV 12

/* A socket's address and its port: an address is soon used again, for a socket with another port. */
static __always_inline u64 asa_socket(u64 address, u16 port)
{
	return address ^ (u64)port << 48;
}

static __always_inline void on_tcp_state(u32 old, u32 new, u64 socket)
{
	struct asa_stats *row = ASA_ROW();

	if (!row)
		return;
	if (new == ASA_TCP_ESTABLISHED && old != ASA_TCP_ESTABLISHED)
		row->connections_opened++;
	if (new != ASA_TCP_CLOSE)
		return;
	asa_start(ASA_MARK_DELIVERY, socket, false);
	if (old != ASA_TCP_SYN_SENT && old != ASA_TCP_SYN_RECV && old != ASA_TCP_CLOSE && old != ASA_TCP_LISTEN &&
	    old != ASA_TCP_NEW_SYN_RECV)
		row->connections_closed++;
}

static __always_inline void asa_protocol(struct asa_stats *row, u32 protocol)
{
	if (protocol == ASA_PROTOCOL_TCP)
		row->tcp_packets++;
	else if (protocol == ASA_PROTOCOL_UDP)
		row->udp_packets++;
}

/*
 * A packet's address and length: its address is used again once it is freed, which a packet that is dropped or cut
 * into segments does without a start of transmission.
 */
static __always_inline u64 asa_packet(u64 address, u32 length)
{
	return address ^ (u64)length << 48;
}

/* `protocol`: IPPROTO_TCP, IPPROTO_UDP, or what else it is. */
static __always_inline void on_transmit_queued(u64 packet, u32 protocol)
{
	struct asa_stats *row = ASA_ROW();

	if (!row)
		return;
	row->packets_sent++;
	asa_protocol(row, protocol);
	asa_start(ASA_MARK_TRANSMIT, packet, asa_drawn(row, row->packet_mask));
}

static __always_inline void on_transmit_started(u64 packet)
{
	struct asa_stats *row = ASA_ROW();
	u64 elapsed_ns = asa_end(ASA_MARK_TRANSMIT, packet);

	if (!row || !elapsed_ns)
		return;
	row->transmits_measured++;
	row->transmit_latency_ns += elapsed_ns;
}

static __always_inline void on_received(u64 address, u32 protocol)
{
	struct asa_stats *row = ASA_ROW();

	if (!row)
		return;
	row->packets_received++;
	asa_protocol(row, protocol);
	asa_start(ASA_MARK_RECEIVE, address, asa_drawn(row, row->packet_mask));
}

/* A reader copies (some of) a packet of the Internet protocols; the first copy counts. */
static __always_inline void on_copied(u64 address)
{
	struct asa_stats *row = ASA_ROW();
	u64 elapsed_ns = asa_end(ASA_MARK_RECEIVE, address);

	if (!row || !elapsed_ns)
		return;
	row->receives_measured++;
	row->receive_latency_ns += elapsed_ns;
}

/*
 * Data came to a socket of the Internet protocols. What is unread since longer keeps its start, but none older than
 * ASA_DELIVERY_MOST_NS: a UDP socket closed with unread data tells nobody, and its address is used again.
 */
static __always_inline void on_data_ready(u64 socket)
{
	struct asa_stats *row = ASA_ROW();
	struct asa_mark *mark = asa_mark(ASA_MARK_DELIVERY, socket);

	if (!row || !mark)
		return;
	if (mark->key == socket) {
		if (asa_since(ASA_NOW(), mark->since_ns) <= ASA_DELIVERY_MOST_NS)
			return;
		mark->key = 0;
	}
	if (!asa_drawn(row, row->packet_mask))
		return;
	mark->since_ns = ASA_NOW();
	mark->key = socket;
}

#define ASA_MSG_PEEK 0x2

/* recv(2) and its like return `ret` to the reader. */
static __always_inline void on_receive_returned(u64 socket, int ret, u32 flags)
{
	struct asa_stats *row = ASA_ROW();
	u64 elapsed_ns;

	if (!row || ret < 0 || flags & ASA_MSG_PEEK)
		return;
	elapsed_ns = asa_end(ASA_MARK_DELIVERY, socket);
	if (!elapsed_ns || !ret || elapsed_ns > ASA_DELIVERY_MOST_NS)
		return;
	row->deliveries_measured++;
	row->delivery_latency_ns += elapsed_ns;
}

/* Whether this is the crtc whose count of refreshes goes on with `seq`. */
static __always_inline bool asa_is_screen(struct asa_screen *screen, u32 crtc, u32 seq)
{
	return screen->flipped_ns && screen->crtc == crtc && seq - screen->seq < ASA_SAME_SCREEN_REFRESHES;
}

/* The screen of `seq`, else the place of the one that was used least lately. Devices number alike, but do not count alike. */
static __always_inline struct asa_screen *asa_screen(struct asa_view *view, u32 crtc, u32 seq)
{
	struct asa_screen *screen, *other;
	u32 at = crtc;

	asm volatile("" : "+r"(at)); /* as in asa_to_latency */
	at = (at << 1) & (ASA_SCREENS - 2);
	screen = &view->screens[at];
	other = &view->screens[at + 1];
	if (asa_is_screen(screen, crtc, seq))
		return screen;
	if (asa_is_screen(other, crtc, seq))
		return other;
	if (other->flipped_ns < screen->flipped_ns)
		screen = other;
	screen->flipped_ns = 0;
	screen->gaps = 0;
	screen->often = 0;
	screen->crtc = crtc;
	return screen;
}

#define ASA_EACH_BYTE 0x0101010101010101ULL
#define ASA_MOST_OF_GAPS 5 /* of eight */

/*
 * What five of the last eight intervals were at most: a film of 24 pictures a second at 60 Hz has 2 and 3 in turn.
 * `often`: how many of them were 1, 2, and so on, a byte each. The product adds up from the first byte to each; a byte
 * with fewer than five in it is one interval that is not enough.
 */
static __always_inline u32 asa_usual_gap(u64 often)
{
	u64 enough = (often * ASA_EACH_BYTE + (128 - ASA_MOST_OF_GAPS) * ASA_EACH_BYTE) >> 7 & ASA_EACH_BYTE;

	return 1 + ASA_FLIP_GAPS - (enough * ASA_EACH_BYTE >> 56);
}

/* A picture came `gap` refreshes, one at least, and `elapsed_ns` after the one before. */
static __always_inline void asa_drawn_on(struct asa_stats *row, struct asa_screen *screen, u32 gap, u64 elapsed_ns)
{
	u32 slot = gap < ASA_FLIP_GAPS ? gap : ASA_FLIP_GAPS, usual, oldest;

	if (elapsed_ns > ASA_DRAWN_MOST_NS) {
		screen->gaps = 0;
		screen->often = 0;
		return;
	}
	oldest = screen->gaps >> 56;
	if (oldest) { /* eight like this before: something is drawn */
		row->drawn_ns += elapsed_ns;
		row->drawn_refreshes += gap;
		usual = asa_usual_gap(screen->often);
		if (gap > usual && usual < ASA_FLIP_GAPS)
			row->missed_frames += gap - usual;
		screen->often -= 1ULL << ((oldest - 1) << 3 & 63);
	}
	screen->gaps = screen->gaps << 8 | slot;
	screen->often += 1ULL << ((slot - 1) << 3 & 63);
	if (!oldest)
		return;
	slot--;
	asm volatile("" : "+r"(slot));
	if (slot < ASA_FLIP_GAPS)
		row->flip_gaps[slot]++;
}

/*
 * A picture is on the screen of `crtc` since refresh `seq`: whoever gave it is told so now. Drivers that do not count
 * refreshes say 0. A second one in the same refresh is of another plane, or of who only waited for the refresh.
 */
static __always_inline void on_flip(u32 crtc, u32 seq)
{
	struct asa_stats *row = ASA_ROW();
	struct asa_view *view = ASA_VIEW();
	struct asa_screen *screen;
	u64 now_ns, since_ns;

	if (!row || !view || !seq)
		return;
	screen = asa_screen(view, crtc, seq);
	now_ns = ASA_NOW();
	if (screen->flipped_ns) {
		if (seq == screen->seq)
			return;
		asa_drawn_on(row, screen, seq - screen->seq, asa_since(now_ns, screen->flipped_ns));
	}
	screen->seq = seq;
	screen->flipped_ns = now_ns;
	row->flips++;
	since_ns = view->input_ns;
	if (!since_ns)
		return;
	view->input_ns = 0;
	since_ns = asa_since(now_ns, since_ns);
	if (since_ns <= ASA_INPUT_MOST_NS) {
		row->input_flips++;
		row->input_flip_ns += since_ns;
	}
}

/*
 * include/uapi/linux/input-event-codes.h. The code, which tells the key, is not even handed in. Of a press its time is
 * kept, until the next picture at the most, and not for a reader: only sums leave the kernel.
 */
#define ASA_EV_KEY 1
#define ASA_EV_REL 2
#define ASA_EV_ABS 3

static __always_inline void asa_pressed(void)
{
	struct asa_view *view = ASA_VIEW();
	u64 now_ns = ASA_NOW();

	if (view && (!view->input_ns || asa_since(now_ns, view->input_ns) > ASA_INPUT_MOST_NS))
		view->input_ns = now_ns;
}

static __always_inline void on_input(u32 type, int value)
{
	if (type == ASA_EV_KEY && value == 1) { /* 0: released, 2: held */
		ASA_COUNT(input_keys);
		asa_pressed();
	} else if (type == ASA_EV_REL || type == ASA_EV_ABS) {
		ASA_COUNT(input_motions);
	}
}

#endif
