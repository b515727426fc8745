/* RMSNorm of rows, and of heads that are turned by their positions afterwards (RoPE).
 *
 *     n = x r g,  r = 1 / sqrt(mean x^2 + epsilon)
 *     y = n cosine + swapped(n) sine        each pair (2i, 2i + 1); sines of the first are negative
 *
 *     u = dy cosine - swapped(dy) sine      or dy where nothing turns
 *     dx = r (u g - x r^2 mean(u g x))      dg = sum over rows of u x r
 */

#ifndef GRIDLAW_NORM_H
#define GRIDLAW_NORM_H

#include <math.h>

#include "vectors.h"

typedef struct {
    int64_t next, units; /* of which one is `together` rows */
    const uint16_t *x, *dy;
    uint16_t *y, *dx; /* [rows, width] all */
    const float *gain;
    float *dgain; /* [units, width], a sum for each unit */
    float *inverse; /* r, [rows] */
    const float *turns; /* [positions, 2, width], cosines and sines, or null */
    int64_t rows, width, together, heads, positions;
    float epsilon;
} Norm;

INLINE Floats swapped(Floats a) { return (Floats)_mm512_permute_ps((__m512)a, 0xB1); }

INLINE const float *turns_of(const Norm *job, int64_t row)
{
    return job->turns + row / job->heads % job->positions * 2 * job->width;
}

INLINE void norm_row(const Norm *job, int64_t row, int turns)
{
    int64_t width = job->width;
    const uint16_t *x = job->x + row * width;
    const float *by = turns ? turns_of(job, row) : 0;
    Floats squares = {0};
    for (int64_t i = 0; i < width; i += 16) {
        Floats a = load_narrow(x + i, first_of(width - i));
        __builtin_prefetch(x + i + FURTHER);
        __builtin_prefetch(job->y + row * width + i + FURTHER, 1);
        squares = fused(a, a, squares);
    }
    float inverse = 1 / sqrtf(sum_of(squares) / (float)width + job->epsilon);
    job->inverse[row] = inverse;
    for (int64_t i = 0; i < width; i += 16) {
        __mmask16 there = first_of(width - i);
        Floats n = load_narrow(x + i, there) * floats(inverse) * load(job->gain + i, there);
        if (turns)
            n = fused(swapped(n), load(by + width + i, there), n * load(by + i, there));
        store_narrow(job->y + row * width + i, there, n);
    }
}

/* What comes back to the normed row. */
INLINE Floats returned(const Norm *job, const uint16_t *dy, const float *by, int64_t i, int turns)
{
    __mmask16 there = first_of(job->width - i);
    Floats u = load_narrow(dy + i, there);
    return turns ? u * load(by + i, there) - swapped(u) * load(by + job->width + i, there) : u;
}

INLINE void norm_row_back(const Norm *job, int64_t row, float *dgain, int turns)
{
    int64_t width = job->width;
    const uint16_t *x = job->x + row * width, *dy = job->dy + row * width;
    const float *by = turns ? turns_of(job, row) : 0;
    Floats along = {0}, inverse = floats(job->inverse[row]);
    for (int64_t i = 0; i < width; i += 16) {
        __mmask16 there = first_of(width - i);
        Floats a = load_narrow(x + i, there) * returned(job, dy, by, i, turns);
        __builtin_prefetch(x + i + FURTHER);
        __builtin_prefetch(dy + i + FURTHER);
        __builtin_prefetch(job->dx + row * width + i + FURTHER, 1);
        along = fused(a, load(job->gain + i, there), along);
        store(dgain + i, there, fused(a, inverse, load(dgain + i, there)));
    }
    Floats share = inverse * inverse * floats(sum_of(along) / (float)width);
    for (int64_t i = 0; i < width; i += 16) {
        __mmask16 there = first_of(width - i);
        Floats u = returned(job, dy, by, i, turns) * load(job->gain + i, there);
        Floats dx = inverse * (u - load_narrow(x + i, there) * share);
        store_narrow(job->dx + row * width + i, there, dx);
    }
}

int norm_forward(Norm *job)
{
    EACH_ROW(job, row) {
        if (job->turns)
            norm_row(job, row, 1);
        else
            norm_row(job, row, 0);
    }
    return 0;
}

int norm_backward(Norm *job)
{
    EACH_UNIT(job, unit) {
        float *dgain = job->dgain + unit * job->width;
        memset(dgain, 0, sizeof(float) * (size_t)job->width);
        int64_t end = end_of(unit, job->together, job->rows);
        for (int64_t row = unit * job->together; row < end; row++)
            if (job->turns)
                norm_row_back(job, row, dgain, 1);
            else
                norm_row_back(job, row, dgain, 0);
    }
    return 0;
}

#endif
