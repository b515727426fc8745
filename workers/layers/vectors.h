/* 16 FP32 numbers at a time, to and from BF16; the last ones of a row by a mask. */

#ifndef GRIDLAW_VECTORS_H
#define GRIDLAW_VECTORS_H

#include "product.h"

INLINE Floats load(const float *x, __mmask16 there)
{
    return (Floats)_mm512_maskz_loadu_ps(there, x);
}
INLINE void store(float *y, __mmask16 there, Floats a)
{
    _mm512_mask_storeu_ps(y, there, (__m512)a);
}
INLINE Floats load_narrow(const uint16_t *x, __mmask16 there)
{
    return widen((Halves)_mm256_maskz_loadu_epi16(there, x));
}
INLINE Halves narrowed(Floats a) { return (Halves)_mm512_cvtneps_pbh((__m512)a); }
INLINE void store_narrow(uint16_t *y, __mmask16 there, Floats a)
{
    _mm256_mask_storeu_epi16(y, there, (__m256i)narrowed(a));
}
INLINE Floats only(__mmask16 there, Floats a)
{
    return (Floats)_mm512_maskz_mov_ps(there, (__m512)a);
}
INLINE Floats greatest(Floats a, Floats b, __mmask16 there)
{
    return (Floats)_mm512_mask_max_ps((__m512)a, there, (__m512)a, (__m512)b);
}
INLINE float sum_of(Floats a) { return _mm512_reduce_add_ps((__m512)a); }
INLINE Floats fused(Floats a, Floats b, Floats c)
{
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

enum { FURTHER = 512 }; /* elements from what is read and written to what is on its way */

/* The parts of a job that this thread gets, and the rows of a part. */
#define EACH_UNIT(job, unit)                                                                       \
    for (int64_t unit; (unit = taken(&(job)->next)) < (job)->units;)
#define EACH_ROW(job, row)                                                                         \
    EACH_UNIT(job, unit)                                                                           \
        for (int64_t row = unit * (job)->together,                                                 \
                     end = end_of(unit, (job)->together, (job)->rows);                             \
             row < end; row++)

INLINE int64_t taken(int64_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }
INLINE int64_t end_of(int64_t unit, int64_t together, int64_t all)
{
    return (unit + 1) * together < all ? (unit + 1) * together : all;
}

/* e^x within 2 units in the last place; 0 below -104, and NaN stays NaN. */
INLINE Floats exponential(Floats x)
{
    /* Of two operands the second is returned where one is no number. */
    x = (Floats)_mm512_max_ps((__m512)floats(-104), (__m512)x);
    Floats n = (Floats)_mm512_roundscale_ps((__m512)(x * floats(0x1.715476p0f)), 8);
    Floats f = fused(n, floats(-0x1.62e4p-1f), x);
    f = fused(n, floats(-0x1.7f7d1cp-20f), f);
    Floats p = floats(0x1.6c16c2p-10f); /* 1/720, 1/120, ... */
    p = fused(p, f, floats(0x1.111112p-7f));
    p = fused(p, f, floats(0x1.555556p-5f));
    p = fused(p, f, floats(0x1.555556p-3f));
    p = fused(p, f, floats(0.5f));
    p = fused(p, f, floats(1));
    p = fused(p, f, floats(1));
    return (Floats)_mm512_scalef_ps((__m512)p, (__m512)n);
}

#endif
