// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two ends of a network, over the loopback device: TCP streams as fast as they go, and UDP at a fixed rate, sent in
 * bursts by a timer. The receiving end measures, jitter by RFC 3550, 6.4.1.
 */
#define _GNU_SOURCE
#include "stand_in.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 16, MOST_STREAMS = 16, BUFFER_BYTES = 1 << 18 };

/* Steps a millisecond of all CPUs of a machine that sends UDP at the full rate. */
static const u64 FULL_SPEED = 1200000;

struct datagram {
	u64 number, sent_ns;
};

static struct sockaddr_in tcp_place, udp_place;
static u64 tcp_bytes, udp_bytes, udp_per_s, burst_us;
static int listener, receiver;
static struct counter received = { .metric = "tcp_mbit_per_s", .each = 8e-6 };

static int bound(int type, struct sockaddr_in *place)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(*place);

	*place = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)place, size) || getsockname(fd, (struct sockaddr *)place, &size))
		fail("a port");
	return fd;
}

/* Else TCP would choose, by what it sees at its start, and two equal runs would differ. */
static void fix_buffers(int fd)
{
	int bytes = BUFFER_BYTES;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

static int connected(int type, const struct sockaddr_in *place)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (type == SOCK_STREAM)
		fix_buffers(fd);
	if (fd < 0 || connect(fd, (const struct sockaddr *)place, sizeof(*place)))
		fail("a connection");
	return fd;
}

static void *send_tcp(void *unused)
{
	char *data = shared(tcp_bytes);
	int fd = connected(SOCK_STREAM, &tcp_place);

	(void)unused;
	while (send(fd, data, tcp_bytes, MSG_NOSIGNAL) > 0)
		;
	fail("TCP");
}

static void *send_udp(void *unused)
{
	struct datagram *data = shared(MOST_BYTES);
	int fd = connected(SOCK_DGRAM, &udp_place);
	u64 begin_ns = now_ns();

	(void)unused;
	for (u64 burst = 1;; burst++) {
		u64 at_ns = begin_ns + burst * burst_us * US;

		if (now_ns() > at_ns + SECOND) /* it was stopped, or starved: what is so old is not made up for */
			begin_ns += now_ns() - at_ns;
		sleep_until(begin_ns + burst * burst_us * US);
		for (u64 due = burst * burst_us * udp_per_s / 1000000; data->number < due;) {
			data->number++;
			data->sent_ns = now_ns();
			if (send(fd, data, udp_bytes, 0) < 0)
				fail("UDP");
		}
	}
	return NULL;
}

static void *take_tcp(void *argument)
{
	char *data = shared(tcp_bytes);
	ssize_t bytes;

	while ((bytes = recv((int)(intptr_t)argument, data, tcp_bytes, 0)) > 0)
		received.sum += (u64)bytes;
	fail("TCP");
}

static void *take_udp(void *unused)
{
	struct datagram *data = shared(MOST_BYTES);
	struct timeval limit = { .tv_sec = 1 };
	u64 since_ns = now_ns(), count = 0, bytes = 0, last = 0, before = 0;
	double jitter_ns = 0, transit_ns = 0;

	(void)unused;
	setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)); /* nothing at all is a result, too */
	for (;;) {
		ssize_t size = recv(receiver, data, MOST_BYTES, 0);
		u64 at_ns = now_ns(), passed_ns = at_ns - since_ns;

		if (size > 0) {
			double transit = (double)(at_ns - data->sent_ns), change = transit - transit_ns;

			jitter_ns += ((change < 0 ? -change : change) - jitter_ns) / 16;
			transit_ns = transit;
			count++;
			bytes += (u64)size;
			last = data->number;
		}
		if (passed_ns < SECOND)
			continue;
		measured("udp_mbit_per_s", (double)bytes * 8e-6 * SECOND / (double)passed_ns);
		if (last > before)
			measured("udp_loss_pct", 100.0 * (1.0 - (double)count / (double)(last - before)));
		measured("udp_jitter_ms", jitter_ns / MS);
		before = last;
		since_ns = at_ns;
		count = bytes = 0;
	}
	return NULL;
}

static void *client(void *unused)
{
	(void)unused;
	for (u64 i = number("streams"); i; i--)
		start_thread(send_tcp, NULL);
	return send_udp(NULL);
}

KIND(network)

static void play_network(void)
{
	u64 streams = number("streams"), machine = speed() * number("cpus");

	tcp_bytes = number("tcp-kb") << 10;
	udp_bytes = number("udp-bytes");
	burst_us = number("burst-us");
	udp_per_s = number("udp-per-s") * (machine < FULL_SPEED ? machine : FULL_SPEED) / FULL_SPEED;
	listener = bound(SOCK_STREAM, &tcp_place);
	receiver = bound(SOCK_DGRAM, &udp_place);
	fix_buffers(listener);
	if (listen(listener, MOST_STREAMS))
		fail("a port");
	start_process(client, NULL);
	for (u64 i = 0; i < streams; i++) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			fail("a connection");
		start_thread(take_tcp, (void *)(intptr_t)fd);
	}
	ready();
	counter_start(&received);
	take_udp(NULL);
}
