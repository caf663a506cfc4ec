/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One queue, first come first served, and a loop in user space that stands while a model is asked whom to run where.
 * Tasks that come meanwhile stand, too. The loop takes what has come (`taken`), and lets it run (`answered`): both count
 * up, and say by their remainder which queue is filled and which are open. The kernel's threads and the loop wait for none.
 */
#include <scx/common.bpf.h>

#define QUEUES 4
#define OPEN 4 /* of those that wait for nothing */
#define KERNELS_THREAD 0x00200000 /* PF_KTHREAD, include/linux/sched.h */

char _license[] SEC("license") = "GPL";

const volatile bool waits;
const volatile s32 loop_tgid;

u64 taken = QUEUES, answered = QUEUES; /* the loop writes both */
u64 queued;			       /* tasks that have come for an answer so far */

UEI_DEFINE(uei);

s32 BPF_STRUCT_OPS(asks_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(asks_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	if (waits && !(p->flags & KERNELS_THREAD) && p->tgid != loop_tgid) {
		__sync_fetch_and_add(&queued, 1);
		scx_bpf_dsq_insert(p, taken % QUEUES, SCX_SLICE_DFL, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, OPEN, SCX_SLICE_DFL, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(asks_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 before = answered;

	if (scx_bpf_dsq_move_to_local(OPEN) || scx_bpf_dsq_move_to_local((before - 2) % QUEUES))
		return;
	scx_bpf_dsq_move_to_local((before - 1) % QUEUES);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(asks_init)
{
	s32 queue, error;

	bpf_for(queue, 0, QUEUES + 1) {
		error = scx_bpf_create_dsq(queue, -1);
		if (error)
			return error;
	}
	return 0;
}

void BPF_STRUCT_OPS(asks_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

/* After an answer: CPUs that idle look for what may run now. */
SEC("syscall")
int wake(void *unused)
{
	s32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return 0;
}

SCX_OPS_DEFINE(asks_ops,
	       .select_cpu		= (void *)asks_select_cpu,
	       .enqueue			= (void *)asks_enqueue,
	       .dispatch		= (void *)asks_dispatch,
	       .init			= (void *)asks_init,
	       .exit			= (void *)asks_exit,
	       .timeout_ms		= 30000,
	       .name			= "asks");
