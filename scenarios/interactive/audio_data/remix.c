// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plays several tracks into PulseAudio, each a stream through effects of its own, and times each block.
 *
 *   remix PERIOD_US WORKERS TURN_S SEED TRACK...
 *   TRACK: SINK,FILE,RATE_HZ,SPEED,EFFECTS    FILE: raw mono 16-bit samples; EFFECTS: letters of effects.h
 *
 * The server asks a stream for a block, a worker computes it. Of all blocks asked for in one period the slowest counts,
 * for the mix is not there before. Each second it prints
 *
 *   block AT_NS SHARE            for each period; AT_NS of CLOCK_MONOTONIC, SHARE of the period it took
 *   underruns AT_NS COUNT TRACKS SECONDS
 *
 * and on standard error, at its end, why.
 */
#include "effects.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pulse/pulseaudio.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRACKS_MAX 32
#define FRAME_BYTES (2 * sizeof(float))
#define BLOCKS_MAX 4096 /* between two prints */
#define BUFFERED 4	/* periods, between us and what is heard */
#define START_S 3	/* the sink has rendered two seconds of silence before the first stream came */

struct track {
	pa_stream *stream;
	const int16_t *source;
	size_t length;
	double at, speed;
	int rate;
	float gain, pan, until_turn_s;
	struct effect *effects[EFFECTS_MAX];
	int effects_count;
	struct rng rng;
	float *samples;
	size_t samples_bytes;
	/* Under the main loop's lock: */
	bool queued; /* or being computed */
	uint64_t asked_ns, next_asked_ns;
	/* Under `queue_lock`: */
	uint64_t underruns; /* that the server has told since the last print */
	uint64_t frames_written;
	uint64_t periods_lost;
};

struct block {
	uint64_t at_ns;
	double share;
};

static struct track tracks[TRACKS_MAX];
static int tracks_count;
static uint64_t period_ns;
static float turn_s;
static pa_threaded_mainloop *loop;

/* The blocks to compute; a track is in it once at most. Under `queue_lock`, as what has been measured. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static struct track *queue[TRACKS_MAX];
static int queue_first, queue_count;
static struct block blocks[BLOCKS_MAX], slowest;
static int blocks_count;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list words;

	va_start(words, format);
	vfprintf(stderr, format, words);
	va_end(words);
	fputc('\n', stderr);
	_exit(1);
}

static void enqueue(struct track *track, uint64_t asked_ns)
{
	track->queued = true;
	track->asked_ns = asked_ns;
	pthread_mutex_lock(&queue_lock);
	queue[(queue_first + queue_count++) % TRACKS_MAX] = track;
	pthread_cond_signal(&queue_filled);
	pthread_mutex_unlock(&queue_lock);
}

static void on_asked(pa_stream *stream, size_t bytes, void *data)
{
	struct track *track = data;

	(void)stream;
	(void)bytes;
	if (!track->queued)
		enqueue(track, now_ns());
	else if (!track->next_asked_ns)
		track->next_asked_ns = now_ns();
}

static void on_underrun(pa_stream *stream, void *data)
{
	struct track *track = data;

	(void)stream;
	pthread_mutex_lock(&queue_lock);
	track->underruns++;
	pthread_mutex_unlock(&queue_lock);
}

static void on_stream(pa_stream *stream, void *data)
{
	(void)data;
	if (pa_stream_get_state(stream) == PA_STREAM_FAILED)
		fail("a stream failed: %s", pa_strerror(pa_context_errno(pa_stream_get_context(stream))));
}

static void on_context(pa_context *context, void *data)
{
	pa_context_state_t state = pa_context_get_state(context);

	(void)data;
	if (state == PA_CONTEXT_FAILED || state == PA_CONTEXT_TERMINATED)
		fail("the connection to pulseaudio ended: %s", pa_strerror(pa_context_errno(context)));
	pa_threaded_mainloop_signal(loop, 0);
}

static void compute(struct track *track, size_t frames)
{
	for (size_t i = 0; i < frames; i++) {
		size_t at = (size_t)track->at;
		float part = (float)(track->at - (double)at);
		float sample = (1.0f - part) * track->source[at] + part * track->source[at + 1];

		sample *= track->gain / 32768.0f;
		track->samples[2 * i] = sample * (1.0f - track->pan);
		track->samples[2 * i + 1] = sample * track->pan;
		track->at += track->speed;
		if (track->at >= (double)(track->length - 2))
			track->at -= (double)(track->length - 2);
	}
	for (int i = 0; i < track->effects_count; i++)
		effect_run(track->effects[i], track->samples, frames);
	track->until_turn_s -= (float)frames / (float)track->rate;
	if (track->until_turn_s < 0.0f) {
		track->until_turn_s = uniform(&track->rng, 0.2f, 1.8f) * turn_s;
		track->gain = uniform(&track->rng, 0.1f, 0.4f);
		track->pan = uniform(&track->rng, 0.2f, 0.8f);
		if (track->effects_count)
			effect_turn(track->effects[(int)uniform(&track->rng, 0, (float)track->effects_count)], &track->rng);
	}
}

/* Under `queue_lock`. A block that is later than those of the period after it counts there. */
static void measured(uint64_t asked_ns, uint64_t done_ns)
{
	double share = (double)(done_ns - asked_ns) / (double)period_ns;

	if (asked_ns / period_ns > slowest.at_ns / period_ns) {
		if (slowest.at_ns && blocks_count < BLOCKS_MAX)
			blocks[blocks_count++] = slowest;
		slowest = (struct block){.at_ns = asked_ns, .share = share};
	} else if (share > slowest.share) {
		slowest.share = share;
	}
}

/* Under `queue_lock`. In `played_ns` since the start less has been written when the stream was silent meanwhile. */
static uint64_t underruns_of(struct track *track, uint64_t played_ns)
{
	uint64_t written = track->frames_written * 1000000000u / (uint64_t)track->rate / period_ns + BUFFERED;
	uint64_t played = played_ns / period_ns;
	uint64_t count = track->underruns;

	if (played > written + track->periods_lost) {
		uint64_t lost = played - written - track->periods_lost;

		track->periods_lost += lost;
		count = lost > count ? lost : count;
	}
	track->underruns = 0;
	return count;
}

static void *work(void *unused)
{
	for (;;) {
		struct track *track;
		size_t bytes;
		uint64_t asked_ns;

		pthread_mutex_lock(&queue_lock);
		while (!queue_count)
			pthread_cond_wait(&queue_filled, &queue_lock);
		track = queue[queue_first];
		queue_first = (queue_first + 1) % TRACKS_MAX;
		queue_count--;
		pthread_mutex_unlock(&queue_lock);

		pa_threaded_mainloop_lock(loop);
		bytes = pa_stream_writable_size(track->stream);
		asked_ns = track->asked_ns;
		pa_threaded_mainloop_unlock(loop);
		if (bytes == (size_t)-1)
			fail("a stream is gone");
		if (bytes > track->samples_bytes)
			bytes = track->samples_bytes;
		if (bytes >= FRAME_BYTES) {
			compute(track, bytes / FRAME_BYTES);
			pthread_mutex_lock(&queue_lock);
			measured(asked_ns, now_ns());
			track->frames_written += bytes / FRAME_BYTES;
			pthread_mutex_unlock(&queue_lock);
		}
		pa_threaded_mainloop_lock(loop);
		if (bytes >= FRAME_BYTES && pa_stream_write(track->stream, track->samples, bytes / FRAME_BYTES * FRAME_BYTES,
							    NULL, 0, PA_SEEK_RELATIVE) < 0)
			fail("pulseaudio does not take a block");
		track->queued = false;
		if (track->next_asked_ns)
			enqueue(track, track->next_asked_ns);
		track->next_asked_ns = 0;
		pa_threaded_mainloop_unlock(loop);
	}
	return unused;
}

static void load(struct track *track, const char *path)
{
	struct stat info;
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0 || fstat(file, &info) < 0 || info.st_size < 1024)
		fail("%s: %s", path, errno ? strerror(errno) : "too short");
	track->length = (size_t)info.st_size / sizeof(int16_t);
	track->source = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (track->source == MAP_FAILED)
		fail("%s: %s", path, strerror(errno));
	close(file);
	track->at = (double)uniform(&track->rng, 0.0f, 0.9f) * (double)track->length;
}

static void track_make(struct track *track, char *words, uint64_t seed, const char **sink)
{
	char *rest = words;
	const char *path, *effects;

	*sink = strsep(&rest, ",");
	path = strsep(&rest, ",");
	track->rate = rest ? atoi(strsep(&rest, ",")) : 0;
	track->speed = rest ? atof(strsep(&rest, ",")) : 0.0;
	effects = rest ? rest : "";
	if (track->rate < 8000 || track->speed <= 0.0 || strlen(effects) > EFFECTS_MAX)
		fail("%s: no track", words);
	track->rng.state = seed * 0x9e3779b97f4a7c15u + 1;
	load(track, path);
	track->samples_bytes = 8 * (size_t)(period_ns * (uint64_t)track->rate / 1000000000u) * FRAME_BYTES;
	track->samples = malloc(track->samples_bytes);
	if (!track->samples)
		fail("no memory");
	for (; *effects; effects++) {
		struct effect *effect = effect_new(*effects, track->rate, &track->rng);

		if (!effect)
			fail("%c: no such effect, or no memory", *effects);
		track->effects[track->effects_count++] = effect;
	}
}

/* One period is asked for at a time. The server makes the buffer longer: one in the sink, and three of the stream. */
static void track_play(struct track *track, pa_context *context, const char *sink)
{
	pa_sample_spec format = {.format = PA_SAMPLE_FLOAT32LE, .rate = (uint32_t)track->rate, .channels = 2};
	uint32_t block = (uint32_t)pa_usec_to_bytes(period_ns / 1000u, &format);
	pa_buffer_attr buffer = {
		.maxlength = (uint32_t)-1, .tlength = 2 * block, .minreq = block, .prebuf = block, .fragsize = (uint32_t)-1};

	track->stream = pa_stream_new(context, "track", &format, NULL);
	if (!track->stream)
		fail("no stream: %s", pa_strerror(pa_context_errno(context)));
	pa_stream_set_state_callback(track->stream, on_stream, track);
	pa_stream_set_write_callback(track->stream, on_asked, track);
	pa_stream_set_underflow_callback(track->stream, on_underrun, track);
	if (pa_stream_connect_playback(track->stream, sink, &buffer, PA_STREAM_EARLY_REQUESTS, NULL, NULL) < 0)
		fail("%s: %s", sink, pa_strerror(pa_context_errno(context)));
}

static void connect_all(const char *sinks[])
{
	pa_context *context;

	loop = pa_threaded_mainloop_new();
	context = loop ? pa_context_new(pa_threaded_mainloop_get_api(loop), "asa-remix") : NULL;
	if (!context)
		fail("no memory");
	pa_context_set_state_callback(context, on_context, NULL);
	pa_threaded_mainloop_lock(loop);
	if (pa_context_connect(context, NULL, PA_CONTEXT_NOAUTOSPAWN, NULL) < 0)
		fail("pulseaudio: %s", pa_strerror(pa_context_errno(context)));
	pa_threaded_mainloop_start(loop);
	while (pa_context_get_state(context) != PA_CONTEXT_READY)
		pa_threaded_mainloop_wait(loop);
	for (int i = 0; i < tracks_count; i++)
		track_play(&tracks[i], context, sinks[i]);
	pa_threaded_mainloop_unlock(loop);
}

static void tell(void)
{
	static struct block told[BLOCKS_MAX];
	uint64_t first_ns, last_ns;

	sleep(START_S);
	pthread_mutex_lock(&queue_lock);
	first_ns = last_ns = now_ns();
	blocks_count = 0;
	for (int i = 0; i < tracks_count; i++)
		tracks[i].underruns = tracks[i].frames_written = 0;
	pthread_mutex_unlock(&queue_lock);
	for (;;) {
		uint64_t at_ns, lost;
		int count;

		sleep(1);
		at_ns = now_ns();
		pthread_mutex_lock(&queue_lock);
		count = blocks_count;
		memcpy(told, blocks, (size_t)count * sizeof(blocks[0]));
		lost = 0;
		for (int i = 0; i < tracks_count; i++)
			lost += underruns_of(&tracks[i], at_ns - first_ns);
		blocks_count = 0;
		pthread_mutex_unlock(&queue_lock);
		for (int i = 0; i < count; i++)
			printf("block %llu %.4f\n", (unsigned long long)told[i].at_ns, told[i].share);
		printf("underruns %llu %llu %d %.4f\n", (unsigned long long)at_ns, (unsigned long long)lost, tracks_count,
		       (double)(at_ns - last_ns) / 1e9);
		fflush(stdout);
		last_ns = at_ns;
	}
}

int main(int argc, char *argv[])
{
	const char *sinks[TRACKS_MAX];
	int workers;

	if (argc < 6 || argc - 5 > TRACKS_MAX)
		fail("usage: remix PERIOD_US WORKERS TURN_S SEED TRACK...");
	period_ns = strtoull(argv[1], NULL, 10) * 1000u;
	workers = atoi(argv[2]);
	turn_s = (float)atof(argv[3]);
	if (period_ns < 1000000u || workers < 1 || turn_s <= 0.0f)
		fail("usage: remix PERIOD_US WORKERS TURN_S SEED TRACK...");
	for (tracks_count = 0; tracks_count < argc - 5; tracks_count++)
		track_make(&tracks[tracks_count], argv[5 + tracks_count],
			   strtoull(argv[4], NULL, 10) + (uint64_t)tracks_count, &sinks[tracks_count]);
	connect_all(sinks);
	for (int i = 0; i < workers; i++) {
		pthread_t worker;

		if (pthread_create(&worker, NULL, work, NULL))
			fail("no thread for a worker");
	}
	tell();
	return 0;
}
