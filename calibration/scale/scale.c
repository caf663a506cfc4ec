// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures one thing for SECONDS and prints it as lines "NAME VALUE"; what it started has ended then.
 *
 *   scale throughput SECONDS	small jobs (exec, page faults, some computing), one more at a time than CPUs: how many end
 *   scale wakeup SECONDS	lateness of a task that wants to wake up each 2.3 ms
 *   scale burst SECONDS	the same beside storms of four jobs for each CPU
 *   scale deadlines SECONDS	four threads with work for each 16.7 ms: how many periods end before it is done
 *   scale pipe SECONDS		a byte through a pipe to another process and back
 *   scale futex SECONDS	a turn to another thread by futex and back
 *   scale launch SECONDS	fork, exec of this program, exit, wait
 *
 * All but throughput run beside one hog for each CPU: an ordinary task that only computes. Wakeups and periods are due
 * at absolute times, and those that were slept through count with their own lateness: no coordinated omission. Times are
 * of CLOCK_MONOTONIC. Ends with code 1 and one line on stderr when something is not allowed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST = 65536,		/* samples: two minutes of wakeups; who measures more ends early */
	MOST_CPUS = 256,
	LONGEST_S = 60,
	WAKE_NS = 2311000,	/* no multiple or part of a tick: or it would always see the same moment of it */
	FRAME_NS = 16666667,
	FRAME_LOOPS = 20000,	/* 0.8 ms at the lab's 250 million instructions a second */
	FRAME_THREADS = 4,
	JOB_LOOPS = 50000,	/* 2 ms */
	JOB_BYTES = 1 << 18,
	PAGE = 4096,
	STORM_JOBS = 4,		/* for each CPU */
	STORM_PAUSE_NS = 50000000,
	LAUNCH_PAUSE_NS = 10000000,
	SETTLE_NS = 200000000,	/* hogs have been spread over the CPUs by then */
};

static long long samples[MOST];
static int taken;
static int cpus;
static volatile unsigned long sink;

static void fail(const char *what)
{
	fprintf(stderr, "scale: %s: %s\n", what, strerror(errno));
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

static void compute(long loops)
{
	unsigned long x = 88172645463325252UL;

	while (loops--) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	sink = x;
}

/* A child that ends with its parent */
static pid_t child(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

static pid_t start_self(const char *mode)
{
	pid_t pid = child();

	if (pid)
		return pid;
	execl("/proc/self/exe", "scale", mode, (char *)NULL);
	_exit(127);
}

static int job(void)
{
	char *memory = malloc(JOB_BYTES);

	if (!memory)
		return 1;
	for (int i = 0; i < JOB_BYTES; i += PAGE)
		memory[i] = 1;
	compute(JOB_LOOPS);
	return 0;
}

/* Wait for any child; a job that did not do its work would be throughput for nothing. */
static void wait_job(void)
{
	int status;

	if (wait(&status) < 0)
		fail("wait");
	if (status) {
		fprintf(stderr, "scale: a job ended with status %d\n", status);
		exit(1);
	}
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

/* The least sample that so many per cent do not exceed. */
static long long percentile(int pct)
{
	return samples[(taken * (long long)pct + 99) / 100 - 1];
}

static void tell_samples(void)
{
	qsort(samples, taken, sizeof(*samples), by_size);
	printf("samples %d\n", taken);
	if (taken)
		printf("p50_ns %lld\np99_ns %lld\nworst_ns %lld\n", percentile(50), percentile(99), samples[taken - 1]);
}

static void throughput(long long end_ns)
{
	long long start_ns = now_ns(), at_ns = start_ns;
	int jobs = 0, running;

	for (running = 0; running <= cpus; running++)
		start_self("job");
	while (at_ns < end_ns) {
		wait_job();
		at_ns = now_ns();
		jobs++;
		start_self("job");
	}
	while (running--)
		wait_job();
	printf("jobs %d\nelapsed_ns %lld\n", jobs, at_ns - start_ns);
}

static void wakeup(long long end_ns)
{
	for (long long due_ns = now_ns() + WAKE_NS; due_ns < end_ns; due_ns += WAKE_NS) {
		sleep_until(due_ns);
		take(now_ns() - due_ns);
	}
	tell_samples();
}

static void storm(void)
{
	for (;;) {
		for (int i = 0; i < STORM_JOBS * cpus; i++)
			start_self("job");
		for (int i = 0; i < STORM_JOBS * cpus; i++)
			wait_job();
		sleep_until(now_ns() + STORM_PAUSE_NS);
	}
}

static void burst(long long end_ns)
{
	pid_t pid = child();

	if (!pid)
		storm();
	wakeup(end_ns);
	if (waitpid(pid, NULL, WNOHANG)) {
		fprintf(stderr, "scale: the storm ended before its time\n");
		exit(1);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

struct frames {
	pthread_t thread;
	long long start_ns, end_ns;
	int periods, missed;
};

static void *draw(void *argument)
{
	struct frames *my = argument;

	for (long long due_ns = my->start_ns; due_ns + FRAME_NS <= my->end_ns; due_ns += FRAME_NS) {
		sleep_until(due_ns);
		if (now_ns() < my->end_ns)	/* else the rest would never end, and is missed anyway */
			compute(FRAME_LOOPS);
		my->periods++;
		my->missed += now_ns() > due_ns + FRAME_NS;
	}
	return NULL;
}

static void deadlines(long long end_ns)
{
	struct frames all[FRAME_THREADS];
	long long start_ns = now_ns();
	int periods = 0, missed = 0;

	for (int i = 0; i < FRAME_THREADS; i++) {
		all[i] = (struct frames){.start_ns = start_ns + i * (FRAME_NS / FRAME_THREADS), .end_ns = end_ns};
		errno = pthread_create(&all[i].thread, NULL, draw, &all[i]);
		if (errno)
			fail("thread");
	}
	for (int i = 0; i < FRAME_THREADS; i++) {
		pthread_join(all[i].thread, NULL);
		periods += all[i].periods;
		missed += all[i].missed;
	}
	printf("periods %d\nmissed %d\n", periods, missed);
}

static void pipes(long long end_ns)
{
	int there[2], back[2];
	long long at_ns, next_ns;
	char byte = 0;
	pid_t pid;

	if (pipe(there) || pipe(back))
		fail("pipe");
	pid = child();
	if (!pid) {
		while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
			;
		_exit(1);
	}
	for (at_ns = now_ns(); at_ns < end_ns && taken < MOST; at_ns = next_ns) {
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			fail("pipe");
		next_ns = now_ns();
		take(next_ns - at_ns);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	tell_samples();
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
	while (wait_while(OURS) != OVER)
		give(OURS);
	return argument;
}

static void futexes(long long end_ns)
{
	long long at_ns, next_ns;
	pthread_t partner;

	errno = pthread_create(&partner, NULL, answer, NULL);
	if (errno)
		fail("thread");
	for (at_ns = now_ns(); at_ns < end_ns && taken < MOST; at_ns = next_ns) {
		give(THEIRS);
		wait_while(THEIRS);
		next_ns = now_ns();
		take(next_ns - at_ns);
	}
	give(OVER);
	pthread_join(partner, NULL);
	tell_samples();
}

static void launch(long long end_ns)
{
	long long at_ns;
	int status;
	pid_t pid;

	while ((at_ns = now_ns()) < end_ns) {
		pid = start_self("nothing");
		if (waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "scale: what was launched ended with status %d\n", status);
			exit(1);
		}
		take(now_ns() - at_ns);
		sleep_until(now_ns() + LAUNCH_PAUSE_NS);
	}
	tell_samples();
}

static const struct mode {
	const char *name;
	void (*run)(long long end_ns);
	int beside_hogs;
} modes[] = {
	{"throughput", throughput, 0}, {"wakeup", wakeup, 1}, {"burst", burst, 1}, {"deadlines", deadlines, 1},
	{"pipe", pipes, 1},	       {"futex", futexes, 1}, {"launch", launch, 1},
};

static void start_hogs(pid_t *hogs)
{
	for (int i = 0; i < cpus; i++) {
		hogs[i] = child();
		if (!hogs[i])
			for (;;)
				compute(JOB_LOOPS);
	}
	sleep_until(now_ns() + SETTLE_NS);
}

static void run(const struct mode *mode, double seconds)
{
	pid_t hogs[MOST_CPUS];

	if (mode->beside_hogs)
		start_hogs(hogs);
	memset(samples, 1, sizeof(samples));	/* after the forks: no page faults later */
	mode->run(now_ns() + (long long)(seconds * 1e9));
	for (int i = 0; mode->beside_hogs && i < cpus; i++) {
		kill(hogs[i], SIGKILL);
		waitpid(hogs[i], NULL, 0);
	}
}

int main(int count, char **words)
{
	double seconds = count == 3 ? strtod(words[2], NULL) : 0;

	if (count == 2 && (!strcmp(words[1], "job") || !strcmp(words[1], "nothing")))
		return *words[1] == 'j' ? job() : 0;
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (count == 3 && !strcmp(words[1], modes[i].name) && seconds > 0 && seconds <= LONGEST_S &&
		    cpus <= MOST_CPUS) {
			run(&modes[i], seconds);
			return 0;
		}
	fprintf(stderr, "usage: scale throughput|wakeup|burst|deadlines|pipe|futex|launch SECONDS (at most %d)\n",
		LONGEST_S);
	return 1;
}
