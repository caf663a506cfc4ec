/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler with five slots: who is of which class, the order in a queue, which queues there are, who is served between
 * them, where a task wakes. slots.h, made by spec.py, fills them with names of the lists below; parameters are read-only
 * data that the loader sets. Without classes, in order of virtual time, with one queue, it does what scx_simple does, and
 * one thing more: a CPU that idles is told of a task that gave way elsewhere.
 */
#include <scx/common.bpf.h>

#define CLASSES_NONE 0
#define CLASSES_NICE 1	 /* 0: below nice 0, 1: nice 0, 2: above */
#define CLASSES_BURST 2	 /* 0: runs shortly between sleeps, 1: long */
#define CLASSES_CGROUP 3 /* as the loader lists them; 3: all others */
#define CLASSES_COMM 4

#define ORDER_FIFO 0
#define ORDER_VTIME 1
#define ORDER_SJF 2
#define ORDER_LJF 3
#define ORDER_EDF 4

#define QUEUES_GLOBAL 0
#define QUEUES_LLC 1
#define QUEUES_CPU 2
#define QUEUES_CLASS 3

#define BETWEEN_NONE 0
#define BETWEEN_SHARES 1
#define BETWEEN_PRIORITY 2

#define PLACEMENT_DEFAULT 0
#define PLACEMENT_PREVIOUS 1
#define PLACEMENT_CORE 2

#include "scx_compose_slots.h"

/* Without classes, in order of coming or of virtual time, nothing of a task has to be known, and no time is spent on it. */
#define KNOWS (CLASSES != CLASSES_NONE || (ORDER != ORDER_FIFO && ORDER != ORDER_VTIME))

#define CLASS_MOST 4
#define CPU_MOST 1024
#define STEAL_MOST 16
#define CGROUP_DEPTH_MOST 16
#define NAME_LEN 16 /* TASK_COMM_LEN */
#define US 1000ULL
#define MS 1000000ULL
#define NORMAL_WEIGHT 100 /* nice 0, and cpu.weight of a new group */
#define TASK_DEAD 0x80	/* include/linux/sched.h: it stops for the last time */
#define LATER (1ULL << 62) /* ranks from here on are of those that did not wait too long */

char _license[] SEC("license") = "GPL";

const volatile u32 slice_us, lag_us, threshold_us, ewma_shift, age_ms, cap_ms, steal_max, debt_us;
const volatile u32 period_us[CLASS_MOST], weight[CLASS_MOST];
const volatile u32 queue_count = 1;
const volatile u16 queue_of_cpu[CPU_MOST];

enum counted { STAT_LOCAL, STAT_QUEUED, STAT_STOLEN, STAT_KEPT, STAT_OVERDUE, STAT_COUNT };

struct task_ctx {
	u64 ready_ns;	/* since when it is in a queue */
	u64 started_ns; /* since when it runs, or was charged last */
	u64 burst_ns;	/* run since it woke */
	u64 mean_ns;	/* moving average of burst_ns at sleep */
	u64 total_ns;	/* run since it came here */
	u32 class;
};

struct member_key {
	char name[NAME_LEN]; /* a task's name, or a control group's id in the first 8 bytes */
};

struct job_key {
	char name[NAME_LEN];
	char parent[NAME_LEN];
	u64 cgroup;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct member_key);
	__type(value, u32);
} members SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct job_key);
	__type(value, u64);
} jobs SEC(".maps"); /* run time of the like when they ended, moving average */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STAT_COUNT);
	__type(key, u32);
	__type(value, u64);
} stats SEC(".maps");

/* Not static: where one of them alone is used, clang makes a scalar of it that keeps the type of all, and the kernel
 * refuses the object's types for that.
 */
u64 vtime_now[CLASS_MOST];
static u64 class_vtime[CLASS_MOST]; /* run time of each class by its weight */
static u64 class_vtime_now;
static u32 class_weight[CLASS_MOST];
UEI_DEFINE(uei);

static void count(u32 which)
{
	u64 *found = bpf_map_lookup_elem(&stats, &which);

	if (found)
		(*found)++;
}

static struct task_ctx *ctx_of(struct task_struct *p)
{
	return KNOWS ? bpf_task_storage_get(&tasks, p, 0, 0) : NULL;
}

/* Of KNOWS alone: there is one of each task, but the verifier does not know. */
static bool is_lost(const struct task_ctx *facts)
{
	return KNOWS && !facts;
}

static u32 class_in(const struct task_ctx *facts)
{
	return KNOWS && facts ? facts->class % CLASS_MOST : 0;
}

static u64 cgroup_id(struct cgroup *cgrp)
{
	return BPF_CORE_READ(cgrp, kn, id);
}

static u32 listed_class(const struct member_key *key, u32 other)
{
	u32 *found = bpf_map_lookup_elem(&members, key);

	return found && *found < CLASS_MOST ? *found : other;
}

static u32 class_of_cgroup(struct task_struct *p)
{
	struct cgroup *cgrp = BPF_CORE_READ(p, cgroups, dfl_cgrp);
	int depth;

	for (depth = 0; depth < CGROUP_DEPTH_MOST && cgrp; depth++) {
		struct member_key key = {};
		u64 id = cgroup_id(cgrp);
		u32 class;

		__builtin_memcpy(key.name, &id, sizeof(id));
		class = listed_class(&key, CLASS_MOST);
		if (class < CLASS_MOST)
			return class;
		cgrp = BPF_CORE_READ(cgrp, self.parent, cgroup);
	}
	return CLASS_MOST - 1;
}

static u32 class_of(struct task_struct *p, const struct task_ctx *facts)
{
	if (CLASSES == CLASSES_NICE)
		return p->scx.weight > NORMAL_WEIGHT ? 0 : p->scx.weight == NORMAL_WEIGHT ? 1 : 2;
	if (CLASSES == CLASSES_BURST)
		return (facts->burst_ns > facts->mean_ns ? facts->burst_ns : facts->mean_ns) >= threshold_us * US;
	if (CLASSES == CLASSES_CGROUP)
		return class_of_cgroup(p);
	if (CLASSES == CLASSES_COMM) {
		struct member_key key = {};

		bpf_probe_read_kernel_str(key.name, sizeof(key.name), p->comm);
		return listed_class(&key, CLASS_MOST - 1);
	}
	return 0;
}

static void job_of(struct task_struct *p, struct job_key *key)
{
	bpf_probe_read_kernel_str(key->name, sizeof(key->name), p->comm);
	BPF_CORE_READ_STR_INTO(&key->parent, p, real_parent, comm);
	key->cgroup = BPF_CORE_READ(p, cgroups, dfl_cgrp, kn, id);
}

/* How long its job is: as the like of it were, else what it has run by now; at most `cap_ms`. Who did not run yet may be
 * the longest: it has its parent's name, until it runs and calls exec.
 */
static u64 predicted_job_ns(struct task_struct *p, const struct task_ctx *facts)
{
	struct job_key key = {};
	u64 predicted_ns = facts->total_ns, *found;

	if (!predicted_ns)
		return cap_ms * MS;
	job_of(p, &key);
	found = bpf_map_lookup_elem(&jobs, &key);
	if (found && *found > predicted_ns)
		predicted_ns = *found;
	return predicted_ns < cap_ms * MS ? predicted_ns : cap_ms * MS;
}

/* log2 in sixteenths: how many times as long a job is counts, not by how much. */
static u64 log_of(u64 value)
{
	u64 some = value | 1, rest = some, log = 0;

	if (rest >> 32) {
		log += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		log += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		log += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		log += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		log += 2;
		rest >>= 2;
	}
	log += rest >> 1;
	return log * 16 + (some << 4 >> log) % 16;
}

/* The place in a queue: less is sooner. Each but that of virtual time is at most an age limit after now. */
static u64 place_of(struct task_struct *p, const struct task_ctx *facts, u64 now)
{
	u64 age_ns = age_ms * MS, after_ns;
	u32 class = class_in(facts);

	if (ORDER == ORDER_SJF) {
		after_ns = facts->burst_ns > facts->mean_ns ? facts->burst_ns : facts->mean_ns;
		return now + (after_ns < age_ns ? after_ns : age_ns);
	}
	if (ORDER == ORDER_LJF)
		return now + age_ns - log_of(predicted_job_ns(p, facts) / US) * age_ns / log_of(cap_ms * MS / US);
	if (ORDER == ORDER_EDF) {
		after_ns = period_us[class] * US * NORMAL_WEIGHT / p->scx.weight;
		return now + (after_ns < age_ns ? after_ns : age_ns);
	}
	if (time_before(p->scx.dsq_vtime, vtime_now[class] - lag_us * US))
		return vtime_now[class] - lag_us * US;
	return p->scx.dsq_vtime;
}

/* What it ran since it was charged last. */
static void charge(struct task_ctx *facts, u64 now)
{
	u32 class = facts->class % CLASS_MOST, by = class_weight[class];
	u64 ran_ns;

	if (time_before(facts->started_ns, now)) {
		ran_ns = now - facts->started_ns;
		facts->total_ns += ran_ns;
		facts->burst_ns += ran_ns;
		if (BETWEEN == BETWEEN_SHARES && by)
			__sync_fetch_and_add(&class_vtime[class], ran_ns * NORMAL_WEIGHT / by);
	}
	facts->started_ns = now;
}

/* As scx_simple: who yields gives away the slice, and pays for it. */
static void charge_vtime(struct task_struct *p)
{
	p->scx.dsq_vtime += (slice_us * US - p->scx.slice) * NORMAL_WEIGHT / p->scx.weight;
}

/* It goes on with another slice. */
static void keep(struct task_struct *prev)
{
	count(STAT_KEPT);
	charge_vtime(prev);
	prev->scx.slice = slice_us * US;
}

/* A class that comes back is owed a bounded time. */
static void bound_debt(u32 class)
{
	u64 least = class_vtime_now - debt_us * US;

	if (!scx_bpf_dsq_nr_queued(class) && time_before(class_vtime[class % CLASS_MOST], least))
		class_vtime[class % CLASS_MOST] = least;
}

static u32 queue_of(struct task_struct *p, const struct task_ctx *facts)
{
	if (QUEUES == QUEUES_CLASS)
		return class_in(facts);
	if (QUEUES == QUEUES_GLOBAL)
		return 0;
	return queue_of_cpu[(u32)scx_bpf_task_cpu(p) % CPU_MOST];
}

static s32 idle_cpu_of(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	s32 cpu;

	*is_idle = true;
	if (PLACEMENT == PLACEMENT_PREVIOUS && bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	if (PLACEMENT == PLACEMENT_CORE) {
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE);
		if (cpu >= 0)
			return cpu;
	}
	*is_idle = false;
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, is_idle);
}

s32 BPF_STRUCT_OPS(compose_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle;
	s32 cpu = idle_cpu_of(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle) {
		count(STAT_LOCAL);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_us * US, 0);
	}
	return cpu;
}

/* A task that ran and has to wait here may run on a CPU that idles: nobody else would tell that CPU. */
static void wake_idle_cpu(struct task_struct *p)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

static void reclass(struct task_struct *p, struct task_ctx *facts)
{
	u32 class = class_of(p, facts);

	if (class == facts->class)
		return;
	facts->class = class;
	p->scx.dsq_vtime = vtime_now[class % CLASS_MOST]; /* each class has a clock of its own */
}

void BPF_STRUCT_OPS(compose_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *facts = ctx_of(p);
	u64 now = 0;
	u32 queue;

	if (is_lost(facts)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_us * US, enq_flags);
		return;
	}
	count(STAT_QUEUED);
	if (facts) {
		now = facts->ready_ns = scx_bpf_now();
		reclass(p, facts);
	}
	queue = queue_of(p, facts);
	if (BETWEEN == BETWEEN_SHARES)
		bound_debt(queue);
	if (ORDER == ORDER_FIFO)
		scx_bpf_dsq_insert(p, queue, slice_us * US, enq_flags);
	else
		scx_bpf_dsq_insert_vtime(p, queue, slice_us * US, place_of(p, facts, now), enq_flags);
	if (!(enq_flags & SCX_ENQ_WAKEUP))
		wake_idle_cpu(p);
}

#if QUEUES == QUEUES_CLASS
/* How soon a class is served, less is sooner: the longest waiting of those at an age limit, then by shares or priority. */
static u64 rank_of(u32 class, u64 ready_ns, u64 now)
{
	if (time_before(ready_ns + age_ms * MS, now))
		return ready_ns;
	return LATER + (BETWEEN == BETWEEN_SHARES ? class_vtime[class % CLASS_MOST] : class);
}

static u64 rank_of_queue(u32 class, u64 now)
{
	struct task_struct *p;
	u64 rank = ~0ULL;

	bpf_for_each(scx_dsq, p, class, 0) {
		struct task_ctx *facts = ctx_of(p);

		rank = rank_of(class, facts ? facts->ready_ns : now, now);
		break; /* the head is enough */
	}
	return rank;
}

/* The rank of the task that runs and could go on: it is in no queue. */
static u64 rank_of_prev(struct task_struct *prev, u64 now)
{
	struct task_ctx *facts;

	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED))
		return ~0ULL;
	facts = ctx_of(prev);
	if (!facts)
		return ~0ULL;
	charge(facts, now);
	return rank_of(facts->class, now, now);
}

static void dispatch_classes(struct task_struct *prev)
{
	u64 now = scx_bpf_now(), own = rank_of_prev(prev, now), ranks[CLASS_MOST];
	u32 class, turn, best;

	for (class = 0; class < CLASS_MOST; class++)
		ranks[class] = rank_of_queue(class, now);
	for (turn = 0; turn < CLASS_MOST; turn++) {
		best = 0;
		for (class = 1; class < CLASS_MOST; class++)
			if (ranks[class] < ranks[best])
				best = class;
		if (ranks[best] == ~0ULL)
			return;
		if (own < ranks[best] && prev) {
			keep(prev);
			return;
		}
		if (scx_bpf_dsq_move_to_local(best)) {
			if (ranks[best] < LATER)
				count(STAT_OVERDUE);
			else if (BETWEEN == BETWEEN_SHARES && time_before(class_vtime_now, ranks[best] - LATER))
				class_vtime_now = ranks[best] - LATER;
			return;
		}
		ranks[best] = ~0ULL; /* nobody there may run on this CPU */
	}
}
#else
/* By length or deadline, would the task that runs be before all that wait in this queue? By virtual time it is not asked,
 * as in scx_simple.
 */
static bool is_first(struct task_struct *prev, u32 queue)
{
	u64 now, first = QUEUES == QUEUES_GLOBAL ? ~0ULL : 0; /* with others, they are stolen from */
	struct task_struct *p;
	struct task_ctx *facts;

	if (ORDER == ORDER_FIFO || ORDER == ORDER_VTIME || !prev || !(prev->scx.flags & SCX_TASK_QUEUED))
		return false;
	facts = ctx_of(prev);
	if (!facts)
		return false;
	now = scx_bpf_now();
	charge(facts, now);
	bpf_for_each(scx_dsq, p, queue, 0) {
		first = p->scx.dsq_vtime;
		break;
	}
	return place_of(prev, facts, now) < first;
}

static void dispatch_queues(s32 cpu, struct task_struct *prev)
{
	u32 own = queue_of_cpu[(u32)cpu % CPU_MOST], step;

	if (is_first(prev, QUEUES == QUEUES_GLOBAL ? 0 : own)) {
		keep(prev);
		return;
	}
	if (scx_bpf_dsq_move_to_local(QUEUES == QUEUES_GLOBAL ? 0 : own) || QUEUES == QUEUES_GLOBAL)
		return;
	for (step = 1; step <= STEAL_MOST; step++) {
		if (step > steal_max || step >= queue_count)
			return;
		if (scx_bpf_dsq_move_to_local((own + step) % queue_count)) {
			count(STAT_STOLEN);
			return;
		}
	}
}
#endif

void BPF_STRUCT_OPS(compose_dispatch, s32 cpu, struct task_struct *prev)
{
#if QUEUES == QUEUES_CLASS
	dispatch_classes(prev);
#else
	dispatch_queues(cpu, prev);
#endif
}

void BPF_STRUCT_OPS(compose_running, struct task_struct *p)
{
	struct task_ctx *facts = ctx_of(p);
	u32 class = class_in(facts);

	if (is_lost(facts))
		return;
	if (facts)
		facts->started_ns = scx_bpf_now();
	/* the clock only goes forward; a race here is contained, and over at the next task */
	if (time_before(vtime_now[class], p->scx.dsq_vtime))
		vtime_now[class] = p->scx.dsq_vtime;
}

/* Not when the kernel frees it (exit_task): that may be later than the start of the next one like it. */
static void remember_job(struct task_struct *p, const struct task_ctx *facts)
{
	struct job_key key = {};
	u64 *found, mean_ns;

	job_of(p, &key);
	found = bpf_map_lookup_elem(&jobs, &key);
	mean_ns = found ? *found - *found / 2 + facts->total_ns / 2 : facts->total_ns;
	bpf_map_update_elem(&jobs, &key, &mean_ns, BPF_ANY);
}

void BPF_STRUCT_OPS(compose_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *facts = ctx_of(p);

	if (is_lost(facts))
		return;
	if (facts)
		charge(facts, scx_bpf_now());
	if (facts && !runnable) { /* signed: an average goes down, too */
		s64 off_ns = (s64)facts->burst_ns - (s64)facts->mean_ns;

		facts->mean_ns += off_ns >> (ewma_shift & 7);
		facts->burst_ns = 0;
	}
	charge_vtime(p);
	if (ORDER == ORDER_LJF && facts && !runnable && p->__state & TASK_DEAD)
		remember_job(p, facts);
}

void BPF_STRUCT_OPS(compose_enable, struct task_struct *p)
{
	struct task_ctx *facts = ctx_of(p);

	if (facts)
		facts->class = class_of(p, facts) % CLASS_MOST;
	p->scx.dsq_vtime = vtime_now[class_in(facts)];
}

s32 BPF_STRUCT_OPS(compose_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return !KNOWS || bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

static void take_weight(struct cgroup *cgrp, u32 by)
{
	struct member_key key = {};
	u64 id = cgroup_id(cgrp);
	u32 class;

	__builtin_memcpy(key.name, &id, sizeof(id));
	class = listed_class(&key, CLASS_MOST);
	if (CLASSES == CLASSES_CGROUP && class < CLASS_MOST)
		class_weight[class] = by;
}

s32 BPF_STRUCT_OPS(compose_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	take_weight(cgrp, args->weight);
	return 0;
}

void BPF_STRUCT_OPS(compose_cgroup_set_weight, struct cgroup *cgrp, u32 by)
{
	take_weight(cgrp, by);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(compose_init)
{
	u32 queue, made = QUEUES == QUEUES_CLASS ? CLASS_MOST : queue_count;
	s32 error;

	for (queue = 0; queue < CLASS_MOST; queue++)
		class_weight[queue] = weight[queue];
	bpf_for(queue, 0, made) {
		error = scx_bpf_create_dsq(queue, -1);
		if (error)
			return error;
	}
	return 0;
}

void BPF_STRUCT_OPS(compose_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(compose_ops,
	       .select_cpu		= (void *)compose_select_cpu,
	       .enqueue			= (void *)compose_enqueue,
	       .dispatch		= (void *)compose_dispatch,
	       .running			= (void *)compose_running,
	       .stopping		= (void *)compose_stopping,
	       .enable			= (void *)compose_enable,
	       .init_task		= (void *)compose_init_task,
	       .cgroup_init		= (void *)compose_cgroup_init,
	       .cgroup_set_weight	= (void *)compose_cgroup_set_weight,
	       .init			= (void *)compose_init,
	       .exit			= (void *)compose_exit,
	       .timeout_ms		= 30000,
	       .name			= "compose_" COMPOSED);
