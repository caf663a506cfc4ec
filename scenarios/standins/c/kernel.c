// SPDX-License-Identifier: GPL-2.0-only
/*
 * A build: up to N jobs at a time, each a shell that executes a compiler driver that executes a compiler and an
 * assembler, which read headers, touch fresh memory, compute, and write a file. All are this program, copied into the
 * current folder: a start from there does not wait for another machine's disk. A single job links at the end.
 */
#define _GNU_SOURCE
#include "stand_in.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum level { SHELL, DRIVER, COMPILER, ASSEMBLER, LINKER };

enum { HEADERS = 64, HEADER_BYTES = 24 << 10, WORD = 24 };

extern char **environ;

static pid_t start_job(enum level level, u64 work, u64 memory_kb, u64 headers)
{
	u64 numbers[] = { level, speed(), work, memory_kb, headers };
	char words[5][WORD], *argv[] = { "./cc", "job", words[0], words[1], words[2], words[3], words[4], NULL };
	pid_t pid;

	for (int i = 0; i < 5; i++)
		snprintf(words[i], WORD, "%llu", (unsigned long long)numbers[i]);
	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ))
		fail(argv[0]);
	return pid;
}

static void run_job(enum level level, u64 work, u64 memory_kb, u64 headers)
{
	int status;

	waitpid(start_job(level, work, memory_kb, headers), &status, 0);
	if (status)
		_exit(1);
}

static void read_headers(u64 count)
{
	static char text[HEADER_BYTES];
	char name[WORD];

	for (u64 i = 0; i < count; i++) {
		int file;

		snprintf(name, sizeof(name), "h%llu", (unsigned long long)(i % HEADERS));
		file = open(name, O_RDONLY | O_CLOEXEC);
		if (file < 0 || read(file, text, sizeof(text)) < 0)
			fail(name);
		close(file);
	}
}

static void write_file(const char *name, size_t bytes)
{
	static const char text[4096];
	int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (file < 0)
		fail(name);
	for (size_t at = 0; at < bytes; at += sizeof(text))
		if (write(file, text, sizeof(text)) != (ssize_t)sizeof(text))
			fail(name);
	close(file);
}

/* As a compiler's memory grows while it works. */
static void grow_and_work(u64 work, u64 memory_kb)
{
	u64 pages = memory_kb / 4, each = pages < 64 ? 1 : pages / 64;
	volatile char *memory = pages ? shared(pages << 12) : NULL;

	for (u64 page = 0; page < pages; page += each) {
		for (u64 i = page; i < page + each && i < pages; i++)
			memory[i << 12] = 1;
		work_us(work * each / pages);
	}
	if (!pages)
		work_us(work);
}

int kernel_job(char **words)
{
	u64 numbers[5];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 5; i++) {
		if (!words[i])
			return 2;
		numbers[i] = strtoull(words[i], NULL, 10);
	}
	set_speed(numbers[1]);
	switch ((enum level)numbers[0]) {
	case SHELL:
		work_us(500);
		run_job(DRIVER, numbers[2], numbers[3], numbers[4]);
		break;
	case DRIVER:
		work_us(1000);
		run_job(COMPILER, numbers[2], numbers[3], numbers[4]);
		run_job(ASSEMBLER, numbers[2] / 12, numbers[3] / 8, 0);
		break;
	case COMPILER:
		read_headers(numbers[4]);
		grow_and_work(numbers[2], numbers[3]);
		write_file("s", 64 << 10);
		break;
	case ASSEMBLER:
		grow_and_work(numbers[2], numbers[3]);
		write_file("o", 32 << 10);
		break;
	case LINKER:
		read_headers(HEADERS);
		grow_and_work(numbers[2], numbers[3]);
		write_file("vmlinux", 1 << 20);
	}
	return 0;
}

static void lay_out(void)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = open("cc", O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	struct stat status;
	char name[WORD];

	if (from < 0 || to < 0 || fstat(from, &status))
		fail("cc");
	for (off_t left = status.st_size; left > 0;) {
		ssize_t sent = sendfile(to, from, NULL, (size_t)left);

		if (sent <= 0)
			fail("cc");
		left -= sent;
	}
	close(to);
	close(from);
	for (int i = 0; i < HEADERS; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		write_file(name, HEADER_BYTES);
	}
}

KIND(kernel)

static void play_kernel(void)
{
	u64 jobs = number("jobs"), objects = number("objects"), object_us = number("object-us");
	u64 memory_kb = number("memory-kb"), headers = number("headers"), link_us = number("link-us");
	u64 seed = number("seed");
	struct rate rate = { .metric = "objects_per_s" };

	lay_out();
	ready();
	for (;;) {
		u64 state = seed, begin_ns = now_ns(), left = objects, running = 0; /* each build is the same one */

		rate_start(&rate);
		while (left || running) {
			int status;

			for (; left && running < jobs; left--, running++) {
				/* most are small, some are large */
				u64 part = between(&state, 1, 10), work = object_us * part * part / 38 + 1;

				start_job(SHELL, work, memory_kb * part / 5, headers);
			}
			if (wait(&status) < 0 || status)
				fail("a job");
			running--;
			rate_add(&rate, 1.0);
		}
		rate_end(&rate);
		run_job(LINKER, link_us, memory_kb, 0);
		measured("total_s", (double)(now_ns() - begin_ns) / SECOND);
	}
}
