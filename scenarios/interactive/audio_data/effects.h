/* SPDX-License-Identifier: GPL-2.0-only */
/* Effects on a stereo track, as a mixing desk has them. Each works in place on interleaved 32-bit float samples. */
#ifndef ASA_EFFECTS_H
#define ASA_EFFECTS_H

#include <stddef.h>
#include <stdint.h>

#define EFFECTS_MAX 8

struct rng {
	uint64_t state;
};

float uniform(struct rng *rng, float low, float high);

struct effect;

/*
 * @kind: e (equaliser), d (delay), r (reverb), c (compressor), h (chorus), s (saturation) or v (convolution). NULL when
 * there is no memory, and for any other.
 */
struct effect *effect_new(char kind, int rate, struct rng *rng);

/* A hand on the knobs: other parameters, the sound goes on. */
void effect_turn(struct effect *effect, struct rng *rng);

void effect_run(struct effect *effect, float *samples, size_t frames);

#endif
