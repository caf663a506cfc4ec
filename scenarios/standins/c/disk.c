// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs that read and write files, at random and in sequence, past the page cache. Where the current folder is memory (or
 * an overlay, as in an emulated guest), a timer plays the device: a request takes its time by the guest's own clock.
 * The lab's scratch disk (ASA_LAB_DISK) is used where there is one.
 */
#define _GNU_SOURCE
#include "stand_in.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { ALIGN = 4096, SAMPLE_MS = 20, MOST_JOBS = 64 };

struct job {
	u64 number, state, bytes, start;
	bool random;
	char *block;
	int file;
};

static const char *device;
static bool memory;
static u64 file_bytes, random_bytes, sequential_bytes, read_pct, sync_every, access_us, device_mb_per_s;
static struct counter requests = { .metric = "random_iops", .each = 1.0 };
static struct counter sequential = { .metric = "sequential_mb_per_s", .each = 1e-6 };

static void lay_out(struct job *job)
{
	char name[32];

	job->bytes = job->random ? random_bytes : sequential_bytes;
	job->block = shared(job->bytes);
	if (device) {
		job->file = open(device, O_RDWR | O_CLOEXEC | O_DIRECT);
		job->start = job->number * file_bytes;
		if (job->file < 0)
			fail(device);
		return;
	}
	snprintf(name, sizeof(name), "disk%llu", (unsigned long long)job->number);
	job->file = open(name, O_RDWR | O_CREAT | O_CLOEXEC | (memory ? 0 : O_DIRECT), 0600);
	if (job->file < 0 && errno == EINVAL) /* a file system that always has a cache */
		job->file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (job->file < 0)
		fail(name);
	for (u64 at = 0; at < file_bytes; at += job->bytes)
		if (pwrite(job->file, job->block, job->bytes, (off_t)at) != (ssize_t)job->bytes)
			fail(name);
}

static void request(struct job *job, u64 at, u64 number)
{
	bool reads = between(&job->state, 0, 99) < read_pct;
	off_t place = (off_t)(job->start + at);
	u64 begin_ns = now_ns();
	ssize_t done = reads ? pread(job->file, job->block, job->bytes, place) :
			       pwrite(job->file, job->block, job->bytes, place);

	if (done != (ssize_t)job->bytes)
		fail("a request");
	if (memory)
		sleep_until(begin_ns + about(&job->state, access_us) * US + job->bytes * 1000 / device_mb_per_s);
	if (!reads && sync_every && number % sync_every == 0 && fdatasync(job->file))
		fail("a request");
}

static void *run(void *argument)
{
	struct job *job = argument;
	u64 bytes = job->bytes, blocks = file_bytes / bytes, sample_ns = 0;

	for (u64 number = 1;; number++) {
		u64 at = (job->random ? between(&job->state, 0, blocks - 1) : number % blocks) * bytes;
		u64 begin_ns = now_ns();

		request(job, at, number);
		if (job->random)
			requests.sum++;
		else
			sequential.sum += bytes;
		if (begin_ns >= sample_ns) {
			measured("completion_ms", (double)(now_ns() - begin_ns) / MS);
			sample_ns = begin_ns + SAMPLE_MS * MS;
		}
	}
	return NULL;
}

KIND(disk)

static void play_disk(void)
{
	static struct job jobs[MOST_JOBS];
	u64 random = number("random-jobs"), all = random + number("sequential-jobs");
	struct statfs folder;

	if (statfs(".", &folder))
		fail("the current folder");
	device = getenv("ASA_LAB_DISK");
	memory = !device && (folder.f_type == TMPFS_MAGIC || folder.f_type == OVERLAYFS_SUPER_MAGIC);
	file_bytes = number("file-kb") << 10;
	random_bytes = number("random-kb") << 10;
	sequential_bytes = number("sequential-kb") << 10;
	read_pct = number("read-pct");
	sync_every = number("sync-every");
	access_us = number("access-us");
	device_mb_per_s = number("device-mb-per-s");
	for (u64 i = 0; i < all && i < MOST_JOBS; i++) {
		jobs[i] = (struct job){ .number = i, .state = number("seed") + i, .random = i < random };
		lay_out(&jobs[i]);
	}
	ready();
	counter_start(&requests);
	counter_start(&sequential);
	for (u64 i = 1; i < all && i < MOST_JOBS; i++)
		start_thread(run, &jobs[i]);
	run(&jobs[0]);
}
