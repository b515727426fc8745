/* Fake quantization on the CPU: docs/numerics.md in C, with the bits of kernels/reference.py.
 *
 *     v = RHT(x)             signs, butterflies of stride 1, 2, 4, ..., product with 1/sqrt(n)
 *     s = amax / maximum     one scale for each block
 *     y = round(v / s) * s   RTNE or SR onto the grid
 *
 * x is FP32 or BF16, y is FP32. x is read once and y written once; between the two, a block stays
 * in registers and the first-level cache.
 *
 * Lane = block. A vector holds the same element of LANES neighbouring blocks, so that a block lies
 * down an array of vectors:
 *
 *               lane 0     lane 1     lane 2
 *     v[0]      block 0    block 1    block 2  ...     butterfly    v[i] + v[j], v[i] - v[j]
 *     v[1]      block 0    block 1    block 2  ...     amax         larger(v[0], v[1], ...)
 *     ...                                              scale        one division for all lanes
 *
 * Whatever the block, the transform, the grid and the draw, nothing ever crosses lanes. Blocks down
 * the columns of a matrix lie in memory like this already; blocks along its rows are transposed on
 * the way in and out. LANES blocks are a tile.
 *
 * Every operation is one FP32 operation, rounded, in the order of the reference: build without
 * contraction and without fast-math. No header of torch or Python is needed; kernels/native.py
 * compiles this file and fills in the Job.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

enum { RUN = 16, MANTISSA_BITS = 23, EXPONENT = 0x7F800000, MAGNITUDE = 0x7FFFFFFF };
enum { AHEAD = 32 }; /* elements from a load to what is prefetched */
enum { FEW = 16 };   /* largest `half` of a table whose keys are compared one by one */
enum { TO_BF16, TO_INTEGERS, TO_FLOATS, TO_TABLE };

/* Element i of lane l of group g is number g * group + i * along + l * across of the matrix, and
 * the first run of 16 in its block is run l * lane_runs + g * block / 16 of the operand. */
typedef struct {
    const void *x;
    float *y;
    int64_t groups, lanes, group, along, across, lane_runs;
    uint64_t key;
    const float *signs;
    const float *keys, *values; /* TO_TABLE: 2 * half - 1, padded by infinity; 2 * half + 1 */
    int32_t bf16, block, rht, rule, stochastic;
    int32_t least_exponent, mantissa_bits; /* TO_FLOATS, the exponent with FP32's bias */
    int32_t half;
    float norm, maximum;
} Job;

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

INLINE Ints ints(int32_t a) { return a - (Ints){0}; }
INLINE Floats floats(float a) { return a - (Floats){0}; }
INLINE Floats magnitude(Floats a) { return (Floats)((Ints)a & MAGNITUDE); }
INLINE Floats choose(Ints mask, Floats a, Floats b)
{
    return (Floats)(((Ints)a & mask) | ((Ints)b & ~mask));
}

INLINE Ints larger(Ints a, Ints b)
{
#if defined(__AVX2__)
    return (Ints)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    Ints mask = a > b;
    return (a & mask) | (b & ~mask);
#endif
}

/* Products of the low 32 bits of each element. */
INLINE Longs multiply(Longs a, uint32_t b)
{
#if defined(__AVX2__)
    return (Longs)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif defined(__x86_64__)
    return (Longs)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
#else
    return (a & 0xFFFFFFFFu) * (uint64_t)b;
#endif
}

/* ---- Memory: 16 elements of each lane ---- */

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

/* ---- Random Hadamard transform ---- */

INLINE void rotate(Floats *v, const Job *job, int size)
{
    UNROLL for (int i = 0; i < size; i++) v[i] *= job->signs[i];
    UNROLL for (int stride = 1; stride < size; stride *= 2)
        UNROLL for (int i = 0; i < size; i++)
            if (!(i & stride)) {
                Floats a = v[i], b = v[i + stride];
                v[i] = a + b;
                v[i + stride] = a - b;
            }
    UNROLL for (int i = 0; i < size; i++) v[i] *= job->norm;
}

/* ---- Draws ---- */

/* Philox4x32-10 of one run in each lane: `first`, first + step, ...; w[j] gets word j. Even and odd
 * lanes apart, each word in the low half of 64 bits: a product needs no more than that half, so
 * what other operations leave above it may stay until the end. */
INLINE void philox(Words w[4], uint64_t first, uint64_t step, uint64_t key)
{
    Longs even = first + (Longs)LANE_PAIRS(step), odd = even + step;
    Longs c[2][4] = {{even, even >> 32}, {odd, odd >> 32}};
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

/* u = (byte i of the words + 1/2) / 256, as the mantissa of 1 + u. */
INLINE Floats draw(const Words w[4], int i)
{
    int shift = 15 - 8 * (i & 3);
    Words byte = (shift > 0 ? w[i >> 2] << shift : w[i >> 2] >> -shift) & 0x7F8000u;
    return (Floats)(byte | 0x3F804000u) - 1.0f;
}

/* ---- Rounding; q may have its sign in RTNE and is a magnitude in SR ---- */

/* Adding 1.5 * 2**23 leaves no bits for a fraction, so it rounds to an integer, ties to even. */
INLINE Floats round_integer(Floats q, Floats u, int stochastic)
{
    Floats t = stochastic ? q - u : q;
    Floats nearest = (t + 0x1.8p23f) - 0x1.8p23f;
    if (!stochastic)
        return nearest;
    /* floor(t) + 1 */
    return nearest + (Floats)((nearest <= t) & (Ints)floats(1));
}

/* n * step, where the exponent of q gives the step. */
INLINE Floats round_float(Floats q, Floats u, int stochastic, const Job *job)
{
    Ints least = ints(job->least_exponent << MANTISSA_BITS);
    Ints step = larger((Ints)q & EXPONENT, least) - (job->mantissa_bits << MANTISSA_BITS);
    Floats inverse = (Floats)((254 << MANTISSA_BITS) - step);
    return round_integer(q * inverse, u, stochastic) * (Floats)step;
}

/* The code of |q| is the number of keys that it reaches: the thresholds of RTNE, or for SR the
 * magnitudes themselves. Few are compared one by one in all lanes, many are bisected in each. */
INLINE Floats round_by_table(Floats q, Floats u, int stochastic, const Job *job)
{
    Floats low = floats(job->values[0]), high = floats(job->values[1]);
    for (int code = 1; code < 2 * job->half && job->half <= FEW; code++) {
        Ints reached = q >= job->keys[code - 1];
        low = choose(reached, floats(job->values[code]), low);
        high = choose(reached, floats(job->values[code + 1]), high);
    }
    for (int l = 0; l < LANES && job->half > FEW; l++) {
        int code = 0;
        for (int half = job->half; half; half >>= 1)
            code += q[l] >= job->keys[code + half - 1] ? half : 0;
        low[l] = job->values[code];
        high[l] = job->values[code + 1];
    }
    return stochastic ? choose(q - low >= (high - low) * u, high, low) : low;
}

INLINE void round_run(Floats *v, Floats scale, uint64_t run, const Job *job, int rule,
                      int stochastic)
{
    Floats divisor = choose(scale < 0x1p-126f, (Floats)ints(EXPONENT), scale);
    Words w[4];
    if (stochastic)
        philox(w, run, (uint64_t)job->lane_runs, job->key);
    UNROLL for (int i = 0; i < RUN; i++) {
        Floats q = (stochastic || rule == TO_TABLE ? magnitude(v[i]) : v[i]) / divisor;
        Floats u = stochastic ? draw(w, i) : floats(0);
        if (rule == TO_INTEGERS)
            q = round_integer(q, u, stochastic);
        else if (rule == TO_FLOATS)
            q = round_float(q, u, stochastic, job);
        else
            q = round_by_table(q, u, stochastic, job);
        /* A zero has lost its sign on the way, even where q had one. */
        v[i] = (Floats)((Ints)(q * scale) | ((Ints)v[i] & ~MAGNITUDE));
    }
}

INLINE void round_to_bf16(Floats *v)
{
    for (int i = 0; i < RUN; i++) {
        Words bits = (Words)v[i];
        bits = (bits + 0x7FFFu + ((bits >> 16) & 1)) & 0xFFFF0000u;
        v[i] = choose(v[i] == v[i], (Floats)bits, v[i]);
    }
}

/* ---- A tile, and all of them ---- */

/* As integers, magnitudes are in the same order, with NaN above infinity. A scale that is not
 * finite needs no care: infinity times the zero that x / infinity becomes is NaN as well. */
INLINE Floats block_scale(const Floats *v, const Job *job)
{
    Ints most[4] = {{0}};
    for (int i = 0; i < job->block; i += 4)
        for (int j = 0; j < 4; j++)
            most[j] = larger(most[j], (Ints)magnitude(v[i + j]));
    return (Floats)larger(larger(most[0], most[1]), larger(most[2], most[3])) / job->maximum;
}

static void quantize_tile(const Job *job, Floats *v, int64_t group, int64_t lane)
{
    int count = job->lanes - lane < LANES ? (int)(job->lanes - lane) : LANES;
    int64_t at = group * job->group + lane * job->across;
    for (int i = 0; i < job->block; i += RUN)
        load_run(v + i, job, at + i * job->along, count);
    for (int i = 0; job->rht && i < job->block; i += job->rht)
        if (job->rht == RUN)
            rotate(v + i, job, RUN);
        else
            rotate(v + i, job, job->rht);
    Floats scale = block_scale(v, job);
    uint64_t run = (uint64_t)(lane * job->lane_runs + group * (job->block / RUN));
    for (int i = 0; i < job->block; i += RUN, run++) {
        switch (2 * job->rule + job->stochastic) {
        case 2 * TO_BF16: round_to_bf16(v + i); break;
        case 2 * TO_INTEGERS: round_run(v + i, scale, run, job, TO_INTEGERS, 0); break;
        case 2 * TO_INTEGERS + 1: round_run(v + i, scale, run, job, TO_INTEGERS, 1); break;
        case 2 * TO_FLOATS: round_run(v + i, scale, run, job, TO_FLOATS, 0); break;
        case 2 * TO_FLOATS + 1: round_run(v + i, scale, run, job, TO_FLOATS, 1); break;
        case 2 * TO_TABLE: round_run(v + i, scale, run, job, TO_TABLE, 0); break;
        case 2 * TO_TABLE + 1: round_run(v + i, scale, run, job, TO_TABLE, 1); break;
        }
        store_run(v + i, job, at + i * job->along, count);
    }
}

/* Share number `share` of `shares` of the tiles. Returns 0, or 1 where no memory is left. */
int quantize(const Job *job, int64_t share, int64_t shares)
{
    int64_t row = (job->lanes + LANES - 1) / LANES, tiles = job->groups * row;
    Floats *v = aligned_alloc(sizeof *v, (size_t)job->block * sizeof *v);
    if (!v)
        return 1;
    for (int64_t tile = tiles * share / shares; tile < tiles * (share + 1) / shares; tile++)
        quantize_tile(job, v, tile / row, tile % row * LANES);
    free(v);
    return 0;
}
