// SPDX-License-Identifier: GPL-2.0-only
/*
 * The machine that an emulated guest stands for: fast and slow CPUs, told by the kernel's own interfaces.
 *
 * The emulator makes the speeds; this driver only tells them. With `asa_machine.speeds=100,100,50,50` on the kernel's
 * command line (percent of full speed, by Linux CPU number) it does what intel_pstate does on a hybrid processor:
 *
 * - a cpufreq policy for each CPU: its largest frequency is its speed's share of 4 GHz, its smallest 0.4 GHz or that.
 *   Like intel_pstate's active mode it has "performance" and "powersave" and no governor: no thread of one takes time
 *   from what is measured, and no change of frequency is announced, which the kernel would distrust its clock for.
 *   Neither changes how fast a CPU goes;
 * - where speeds differ: capacities for the scheduler, which cpuN/cpu_capacity shows; the fastest CPU has 1024;
 * - where cores have two threads, too: priorities of ITMT (asym packing).
 *
 * Without the option it does nothing. A list that does not fit the CPUs is refused with one line.
 */
#define pr_fmt(fmt) "asa_machine: " fmt

#include <linux/cpu.h>
#include <linux/cpu_smt.h>
#include <linux/cpufreq.h>
#include <linux/cpuset.h>
#include <linux/init.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <asm/topology.h>

#define FULL_KHZ 4000000U /* of 100 percent */
#define LEAST_KHZ 400000U
#define LARGEST_PCT 400U

static unsigned int speeds[NR_CPUS];
static unsigned int speeds_given;
module_param_array(speeds, uint, &speeds_given, 0444);
MODULE_PARM_DESC(speeds, "speed of each CPU in percent");

static unsigned int fastest_pct;

static unsigned int largest_khz(unsigned int cpu)
{
	return FULL_KHZ / 100U * speeds[cpu];
}

static int machine_verify(struct cpufreq_policy_data *policy)
{
	cpufreq_verify_within_cpu_limits(policy);
	return 0;
}

static int machine_setpolicy(struct cpufreq_policy *policy)
{
	policy->cur = policy->max;
	return 0;
}

static int machine_init(struct cpufreq_policy *policy)
{
	if (policy->cpu >= speeds_given)
		return -ENODEV;
	policy->cpuinfo.max_freq = largest_khz(policy->cpu);
	policy->cpuinfo.min_freq = min(LEAST_KHZ, policy->cpuinfo.max_freq);
	policy->min = policy->cpuinfo.min_freq;
	policy->max = policy->cpuinfo.max_freq;
	policy->policy = CPUFREQ_POLICY_PERFORMANCE;
	return 0;
}

static struct cpufreq_driver machine_driver = {
	.name = "asa_machine",
	.flags = CPUFREQ_CONST_LOOPS,
	.init = machine_init,
	.verify = machine_verify,
	.setpolicy = machine_setpolicy,
};

static bool __init fits(void)
{
	unsigned int slowest_pct = LARGEST_PCT, cpu;

	if (speeds_given != num_present_cpus()) {
		pr_err("%u speeds for %u CPUs; give one for each\n", speeds_given, num_present_cpus());
		return false;
	}
	for_each_present_cpu(cpu) {
		if (cpu >= speeds_given) {
			pr_err("CPU %u has no speed; CPUs must be numbered without gaps\n", cpu);
			return false;
		}
		fastest_pct = max(fastest_pct, speeds[cpu]);
		slowest_pct = min(slowest_pct, speeds[cpu]);
	}
	if (!slowest_pct || fastest_pct > LARGEST_PCT) {
		pr_err("a speed is not in 1..%u percent\n", LARGEST_PCT);
		return false;
	}
	return true;
}

/* As intel_pstate; but it tells no capacities where cores have two threads, and schedulers then guess them. */
static void __init tell_scheduler(void)
{
	unsigned int cpu;

	if (!arch_enable_hybrid_capacity_scale()) {
		pr_err("the kernel takes no capacities\n");
		return;
	}
	for_each_present_cpu(cpu) {
		arch_set_cpu_capacity(cpu, speeds[cpu], fastest_pct, largest_khz(cpu), largest_khz(cpu));
		topology_set_cpu_scale(cpu, arch_scale_cpu_capacity(cpu)); /* what sysfs shows */
		sched_set_itmt_core_prio(speeds[cpu], cpu);
	}
	if (cpu_smt_possible() && !sched_set_itmt_support())
		return; /* it has the domains built anew */
	x86_topology_update = true;
	rebuild_sched_domains();
}

static int __init machine_start(void)
{
	bool differ = false;
	unsigned int cpu;

	if (!speeds_given)
		return 0;
	if (!fits())
		return -EINVAL;
	for_each_present_cpu(cpu)
		differ |= speeds[cpu] != fastest_pct;
	if (cpufreq_register_driver(&machine_driver))
		pr_err("the kernel takes no frequencies\n");
	if (differ)
		tell_scheduler();
	return 0;
}
late_initcall(machine_start);
