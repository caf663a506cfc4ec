// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures one thing for SECONDS and prints it as lines "NAME VALUE"; what it started has ended then.
 *
 *   scale throughput SECONDS	small jobs (exec, page faults, some computing), two at a time for each CPU: how many end
 *   scale wakeup SECONDS	service latency and lateness of a task that wants to wake up each 2.3 ms
 *   scale burst SECONDS	the same beside storms of four jobs for each CPU
 *   scale deadlines SECONDS	four threads with work for each 16.7 ms: how many periods end before it is done,
 *				and how many begin more than 0.5 ms late
 *   scale pipe SECONDS		a byte through a pipe to another process and back
 *   scale futex SECONDS	a turn to another thread by futex and back
 *   scale launch SECONDS	fork, exec of this program, exit, wait
 *   scale messaging SECONDS	groups of five threads that each send to five others: how many messages arrive
 *   scale requests SECONDS	two workers a CPU that message threads wake, each request with a pause and some computing
 *   scale newcomers SECONDS	as burst, of tasks that no scheduler knows yet: each ends after its fourth wakeup
 *   scale socket SECONDS	as pipe, through a pair of stream sockets
 *   scale eventfd SECONDS	as pipe, through two eventfds
 *   scale semaphore SECONDS	as pipe, through two POSIX semaphores in shared memory
 *   scale fanout SECONDS	a byte through pipes to one process for each CPU, until all have sent it back
 *   scale idle SECONDS		nothing: context switches of the whole machine
 *
 * All but throughput, messaging, requests and idle run beside one hog for each CPU: an ordinary task that computes.
 * Each tells how long it took, took_ns, and how long CPU N was busy meanwhile, busy_ns_N: by what /proc/stat counts as
 * idle, in steps of 10 ms; idle by the run time of tasks in /proc/schedstat, and without that file not at all.
 * A wakeup's service latency is the time from its timer to the task's running. Its lateness is that of each period which
 * it slept through, by that period's own due time: no coordinated omission. The next wakeup is due at the next period
 * that is still to come, and a frame that follows a late one has its whole period: nothing is late because of what was
 * late before. Times are of CLOCK_MONOTONIC. Ends with code 1 and one line on stderr when something is not allowed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
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
	JITTER_NS = 500000,
	CPU_JOBS = 2,		/* none is idle while the next one is started */
	STARTER_CPUS = 4,	/* for each process that starts jobs: one alone starts some 1,400 a second */
	JOB_LOOPS = 50000,	/* 2 ms */
	JOB_BYTES = 1 << 18,
	PAGE = 4096,
	STORM_JOBS = 4,		/* for each CPU */
	STORM_PAUSE_NS = 50000000,
	NEW_WAKEUPS = 4,	/* as many as PANDEMONIUM 5.3.1 takes to know a task in a burst */
	LAUNCH_PAUSE_NS = 10000000,
	SETTLE_NS = 100000000,	/* hogs have been spread over the CPUs by then */
	SIDE = 5,		/* senders, and receivers, of a group */
	GROUP_CPUS = 2,		/* for each group: five threads a CPU */
	MESSAGE_BYTES = 100,
	CPU_WORKERS = 2,
	MESSENGER_CPUS = 4,	/* for each message thread */
	REQUEST_LOOPS = 25000,	/* 1 ms */
	REQUEST_PAUSE_NS = 100000,
	STACK_BYTES = 1 << 16,
};

static struct samples {
	long long values[MOST];
	int taken;
} first, second;

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

/* By any thread. */
static void take(struct samples *of, long long value_ns)
{
	int place = __atomic_fetch_add(&of->taken, 1, __ATOMIC_RELAXED);

	if (place < MOST)
		of->values[place] = value_ns;
	else
		of->taken = MOST;
}

/* The least sample that so many per cent do not exceed. */
static long long percentile(const struct samples *of, int pct)
{
	return of->values[(of->taken * (long long)pct + 99) / 100 - 1];
}

static void tell(struct samples *of, const char *before)
{
	qsort(of->values, of->taken, sizeof(*of->values), by_size);
	printf("%ssamples %d\n", before, of->taken);
	if (of->taken)
		printf("%sp50_ns %lld\n%sp99_ns %lld\n%sworst_ns %lld\n", before, percentile(of, 50), before,
		       percentile(of, 99), before, of->values[of->taken - 1]);
}

static void start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK_BYTES);
	errno = pthread_create(thread, &small, run, argument);
	if (errno)
		fail("thread");
}

/* Keeps so many jobs at work; gives how many ended in time. */
static int starter(int at_once, long long end_ns)
{
	int jobs = 0;

	for (int i = 0; i < at_once; i++)
		start_self("job");
	for (;;) {
		wait_job();
		if (now_ns() >= end_ns)
			break;
		jobs++;
		start_self("job");
	}
	while (--at_once)
		wait_job();
	return jobs;
}

static void throughput(long long end_ns)
{
	int starters = (cpus + STARTER_CPUS - 1) / STARTER_CPUS, jobs = 0;
	long long start_ns = now_ns();
	int *ended = mmap(NULL, starters * sizeof(*ended), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (ended == MAP_FAILED)
		fail("mmap");
	for (int i = 0; i < starters; i++) {
		int own = cpus * (i + 1) / starters - cpus * i / starters;

		if (!child()) {
			ended[i] = starter(CPU_JOBS * own, end_ns);
			_exit(0);
		}
	}
	for (int i = 0; i < starters; i++)
		wait_job();
	for (int i = 0; i < starters; i++)
		jobs += ended[i];
	printf("jobs %d\nelapsed_ns %lld\n", jobs, end_ns - start_ns);
}

static void wakeup(long long end_ns)
{
	long long due_ns = now_ns() + WAKE_NS, at_ns;

	while (due_ns < end_ns) {
		sleep_until(due_ns);
		at_ns = now_ns();
		take(&first, at_ns - due_ns);
		for (; due_ns <= at_ns && due_ns < end_ns; due_ns += WAKE_NS)
			take(&second, at_ns - due_ns);
	}
	tell(&first, "");
	tell(&second, "late_");
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

static void beside_storm(void (*measure)(long long end_ns), long long end_ns)
{
	pid_t pid = child();

	if (!pid)
		storm();
	measure(end_ns);
	if (waitpid(pid, NULL, WNOHANG)) {
		fprintf(stderr, "scale: the storm ended before its time\n");
		exit(1);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void burst(long long end_ns)
{
	beside_storm(wakeup, end_ns);
}

static void *live_shortly(void *argument)
{
	long long due_ns = now_ns();

	for (int i = 0; i < NEW_WAKEUPS; i++) {
		due_ns += WAKE_NS;
		sleep_until(due_ns);
		take(&first, now_ns() - due_ns);
		due_ns = now_ns();
	}
	return argument;
}

static void one_after_the_other(long long end_ns)
{
	pthread_t one;

	while (now_ns() < end_ns) {
		start_thread(&one, live_shortly, NULL);
		pthread_join(one, NULL);
	}
	tell(&first, "");
}

static void newcomers(long long end_ns)
{
	beside_storm(one_after_the_other, end_ns);
}

struct frames {
	pthread_t thread;
	long long start_ns, end_ns;
	int periods, missed, jittered;
};

static void *draw(void *argument)
{
	struct frames *my = argument;

	long long due_ns = my->start_ns, at_ns;

	while (due_ns + FRAME_NS <= my->end_ns) {
		sleep_until(due_ns);
		my->jittered += now_ns() > due_ns + JITTER_NS;
		compute(FRAME_LOOPS);
		at_ns = now_ns();
		my->periods++;
		due_ns += FRAME_NS;
		if (at_ns > due_ns) {
			my->missed++;
			due_ns = at_ns;
		}
	}
	return NULL;
}

static void deadlines(long long end_ns)
{
	struct frames all[FRAME_THREADS];
	long long start_ns = now_ns();
	int periods = 0, missed = 0, jittered = 0;

	for (int i = 0; i < FRAME_THREADS; i++) {
		all[i] = (struct frames){.start_ns = start_ns + i * (FRAME_NS / FRAME_THREADS), .end_ns = end_ns};
		start_thread(&all[i].thread, draw, &all[i]);
	}
	for (int i = 0; i < FRAME_THREADS; i++) {
		pthread_join(all[i].thread, NULL);
		periods += all[i].periods;
		missed += all[i].missed;
		jittered += all[i].jittered;
	}
	printf("periods %d\nmissed %d\njittered %d\n", periods, missed, jittered);
}

/* By which files one asks and hears, and the other hears and answers; so many bytes each time */
struct trip {
	int ask, heard, asked, answer;
	ssize_t bytes;
};

static void round_trips(const struct trip *by, long long end_ns)
{
	long long at_ns, next_ns;
	uint64_t one = 1;
	pid_t pid = child();

	if (!pid) {
		while (read(by->asked, &one, by->bytes) == by->bytes && write(by->answer, &one, by->bytes) == by->bytes)
			;
		_exit(1);
	}
	for (at_ns = now_ns(); at_ns < end_ns && first.taken < MOST; at_ns = next_ns) {
		if (write(by->ask, &one, by->bytes) != by->bytes || read(by->heard, &one, by->bytes) != by->bytes)
			fail("round trip");
		next_ns = now_ns();
		take(&first, next_ns - at_ns);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	tell(&first, "");
}

static void pipes(long long end_ns)
{
	int there[2], back[2];

	if (pipe(there) || pipe(back))
		fail("pipe");
	round_trips(&(struct trip){there[1], back[0], there[0], back[1], 1}, end_ns);
}

static void sockets(long long end_ns)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		fail("socketpair");
	round_trips(&(struct trip){ends[0], ends[0], ends[1], ends[1], 1}, end_ns);
}

static void eventfds(long long end_ns)
{
	int there = eventfd(0, 0), back = eventfd(0, 0);

	if (there < 0 || back < 0)
		fail("eventfd");
	round_trips(&(struct trip){there, back, there, back, sizeof(uint64_t)}, end_ns);
}

static void wait_for(sem_t *one)
{
	while (sem_wait(one))
		if (errno != EINTR)
			fail("sem_wait");
}

static void semaphores(long long end_ns)
{
	sem_t *there = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *back = there + 1;
	long long at_ns, next_ns;
	pid_t pid;

	if (there == MAP_FAILED || sem_init(there, 1, 0) || sem_init(back, 1, 0))
		fail("semaphores");
	pid = child();
	for (; !pid; sem_post(back))
		wait_for(there);
	for (at_ns = now_ns(); at_ns < end_ns && first.taken < MOST; at_ns = next_ns) {
		sem_post(there);
		wait_for(back);
		next_ns = now_ns();
		take(&first, next_ns - at_ns);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	tell(&first, "");
}

static void fanout(long long end_ns)
{
	int there[MOST_CPUS][2], back[MOST_CPUS][2];
	pid_t pids[MOST_CPUS];
	long long at_ns, next_ns;
	char byte = 0;

	for (int i = 0; i < cpus; i++) {
		if (pipe(there[i]) || pipe(back[i]))
			fail("pipe");
		pids[i] = child();
		while (!pids[i])
			if (read(there[i][0], &byte, 1) != 1 || write(back[i][1], &byte, 1) != 1)
				_exit(1);
	}
	for (at_ns = now_ns(); at_ns < end_ns && first.taken < MOST; at_ns = next_ns) {
		for (int i = 0; i < cpus; i++)
			if (write(there[i][1], &byte, 1) != 1)
				fail("fan-out");
		for (int i = 0; i < cpus; i++)
			if (read(back[i][0], &byte, 1) != 1)
				fail("fan-in");
		next_ns = now_ns();
		take(&first, next_ns - at_ns);
	}
	for (int i = 0; i < cpus; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	tell(&first, "");
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

	start_thread(&partner, answer, NULL);
	for (at_ns = now_ns(); at_ns < end_ns && first.taken < MOST; at_ns = next_ns) {
		give(THEIRS);
		wait_while(THEIRS);
		next_ns = now_ns();
		take(&first, next_ns - at_ns);
	}
	give(OVER);
	pthread_join(partner, NULL);
	tell(&first, "");
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
		take(&first, now_ns() - at_ns);
		sleep_until(now_ns() + LAUNCH_PAUSE_NS);
	}
	tell(&first, "");
}

static int over;

static int is_over(void)
{
	return __atomic_load_n(&over, __ATOMIC_RELAXED);
}

struct group {
	pthread_t senders[SIDE], receivers[SIDE];
	int ends[SIDE][2];
	long received[SIDE];
};

static void *send_all(void *argument)
{
	struct group *my = argument;
	char message[MESSAGE_BYTES] = {0};

	while (!is_over())
		for (int i = 0; i < SIDE; i++)
			if (write(my->ends[i][1], message, sizeof(message)) != sizeof(message))
				fail("message");
	return NULL;
}

struct receiver {
	struct group *group;
	int place;
};

static void *receive_all(void *argument)
{
	struct receiver my = *(struct receiver *)argument;
	char message[MESSAGE_BYTES];

	while (read(my.group->ends[my.place][0], message, sizeof(message)) == sizeof(message))
		__atomic_fetch_add(&my.group->received[my.place], 1, __ATOMIC_RELAXED);
	return NULL;
}

static void messaging(long long end_ns)
{
	int count = (cpus + GROUP_CPUS - 1) / GROUP_CPUS;
	struct group *all = calloc(count, sizeof(*all));
	struct receiver *who = calloc(count * SIDE, sizeof(*who));
	long long start_ns = now_ns(), at_ns;
	long messages = 0;

	if (!all || !who)
		fail("memory");
	for (int i = 0; i < count * SIDE; i++) {
		who[i] = (struct receiver){.group = &all[i / SIDE], .place = i % SIDE};
		if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, who[i].group->ends[who[i].place]))
			fail("socketpair");
		start_thread(&who[i].group->receivers[who[i].place], receive_all, &who[i]);
	}
	for (int i = 0; i < count * SIDE; i++)
		start_thread(&all[i / SIDE].senders[i % SIDE], send_all, &all[i / SIDE]);
	sleep_until(end_ns);
	for (int i = 0; i < count * SIDE; i++)
		messages += __atomic_load_n(&all[i / SIDE].received[i % SIDE], __ATOMIC_RELAXED);
	at_ns = now_ns();
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < count * SIDE; i++)
		pthread_join(all[i / SIDE].senders[i % SIDE], NULL);
	for (int i = 0; i < count * SIDE; i++) {
		close(all[i / SIDE].ends[i % SIDE][1]);
		pthread_join(all[i / SIDE].receivers[i % SIDE], NULL);
	}
	printf("messages %ld\nelapsed_ns %lld\n", messages, at_ns - start_ns);
}

enum { WORKING, WAITING, POSTED };

struct worker {
	pthread_t thread;
	struct messenger *messenger;
	int state;
	long long posted_ns;
};

static struct messenger {
	pthread_t thread;
	struct worker *workers;
	int count, calls;
} *messengers;

static void wait_while_equal(int *word, int value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_one(int *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void call(struct messenger *whom)
{
	__atomic_fetch_add(&whom->calls, 1, __ATOMIC_SEQ_CST);
	wake_one(&whom->calls);
}

static void *post(void *argument)
{
	struct messenger *my = argument;

	while (!is_over()) {
		int calls = __atomic_load_n(&my->calls, __ATOMIC_SEQ_CST), found = 0;

		for (struct worker *one = my->workers; one < my->workers + my->count; one++) {
			if (__atomic_load_n(&one->state, __ATOMIC_SEQ_CST) != WAITING)
				continue;
			one->posted_ns = now_ns();
			__atomic_store_n(&one->state, POSTED, __ATOMIC_SEQ_CST);
			wake_one(&one->state);
			found = 1;
		}
		if (!found)
			wait_while_equal(&my->calls, calls);
	}
	return NULL;
}

static void *serve(void *argument)
{
	struct worker *my = argument;
	long long at_ns;

	for (;;) {
		__atomic_store_n(&my->state, WAITING, __ATOMIC_SEQ_CST);
		call(my->messenger);
		while (__atomic_load_n(&my->state, __ATOMIC_SEQ_CST) == WAITING && !is_over())
			wait_while_equal(&my->state, WAITING);
		if (is_over())
			return NULL;
		at_ns = now_ns();
		take(&second, at_ns - my->posted_ns);
		sleep_until(at_ns + REQUEST_PAUSE_NS);
		compute(REQUEST_LOOPS);
		if (!is_over())
			take(&first, now_ns() - at_ns);
	}
}

static void requests(long long end_ns)
{
	int count = (cpus + MESSENGER_CPUS - 1) / MESSENGER_CPUS, each = CPU_WORKERS * cpus / count;
	struct worker *workers = calloc(count * each, sizeof(*workers));
	long long start_ns = now_ns(), at_ns;
	int served;

	messengers = calloc(count, sizeof(*messengers));
	if (!workers || !messengers)
		fail("memory");
	for (int i = 0; i < count; i++) {
		messengers[i] = (struct messenger){.workers = workers + i * each, .count = each};
		start_thread(&messengers[i].thread, post, &messengers[i]);
	}
	for (int i = 0; i < count * each; i++) {
		workers[i].messenger = &messengers[i / each];
		start_thread(&workers[i].thread, serve, &workers[i]);
	}
	sleep_until(end_ns);
	served = __atomic_load_n(&first.taken, __ATOMIC_RELAXED);
	at_ns = now_ns();
	__atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < count * each; i++) {
		int waiting = WAITING;

		__atomic_compare_exchange_n(&workers[i].state, &waiting, POSTED, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		wake_one(&workers[i].state);
	}
	for (int i = 0; i < count * each; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < count; i++) {
		call(&messengers[i]);
		pthread_join(messengers[i].thread, NULL);
	}
	printf("served %d\nelapsed_ns %lld\n", served, at_ns - start_ns);
	tell(&first, "");
	tell(&second, "wakeup_");
}

/* The file's lines, one after the other, each to `line`; -1 without the file */
static int each_line(const char *path, void (*line)(const char *text, long long *found), long long *found)
{
	char text[4096];
	FILE *file = fopen(path, "r");

	if (!file)
		return -1;
	while (fgets(text, sizeof(text), file))
		line(text, found);
	fclose(file);
	return 0;
}

static void switches_of(const char *text, long long *found)
{
	sscanf(text, "ctxt %lld", found);
}

/* proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal */
static void idle_of(const char *text, long long *found)
{
	long long idle, iowait, steal;
	int cpu;

	if (sscanf(text, "cpu%d %*d %*d %*d %lld %lld %*d %*d %lld", &cpu, &idle, &iowait, &steal) == 4 && cpu < MOST_CPUS)
		found[cpu] = (idle + iowait + steal) * (1000000000 / sysconf(_SC_CLK_TCK));
}

/* Documentation/scheduler/sched-stats.rst: the seventh is the time that tasks ran */
static void ran_of(const char *text, long long *found)
{
	long long ran;
	int cpu;

	if (sscanf(text, "cpu%d %*u %*u %*u %*u %*u %*u %lld", &cpu, &ran) == 2 && cpu < MOST_CPUS)
		found[cpu] = ran;
}

static void idle(long long end_ns)
{
	long long before = 0, after = 0, start_ns = now_ns();

	if (each_line("/proc/stat", switches_of, &before))
		fail("/proc/stat");
	sleep_until(end_ns);
	each_line("/proc/stat", switches_of, &after);
	printf("switches %lld\nelapsed_ns %lld\n", after - before, now_ns() - start_ns);
}

static const struct mode {
	const char *name;
	void (*run)(long long end_ns);
	int beside_hogs;
} modes[] = {
	{"throughput", throughput, 0}, {"wakeup", wakeup, 1}, {"burst", burst, 1}, {"deadlines", deadlines, 1},
	{"pipe", pipes, 1},	       {"futex", futexes, 1}, {"launch", launch, 1}, {"messaging", messaging, 0},
	{"requests", requests, 0},     {"newcomers", newcomers, 1}, {"socket", sockets, 1}, {"eventfd", eventfds, 1},
	{"semaphore", semaphores, 1},  {"fanout", fanout, 1}, {"idle", idle, 0},
};

/* Runs it, and tells how long that took and each CPU was busy. */
static void run_watched(const struct mode *mode, double seconds)
{
	static long long before[MOST_CPUS], after[MOST_CPUS];
	int quiet = mode->run == idle;
	const char *path = quiet ? "/proc/schedstat" : "/proc/stat";
	void (*line)(const char *text, long long *found) = quiet ? ran_of : idle_of;
	int unknown = each_line(path, line, before);
	long long start_ns = now_ns(), took_ns;

	mode->run(start_ns + (long long)(seconds * 1e9));
	took_ns = now_ns() - start_ns;
	unknown |= each_line(path, line, after);
	printf("took_ns %lld\n", took_ns);
	for (int i = 0; !unknown && i < cpus; i++) {
		long long counted = after[i] - before[i], busy = quiet ? counted : took_ns - counted;

		printf("busy_ns_%d %lld\n", i, busy < 0 ? 0 : busy < took_ns ? busy : took_ns);
	}
}

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
	memset(first.values, 1, sizeof(first.values));	/* after the forks: no page faults later */
	memset(second.values, 1, sizeof(second.values));
	run_watched(mode, seconds);
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
	fprintf(stderr, "usage: scale ");
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		fprintf(stderr, "%s%s", i ? "|" : "", modes[i].name);
	fprintf(stderr, " SECONDS (at most %d)\n", LONGEST_S);
	return 1;
}
