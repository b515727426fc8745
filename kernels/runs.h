/* The way of a run between memory and an array of 16 vectors: element i of each lane.
 *
 * Blocks down the columns of a matrix lie in memory like that already; blocks along its rows are
 * transposed on the way in and out.
 */

#ifndef GRIDLAW_RUNS_H
#define GRIDLAW_RUNS_H

#include "job.h"
#include "lanes.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "two BF16 elements are taken from a word, the first from its low half"
#endif

enum { AHEAD = 32 }; /* elements from a load to what is prefetched */

/* Four words from each lane, `across` bytes apart: t[i] gets word i. */
INLINE void gather(Words t[4], const char *x, int64_t across)
{
    UNROLL for (int i = 0; i < 4; i++) t[i] = join(x + i * across, 4 * across);
    transpose(t);
}

INLINE void scatter(Words t[4], char *y, int64_t across)
{
    transpose(t);
    UNROLL for (int i = 0; i < 4; i++) part(t[i], y + i * across, 4 * across);
}

/* 16 rows read and 16 written are more streams than a prefetcher follows. */
INLINE void load_columns(Floats *v, const Job *job, int64_t at)
{
    if (job->y) {
        float *y = job->y + at + AHEAD;
        UNROLL for (int i = 0; i < RUN; i++) __builtin_prefetch(y + i * job->along, 1);
    }
    if (job->bf16) {
        const uint16_t *x = (const uint16_t *)job->x + at;
        UNROLL for (int i = 0; i < RUN; i++, x += job->along)
        {
            Halves row;
            memcpy(&row, x, sizeof row);
            v[i] = widen(row);
            __builtin_prefetch(x + AHEAD);
        }
    } else {
        const float *x = (const float *)job->x + at;
        UNROLL for (int i = 0; i < RUN; i++, x += job->along)
        {
            memcpy(&v[i], x, sizeof v[i]);
            __builtin_prefetch(x + AHEAD);
        }
    }
}

INLINE void load_rows(Floats *v, const Job *job, int64_t at)
{
    if (job->bf16) {
        const uint16_t *x = (const uint16_t *)job->x + at;
        UNROLL for (int i = 0; i < RUN; i += 8)
        {
            Words pairs[4];
            gather(pairs, (const char *)(x + i), 2 * job->across);
            UNROLL for (int j = 0; j < 4; j++)
            {
                v[i + 2 * j] = (Floats)(pairs[j] << 16);
                v[i + 2 * j + 1] = (Floats)(pairs[j] & 0xFFFF0000u);
            }
        }
    } else {
        const float *x = (const float *)job->x + at;
        UNROLL for (int i = 0; i < RUN; i += 4)
        {
            Words t[4];
            gather(t, (const char *)(x + i), 4 * job->across);
            UNROLL for (int j = 0; j < 4; j++) v[i + j] = (Floats)t[j];
        }
    }
}

INLINE void load_run(Floats *v, const Job *job, int64_t at)
{
    if (job->across == 1)
        load_columns(v, job, at);
    else
        load_rows(v, job, at);
}

INLINE void store_run(const Floats *v, const Job *job, int64_t at)
{
    float *y = job->y + at;
    if (job->across == 1) {
        UNROLL for (int i = 0; i < RUN; i++) memcpy(y + i * job->along, &v[i], sizeof v[i]);
    } else {
        UNROLL for (int i = 0; i < RUN; i += 4)
        {
            Words t[4];
            UNROLL for (int j = 0; j < 4; j++) t[j] = (Words)v[i + j];
            scatter(t, (char *)(y + i), 4 * job->across);
        }
    }
}

/* The first `count` lanes of a run, the others as zeros. */
RARE void load_part(Floats *v, const Job *job, int64_t at, int count)
{
    for (int i = 0; i < RUN; i++)
        for (int l = 0; l < LANES; l++) {
            int64_t k = at + i * job->along + l * job->across;
            if (l >= count)
                v[i][l] = 0;
            else if (job->bf16)
                v[i][l] = widen((Halves){((const uint16_t *)job->x)[k]})[0];
            else
                v[i][l] = ((const float *)job->x)[k];
        }
}

RARE void store_part(const Floats *v, const Job *job, int64_t at, int count)
{
    for (int i = 0; i < RUN; i++)
        for (int l = 0; l < count; l++)
            job->y[at + i * job->along + l * job->across] = v[i][l];
}

#endif
