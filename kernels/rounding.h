/* Rounding of scaled magnitudes onto the grid, and of anything to BF16 or TF32.
 *
 *     RTNE   the nearest, a tie to the even code
 *     SR     of lo <= q < hi to hi if (q - lo) / (hi - lo) >= u, else to lo
 *
 * Grids whose steps are powers of two are rounded by arithmetic. RTNE is a sum (lanes.h). For SR
 * q / step, its whole part, what is left and the product with the step are exact.
 */

#ifndef GRIDLAW_ROUNDING_H
#define GRIDLAW_ROUNDING_H

#include "job.h"
#include "lanes.h"

enum { FEW = 16 }; /* largest `half` of a table whose keys are compared one by one */
enum { E4M3_LEAST_EXPONENT = 127 - 6, E4M3_MANTISSA_BITS = 3 };
enum { TO_STEPS = (MANTISSA_BITS << MANTISSA_BITS) + (1 << (MANTISSA_BITS - 1)) };

INLINE Floats up_or_down(Floats q, Floats u)
{
    Floats low = whole_part(q);
    return low + (Floats)((q - low >= u) & (Ints)floats(1));
}

/* n * step, where the exponent of q gives the step; TO_STEPS more in its bits is 1.5 * 2**23 steps,
 * which must be finite. */
INLINE Floats round_float(Floats q, Floats u, int stochastic, int least_exponent, int mantissa_bits)
{
    Words exponent = (Words)larger((Ints)q & EXPONENT, ints(least_exponent << MANTISSA_BITS));
    int32_t less = mantissa_bits << MANTISSA_BITS;
    if (!stochastic)
        return nearest(q, (Floats)(exponent + (Words)ints(TO_STEPS - less)));
    Words step = exponent - (Words)ints(less);
    Floats inverse = (Floats)((254u << MANTISSA_BITS) - step);
    return up_or_down(q * inverse, u) * (Floats)step;
}

/* The code of q is the number of keys that it reaches: the thresholds of RTNE, or for SR the
 * magnitudes themselves. Few are compared one by one in all lanes, many are bisected in each. */
INLINE Floats round_by_table(Floats q, Floats u, int stochastic, const Job *job)
{
    const float *keys = stochastic ? job->neighbours : job->thresholds;
    Floats low = floats(job->values[0]), high = floats(job->values[1]);
    for (int code = 1; code < 2 * job->half && job->half <= FEW; code++) {
        Ints reached = q >= keys[code - 1];
        low = choose(reached, floats(job->values[code]), low);
        high = choose(reached, floats(job->values[code + 1]), high);
    }
    for (int l = 0; l < LANES && job->half > FEW; l++) {
        int code = 0;
        for (int half = job->half; half; half >>= 1)
            code += q[l] >= keys[code + half - 1] ? half : 0;
        low[l] = job->values[code];
        high[l] = job->values[code + 1];
    }
    return stochastic ? choose((q - low) / (high - low) >= u, high, low) : low;
}

INLINE Floats round_magnitude(Floats q, Floats u, const Job *job, int rule, int stochastic)
{
    q = (Floats)smaller((Ints)q, (Ints)floats(job->maximum));
    switch (rule) {
    case TO_INTEGERS: return stochastic ? up_or_down(q, u) : nearest_integer(q);
    case TO_FLOATS:
        return round_float(q, u, stochastic, job->least_exponent, job->mantissa_bits);
    default: return round_by_table(q, u, stochastic, job);
    }
}

/* A magnitude, at most 448; NaN stays NaN. */
INLINE Floats to_e4m3(Floats a, Floats u, int stochastic)
{
    a = choose(a > 448.0f, floats(448), a);
    return round_float(a, u, stochastic, E4M3_LEAST_EXPONENT, E4M3_MANTISSA_BITS);
}

/* Without the low bits, to nearest even: 16 leave BF16, 13 TF32. */
INLINE void round_significands(Floats v[RUN], int dropped_bits)
{
    uint32_t half = (1u << (dropped_bits - 1)) - 1, kept = ~0u << dropped_bits;
    UNROLL for (int i = 0; i < RUN; i++)
    {
        Words bits = (Words)v[i];
        bits = (bits + half + ((bits >> dropped_bits) & 1)) & kept;
        v[i] = choose(v[i] == v[i], (Floats)bits, v[i]);
    }
}

#endif
