/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stands in for tools/sched_ext/include/scx/common.bpf.h, so that planted faults are compiled without a kernel's source.
 * What comes of it has the sections, types and calls of a scheduler. It is looked at, and never loaded.
 */
typedef _Bool bool;
typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
#define true 1
#define false 0
#define NULL ((void *)0)
#define ENOMEM 12
#define PF_KTHREAD 0x00200000
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_QUEUE 22
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define SCX_DSQ_GLOBAL 0x8000000000000001ULL
#define SCX_DSQ_LOCAL 0x8000000000000002ULL
#define SCX_DSQ_LOCAL_ON 0xC000000000000000ULL
#define SCX_SLICE_DFL 20000000ULL
#define SCX_SLICE_INF 0xFFFFFFFFFFFFFFFFULL
#define SCX_ENQ_HEAD 16ULL
#define SCX_KICK_PREEMPT 2ULL
#define SCX_OPS_ENQ_LAST 2ULL
#define SCX_TASK_QUEUED 1

struct cpumask;
struct scx_exit_info;
struct scx_init_task_args;
struct sched_ext_entity {
	u64 dsq_vtime, slice;
	u32 weight, flags;
};
struct sched_entity {
	u64 sum_exec_runtime;
};
struct task_struct {
	u32 flags;
	int static_prio, nr_cpus_allowed, pid;
	struct sched_entity se;
	struct sched_ext_entity scx;
	const struct cpumask *cpus_ptr;
	char comm[16];
};
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*update_idle)(s32 cpu, bool idle);
	void (*enable)(struct task_struct *p);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

#define SEC(name) __attribute__((section(name), used))
#define __ksym __attribute__((section(".ksyms")))
#define __uint(name, value) int(*name)[value]
#define __type(name, kind) typeof(kind) *name
#define BPF_STRUCT_OPS(name, args...) SEC("struct_ops/" #name) name(args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) SEC("struct_ops.s/" #name) name(args)
#define SCX_OPS_DEFINE(name, ...) SEC(".struct_ops.link") struct sched_ext_ops name = {__VA_ARGS__}
#define UEI_DEFINE(name) u64 name
#define UEI_RECORD(name, info) (name = 1)
#define bpf_for(i, begin, end) for (i = (begin); i < (end); i++)
#define time_before(one, two) ((s64)((one) - (two)) < 0)
#define scx_bpf_error(...) bpf_error(__VA_ARGS__)

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static void *(*bpf_task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;

extern void bpf_error(const char *format, ...) __attribute__((weak)) __ksym;
extern s32 scx_bpf_create_dsq(u64 dsq, s32 node) __ksym;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev, u64 flags, bool *is_idle) __ksym;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags) __ksym;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 flags) __ksym;
extern bool scx_bpf_dsq_move_to_local(u64 dsq) __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym;
extern bool bpf_cpumask_empty(const struct cpumask *mask) __ksym;
