/* Vectors of FP32 lanes, each with the same element of another block: the one place that knows of
 * instruction sets.
 *
 *               lane 0     lane 1     lane 2
 *     v[0]      block 0    block 1    block 2  ...     butterfly    v[i] + v[j], v[i] - v[j]
 *     v[1]      block 0    block 1    block 2  ...     amax         larger(v[0], v[1], ...)
 *     ...                                              scale        one division for all lanes
 *
 * Whatever the block, the transform, the grid and the draw, nothing ever crosses lanes. There are
 * 16 of them with AVX-512, 8 with AVX2 and else 4. Arithmetic is written in the compiler's vector
 * types; intrinsics stand where it would not find the instruction.
 */

#ifndef GRIDLAW_LANES_H
#define GRIDLAW_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
typedef uint64_t Longs __attribute__((vector_size(4 * LANES)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));

enum { MANTISSA_BITS = 23, EXPONENT = 0x7F800000, MAGNITUDE = 0x7FFFFFFF };

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
#if LANES == 16
    return (Ints)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif LANES == 8
    return (Ints)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    Ints mask = a > b;
    return (a & mask) | (b & ~mask);
#endif
}

INLINE Ints smaller(Ints a, Ints b)
{
#if LANES == 16
    return (Ints)_mm512_min_epi32((__m512i)a, (__m512i)b);
#elif LANES == 8
    return (Ints)_mm256_min_epi32((__m256i)a, (__m256i)b);
#else
    Ints mask = a < b;
    return (a & mask) | (b & ~mask);
#endif
}

/* The nearest multiple of a power of two, ties to even: beside 1.5 * 2**23 of its steps a number
 * has no bits for a fraction of one. */
INLINE Floats nearest(Floats q, Floats steps) { return (q + steps) - steps; }
INLINE Floats nearest_integer(Floats q) { return nearest(q, floats(0x1.8p23f)); }

/* Of a number from 0 to 2**22. */
INLINE Floats whole_part(Floats q)
{
#if LANES == 16
    return (Floats)_mm512_floor_ps((__m512)q);
#elif LANES == 8
    return (Floats)_mm256_floor_ps((__m256)q);
#else
    Floats integer = nearest_integer(q);
    return integer - (Floats)((integer > q) & (Ints)floats(1));
#endif
}

/* Products of the low 32 bits of each element. */
INLINE Longs multiply(Longs a, uint32_t b)
{
#if LANES == 16
    return (Longs)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif LANES == 8
    return (Longs)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif defined(__x86_64__)
    return (Longs)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
#else
    return (a & 0xFFFFFFFFu) * (uint64_t)b;
#endif
}

/* BF16 numbers in FP32. GCC 12 widens 16 lanes in two halves. */
INLINE Floats widen(Halves a)
{
#if LANES == 16
    return (Floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)a), 16);
#else
    return (Floats)(__builtin_convertvector(a, Words) << 16);
#endif
}

/* Four words of every fourth lane, `apart` bytes from one to the next, and back. Not through the
 * stack: what is read wider than it was written has to wait. */
INLINE Words join(const char *from, int64_t apart)
{
#if LANES == 16
    __m512i a = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)from));
    a = _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(from + apart)), 1);
    a = _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(from + 2 * apart)), 2);
    return (Words)_mm512_inserti32x4(a, _mm_loadu_si128((const __m128i *)(from + 3 * apart)), 3);
#elif LANES == 8
    __m256i a = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)from));
    return (Words)_mm256_inserti128_si256(a, _mm_loadu_si128((const __m128i *)(from + apart)), 1);
#else
    Words a;
    (void)apart;
    memcpy(&a, from, sizeof a);
    return a;
#endif
}

INLINE void part(Words a, char *to, int64_t apart)
{
#if LANES == 16
    _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128((__m512i)a));
    _mm_storeu_si128((__m128i *)(to + apart), _mm512_extracti32x4_epi32((__m512i)a, 1));
    _mm_storeu_si128((__m128i *)(to + 2 * apart), _mm512_extracti32x4_epi32((__m512i)a, 2));
    _mm_storeu_si128((__m128i *)(to + 3 * apart), _mm512_extracti32x4_epi32((__m512i)a, 3));
#elif LANES == 8
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128((__m256i)a));
    _mm_storeu_si128((__m128i *)(to + apart), _mm256_extracti128_si256((__m256i)a, 1));
#else
    (void)apart;
    memcpy(to, &a, sizeof a);
#endif
}

/* Words of two vectors within every 128 bits. Pairs of 512 bits GCC 12 would pick by a table. */
#if LANES == 16
#define LOW(a, b) (Words)_mm512_unpacklo_epi32((__m512i)(a), (__m512i)(b))
#define HIGH(a, b) (Words)_mm512_unpackhi_epi32((__m512i)(a), (__m512i)(b))
#define LOW_PAIR(a, b) (Words)_mm512_unpacklo_epi64((__m512i)(a), (__m512i)(b))
#define HIGH_PAIR(a, b) (Words)_mm512_unpackhi_epi64((__m512i)(a), (__m512i)(b))
#else
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

#endif
