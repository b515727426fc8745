/* The draws of stochastic rounding: Philox4x32-10 of a run of 16 elements in each lane.
 *
 *     u = (b + 1/2) / 2**n or (b + 1) / 2**n        b of n = 8, 16 or 24 bits
 *
 * A call of the generator gives 128 bits. A draw is made of them where it is used, beside a
 * division that takes longer.
 */

#ifndef GRIDLAW_DRAWS_H
#define GRIDLAW_DRAWS_H

#include "job.h"
#include "lanes.h"

/* Of run `first`, first + step, ... in the lanes; w[j] gets word j. Even and odd lanes apart, each
 * word in the low half of 64 bits: a product needs no more than that half, so what other
 * operations leave above it may stay until the end. */
static void philox(Words w[4], uint64_t first, uint64_t step, uint64_t call, uint64_t key)
{
    Longs lane, calls = call - (Longs){0};
    UNROLL for (int i = 0; i < LANES / 2; i++) lane[i] = 2 * (uint64_t)i;
    Longs high = multiply(lane, (uint32_t)(step >> 32)) << 32;
    Longs even = first + high + multiply(lane, (uint32_t)step);
    Longs odd = even + step;
    Longs c[2][4] = {{even, even >> 32, calls}, {odd, odd >> 32, calls}};
    uint32_t key_0 = (uint32_t)key, key_1 = (uint32_t)(key >> 32);
    UNROLL for (int round = 0; round < 10; round++) {
        for (int half = 0; half < 2; half++) {
            Longs *word = c[half];
            Longs product_0 = multiply(word[0], 0xD2511F53u);
            Longs product_2 = multiply(word[2], 0xCD9E8D57u);
            word[0] = (product_2 >> 32) ^ word[1] ^ key_0;
            word[2] = (product_0 >> 32) ^ word[3] ^ key_1;
            word[1] = product_2;
            word[3] = product_0;
        }
        key_0 += 0x9E3779B9u;
        key_1 += 0xBB67AE85u;
    }
    for (int j = 0; j < 4; j++)
        w[j] = (Words)((c[0][j] & 0xFFFFFFFFu) | (c[1][j] << 32));
}

/* All bits of a run: 8, 16 or 24 for each element take one, two or four calls. */
INLINE void random_words(Words w[RUN], uint64_t run, const Job *job)
{
    int calls = job->random_bits == 24 ? 4 : job->random_bits / 8, call = 0;
    do
        philox(w + 4 * call, run, (uint64_t)job->lane_runs, (uint64_t)call, job->key);
    while (++call < calls);
}

/* u of element i. Up to 16 bits are the mantissa of 1 + b / 2**n, whose difference from 1 - offset
 * is exact; 24 are an integer, whose sum with the offset rounds. */
INLINE Floats draw(const Words *w, int i, int bits, const Job *job)
{
    if (bits == 24)
        return __builtin_convertvector((Ints)(w[i] >> 8), Floats) * 0x1p-24f + job->offset;
    int places = 32 / bits, shift = MANTISSA_BITS - bits - bits * (i % places);
    Words word = w[i / places], mask = (Words)ints(((1 << bits) - 1) << (MANTISSA_BITS - bits));
    Words fraction = (shift > 0 ? word << shift : word >> -shift) & mask;
    return (Floats)(fraction | 0x3F800000u) - (1.0f - job->offset);
}

#endif
