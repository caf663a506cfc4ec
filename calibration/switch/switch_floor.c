// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's own part of a switch: the running struct_ops link is detached, a loaded and waiting one is attached.
 *
 *   switch_floor		for each line on stdin, one line on stdout:
 *	swap MAP_ID		"DETACHED ATTACHED CONFIRMED", in ns since it began; confirmed: sysfs says `enabled`
 *	leave			"DETACHED": the kernel is back on its own scheduler
 *
 * The map is held by its id, which may belong to another process. Nothing is pinned: what is attached goes when stdin
 * ends. It loads nothing and leaves rcu_expedited to who calls it. Ends with code 1 and one line on stderr on errors.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum {
	STRUCT_OPS = 44,		/* BPF_STRUCT_OPS of enum bpf_attach_type; not in headers before Linux 6.4 */
	CONFIRM_LIMIT_NS = 1000000000,
};

static int link_fd = -1, state_fd;

static void fail(const char *what)
{
	fprintf(stderr, "switch_floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static void detach(void)
{
	union bpf_attr attr = {0};

	if (link_fd < 0)
		return;
	attr.link_detach.link_fd = link_fd;
	if (bpf(BPF_LINK_DETACH, &attr))
		fail("BPF_LINK_DETACH");
}

static int map_of(unsigned int id)
{
	union bpf_attr attr = {.map_id = id};
	int fd = bpf(BPF_MAP_GET_FD_BY_ID, &attr);

	if (fd < 0)
		fail("BPF_MAP_GET_FD_BY_ID");
	return fd;
}

static void confirm(long long start_ns)
{
	char state[16] = "";

	while (strncmp(state, "enabled", 7)) {
		if (now_ns() - start_ns > CONFIRM_LIMIT_NS) {
			errno = ETIMEDOUT;
			fail("the scheduler does not show as enabled");
		}
		if (pread(state_fd, state, sizeof(state) - 1, 0) < 0)
			fail("state");
	}
}

static void swap(unsigned int id)
{
	union bpf_attr attr = {0};
	int map_fd = map_of(id), old_fd = link_fd;
	long long start_ns = now_ns(), detached_ns, attached_ns, confirmed_ns;

	detach();
	detached_ns = now_ns();
	attr.link_create.prog_fd = map_fd;	/* a union with map_fd, which older headers lack */
	attr.link_create.attach_type = STRUCT_OPS;
	link_fd = bpf(BPF_LINK_CREATE, &attr);
	if (link_fd < 0)
		fail("BPF_LINK_CREATE");
	attached_ns = now_ns();
	confirm(attached_ns);
	confirmed_ns = now_ns();
	close(map_fd);
	if (old_fd >= 0)
		close(old_fd);
	printf("%lld %lld %lld\n", detached_ns - start_ns, attached_ns - start_ns, confirmed_ns - start_ns);
}

static void leave(void)
{
	long long start_ns = now_ns();

	detach();
	printf("%lld\n", now_ns() - start_ns);
	if (link_fd >= 0)
		close(link_fd);
	link_fd = -1;
}

int main(void)
{
	char line[64];
	unsigned int id;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	state_fd = open("/sys/kernel/sched_ext/state", O_RDONLY | O_CLOEXEC);
	if (state_fd < 0)
		fail("/sys/kernel/sched_ext/state");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "swap %u", &id) == 1) {
			swap(id);
		} else if (!strcmp(line, "leave\n")) {
			leave();
		} else {
			errno = EINVAL;
			fail("swap MAP_ID or leave");
		}
		fflush(stdout);
	}
	return 0;
}
