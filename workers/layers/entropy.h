/* Cross entropy of BF16 logits in FP32.
 *
 *     loss = l - logit of the target        l = ln sum e^logit
 *     dlogit = (e^(logit - l) - 1 at the target) dloss
 */

#ifndef GRIDLAW_ENTROPY_H
#define GRIDLAW_ENTROPY_H

#include <math.h>

#include "vectors.h"

typedef struct {
    int64_t next, units; /* of which one is `together` rows */
    const uint16_t *logits;
    const int64_t *targets; /* below `vocabulary` all */
    float *losses, *l;
    const float *dlosses;
    uint16_t *dlogits;
    int64_t rows, vocabulary, together;
} Entropy;

INLINE float widened(uint16_t a)
{
    uint32_t bits = (uint32_t)a << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE void entropy_row(const Entropy *job, int64_t row)
{
    int64_t V = job->vocabulary, target = job->targets[row];
    const uint16_t *x = job->logits + row * V;
    Floats top = floats(-INFINITY), total = {0};
    for (int64_t i = 0; i < V; i += 16) {
        __mmask16 there = first_of(V - i);
        top = greatest(top, load_narrow(x + i, there), there);
    }
    float largest = _mm512_reduce_max_ps((__m512)top);
    for (int64_t i = 0; i < V; i += 16) {
        __mmask16 there = first_of(V - i);
        total += only(there, exponential(load_narrow(x + i, there) - floats(largest)));
    }
    float l = largest + logf(sum_of(total));
    job->l[row] = l;
    job->losses[row] = l - widened(x[target]);
}

INLINE void entropy_row_back(const Entropy *job, int64_t row)
{
    int64_t V = job->vocabulary, target = job->targets[row];
    const uint16_t *x = job->logits + row * V;
    uint16_t *dx = job->dlogits + row * V;
    float l = job->l[row], dloss = job->dlosses[row];
    for (int64_t i = 0; i < V; i += 16) {
        __mmask16 there = first_of(V - i);
        Floats share = exponential(load_narrow(x + i, there) - floats(l));
        store_narrow(dx + i, there, share * floats(dloss));
    }
    Halves one = narrowed(floats((expf(widened(x[target]) - l) - 1) * dloss));
    dx[target] = one[0];
}

int entropy_forward(Entropy *job)
{
    EACH_ROW(job, row) entropy_row(job, row);
    return 0;
}

int entropy_backward(Entropy *job)
{
    EACH_ROW(job, row) entropy_row_back(job, row);
    return 0;
}

#endif
