/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the stand-ins share: flags, the clock, work that takes as long on every machine, threads and processes that
 * wait for each other, and the lines of a driver (scenarios/driving.py).
 *
 * Nothing here cleans up: SIGTERM ends the program by its default action, and its children die with it.
 */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t u32;
typedef uint64_t u64;

#define US 1000ull
#define MS 1000000ull
#define SECOND 1000000000ull

/* The value of the flag `--name`; ends the program when it is not there. */
u64 number(const char *name);
_Noreturn void fail(const char *what);

u64 now_ns(void);
void sleep_until(u64 at_ns);

/* A number of a sequence; in [low, high]; about `middle`, a third or less of it away from it on either side. */
u64 draw(u64 *state);
u64 between(u64 *state, u64 low, u64 high);
u64 about(u64 *state, u64 middle);

/*
 * Computes as long as one of this machine's CPUs takes `us` microseconds for, when all are busy: `measure_speed`
 * finds out how much that is.
 */
void work_us(u64 us);
void measure_speed(void);
u64 speed(void);		/* steps a millisecond */
void set_speed(u64 steps_a_ms);	/* as another process has measured it */

/* Memory that all processes started from now on share, zeroed. Never given back. */
void *shared(size_t bytes);
void start_thread(void *(*body)(void *), void *argument);
void start_process(void *(*body)(void *), void *argument);

/* A counting semaphore. */
struct gate {
	_Atomic u32 open, waiting;
};

void gate_open(struct gate *gate, u32 times);
void gate_pass(struct gate *gate);

/* A number that only grows, which others wait for. */
struct progress {
	_Atomic u32 value, waiting;
};

void progress_to(struct progress *progress, u32 value);
void progress_await(struct progress *progress, u32 value);

/* A team meets again and again; who waits spins for `spin_ns` before it sleeps. */
struct team {
	u32 members;
	u64 spin_ns;
	_Atomic u32 arrived, round, waiting;
};

void team_meet(struct team *team);

/* Threads that share pieces of work, which each takes as it comes. `pool_run` returns when all are done. */
struct pool {
	u32 threads, piece_us;
	_Atomic u32 left, busy;
	struct gate start, done;
};

void pool_start(struct pool *pool, u32 threads);
void pool_run(struct pool *pool, u32 pieces, u32 piece_us);

/* A Unix socket, and in the process that `port_listen`s a thread that takes what comes. Numbers below 256. */
struct port {
	int ends[2];
	struct gate came;
	_Atomic u32 put, taken;
	uint8_t ring[256];
};

struct port *port_make(void);
void port_listen(struct port *port);
u32 port_take(struct port *port);
void port_send(struct port *port, u32 what);

/* The driver's lines. `measured` keeps them for a fifth of a second at most, as long as more come. */
void ready(void);
void measured(const char *metric, double value);

/*
 * A sum that is measured by the second by the one thread that adds to it: once for each whole second of work, so that the
 * samples' mean is the work's. Pauses do not count; what is left before one counts after it.
 */
struct rate {
	const char *metric;
	u64 since_ns, worked_ns;
	double sum;
};

void rate_start(struct rate *rate); /* the work begins, or goes on */
void rate_add(struct rate *rate, double amount);
void rate_end(struct rate *rate); /* it pauses */

/* A sum that many add to; a thread of its own measures it each second. */
struct counter {
	const char *metric;
	double each;
	_Atomic u64 sum;
};

void counter_start(struct counter *counter);

/* A kind: a main thread that never returns. `KIND(web)` stands before `static void play_web(void)` and makes it one. */
struct kind {
	const char *name;
	void (*play)(void);
	struct kind *next;
};

void add_kind(struct kind *kind);

#define KIND(of)                                                                                                       \
	static void play_##of(void);                                                                                   \
	__attribute__((constructor)) static void add_##of(void)                                                        \
	{                                                                                                              \
		static struct kind kind = { #of, play_##of, NULL };                                                    \
		add_kind(&kind);                                                                                       \
	}

int kernel_job(char **words);

#endif
