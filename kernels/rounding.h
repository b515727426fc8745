/* Rounding of scaled magnitudes onto the grid, and of anything to BF16 or TF32.
 *
 *     RTNE   the nearest, a tie to the even code
 *     SR     of lo <= q < hi to hi if (q - lo) / (hi - lo) >= u, else to lo
 *
 * Grids whose steps are powers of two are rounded by arithmetic: q / step, its whole part, what is
 * left and the product with the step are exact.
 */

#ifndef GRIDLAW_ROUNDING_H
#define GRIDLAW_ROUNDING_H

#include "lanes.h"

enum { FEW = 16 }; /* largest `half` of a table whose keys are compared one by one */
enum { E4M3_LEAST_EXPONENT = 127 - 6, E4M3_MANTISSA_BITS = 3 };

INLINE Floats round_integer(Floats q, Floats u, int stochastic)
{
    if (!stochastic)
        return nearest_integer(q);
    Floats low = whole_part(q);
    return low + (Floats)((q - low >= u) & (Ints)floats(1));
}

/* n * step, where the exponent of q gives the step. */
INLINE Floats round_float(Floats q, Floats u, int stochastic, int least_exponent, int mantissa_bits)
{
    Ints least = ints(least_exponent << MANTISSA_BITS);
    Ints step = larger((Ints)q & EXPONENT, least) - (mantissa_bits << MANTISSA_BITS);
    Floats inverse = (Floats)((254 << MANTISSA_BITS) - step);
    return round_integer(q * inverse, u, stochastic) * (Floats)step;
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
    case TO_INTEGERS: return round_integer(q, u, stochastic);
    case TO_FLOATS:
        return round_float(q, u, stochastic, job->least_exponent, job->mantissa_bits);
    default: return round_by_table(q, u, stochastic, job);
    }
}

/* A magnitude, at most 448; NaN stays NaN. */
INLINE Floats to_e4m3(Floats a, Floats u, int stochastic)
{
    a = round_float(a, u, stochastic, E4M3_LEAST_EXPONENT, E4M3_MANTISSA_BITS);
    return choose(a > 448.0f, floats(448), a);
}

/* Without the low bits, to nearest even: 16 leave BF16, 13 TF32. */
INLINE void round_significands(Floats v[RUN], int dropped_bits)
{
    uint32_t half = (1u << (dropped_bits - 1)) - 1, kept = ~0u << dropped_bits;
    for (int i = 0; i < RUN; i++) {
        Words bits = (Words)v[i];
        bits = (bits + half + ((bits >> dropped_bits) & 1)) & kept;
        v[i] = choose(v[i] == v[i], (Floats)bits, v[i]);
    }
}

#endif
