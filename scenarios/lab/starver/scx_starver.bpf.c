/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A scheduler that starves tasks on purpose: those of one name come to a CPU once in eight seconds, all together one of
 * them. All others are served in the order in which they come. It is the laboratory's, to see how soon it is noticed.
 */
#include <scx/common.bpf.h>

#define NAME_LEN 16 /* TASK_COMM_LEN */
#define SERVED 0
#define STARVED 1
#define HOLD_NS 8000000000ULL /* less than the 30 s after which the kernel's watchdog steps in */

char _license[] SEC("license") = "GPL";

const volatile char starved_name[NAME_LEN]; /* "": nobody is starved */

static u64 released_ns;
UEI_DEFINE(uei);

static bool is_starved(struct task_struct *p)
{
	int place;

	if (!starved_name[0])
		return false;
	for (place = 0; place < NAME_LEN; place++) {
		if (p->comm[place] != starved_name[place])
			return false;
		if (!p->comm[place])
			break;
	}
	return true;
}

s32 BPF_STRUCT_OPS(starver_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle && !is_starved(p))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return cpu;
}

void BPF_STRUCT_OPS(starver_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, is_starved(p) ? STARVED : SERVED, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(starver_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 now_ns = bpf_ktime_get_ns();

	if (now_ns - released_ns > HOLD_NS) {
		released_ns = now_ns;
		if (scx_bpf_dsq_move_to_local(STARVED))
			return;
	}
	scx_bpf_dsq_move_to_local(SERVED);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(starver_init)
{
	s32 error = scx_bpf_create_dsq(STARVED, -1);

	released_ns = bpf_ktime_get_ns();
	return error ? error : scx_bpf_create_dsq(SERVED, -1);
}

void BPF_STRUCT_OPS(starver_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(starver_ops,
	       .select_cpu	= (void *)starver_select_cpu,
	       .enqueue		= (void *)starver_enqueue,
	       .dispatch	= (void *)starver_dispatch,
	       .init		= (void *)starver_init,
	       .exit		= (void *)starver_exit,
	       .name		= "starver");
