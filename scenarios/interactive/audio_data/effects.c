// SPDX-License-Identifier: GPL-2.0-only
/* Effects on a stereo track; see effects.h. Made once and never freed: they live as long as the program. */
#include "effects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BANDS 6
#define COMBS 4
#define ALLPASSES 2
#define LINES (COMBS + ALLPASSES)
#define CHUNK 128 /* frames that are convolved at once */
#define QUIET 1e-18f /* keeps feedback out of the slow denormal numbers */

struct biquad {
	float b0, b1, b2, a1, a2;
	float z1[2], z2[2];
};

struct line {
	float *samples[2];
	size_t length, at;
};

struct effect {
	char kind;
	float rate;
	struct biquad bands[BANDS];
	struct line lines[LINES];
	float amount, feedback, wet;	  /* delay, reverb, chorus, saturation */
	float phase, speed;		  /* chorus */
	float threshold, ratio, envelope; /* compressor */
	float *taps, *past[2];		  /* convolution: its response, and taps_count + CHUNK samples of each side */
	size_t taps_count;
};

float uniform(struct rng *rng, float low, float high)
{
	uint64_t x = rng->state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	rng->state = x;
	return low + (high - low) * (float)(x >> 40) / (float)(1 << 24);
}

static int line_make(struct line *line, float seconds, float rate)
{
	line->length = (size_t)(seconds * rate) + 2;
	for (int side = 0; side < 2; side++) {
		line->samples[side] = calloc(line->length, sizeof(float));
		if (!line->samples[side])
			return -1;
	}
	return 0;
}

/* A peaking filter, after R. Bristow-Johnson's audio EQ cookbook. */
static void peak(struct biquad *band, float hertz, float gain_db, float q, float rate)
{
	float w = 2.0f * (float)M_PI * hertz / rate;
	float a = powf(10.0f, gain_db / 40.0f);
	float alpha = sinf(w) / (2.0f * q);
	float whole = 1.0f + alpha / a;

	band->b0 = (1.0f + alpha * a) / whole;
	band->b1 = -2.0f * cosf(w) / whole;
	band->b2 = (1.0f - alpha * a) / whole;
	band->a1 = band->b1;
	band->a2 = (1.0f - alpha / a) / whole;
}

/* A response that fades, as of a loudspeaker's cabinet. */
static int response_make(struct effect *effect, struct rng *rng)
{
	size_t count = (size_t)uniform(rng, 512.0f, 2048.0f);

	effect->taps_count = count;
	effect->taps = calloc(count, sizeof(float));
	effect->past[0] = calloc(count + CHUNK, sizeof(float));
	effect->past[1] = calloc(count + CHUNK, sizeof(float));
	if (!effect->taps || !effect->past[0] || !effect->past[1])
		return -1;
	for (size_t i = 0; i < count; i++)
		effect->taps[i] = uniform(rng, -0.1f, 0.1f) * expf(-6.0f * (float)i / (float)count);
	effect->taps[0] += 0.7f;
	return 0;
}

void effect_turn(struct effect *effect, struct rng *rng)
{
	effect->amount = uniform(rng, 1.0f, 4.0f);
	effect->feedback = uniform(rng, 0.3f, 0.8f);
	effect->wet = uniform(rng, 0.1f, 0.5f);
	effect->speed = uniform(rng, 0.2f, 2.0f);
	effect->threshold = uniform(rng, 0.05f, 0.4f);
	effect->ratio = uniform(rng, 0.2f, 0.8f);
	for (int band = 0; band < BANDS; band++)
		peak(&effect->bands[band], 80.0f * powf(2.3f, (float)band), uniform(rng, -9.0f, 9.0f),
		     uniform(rng, 0.5f, 3.0f), effect->rate);
}

struct effect *effect_new(char kind, int rate, struct rng *rng)
{
	static const float reverb_s[LINES] = {0.0297f, 0.0371f, 0.0411f, 0.0437f, 0.005f, 0.0017f};
	struct effect *effect = calloc(1, sizeof(*effect));
	int failed = 0;

	if (!effect)
		return NULL;
	effect->kind = kind;
	effect->rate = (float)rate;
	effect_turn(effect, rng);
	switch (kind) {
	case 'd':
		failed = line_make(&effect->lines[0], uniform(rng, 0.1f, 0.6f), effect->rate);
		break;
	case 'h':
		failed = line_make(&effect->lines[0], 0.04f, effect->rate);
		break;
	case 'r':
		for (int i = 0; i < LINES; i++)
			failed |= line_make(&effect->lines[i], reverb_s[i] * uniform(rng, 0.9f, 1.4f), effect->rate);
		break;
	case 'v':
		failed = response_make(effect, rng);
		break;
	case 'e':
	case 'c':
	case 's':
		break;
	default:
		failed = -1;
	}
	return failed ? NULL : effect;
}

static void equalise(struct effect *effect, float *samples, size_t frames)
{
	for (int i = 0; i < BANDS; i++) {
		struct biquad *band = &effect->bands[i];

		for (size_t at = 0; at < 2 * frames; at++) {
			int side = at & 1;
			float in = samples[at] + QUIET;
			float out = band->b0 * in + band->z1[side];

			band->z1[side] = band->b1 * in - band->a1 * out + band->z2[side];
			band->z2[side] = band->b2 * in - band->a2 * out;
			samples[at] = out;
		}
	}
}

static void echo(struct effect *effect, float *samples, size_t frames)
{
	struct line *line = &effect->lines[0];

	for (size_t i = 0; i < frames; i++) {
		for (int side = 0; side < 2; side++) {
			float *slot = &line->samples[side][line->at];
			float *sample = &samples[2 * i + side];
			float late = *slot;

			*slot = *sample + QUIET + late * effect->feedback;
			*sample += late * effect->wet;
		}
		line->at = (line->at + 1) % line->length;
	}
}

static float reverberate_one(struct effect *effect, int side, float in)
{
	float sum = 0.0f;

	for (int i = 0; i < LINES; i++) {
		struct line *line = &effect->lines[i];
		float *slot = &line->samples[side][line->at];
		float late = *slot;

		if (i < COMBS) {
			*slot = in + QUIET + late * effect->feedback;
			sum += late / COMBS;
		} else {
			*slot = sum + late * 0.5f;
			sum = late - *slot * 0.5f;
		}
	}
	return sum;
}

static void reverberate(struct effect *effect, float *samples, size_t frames)
{
	for (size_t i = 0; i < frames; i++) {
		for (int side = 0; side < 2; side++)
			samples[2 * i + side] += effect->wet * reverberate_one(effect, side, samples[2 * i + side]);
		for (int line = 0; line < LINES; line++)
			effect->lines[line].at = (effect->lines[line].at + 1) % effect->lines[line].length;
	}
}

static void compress(struct effect *effect, float *samples, size_t frames)
{
	for (size_t i = 0; i < frames; i++) {
		float level = fmaxf(fabsf(samples[2 * i]), fabsf(samples[2 * i + 1]));
		float follow = level > effect->envelope ? 0.01f : 0.0005f;
		float gain = 1.0f;

		effect->envelope += follow * (level - effect->envelope) + QUIET;
		if (effect->envelope > effect->threshold)
			gain = powf(effect->threshold / effect->envelope, effect->ratio);
		samples[2 * i] *= gain;
		samples[2 * i + 1] *= gain;
	}
}

static void chorus(struct effect *effect, float *samples, size_t frames)
{
	struct line *line = &effect->lines[0];

	for (size_t i = 0; i < frames; i++) {
		float swing = 0.5f + 0.45f * sinf(effect->phase);
		size_t back = (size_t)(swing * (float)(line->length - 2)) + 1;
		size_t from = (line->at + line->length - back) % line->length;

		for (int side = 0; side < 2; side++) {
			float *sample = &samples[2 * i + side];

			line->samples[side][line->at] = *sample;
			*sample += effect->wet * line->samples[side][from];
		}
		line->at = (line->at + 1) % line->length;
		effect->phase += 2.0f * (float)M_PI * effect->speed / effect->rate;
		if (effect->phase > 2.0f * (float)M_PI)
			effect->phase -= 2.0f * (float)M_PI;
	}
}

static void convolve_chunk(struct effect *effect, float *samples, size_t frames)
{
	for (int side = 0; side < 2; side++) {
		float *past = effect->past[side], *fresh = past + effect->taps_count;
		float sum[CHUNK] = {0};

		for (size_t i = 0; i < frames; i++)
			fresh[i] = samples[2 * i + side];
		for (size_t tap = 0; tap < effect->taps_count; tap++)
			for (size_t i = 0; i < CHUNK; i++)
				sum[i] += effect->taps[tap] * (fresh - tap)[i];
		for (size_t i = 0; i < frames; i++)
			samples[2 * i + side] = sum[i];
		memmove(past, past + frames, effect->taps_count * sizeof(float));
	}
}

static void convolve(struct effect *effect, float *samples, size_t frames)
{
	for (size_t at = 0; at < frames; at += CHUNK)
		convolve_chunk(effect, samples + 2 * at, frames - at < CHUNK ? frames - at : CHUNK);
}

static void saturate(struct effect *effect, float *samples, size_t frames)
{
	for (size_t at = 0; at < 2 * frames; at++)
		samples[at] = tanhf(effect->amount * samples[at]) / effect->amount;
}

void effect_run(struct effect *effect, float *samples, size_t frames)
{
	switch (effect->kind) {
	case 'e':
		equalise(effect, samples, frames);
		break;
	case 'd':
		echo(effect, samples, frames);
		break;
	case 'r':
		reverberate(effect, samples, frames);
		break;
	case 'c':
		compress(effect, samples, frames);
		break;
	case 'h':
		chorus(effect, samples, frames);
		break;
	case 'v':
		convolve(effect, samples, frames);
		break;
	default:
		saturate(effect, samples, frames);
	}
}
