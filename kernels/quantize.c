/* Fake quantization on the CPU: docs/numerics.md in C, with the bits of kernels/reference.py.
 *
 *     v = RHT(x)              signs, butterflies of stride 1, 2, 4, ..., product with 1/sqrt(n)
 *     s = scale of amax       one for each block                                       scales.h
 *     y = round(v / s) * s    RTNE, SR or EDEN onto the grid         rounding.h, draws.h, blocks.h
 *
 * x is read once and y written once (runs.h); between the two, a tile of LANES lanes (lanes.h)
 * stays in registers or in the first-level cache. Only where a scale depends on more than one lane,
 * measure() goes before quantize().
 *
 * Every operation is one FP32 operation, rounded, in the order of the contract: build without
 * contraction and without fast-math. No header of torch or Python is needed.
 */

#include <stdlib.h>

#include "blocks.h"
#include "runs.h"

enum { AT_ONCE = 1 << 15 }; /* elements that a thread takes together */

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

INLINE uint64_t first_run(const Job *job, Tile tile)
{
    return (uint64_t)(tile.lane * job->lane_runs + tile.group * (job->span / RUN));
}

INLINE void butterfly(Floats *a, Floats *b)
{
    Floats sum = *a + *b, difference = *a - *b;
    *a = sum;
    *b = difference;
}

/* A transform of at most a run; `size` is a constant where this is inlined. */
INLINE void rotate(Floats *v, const float *signs, float norm, int size)
{
    UNROLL for (int i = 0; i < size; i++) v[i] *= signs[i];
    UNROLL for (int stride = 1; stride < size; stride *= 2)
        UNROLL for (int i = 0; i < size; i++)
            if (!(i & stride))
                butterfly(&v[i], &v[i + stride]);
    UNROLL for (int i = 0; i < size; i++) v[i] *= norm;
}

/* A longer one begins as those of its runs. */
RARE void rotate_span(Floats *v, const Job *job)
{
    int size = job->rht, is_long = size > RUN, step = is_long ? RUN : size;
    float norm = is_long ? 1 : job->norm;
    for (int i = 0; i < job->span; i += step)
        switch (step) {
        case 4: rotate(v + i, job->signs, norm, 4); break;
        case 8: rotate(v + i, job->signs, norm, 8); break;
        default: rotate(v + i, job->signs + i % size, norm, RUN);
        }
    for (int stride = RUN; stride < size; stride *= 2)
        for (int i = 0; i < job->span; i++)
            if (!(i & stride))
                butterfly(&v[i], &v[i + stride]);
    for (int i = 0; is_long && i < job->span; i++)
        v[i] *= job->norm;
}

INLINE void load_tile(const Job *job, Tile tile)
{
    for (int i = 0; i < job->span; i += RUN)
        if (tile.count == LANES)
            load_run(tile.v + i, job, place(job, tile) + i * job->along);
        else
            load_part(tile.v + i, job, place(job, tile) + i * job->along, tile.count);
    if (job->rht)
        rotate_span(tile.v, job);
    for (int i = 0; job->to_bf16 && i < job->span; i += RUN)
        round_significands(tile.v + i, 16);
}

INLINE void measure_tile(const Job *job, Tile tile)
{
    load_tile(job, tile);
    for (int i = 0; i < job->span; i += job->block) {
        Floats amax = largest(tile.v + i, job->block);
        memcpy(block_maxima(job, tile, i), &amax, (size_t)tile.count * sizeof(float));
    }
}

INLINE void quantize_tile(const Job *job, Tile tile)
{
    load_tile(job, tile);
    uint64_t run = first_run(job, tile);
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
        if (tile.count == LANES)
            store_run(tile.v + i, job, place(job, tile) + i * job->along);
        else
            store_part(tile.v + i, job, place(job, tile) + i * job->along, tile.count);
}

/* ---- The same for a lane of one run, where it needs no array in memory ---- */

INLINE int fits_registers(const Job *job)
{
    int one_run = job->span == RUN && (!job->rht || job->rht == RUN) && !job->amax;
    int by_arithmetic = job->rule == TO_INTEGERS || job->rule == TO_FLOATS;
    int one_scale = job->scale != E4M3 && !job->alternate && job->rounding != EDEN;
    return one_run && by_arithmetic && one_scale && !job->to_bf16 && !job->dropped_bits;
}

RARE void quantize_last_tile(const Job *job, Tile tile) { quantize_tile(job, tile); }

INLINE void quantize_run_tile(const Job *job, Tile tile)
{
    if (tile.count < LANES) {
        quantize_last_tile(job, tile);
        return;
    }
    Floats v[RUN];
    Words w[RUN];
    int bits = drawn_bits(job);
    if (bits)
        random_words(w, first_run(job, tile), job);
    load_run(v, job, place(job, tile));
    if (job->rht)
        rotate(v, job->signs, job->norm, RUN);
    Scaling s = scaling_of(largest(v, RUN), floats(1), job->target, job);
    quantize_in_registers(v, v, w, s.into, s.stored, job, bits);
    store_run(v, job, place(job, tile));
}

/* ---- All tiles ---- */

INLINE int work(Job *job, void (*on)(const Job *, Tile))
{
    int64_t row = (job->lanes + LANES - 1) / LANES, tiles = job->groups * row;
    int64_t share = AT_ONCE / LANES / job->span + 1, i;
    Floats *v = aligned_alloc(sizeof *v, (size_t)job->span * sizeof *v);
    if (!v)
        return 1;
    while ((i = __atomic_fetch_add(&job->next, share, __ATOMIC_RELAXED)) < tiles) {
        Tile tile = {.v = v, .group = i / row, .lane = i % row * LANES};
        for (int64_t after = i + share < tiles ? i + share : tiles; i < after; i++) {
            int64_t rest = job->lanes - tile.lane;
            tile.count = rest < LANES ? (int)rest : LANES;
            on(job, tile);
            tile.lane += LANES;
            if (rest <= LANES) {
                tile.lane = 0;
                tile.group++;
            }
        }
    }
    free(v);
    return 0;
}

/* Both return 0, or 1 where no memory is left. */
int measure(Job *job) { return work(job, measure_tile); }

int quantize(Job *job)
{
    if (fits_registers(job))
        return work(job, quantize_run_tile);
    return work(job, quantize_tile);
}
