// SPDX-License-Identifier: GPL-2.0-only
//
// The members of all heads, evaluated on one frame: what models/runtime_numpy.py does.
//
// It is general: trees, vectors and all sizes are arguments, checked by models/artefact.py when the model is loaded.
// It allocates nothing, keeps nothing but the kernel that all heads share, and calls nothing but exp, log and tanh.
// Built by `python -m models.runtime_compiled`.

#include <math.h>
#include <stdint.h>

#ifndef ASA_MADE_OF
#define ASA_MADE_OF ""
#endif

// Hash of this file and of the layout of its arguments: another one's library would read them as something else.
const char asa_members_made_of[65] = ASA_MADE_OF;

struct node {
	float threshold;
	uint32_t slot; // of `inputs`; `leaf` marks a leaf
	int32_t child; // a split's left child, the right one follows it; at a leaf its row in the leaf table
};

struct head {
	const struct node *nodes;
	const int32_t *root;
	const uint8_t *group; // of each tree: the class a boosted tree adds to, `classes` for a forest tree
	const double *base;
	const double *boosted_leaf;
	const float *forest_leaf; // rows of `classes`
	const int32_t *columns; // the features that the kernel is made of
	const double *mean; // of each of them, as `scale`
	const double *scale;
	const float *vectors; // rows of `seen`
	const double *squares; // |v|^2 of each vector
	const double *coefficients; // a row of `vectors_count` for each class
	const double *intercept;
	const double *sigmoid; // pairs
	float *z; // room for `seen`
	double *kernel; // room for `vectors_count`, shared by all heads
	double gamma;
	int32_t trees, classes, features, seen, vectors_count;
	uint32_t leaf;
};

static const double FARTHEST = 1e12; // models/runtime_numpy.py says why

enum { ABREAST = 8 }; // trees that go down together: the memory answers one while another waits

// how familiar the frame is
struct score {
	double energy;
	double kinship;
};

static void trees_of(const struct head *h, const float *inputs, double *margins, double *forest)
{
	int32_t in_forest = 0;

	for (int32_t k = 0; k < h->classes; k++) {
		margins[k] = h->base[k];
		forest[k] = 0.0;
	}
	for (int32_t first = 0; first < h->trees; first += ABREAST) {
		const struct node *at[ABREAST];
		int32_t count = h->trees - first < ABREAST ? h->trees - first : ABREAST;
		int under_way = 1;

		for (int32_t t = 0; t < count; t++)
			at[t] = h->nodes + h->root[first + t];
		while (under_way) {
			under_way = 0;
			for (int32_t t = 0; t < count; t++) {
				if (at[t]->slot == h->leaf)
					continue;
				at[t] = h->nodes + at[t]->child + !(inputs[at[t]->slot] < at[t]->threshold);
				under_way = 1;
			}
		}
		for (int32_t t = 0; t < count; t++) {
			int32_t of = h->group[first + t];

			if (of < h->classes) {
				margins[of] += h->boosted_leaf[at[t]->child];
				continue;
			}
			const float *row = h->forest_leaf + (int64_t)at[t]->child * h->classes;

			for (int32_t k = 0; k < h->classes; k++)
				forest[k] += row[k];
			in_forest++;
		}
	}
	for (int32_t k = 0; k < h->classes; k++)
		forest[k] /= in_forest;
}

static double softmax(double *margins, int32_t classes)
{
	double most = margins[0], total = 0.0;

	for (int32_t k = 1; k < classes; k++)
		most = margins[k] > most ? margins[k] : most;
	for (int32_t k = 0; k < classes; k++)
		total += margins[k] = exp(margins[k] - most);
	for (int32_t k = 0; k < classes; k++)
		margins[k] /= total;
	return most + log(total);
}

// A clone for each level of the instruction set, chosen by the loader; sums in any order.
#if defined(__x86_64__) && defined(__GLIBC__)
#define IN_ANY_ORDER __attribute__((target_clones("avx512f", "arch=haswell", "default"), optimize("fast-math")))
#else
#define IN_ANY_ORDER __attribute__((optimize("fast-math")))
#endif

IN_ANY_ORDER
static void products(const float *rows, int32_t count, const float *z, int32_t seen, double *out)
{
	for (int32_t s = 0; s < count; s++) {
		const float *row = rows + (int64_t)s * seen;
		float sum = 0.0f;

		for (int32_t f = 0; f < seen; f++)
			sum += row[f] * z[f];
		out[s] = sum;
	}
}

IN_ANY_ORDER
static void scores(const struct head *h, double *out)
{
	for (int32_t k = 0; k < h->classes; k++) {
		const double *row = h->coefficients + (int64_t)k * h->vectors_count;
		double sum = 0.0;

		for (int32_t s = 0; s < h->vectors_count; s++)
			sum += row[s] * h->kernel[s];
		out[k] = h->intercept[k] + sum;
	}
}

// of the nearest vector
IN_ANY_ORDER
static double near(const struct head *h, double square)
{
	double nearest = 0.0;

	for (int32_t s = 0; s < h->vectors_count; s++) {
		double distance = h->squares[s] + square - 2.0 * h->kernel[s];
		double value = exp(-h->gamma * (distance > 0.0 ? distance : 0.0));

		h->kernel[s] = value;
		nearest = value > nearest ? value : nearest;
	}
	return nearest;
}

static double fill_kernel(const struct head *h, const float *filled)
{
	double square = 0.0;

	for (int32_t f = 0; f < h->seen; f++) {
		double z = (filled[h->columns[f]] - h->mean[f]) / h->scale[f];

		h->z[f] = (float)(z > FARTHEST ? FARTHEST : z < -FARTHEST ? -FARTHEST : z);
		square += (double)h->z[f] * h->z[f];
	}
	products(h->vectors, h->vectors_count, h->z, h->seen, h->kernel);
	return near(h, square);
}

static void machine_of(const struct head *h, double *shares)
{
	double total = 0.0;

	scores(h, shares);
	for (int32_t k = 0; k < h->classes; k++) {
		shares[k] = 0.5 - 0.5 * tanh(0.5 * (h->sigmoid[2 * k] * shares[k] + h->sigmoid[2 * k + 1]));
		shares[k] = shares[k] > 1e-9 ? shares[k] : 1e-9;
		total += shares[k];
	}
	for (int32_t k = 0; k < h->classes; k++)
		shares[k] /= total;
}

// `inputs` by slot; `members`: boosted trees, forest and machine, a row of all heads' `classes` each
void asa_members(const struct head *heads, int32_t count, const float *inputs, double *members, struct score *score)
{
	int32_t classes = 0;

	for (int32_t i = 0; i < count; i++)
		classes += heads[i].classes;
	score->energy = INFINITY;
	score->kinship = fill_kernel(heads, inputs + 2 * heads->features);
	for (const struct head *h = heads; h < heads + count; members += h->classes, h++) {
		trees_of(h, inputs, members, members + classes);
		score->energy = fmin(score->energy, softmax(members, h->classes));
		machine_of(h, members + 2 * classes);
	}
}
