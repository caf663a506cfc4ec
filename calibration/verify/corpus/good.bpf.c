/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A small scheduler without known faults, which the table of faults (faults.yaml) spoils one by one. Kernel threads that
 * are bound to one CPU run at once. The others wait in two queues by virtual time, nice ones apart, which take turns.
 */
#include <scx/common.bpf.h>

#define PLAIN 0
#define NICE 1
#define SLICE_NS 5000000ULL
#define WAIT_NS 200000000ULL

char _license[] SEC("license") = "GPL";

const volatile bool switch_partial;

static u64 vtime_now;
static u64 nice_served_ns;
UEI_DEFINE(uei);

struct task_ctx {
	u64 queue;
	u64 woken;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

static void count(u32 index)
{
	u64 *found = bpf_map_lookup_elem(&counts, &index);

	if (found)
		(*found)++;
}

static u64 queue_of(struct task_struct *p)
{
	return p->static_prio > 120 ? NICE : PLAIN;
}

s32 BPF_STRUCT_OPS(good_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle) {
		count(0);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, 0);
	}
	return cpu;
}

void BPF_STRUCT_OPS(good_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;
	struct task_ctx *task = bpf_task_storage_get(&tasks, p, 0, 0);

	if (!task) {
		scx_bpf_error("no memory for %s[%d]", p->comm, p->pid);
		return;
	}
	count(1);
	task->queue = queue_of(p);
	if ((p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
		return;
	}
	if (time_before(vtime, vtime_now - SLICE_NS))
		vtime = vtime_now - SLICE_NS;
	scx_bpf_dsq_insert_vtime(p, task->queue, SLICE_NS, vtime, enq_flags);
}

void BPF_STRUCT_OPS(good_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 now_ns = bpf_ktime_get_ns();

	if (now_ns - nice_served_ns > WAIT_NS) {
		nice_served_ns = now_ns;
		if (scx_bpf_dsq_move_to_local(NICE))
			return;
	}
	if (scx_bpf_dsq_move_to_local(PLAIN))
		return;
	scx_bpf_dsq_move_to_local(NICE);
}

void BPF_STRUCT_OPS(good_running, struct task_struct *p)
{
	if (time_before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}

void BPF_STRUCT_OPS(good_stopping, struct task_struct *p, bool runnable)
{
	p->scx.dsq_vtime += (SLICE_NS - p->scx.slice) * 100 / p->scx.weight;
}

void BPF_STRUCT_OPS(good_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = vtime_now;
}

s32 BPF_STRUCT_OPS(good_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(good_init)
{
	s32 error = scx_bpf_create_dsq(PLAIN, -1);

	return error ? error : scx_bpf_create_dsq(NICE, -1);
}

void BPF_STRUCT_OPS(good_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(good_ops,
	       .select_cpu	= (void *)good_select_cpu,
	       .enqueue		= (void *)good_enqueue,
	       .dispatch	= (void *)good_dispatch,
	       .running		= (void *)good_running,
	       .stopping	= (void *)good_stopping,
	       .enable		= (void *)good_enable,
	       .init_task	= (void *)good_init_task,
	       .init		= (void *)good_init,
	       .exit		= (void *)good_exit,
	       .timeout_ms	= 5000,
	       .name		= "good");
