// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is the machine what it is said to be? Measures one thing and prints it as one JSON object; CPUs are Linux's numbers.
 *
 *   machine hogs SECONDS CPU...	a loop pinned to each CPU, all over the same time: how often each would have gone round
 *				without ticks, which take a larger part of a slower CPU
 *   machine clocks SECONDS	a thread on each CPU, then one that goes from CPU to CPU: does time ever go back?
 *   machine timer SECONDS CPU...	lateness of a task on the first CPU that wakes up each 2.3 ms, beside loops on the others
 *   machine ipi SECONDS CPU...	membarrier(2) of the first CPU: an interrupt to each of the others, which loop, and back
 *   machine wake SECONDS ONE TWO	a turn by futex from one CPU to another that sleeps, and back
 *   machine pause SECONDS CPU	the instruction of loops that wait, a hundred in a row
 *   machine hurry SECONDS CPU	a loop as it is, after the program asked for 1000 % of its CPU's speed, and in a child
 *   machine hotplug CPU		takes it offline and online again: the kernel's errors, 0 for none
 *
 * Times are of CLOCK_MONOTONIC in ns. Ends with code 1 and one line on stderr when something is not allowed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>
#include <cpuid.h>

enum {
	MOST = 65536,
	MOST_CPUS = 256,
	LONGEST_S = 60,
	LINE = 64,
	SPARSE = 16,		/* one turn of so many is timed */
	MOST_SPANS = 8192,	/* half a second of a CPU's turns at full speed */
	PAUSES = 100,		/* in a row */
	LOOPS = 250,		/* between two looks at the clock: 4 us at 250 million instructions a second */
	WAKE_NS = 2311000,	/* no multiple or part of a tick */
	HURRY_LEAF = 0x41534100,	/* scenarios/lab/qemu/icount-parallel.h */
	HURRY_PCT = 1000,
	SETTLE_NS = 50000000,	/* all threads are where they belong by then */
};

/* What one thread does, and what came of it */
struct lane {
	pthread_t thread;
	int cpu;
	unsigned long rounds;
	int spans;
	long long span_ns[MOST_SPANS];
	long long stamp_ns;	/* the latest time that it has seen */
	long long back_ns, across_ns;
	unsigned long long tsc_back;
} __attribute__((aligned(LINE)));

static struct lane lanes[MOST_CPUS];
static int count;
static long long start_ns, end_ns;
static int over;
static long long samples[MOST];
static int taken;

static void fail(const char *what)
{
	fprintf(stderr, "machine: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(long long due_ns)
{
	struct timespec due = {due_ns / 1000000000, due_ns % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
		;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void loop(volatile unsigned long *rounds)
{
	for (int i = 0; i < LOOPS; i++)
		++*rounds;
}

static void begin(double seconds)
{
	start_ns = now_ns() + SETTLE_NS;
	end_ns = start_ns + (long long)(seconds * 1e9);
}

static void start(struct lane *lane, void *(*work)(void *))
{
	errno = pthread_create(&lane->thread, NULL, work, lane);
	if (errno)
		fail("thread");
}

static int by_size(const void *one, const void *other)
{
	long long a = *(const long long *)one, b = *(const long long *)other;

	return (a > b) - (a < b);
}

static void take(long long value_ns)
{
	if (taken < MOST)
		samples[taken++] = value_ns;
}

static void tell_samples(void)
{
	if (!taken) {
		fprintf(stderr, "machine: not one sample in so short a time\n");
		exit(1);
	}
	qsort(samples, taken, sizeof(*samples), by_size);
	printf("{\"samples\": %d, \"p50_ns\": %lld, \"p99_ns\": %lld, \"worst_ns\": %lld}\n", taken,
	       samples[(taken + 1) / 2 - 1], samples[(taken * 99LL + 99) / 100 - 1], samples[taken - 1]);
}

static void *hog(void *argument)
{
	struct lane *my = argument;
	long long at_ns, before_ns;

	pin(my->cpu);
	while ((before_ns = now_ns()) < start_ns)	/* busy from before the start: a neighbour's thread counts it */
		;
	for (unsigned long turn = 0; before_ns < end_ns; turn++, before_ns = at_ns) {
		loop(&my->rounds);
		at_ns = now_ns();
		if (turn % SPARSE == 0 && my->spans < MOST_SPANS)
			my->span_ns[my->spans++] = at_ns - before_ns;
	}
	return NULL;
}

/* In its median turn nothing interrupts it: a turn takes microseconds, ticks are a millisecond apart. */
static double whole_rounds(struct lane *lane)
{
	if (!lane->spans)
		return 0.0;
	qsort(lane->span_ns, lane->spans, sizeof(*lane->span_ns), by_size);
	return (double)LOOPS * (end_ns - start_ns) / lane->span_ns[lane->spans / 2];
}

static void hogs(double seconds)
{
	setpriority(PRIO_PROCESS, 0, -20);	/* as far as that is allowed: what else runs takes less */
	begin(seconds);
	for (int i = 0; i < count; i++)
		start(&lanes[i], hog);
	for (int i = 0; i < count; i++)
		pthread_join(lanes[i].thread, NULL);
	for (int i = 0; i < count; i++)
		printf("%s\"%d\": %.0f", i ? ", " : "{", lanes[i].cpu, whole_rounds(&lanes[i]));
	printf("}\n");
}

static void *look(void *argument)
{
	struct lane *my = argument;
	unsigned long long tsc, last_tsc = 0;
	long long seen_ns[MOST_CPUS], last_ns = 0, at_ns;

	pin(my->cpu);
	while (last_ns < end_ns) {
		for (int i = 0; i < count; i++)
			seen_ns[i] = __atomic_load_n(&lanes[i].stamp_ns, __ATOMIC_SEQ_CST);
		_mm_mfence();
		tsc = __rdtsc();
		at_ns = now_ns();
		__atomic_store_n(&my->stamp_ns, at_ns, __ATOMIC_SEQ_CST);
		if (tsc < last_tsc && last_tsc - tsc > my->tsc_back)
			my->tsc_back = last_tsc - tsc;
		if (last_ns - at_ns > my->back_ns)
			my->back_ns = last_ns - at_ns;
		for (int i = 0; i < count; i++)
			if (&lanes[i] != my && seen_ns[i] - at_ns > my->across_ns)
				my->across_ns = seen_ns[i] - at_ns;
		last_tsc = tsc;
		last_ns = at_ns;
		my->rounds++;
	}
	return NULL;
}

static void clocks(double seconds)
{
	long long back_ns = 0, across_ns = 0, hop_ns = 0, at_ns, next_ns;
	unsigned long long tsc_back = 0;
	unsigned long looks = 0, hops = 0;

	begin(seconds / 2);
	for (int i = 0; i < count; i++)
		start(&lanes[i], look);
	for (int i = 0; i < count; i++) {
		pthread_join(lanes[i].thread, NULL);
		looks += lanes[i].rounds;
		back_ns = lanes[i].back_ns > back_ns ? lanes[i].back_ns : back_ns;
		across_ns = lanes[i].across_ns > across_ns ? lanes[i].across_ns : across_ns;
		tsc_back = lanes[i].tsc_back > tsc_back ? lanes[i].tsc_back : tsc_back;
	}
	begin(seconds / 2);
	for (at_ns = now_ns(); at_ns < end_ns; at_ns = next_ns) {
		pin(lanes[++hops % count].cpu);
		next_ns = now_ns();
		hop_ns = at_ns - next_ns > hop_ns ? at_ns - next_ns : hop_ns;
	}
	printf("{\"looks\": %lu, \"back_ns\": %lld, \"tsc_back\": %llu, \"across_ns\": %lld, \"hops\": %lu, "
	       "\"hop_ns\": %lld}\n", looks, back_ns, tsc_back, across_ns, hops, hop_ns);
}

static void *busy(void *argument)
{
	struct lane *my = argument;

	pin(my->cpu);
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
		loop(&my->rounds);
	return NULL;
}

static void start_others(void)
{
	for (int i = 1; i < count; i++)
		start(&lanes[i], busy);
	pin(lanes[0].cpu);
	sleep_until(start_ns);
}

static void end_others(void)
{
	__atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
	for (int i = 1; i < count; i++)
		pthread_join(lanes[i].thread, NULL);
	tell_samples();
}

static void timer(double seconds)
{
	begin(seconds);
	prctl(PR_SET_TIMERSLACK, 1UL);	/* else the kernel may be 50 us late to save energy */
	start_others();
	for (long long due_ns = start_ns + WAKE_NS; due_ns < end_ns; due_ns += WAKE_NS) {
		sleep_until(due_ns);
		take(now_ns() - due_ns);
	}
	end_others();
}

static void ipi(double seconds)
{
	long long at_ns, next_ns;

	begin(seconds);
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		fail("membarrier");
	start_others();
	for (at_ns = now_ns(); at_ns < end_ns && taken < MOST; at_ns = next_ns) {
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
			fail("membarrier");
		next_ns = now_ns();
		take(next_ns - at_ns);
	}
	end_others();
}

enum { OURS, THEIRS, OVER };

static int turn = OURS;

static void give(int next)
{
	__atomic_store_n(&turn, next, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int wait_while(int other)
{
	int seen;

	while ((seen = __atomic_load_n(&turn, __ATOMIC_SEQ_CST)) == other)
		syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, other, NULL, NULL, 0);
	return seen;
}

static void *answer(void *argument)
{
	struct lane *my = argument;

	pin(my->cpu);
	while (wait_while(OURS) != OVER)
		give(OURS);
	return NULL;
}

static void wake(double seconds)
{
	long long at_ns, next_ns;

	begin(seconds);
	start(&lanes[1], answer);
	pin(lanes[0].cpu);
	sleep_until(start_ns);
	for (at_ns = now_ns(); at_ns < end_ns && taken < MOST; at_ns = next_ns) {
		give(THEIRS);
		wait_while(THEIRS);
		next_ns = now_ns();
		take(next_ns - at_ns);
	}
	give(OVER);
	pthread_join(lanes[1].thread, NULL);
	tell_samples();
}

static void pause_loop(double seconds)
{
	long long at_ns, next_ns;

	pin(lanes[0].cpu);
	begin(seconds);
	sleep_until(start_ns);
	for (at_ns = now_ns(); at_ns < end_ns && taken < MOST; at_ns = next_ns) {
		for (int i = 0; i < PAUSES; i++)
			_mm_pause();
		next_ns = now_ns();
		take(next_ns - at_ns);
	}
	tell_samples();
}

static unsigned long turns(double seconds)
{
	volatile unsigned long rounds = 0;

	begin(seconds);
	sleep_until(start_ns);
	while (now_ns() < end_ns)
		loop(&rounds);
	return rounds;
}

static void hurry(double seconds)
{
	unsigned int eax, ebx, ecx, edx;
	unsigned long before, after, child = 0;
	int ends[2];
	pid_t pid;

	pin(lanes[0].cpu);
	before = turns(seconds);
	__cpuid_count(HURRY_LEAF, HURRY_PCT, eax, ebx, ecx, edx);
	after = turns(seconds);
	if (pipe(ends))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		child = turns(seconds);
		_exit(write(ends[1], &child, sizeof(child)) != sizeof(child));
	}
	if (read(ends[0], &child, sizeof(child)) != sizeof(child) || waitpid(pid, NULL, 0) != pid)
		fail("child");
	printf("{\"given_pct\": %u, \"before\": %lu, \"after\": %lu, \"child\": %lu}\n", eax, before, after, child);
}

static int set_online(int cpu, const char *value)
{
	char path[64];
	int file, error;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0)
		return errno;
	error = write(file, value, 1) == 1 ? 0 : errno;
	close(file);
	return error;
}

static void hotplug(int cpu)
{
	long there = sysconf(_SC_NPROCESSORS_ONLN), left;
	int off = set_online(cpu, "0"), on;

	left = sysconf(_SC_NPROCESSORS_ONLN);
	on = set_online(cpu, "1");
	printf("{\"offline_errno\": %d, \"online_errno\": %d, \"before\": %ld, \"meanwhile\": %ld, \"after\": %ld}\n",
	       off, on, there, left, sysconf(_SC_NPROCESSORS_ONLN));
}

static const struct mode {
	const char *name;
	void (*run)(double seconds);
	int least, most;	/* CPUs that are named; clocks takes all */
} modes[] = {
	{"hogs", hogs, 1, MOST_CPUS}, {"clocks", clocks, 0, 0}, {"timer", timer, 1, MOST_CPUS},
	{"ipi", ipi, 2, MOST_CPUS},   {"wake", wake, 2, 2},
	{"pause", pause_loop, 1, 1},  {"hurry", hurry, 1, 1},
};

static int usage(void)
{
	fprintf(stderr, "usage: machine hogs|clocks|timer|ipi|wake|pause|hurry SECONDS (at most %d) CPU... | machine hotplug CPU\n",
		LONGEST_S);
	return 1;
}

/* CPUs by their numbers; all that are online where none is named. */
static void choose(int named, char **words)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		fail("sched_getaffinity");
	for (int i = 0; i < named; i++)
		lanes[count++].cpu = atoi(words[i]);
	for (int cpu = 0; !named && cpu < MOST_CPUS; cpu++)
		if (CPU_ISSET(cpu, &set))
			lanes[count++].cpu = cpu;
}

int main(int words, char **word)
{
	double seconds = words >= 3 ? strtod(word[2], NULL) : 0;
	int named = words - 3;

	if (words == 3 && !strcmp(word[1], "hotplug")) {
		hotplug(atoi(word[2]));
		return 0;
	}
	if (words < 3 || seconds <= 0 || seconds > LONGEST_S)
		return usage();
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(word[1], modes[i].name) && named >= modes[i].least && named <= modes[i].most) {
			choose(named, word + 3);
			modes[i].run(seconds);
			return 0;
		}
	return usage();
}
