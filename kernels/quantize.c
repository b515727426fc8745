/* Fake quantization on the CPU: docs/numerics.md in C, with the bits of kernels/reference.py.
 *
 *     v = RHT(x)              signs, butterflies of stride 1, 2, 4, ..., product with 1/sqrt(n)
 *     s = scale of amax       one for each block                                        scales.h
 *     y = round(v / s) * s    RTNE, SR or EDEN onto the grid              rounding.h and draws.h
 *
 * x is read once and y written once; between the two, a tile (lanes.h) stays in the first-level
 * cache. Only where a scale depends on more than one lane, measure() goes before quantize().
 *
 * Every operation is one FP32 operation, rounded, in the order of the contract: build without
 * contraction and without fast-math. No header of torch or Python is needed.
 */

#include <stdlib.h>

#include "draws.h"
#include "lanes.h"
#include "rounding.h"
#include "scales.h"

INLINE void rotate(Floats *v, const Job *job, int size)
{
    UNROLL for (int i = 0; i < size; i++) v[i] *= job->signs[i];
    UNROLL for (int stride = 1; stride < size; stride *= 2)
        UNROLL for (int i = 0; i < size; i++)
            if (!(i & stride)) {
                Floats a = v[i], b = v[i + stride];
                v[i] = a + b;
                v[i + stride] = a - b;
            }
    UNROLL for (int i = 0; i < size; i++) v[i] *= job->norm;
}

INLINE Floats scaled(Floats v, Floats into, int multiplied)
{
    return multiplied ? magnitude(v) * into : magnitude(v) / into;
}

/* y = the rounded v / into, times back; RTNE where `bits` is 0, else SR with draws of so many bits.
 * Every rule has its own loop for each kind of draw and of scale. */
INLINE void quantize_run(Floats *y, const Floats *v, const Words *w, Floats into, Floats back,
                         const Job *job, int bits)
{
#define LOOP(times, rule, bits, multiplied) \
    case 2 * rule + multiplied: \
        times for (int i = 0; i < RUN; i++) \
        { \
            Floats q = scaled(v[i], into, multiplied), u = bits ? draw(w, i, bits, job) : q; \
            y[i] = with_sign_of(round_magnitude(q, u, job, rule, bits != 0) * back, v[i]); \
        } \
        break
#define LOOPS(bits) \
    switch (2 * job->rule + (job->scale == E4M3)) { \
        LOOP(UNROLL, TO_INTEGERS, bits, 0); \
        LOOP(UNROLL, TO_INTEGERS, bits, 1); \
        LOOP(UNROLL, TO_FLOATS, bits, 0); \
        LOOP(UNROLL, TO_FLOATS, bits, 1); \
        LOOP(, TO_TABLE, bits, 0); \
        LOOP(, TO_TABLE, bits, 1); \
    }
    switch (bits) {
    case 0: LOOPS(0); break;
    case 8: LOOPS(8); break;
    case 16: LOOPS(16); break;
    case 24: LOOPS(24); break;
    }
#undef LOOPS
#undef LOOP
}

/* RTNE for what is asked before the block is rounded; not made part of its callers. */
RARE void round_to_nearest(Floats *y, const Floats *v, Floats into, Floats back, const Job *job)
{
    quantize_run(y, v, NULL, into, back, job, 0);
}

/* The sum of (y - v)**2 over a block rounded with RTNE. */
RARE Floats squared_error(const Floats *v, Scaling s, const Job *job)
{
    Floats y[RUN], sum = {0};
    for (int i = 0; i < job->block; i += RUN) {
        round_to_nearest(y, v + i, s.into, applied(s), job);
        for (int j = 0; j < RUN; j++)
            sum += (y[j] - v[i + j]) * (y[j] - v[i + j]);
    }
    return sum;
}

RARE Scaling better_scaling(const Floats *v, Scaling usual, Scaling other, const Job *job)
{
    Ints better = squared_error(v, other, job) < squared_error(v, usual, job);
    usual.into = choose(better, other.into, usual.into);
    usual.stored = choose(better, other.stored, usual.stored);
    return usual;
}

/* EDEN's s * c, with c the sum of p**2 over that of p * Q: what undoes the block's shrinkage. Where
 * the divisor is 0 c is not finite. */
RARE Floats corrected(const Floats *v, Scaling s, uint64_t run, const Job *job)
{
    Words w[RUN];
    Floats q[RUN], squares = {0}, products = {0}, u;
    for (int i = 0; i < job->block; i += RUN) {
        round_to_nearest(q, v + i, s.into, floats(1), job);
        for (int j = 0; j < RUN; j++) {
            Floats p = scaled(v[i + j], s.into, job->scale == E4M3);
            squares += p * p;
            products += p * magnitude(q[j]);
        }
    }
    Floats c = squares / products;
    Floats stored = s.stored * choose(c < INFINITY, c, floats(1));
    if (job->scale != E4M3)
        return stored;
    random_words(w, run, job);
    switch (job->random_bits) {
    case 8: u = draw(w, 0, 8, job); break;
    case 16: u = draw(w, 0, 16, job); break;
    default: u = draw(w, 0, 24, job); break;
    }
    return to_e4m3(stored, u, 1);
}

INLINE void quantize_block(Floats *v, Floats amax, Floats tensor, uint64_t run, const Job *job)
{
    Scaling s = scaling_of(amax, tensor, job->target, job);
    if (job->alternate)
        s = better_scaling(v, s, scaling_of(amax, tensor, job->alternate_target, job), job);
    if (job->rounding == EDEN)
        s.stored = corrected(v, s, run, job);
    Words w[RUN];
    Floats back = outgoing(s, job);
    int bits = job->rounding == SR ? job->random_bits : 0;
    for (int i = 0; i < job->block; i += RUN, v += RUN, run++) {
        if (bits)
            random_words(w, run, job);
        quantize_run(v, v, w, s.into, back, job, bits);
    }
}

/* ---- A tile, and all of them ---- */

typedef struct {
    Floats *v; /* of `span` elements */
    int64_t group, lane;
    int count; /* of its lanes, the others are zeros */
} Tile;

INLINE int64_t place(const Job *job, Tile tile)
{
    return tile.group * job->group + tile.lane * job->across;
}

INLINE float *block_maxima(const Job *job, Tile tile, int i)
{
    return job->amax + (tile.group * job->span + i) / job->block * job->lanes + tile.lane;
}

INLINE void load_tile(const Job *job, Tile tile)
{
    for (int i = 0; i < job->span; i += RUN)
        load_run(tile.v + i, job, place(job, tile) + i * job->along, tile.count);
    for (int i = 0; job->rht && i < job->span; i += job->rht)
        if (job->rht == RUN)
            rotate(tile.v + i, job, RUN);
        else
            rotate(tile.v + i, job, job->rht);
    for (int i = 0; job->to_bf16 && i < job->span; i += RUN)
        round_significands(tile.v + i, 16);
}

static void measure_tile(const Job *job, Tile tile)
{
    load_tile(job, tile);
    for (int i = 0; i < job->span; i += job->block) {
        Floats amax = largest(tile.v + i, job->block);
        memcpy(block_maxima(job, tile, i), &amax, (size_t)tile.count * sizeof(float));
    }
}

static void quantize_tile(const Job *job, Tile tile)
{
    load_tile(job, tile);
    uint64_t run = (uint64_t)(tile.lane * job->lane_runs + tile.group * (job->span / RUN));
    Floats tensor = floats(job->tensor_scale);
    for (int i = 0; job->rule != KEEP && i < job->span; i += job->block) {
        Floats *v = tile.v + i, amax = {0};
        if (job->outer && i % job->outer == 0)
            tensor = tensor_scale(largest(v, job->outer), job);
        if (job->amax)
            memcpy(&amax, block_maxima(job, tile, i), (size_t)tile.count * sizeof(float));
        else
            amax = largest(v, job->block);
        quantize_block(v, amax, tensor, run + (uint64_t)(i / RUN), job);
    }
    for (int i = 0; job->dropped_bits && i < job->span; i += RUN)
        round_significands(tile.v + i, job->dropped_bits);
    for (int i = 0; i < job->span; i += RUN)
        store_run(tile.v + i, job, place(job, tile) + i * job->along, tile.count);
}

INLINE int work(const Job *job, int64_t share, int64_t shares, void (*on)(const Job *, Tile))
{
    int64_t row = (job->lanes + LANES - 1) / LANES, tiles = job->groups * row;
    Floats *v = aligned_alloc(sizeof *v, (size_t)job->span * sizeof *v);
    if (!v)
        return 1;
    for (int64_t i = tiles * share / shares; i < tiles * (share + 1) / shares; i++) {
        int64_t lane = i % row * LANES, rest = job->lanes - lane;
        on(job, (Tile){v, i / row, lane, rest < LANES ? (int)rest : LANES});
    }
    free(v);
    return 0;
}

/* Share number `share` of `shares` of the tiles. Returns 0, or 1 where no memory is left. */
int measure(const Job *job, int64_t share, int64_t shares)
{
    return work(job, share, shares, measure_tile);
}

int quantize(const Job *job, int64_t share, int64_t shares)
{
    return work(job, share, shares, quantize_tile);
}
