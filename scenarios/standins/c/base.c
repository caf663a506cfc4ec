// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clock, random numbers, and work that is counted in steps, so that it does not depend on the clock while it runs.
 */
#define _GNU_SOURCE
#include "stand_in.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST_CPUS = 1024,
	CHUNK = 20000,		/* steps between two looks at the clock while measuring */
	MEASURE_MS = 60,
	NEAR_PERCENT = 5,	/* more than full speed, by which a measurement may be wrong */
};

/*
 * Under the lab's parallel clock a CPU of full speed takes 4 ns an instruction; slower cores, and threads that share one,
 * get whole percents of that on average. Taking the percent that is nearest to what was measured makes runs repeatable.
 */
#if defined(__x86_64__)
#define STEP_INSTRUCTIONS 4	/* imul, add, sub, jne */
#else
#define STEP_INSTRUCTIONS 3	/* madd, subs, b.ne */
#endif
#define FULL_STEPS_A_MS (MS / 4 / STEP_INSTRUCTIONS)

static u64 steps_a_ms;

struct measuring {
	pthread_t thread;
	int cpu;
	u64 steps, cpu_ns;
};

static _Atomic int still_measuring;

void fail(const char *what)
{
	fprintf(stderr, "stand_in: %s: %s\n", what, strerror(errno));
	_exit(1);
}

u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * SECOND + (u64)now.tv_nsec;
}

void sleep_until(u64 at_ns)
{
	struct timespec at = { (time_t)(at_ns / SECOND), (long)(at_ns % SECOND) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

u64 draw(u64 *state)
{
	u64 x = *state += 0x9e3779b97f4a7c15ull; /* splitmix64 */

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

u64 between(u64 *state, u64 low, u64 high)
{
	return low + draw(state) % (high - low + 1);
}

u64 about(u64 *state, u64 middle)
{
	return between(state, middle - middle / 3, middle + middle / 3);
}

static void steps(u64 count)
{
	u64 x = count;

	for (; count; count--) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		__asm__ volatile("" : "+r"(x)); /* or the compiler would see that nobody reads it */
	}
}

void work_us(u64 us)
{
	steps(us * steps_a_ms / 1000);
}

u64 speed(void)
{
	return steps_a_ms;
}

void set_speed(u64 new_steps_a_ms)
{
	steps_a_ms = new_steps_a_ms;
}

static u64 cpu_time_ns(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return (u64)spent.tv_sec * SECOND + (u64)spent.tv_nsec;
}

static void *measure(void *argument)
{
	struct measuring *own = argument;
	cpu_set_t only;
	u64 begin_ns, count = 0;

	CPU_ZERO(&only);
	CPU_SET(own->cpu, &only);
	pthread_setaffinity_np(pthread_self(), sizeof(only), &only);
	begin_ns = cpu_time_ns();
	do {
		steps(CHUNK);
		count += CHUNK;
		own->cpu_ns = cpu_time_ns() - begin_ns;
	} while (own->cpu_ns < MEASURE_MS * MS);
	own->steps = count;
	still_measuring--;
	while (still_measuring > 0) /* the others measure with all CPUs busy */
		steps(CHUNK);
	return NULL;
}

void measure_speed(void)
{
	static struct measuring measuring[MOST_CPUS];
	cpu_set_t allowed;
	u64 count = 0, cpu_ns = 0, percent;
	int cpus = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		fail("sched_getaffinity");
	for (int cpu = 0; cpu < MOST_CPUS; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			measuring[cpus++].cpu = cpu;
	still_measuring = cpus;
	for (int i = 0; i < cpus; i++)
		if (pthread_create(&measuring[i].thread, NULL, measure, &measuring[i]))
			fail("pthread_create");
	for (int i = 0; i < cpus; i++) {
		pthread_join(measuring[i].thread, NULL);
		count += measuring[i].steps;
		cpu_ns += measuring[i].cpu_ns;
	}
	steps_a_ms = (u64)((double)count * MS / (double)cpu_ns);
	percent = (100 * steps_a_ms + FULL_STEPS_A_MS / 2) / FULL_STEPS_A_MS;
	if (percent > 0 && percent <= 100 + NEAR_PERCENT)
		steps_a_ms = FULL_STEPS_A_MS * (percent > 100 ? 100 : percent) / 100;
}

void *shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

void start_thread(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, body, argument);
	if (errno)
		fail("pthread_create");
	pthread_detach(thread);
}

void start_process(void *(*body)(void *), void *argument)
{
	pid_t parent = getpid();

	switch (fork()) {
	case -1:
		fail("fork");
	case 0:
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
		body(argument);
		_exit(0);
	default:
		return;
	}
}
