// SPDX-License-Identifier: GPL-2.0-only
/* Loads with a known count and a known length, for checking what the eBPF programs count.
 *
 * Each prints one JSON object: how often it did what it does, and how long that took by its own CLOCK_MONOTONIC.
 * Real-time priorities (SCHED_FIFO, SCHED_RR) keep other work of the machine out of the measured times. It measures
 * nothing of the kernel's own; anything unexpected ends it with a message and code 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 /* one number on all architectures since 5.16 */
#endif
struct waiter { uint64_t value, address; uint32_t flags, reserved; }; /* struct futex_waitv, missing in old headers */
#define SIZE_U32 2 /* FUTEX2_SIZE_U32, include/uapi/linux/futex.h */

static void die(const char *format, ...)
{
	va_list rest;

	va_start(rest, format);
	vfprintf(stderr, format, rest);
	va_end(rest);
	fprintf(stderr, ": %s\n", strerror(errno));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void burn_until(int64_t end_ns)
{
	while (now_ns() < end_ns)
		;
}

static void rest_ns(int64_t length_ns)
{
	struct timespec length = { length_ns / 1000000000, length_ns % 1000000000 };

	while (nanosleep(&length, &length) && errno == EINTR)
		;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity to CPU %d", cpu);
}

static void real_time(int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (sched_setscheduler(0, policy, &param))
		die("sched_setscheduler policy %d priority %d", policy, priority);
}

static pid_t child(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void pass(int fd) { char byte = 0; if (write(fd, &byte, 1) != 1) die("write"); }
static void take(int fd) { char byte; if (read(fd, &byte, 1) != 1) die("read"); }

/* Two processes on one CPU wake each other: each round is two wakeups and two switches. */
static void pingpong(int cpu, int rounds)
{
	int there[2], back[2];
	int64_t begin;

	if (pipe(there) || pipe(back))
		die("pipe");
	pin(cpu);
	real_time(SCHED_FIFO, 50);
	if (!child()) {
		for (int i = 0; i < rounds; i++) {
			take(there[0]);
			pass(back[1]);
		}
		_exit(0);
	}
	begin = now_ns();
	for (int i = 0; i < rounds; i++) {
		pass(there[1]);
		take(back[0]);
	}
	begin = now_ns() - begin;
	wait(NULL);
	printf("{\"wakeups\": %d, \"ns\": %lld}\n", 2 * rounds, (long long)begin);
}

/* Busy tasks on one CPU. SCHED_RR of one priority: each waits (tasks - 1) slices of sched_rr_get_interval(2). */
static void slices(int cpu, int tasks, int length_ms, int policy)
{
	struct timespec slice, own;
	struct rusage usage;
	int64_t end;

	pin(cpu);
	if (policy == SCHED_RR)
		real_time(SCHED_RR, 10);
	if (sched_rr_get_interval(0, &slice))
		die("sched_rr_get_interval");
	end = now_ns() + length_ms * 1000000LL;
	for (int i = 1; i < tasks; i++)
		if (!child()) {
			burn_until(end);
			_exit(0);
		}
	burn_until(end);
	while (wait(NULL) > 0)
		;
	getrusage(RUSAGE_SELF, &usage);
	long mine = usage.ru_nivcsw;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("{\"slice_ns\": %lld, \"preempted\": %ld, \"parent\": %d, \"parent_preempted\": %ld, \"parent_ns\": %lld}\n",
	       slice.tv_sec * 1000000000LL + slice.tv_nsec, mine + usage.ru_nivcsw, (int)getpid(), mine,
	       own.tv_sec * 1000000000LL + own.tv_nsec);
}

/* A task wakes another of lower priority on its CPU and stays busy for a known time before it sleeps. */
static void waits(int cpu, int rounds, int64_t length_ns)
{
	int there[2], back[2];
	int64_t total = 0, begin;

	if (pipe(there) || pipe(back))
		die("pipe");
	pin(cpu);
	real_time(SCHED_FIFO, 20);
	if (!child()) {
		real_time(SCHED_FIFO, 10);
		for (int i = 0; i < rounds; i++) {
			take(there[0]);
			pass(back[1]);
		}
		_exit(0);
	}
	for (int i = 0; i < rounds; i++) {
		rest_ns(1000000); /* lets the other one block again, and the rest of the machine run */
		begin = now_ns();
		pass(there[1]);
		burn_until(begin + length_ns);
		total += now_ns() - begin;
		take(back[0]);
	}
	wait(NULL);
	printf("{\"rounds\": %d, \"ns\": %lld}\n", rounds, (long long)total);
}

/* Every futex_wait sleeps once, until its time is up: nobody ever wakes it. */
static void futexes(int rounds, int64_t length_ns, int vector)
{
	uint32_t word = 0;
	int64_t begin = now_ns();

	for (int i = 0; i < rounds; i++) {
		struct timespec length = { length_ns / 1000000000, length_ns % 1000000000 };
		struct waiter waiter = { .value = 0, .address = (uintptr_t)&word, .flags = SIZE_U32 };
		long result;

		if (vector) {
			int64_t end = now_ns() + length_ns; /* futex_waitv(2) takes a point in time */

			length = (struct timespec){ end / 1000000000, end % 1000000000 };
			result = syscall(SYS_futex_waitv, &waiter, 1, 0, &length, CLOCK_MONOTONIC);
		} else {
			result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &length, NULL, 0);
		}
		if (result != -1 || errno != ETIMEDOUT)
			die("futex wait %d", i);
	}
	printf("{\"waits\": %d, \"ns\": %lld}\n", rounds, (long long)(now_ns() - begin));
}

struct rounds { int rounds; int64_t length_ns; _Atomic int64_t ns; };

static void *sleeper(void *given)
{
	struct rounds *plan = given;

	real_time(SCHED_FIFO, 30);
	for (int i = 0; i < plan->rounds; i++) {
		int64_t begin = now_ns();

		rest_ns(plan->length_ns);
		plan->ns += now_ns() - begin;
	}
	return NULL;
}

static void sleeps(int threads, int rounds, int64_t length_ns)
{
	struct rounds plan = { .rounds = rounds, .length_ns = length_ns };
	pthread_t all[threads];

	for (int i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, sleeper, &plan))
			die("pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	printf("{\"sleeps\": %d, \"ns\": %lld}\n", threads * rounds, (long long)plan.ns);
}

/* On the CPU for a known time without a switch, then off it. */
static void bursts(int cpu, int rounds, int64_t length_ns)
{
	int64_t total = 0;

	pin(cpu);
	real_time(SCHED_FIFO, 30);
	for (int i = 0; i < rounds; i++) {
		rest_ns(2 * length_ns);
		int64_t begin = now_ns();

		burn_until(begin + length_ns);
		total += now_ns() - begin;
	}
	printf("{\"bursts\": %d, \"ns\": %lld, \"pid\": %d}\n", rounds, (long long)total, (int)getpid());
}

/* The parent of a vfork waits uninterruptibly (wait_for_vfork_done, kernel/fork.c) until its child ends. */
static void vforks(int rounds, int64_t length_ns)
{
	volatile int64_t total = 0, begin;

	real_time(SCHED_FIFO, 30);
	for (volatile int i = 0; i < rounds; i++) {
		begin = now_ns();
		pid_t pid = vfork();

		if (pid < 0)
			die("vfork");
		if (!pid) {
			rest_ns(length_ns);
			_exit(0);
		}
		total += now_ns() - begin;
		waitpid(pid, NULL, 0);
	}
	printf("{\"vforks\": %d, \"ns\": %lld}\n", rounds, (long long)total);
}

static int64_t contend_end_ns;

/* mmap and munmap take the address space's lock for writing: threads of one process wait for each other. */
static void *contender(void *count)
{
	while (now_ns() < contend_end_ns) {
		char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		if (page == MAP_FAILED)
			die("mmap");
		munmap(page, 4096);
		++*(_Atomic long *)count;
	}
	return NULL;
}

static void contend(int threads, int length_ms)
{
	_Atomic long count = 0;
	pthread_t all[threads];

	contend_end_ns = now_ns() + length_ms * 1000000LL;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, contender, &count))
			die("pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	printf("{\"mappings\": %ld}\n", (long)count);
}

static void spawns(int rounds, const char *program)
{
	for (int i = 0; i < rounds; i++) {
		pid_t pid = child();

		if (!pid) {
			if (program)
				execl(program, program, (char *)NULL);
			_exit(program ? 1 : 0);
		}
		int status;

		if (waitpid(pid, &status, 0) != pid || status)
			die("child %d ended with %d", i, status);
	}
	printf("{\"spawns\": %d}\n", rounds);
}

/* From one CPU to the other and back. */
static void migrations(int rounds)
{
	for (int i = 0; i < rounds; i++)
		pin(i & 1);
	printf("{\"migrations\": %d}\n", rounds - 1); /* where the first one began is not known */
}

int main(int count, char **words)
{
	long number[3] = { 0 };
	const char *load = count > 1 ? words[1] : "";

	for (int i = 0; i < 3 && i + 2 < count; i++)
		number[i] = atol(words[i + 2]);
	prctl(PR_SET_TIMERSLACK, 1UL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!strcmp(load, "pingpong")) pingpong(number[0], number[1]);
	else if (!strcmp(load, "slices")) slices(number[0], number[1], number[2], SCHED_RR);
	else if (!strcmp(load, "spins")) slices(number[0], number[1], number[2], SCHED_OTHER);
	else if (!strcmp(load, "waits")) waits(number[0], number[1], number[2]);
	else if (!strcmp(load, "futexes")) futexes(number[0], number[1], 0);
	else if (!strcmp(load, "futexes_v")) futexes(number[0], number[1], 1);
	else if (!strcmp(load, "sleeps")) sleeps(number[0], number[1], number[2]);
	else if (!strcmp(load, "bursts")) bursts(number[0], number[1], number[2]);
	else if (!strcmp(load, "vforks")) vforks(number[0], number[1]);
	else if (!strcmp(load, "contend")) contend(number[0], number[1]);
	else if (!strcmp(load, "forks")) spawns(number[0], NULL);
	else if (!strcmp(load, "execs")) spawns(number[0], words[3]);
	else if (!strcmp(load, "migrations")) migrations(number[0]);
	else { errno = EINVAL; die("load %s", load); }
	return 0;
}
