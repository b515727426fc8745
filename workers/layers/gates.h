/* silu(gate) * up and relu(up)^2, elementwise over BF16. */

#ifndef GRIDLAW_GATES_H
#define GRIDLAW_GATES_H

#include "vectors.h"

typedef struct {
    int64_t next, units; /* of which one is `together` elements */
    const uint16_t *gate, *up, *dy;
    uint16_t *y, *dgate, *dup;
    int64_t elements, together;
} Gate;

/* Of a number that is none, itself: of two operands the second is returned then. */
INLINE Floats positive(Floats a)
{
    return (Floats)_mm512_max_ps(_mm512_setzero_ps(), (__m512)a);
}
INLINE Floats sigmoid(Floats z)
{
    /* e^104 is infinite already, and what is far above has no whole number of octaves. */
    Floats least = (Floats)_mm512_max_ps((__m512)floats(-104), (__m512)z);
    return floats(1) / (floats(1) + exponential(-least));
}

#define EACH_VECTOR(job, i, there)                                                                 \
    EACH_UNIT(job, unit)                                                                           \
        for (int64_t i = unit * job->together, end = end_of(unit, job->together, job->elements),   \
             there; i < end && (there = first_of(end - i)); i += 16)

INLINE void fetch(const Gate *job, int64_t i)
{
    __builtin_prefetch(job->gate + i);
    __builtin_prefetch(job->up + i);
    __builtin_prefetch(job->dgate + i, 1);
    __builtin_prefetch(job->dup + i, 1);
}

int swiglu_forward(Gate *job)
{
    EACH_VECTOR(job, i, there) {
        Floats z = load_narrow(job->gate + i, there), u = load_narrow(job->up + i, there);
        __builtin_prefetch(job->y + i + FURTHER, 1);
        store_narrow(job->y + i, there, z * sigmoid(z) * u);
    }
    return 0;
}

int swiglu_backward(Gate *job)
{
    EACH_VECTOR(job, i, there) {
        Floats z = load_narrow(job->gate + i, there), u = load_narrow(job->up + i, there);
        Floats dy = load_narrow(job->dy + i, there), s = sigmoid(z);
        fetch(job, i + FURTHER);
        store_narrow(job->dup + i, there, dy * (z * s));
        store_narrow(job->dgate + i, there, dy * u * s * (floats(1) + z * (floats(1) - s)));
    }
    return 0;
}

int squared_relu_forward(Gate *job)
{
    EACH_VECTOR(job, i, there) {
        Floats u = positive(load_narrow(job->up + i, there));
        store_narrow(job->y + i, there, u * u);
    }
    return 0;
}

int squared_relu_backward(Gate *job)
{
    EACH_VECTOR(job, i, there) {
        Floats u = positive(load_narrow(job->up + i, there));
        store_narrow(job->dup + i, there, floats(2) * u * load_narrow(job->dy + i, there));
    }
    return 0;
}

#endif
