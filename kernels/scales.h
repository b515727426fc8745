/* Block scales, from the largest magnitude of a block in each lane.
 *
 *     fp32          s = amax / target
 *     fp32-5bit     the same, rounded up to a significand of five bits
 *     e8m0          s = 2**k
 *     e4m3          s = E4M3(amax * (S * (1 / target))) under S of a tensor or of `outer`
 */

#ifndef GRIDLAW_SCALES_H
#define GRIDLAW_SCALES_H

#include <float.h>
#include <math.h>

#include "rounding.h"

typedef struct {
    Floats into;           /* q = x / into, under E4M3 x * into */
    Floats stored;         /* s */
    Floats inverse_tensor; /* 1 / S, or 1 */
} Scaling;

INLINE Floats nan_unless_finite(Floats s, Floats amax)
{
    return choose(amax < INFINITY, s, floats(NAN));
}

INLINE Floats up_to_largest(Floats s) { return choose(s > FLT_MAX, floats(FLT_MAX), s); }

/* Four chains of comparisons, since one would wait for itself. */
INLINE Floats largest(const Floats *v, int count)
{
    Ints most[4] = {{0}};
    for (int i = 0; i < count; i += RUN)
        UNROLL for (int j = 0; j < RUN; j++)
            most[j % 4] = larger(most[j % 4], (Ints)magnitude(v[i + j]));
    return (Floats)larger(larger(most[0], most[1]), larger(most[2], most[3]));
}

INLINE Floats fp32_scale(Floats amax, float target, int five_bits)
{
    Floats s = amax / target;
    if (five_bits)
        s = choose(s < INFINITY, (Floats)(((Words)s + 0x7FFFFu) & ~0x7FFFFu), s);
    return nan_unless_finite(s, s);
}

/* k of 2**k = s goes up where the fraction of amax reaches the rule's carry. A subnormal amax is
 * made normal first; k = -127 is a subnormal s. The k of a block of zeros does not show. */
RARE Floats e8m0_scale(Floats amax, const Job *job)
{
    Floats number = amax / job->unit;
    Ints tiny = number < FLT_MIN;
    number = choose(tiny, number * 0x1p32f, number);
    Ints carried = ((Ints)number & 0x7FFFFF) >= job->carry;
    Ints biased = ((Ints)number >> MANTISSA_BITS) - (tiny & 32) - carried - job->exponent;
    biased = smaller(larger(biased, ints(0)), ints(254));
    return nan_unless_finite((Floats)larger(biased << MANTISSA_BITS, ints(1 << 22)), amax);
}

/* S of the elements whose largest magnitude is amax; under that of infinity, 0, all become NaN. */
RARE Floats tensor_scale(Floats amax, const Job *job)
{
    Floats s = job->numerator / amax;
    return choose(amax == 0, floats(1), up_to_largest(s));
}

RARE Scaling e4m3_scaling(Floats amax, Floats tensor, float inverse_target)
{
    Floats stored = to_e4m3(amax * (tensor * inverse_target), floats(0), 0), inverse = 1 / tensor;
    Floats into = 1 / (stored * inverse);
    return (Scaling){up_to_largest(into), stored, inverse};
}

INLINE Scaling scaling_of(Floats amax, Floats tensor, float target, const Job *job)
{
    Floats s;
    switch (job->scale) {
    case E4M3: return e4m3_scaling(amax, tensor, target);
    case E8M0:
        s = e8m0_scale(amax, job);
        return (Scaling){up_to_largest(s * job->headroom), s, floats(1)};
    default:
        s = fp32_scale(amax, target, job->scale == FP32_5BIT);
        return (Scaling){choose(s < FLT_MIN, floats(INFINITY), s), s, floats(1)};
    }
}

INLINE Floats applied(Scaling s) { return s.stored * s.inverse_tensor; }

/* What rounded elements are multiplied by; S of the tensor is left to the operand's factor. */
INLINE Floats outgoing(Scaling s, const Job *job) { return job->outer ? applied(s) : s.stored; }

#endif
