/* Vectors of FP32 lanes, and their way between memory and an array of 16: element i of each lane.
 *
 *               lane 0     lane 1     lane 2
 *     v[0]      block 0    block 1    block 2  ...     butterfly    v[i] + v[j], v[i] - v[j]
 *     v[1]      block 0    block 1    block 2  ...     amax         larger(v[0], v[1], ...)
 *     ...                                              scale        one division for all lanes
 *
 * Whatever the block, the transform, the grid and the draw, nothing ever crosses lanes. Blocks down
 * the columns of a matrix lie in memory like this already; blocks along its rows are transposed on
 * the way in and out.
 */

#ifndef GRIDLAW_LANES_H
#define GRIDLAW_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "job.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "two BF16 elements are taken from a word, the first from its low half"
#endif

#if defined(__AVX2__)
#define LANES 8
#define LANE_PAIRS(step) {0, 2 * (step), 4 * (step), 6 * (step)}
#else
#define LANES 4
#define LANE_PAIRS(step) {0, 2 * (step)}
#endif

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
typedef uint64_t Longs __attribute__((vector_size(4 * LANES)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));

enum { MANTISSA_BITS = 23, EXPONENT = 0x7F800000, MAGNITUDE = 0x7FFFFFFF };
enum { AHEAD = 32 }; /* elements from a load to what is prefetched */

#define INLINE static inline __attribute__((always_inline))
#define RARE static __attribute__((noinline))
#define UNROLL _Pragma("GCC unroll 16")

INLINE Ints ints(int32_t a) { return a - (Ints){0}; }
INLINE Floats floats(float a) { return a - (Floats){0}; }
INLINE Floats magnitude(Floats a) { return (Floats)((Ints)a & MAGNITUDE); }
INLINE Floats with_sign_of(Floats size, Floats a)
{
    return (Floats)((Ints)size | ((Ints)a & ~MAGNITUDE));
}
INLINE Floats choose(Ints mask, Floats a, Floats b)
{
    return (Floats)(((Ints)a & mask) | ((Ints)b & ~mask));
}

/* As integers, magnitudes are in the same order, with NaN above infinity. */
INLINE Ints larger(Ints a, Ints b)
{
#if defined(__AVX2__)
    return (Ints)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    Ints mask = a > b;
    return (a & mask) | (b & ~mask);
#endif
}

INLINE Ints smaller(Ints a, Ints b)
{
#if defined(__AVX2__)
    return (Ints)_mm256_min_epi32((__m256i)a, (__m256i)b);
#else
    Ints mask = a < b;
    return (a & mask) | (b & ~mask);
#endif
}

/* Adding 1.5 * 2**23 leaves no bits for a fraction, so it rounds to an integer, ties to even. */
INLINE Floats nearest_integer(Floats q) { return (q + 0x1.8p23f) - 0x1.8p23f; }

/* Of a number from 0 to 2**22. */
INLINE Floats whole_part(Floats q)
{
#if defined(__AVX2__)
    return (Floats)_mm256_floor_ps((__m256)q);
#else
    Floats nearest = nearest_integer(q);
    return nearest - (Floats)((nearest > q) & (Ints)floats(1));
#endif
}

#if defined(__clang__)
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (Ints){__VA_ARGS__})
#endif
#if LANES == 8
#define LOW(a, b) PICK(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(a, b) PICK(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_PAIR(a, b) PICK(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH_PAIR(a, b) PICK(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#else
#define LOW(a, b) PICK(a, b, 0, 4, 1, 5)
#define HIGH(a, b) PICK(a, b, 2, 6, 3, 7)
#define LOW_PAIR(a, b) PICK(a, b, 0, 1, 4, 5)
#define HIGH_PAIR(a, b) PICK(a, b, 2, 3, 6, 7)
#endif

/* 4 x 4 words within every 128 bits, which no processor has to cross. */
INLINE void transpose(Words t[4])
{
    Words a = LOW(t[0], t[1]), b = HIGH(t[0], t[1]), c = LOW(t[2], t[3]), d = HIGH(t[2], t[3]);
    t[0] = LOW_PAIR(a, c);
    t[1] = HIGH_PAIR(a, c);
    t[2] = LOW_PAIR(b, d);
    t[3] = HIGH_PAIR(b, d);
}

/* Four words from each lane, `across` bytes apart: t[i] gets word i. */
INLINE void gather(Words t[4], const char *x, int64_t across)
{
    for (int i = 0; i < 4; i++)
        for (int part = 0; part < LANES / 4; part++)
            memcpy((char *)&t[i] + 16 * part, x + (i + 4 * part) * across, 16);
    transpose(t);
}

INLINE void scatter(Words t[4], char *y, int64_t across)
{
    transpose(t);
    for (int i = 0; i < 4; i++)
        for (int part = 0; part < LANES / 4; part++)
            memcpy(y + (i + 4 * part) * across, (char *)&t[i] + 16 * part, 16);
}

INLINE Floats widen(Halves a) { return (Floats)(__builtin_convertvector(a, Words) << 16); }

INLINE void load_run(Floats *v, const Job *job, int64_t at, int count)
{
    const float *x = (const float *)job->x + at;
    const uint16_t *halves = (const uint16_t *)job->x + at;
    if (count < LANES) {
        for (int i = 0; i < RUN; i++)
            for (int l = 0; l < LANES; l++) {
                int64_t k = i * job->along + l * job->across;
                v[i][l] = l >= count ? 0 : job->bf16 ? widen((Halves){halves[k]})[0] : x[k];
            }
    } else if (job->across == 1) {
        for (int i = 0; i < RUN; i++, x += job->along, halves += job->along) {
            /* 16 rows read and 16 written are more streams than a prefetcher follows. */
            if (job->y)
                __builtin_prefetch(job->y + at + i * job->along + AHEAD, 1);
            if (job->bf16) {
                Halves row;
                memcpy(&row, halves, sizeof row);
                v[i] = widen(row);
            } else
                memcpy(&v[i], x, sizeof v[i]);
            __builtin_prefetch(job->bf16 ? (const void *)(halves + AHEAD) : x + AHEAD);
        }
    } else if (job->bf16) {
        for (int i = 0; i < RUN; i += 8) {
            Words pairs[4];
            gather(pairs, (const char *)(halves + i), 2 * job->across);
            for (int j = 0; j < 4; j++) {
                v[i + 2 * j] = (Floats)(pairs[j] << 16);
                v[i + 2 * j + 1] = (Floats)(pairs[j] & 0xFFFF0000u);
            }
        }
    } else {
        for (int i = 0; i < RUN; i += 4) {
            Words t[4];
            gather(t, (const char *)(x + i), 4 * job->across);
            for (int j = 0; j < 4; j++)
                v[i + j] = (Floats)t[j];
        }
    }
}

INLINE void store_run(const Floats *v, const Job *job, int64_t at, int count)
{
    float *y = job->y + at;
    if (count < LANES) {
        for (int i = 0; i < RUN; i++)
            for (int l = 0; l < count; l++)
                y[i * job->along + l * job->across] = v[i][l];
    } else if (job->across == 1) {
        for (int i = 0; i < RUN; i++)
            memcpy(y + i * job->along, &v[i], sizeof v[i]);
    } else {
        for (int i = 0; i < RUN; i += 4) {
            Words t[4];
            for (int j = 0; j < 4; j++)
                t[j] = (Words)v[i + j];
            scatter(t, (char *)(y + i), 4 * job->across);
        }
    }
}

#endif
