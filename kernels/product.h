/* Products of BF16 matrices, summed in FP32, on a core that multiplies pairs of BF16 numbers.
 *
 *     c[m][n] = sum over pairs k of  a(m, k).low * b(k, n).low + a(m, k).high * b(k, n).high
 *
 * A word holds two BF16 numbers that follow each other along the axis that is contracted. Along a
 * row of a matrix in memory that is what any two neighbours are: `rows_of`. Down its columns, or
 * to have 16 columns in a vector, words are laid out first: panel p has columns 16 p to 16 p + 15,
 * one vector of words for each pair.
 *
 *     pack_down      [rows, columns] contracted down its columns    panels [columns / 16][rows / 2]
 *     pack_along     [rows, columns] contracted along its rows      panels [rows / 16][columns / 2]
 *
 * What a panel has beyond the matrix is zero. A sum takes its pairs in their order, in one chain:
 * it does not depend on the sizes of anything else.
 */

#ifndef GRIDLAW_PRODUCT_H
#define GRIDLAW_PRODUCT_H

#include "lanes.h"

#ifndef __AVX512BF16__
#error "pairs of BF16 numbers are multiplied by AVX512-BF16 instructions"
#endif

enum { PANEL = 16, TILE = 8, AHEAD = 16 }; /* rows ahead of those that are packed */

/* The left factor: word (m, k) lies m * row + k * pair words from the first. */
typedef struct {
    const uint32_t *words;
    int64_t row, pair;
} Left;

INLINE Left rows_of(const uint16_t *x, int64_t across)
{
    return (Left){(const uint32_t *)x, across / 2, 1};
}

/* Columns of a panelled matrix as rows, from one that is a multiple of TILE. */
INLINE Left columns_of(const Words *panels, int64_t pairs, int64_t first)
{
    const Words *panel = panels + first / PANEL * pairs;
    return (Left){(const uint32_t *)panel + first % PANEL, 1, PANEL};
}

INLINE __mmask16 first_of(int64_t count)
{
    return count >= 16 ? 0xFFFF : (__mmask16)((1 << count) - 1);
}

INLINE Words low_halves(Halves a) { return (Words)_mm512_cvtepu16_epi32((__m256i)a); }
INLINE Words joined(Words low, Words high) { return low | (high << 16); }

RARE void pack_panel_down(
    Words *panel, const uint16_t *x, int64_t rows, int64_t across, int64_t columns)
{
    __mmask16 there = first_of(columns);
    for (int64_t r = 0; r + 1 < rows; r += 2, x += 2 * across) {
        Halves low = (Halves)_mm256_maskz_loadu_epi16(there, x);
        Halves high = (Halves)_mm256_maskz_loadu_epi16(there, x + across);
        __builtin_prefetch(x + AHEAD * across);
        __builtin_prefetch(x + (AHEAD + 1) * across);
        *panel++ = joined(low_halves(low), low_halves(high));
    }
    if (rows & 1)
        *panel = low_halves((Halves)_mm256_maskz_loadu_epi16(there, x));
}

/* `columns` and `across` are even. */
RARE void pack_panel_along(
    Words *panel, const uint16_t *x, int64_t rows, int64_t across, int64_t columns)
{
    Ints steps = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    steps *= (int32_t)(across / 2);
    __mmask16 there = first_of(rows);
    for (int64_t k = 0; k < columns; k += 2)
        *panel++ = (Words)_mm512_mask_i32gather_epi32(
            _mm512_setzero_si512(), there, (__m512i)steps, (const int *)(x + k), 4);
}

INLINE void pack_down(
    Words *panels, const uint16_t *x, int64_t rows, int64_t across, int64_t columns)
{
    for (int64_t c = 0; c < columns; c += PANEL, panels += (rows + 1) / 2)
        pack_panel_down(panels, x + c, rows, across, columns - c);
}

INLINE void pack_along(
    Words *panels, const uint16_t *x, int64_t rows, int64_t across, int64_t columns)
{
    for (int64_t r = 0; r < rows; r += PANEL, panels += columns / 2)
        pack_panel_along(panels, x + r * across, rows - r, across, columns);
}

/* Where a product goes: `sums` are FP32, and what is there already is added where `adds`; `narrow`
 * is null, or takes the sums rounded to BF16 instead. */
typedef struct {
    float *sums;
    uint16_t *narrow;
    int64_t across, narrow_across;
    int adds;
} Sums;

INLINE Sums sums_at(Sums c, int64_t row, int64_t column)
{
    c.sums += row * c.across + column;
    c.narrow = c.narrow ? c.narrow + row * c.narrow_across + column : 0;
    return c;
}

/* `rows` rows and `panels` panels of a product; both are constants where this is inlined. */
INLINE void product_tile(
    Sums c, Left a, const Words *b, int64_t pairs, int64_t apart, int64_t columns, int rows,
    int panels)
{
    Floats sum[TILE][3];
    UNROLL for (int p = 0; p < panels; p++)
        UNROLL for (int r = 0; r < rows; r++) sum[r][p] = (Floats){0};
    if (c.narrow)
        UNROLL for (int r = 0; r < rows; r++)
        {
            __builtin_prefetch(c.narrow + r * c.narrow_across, 1);
            __builtin_prefetch(c.narrow + r * c.narrow_across + PANEL * panels - 1, 1);
        }
    for (int64_t line = 0; line < pairs; line += PANEL) {
        /* The next rows are on their way to the nearest cache while these are multiplied. */
        if (a.pair == 1)
            UNROLL for (int r = 0; r < rows; r++)
                __builtin_prefetch(a.words + (rows + r) * a.row + line);
        for (int64_t k = line; k < pairs && k < line + PANEL; k++) {
            __m512bh right[3];
            UNROLL for (int p = 0; p < panels; p++) right[p] = (__m512bh)b[p * apart + k];
            UNROLL for (int r = 0; r < rows; r++)
            {
                uint32_t word;
                memcpy(&word, a.words + r * a.row + k * a.pair, sizeof word);
                __m512bh left = (__m512bh)_mm512_set1_epi32((int32_t)word);
                UNROLL for (int p = 0; p < panels; p++) sum[r][p] =
                    (Floats)_mm512_dpbf16_ps((__m512)sum[r][p], left, right[p]);
            }
        }
    }
    UNROLL for (int p = 0; p < panels; p++)
    {
        __mmask16 there = first_of(columns - p * PANEL);
        UNROLL for (int r = 0; r < rows; r++)
        {
            int64_t at = r * c.across + p * PANEL, to = r * c.narrow_across + p * PANEL;
            if (c.adds)
                sum[r][p] += (Floats)_mm512_maskz_loadu_ps(there, c.sums + at);
            if (c.narrow)
                _mm256_mask_storeu_epi16(
                    c.narrow + to, there, (__m256i)_mm512_cvtneps_pbh((__m512)sum[r][p]));
            else
                _mm512_mask_storeu_ps(c.sums + at, there, (__m512)sum[r][p]);
        }
    }
}

#define PRODUCT_ROWS(ROWS)                                                                         \
    RARE void product_##ROWS(                                                                      \
        Sums c, Left a, const Words *b, int64_t pairs, int64_t apart, int64_t columns, int panels) \
    {                                                                                              \
        switch (panels) {                                                                          \
        case 1: product_tile(c, a, b, pairs, apart, columns, ROWS, 1); break;                      \
        case 2: product_tile(c, a, b, pairs, apart, columns, ROWS, 2); break;                      \
        default: product_tile(c, a, b, pairs, apart, columns, ROWS, 3);                            \
        }                                                                                          \
    }

PRODUCT_ROWS(8)
PRODUCT_ROWS(4)
PRODUCT_ROWS(2)
PRODUCT_ROWS(1)

/* c [rows, columns]: a times the panels b, `apart` vectors from one to the next, of which `pairs`
 * are contracted. */
RARE void product(
    Sums c, Left a, const Words *b, int64_t pairs, int64_t apart, int64_t rows, int64_t columns)
{
    for (int64_t n = 0; n < columns;) {
        int64_t left = (columns - n + PANEL - 1) / PANEL, width = columns - n;
        int panels = left == 4 ? 2 : left < 3 ? (int)left : 3;
        const Words *from = b + n / PANEL * apart;
        for (int64_t m = 0; m < rows;) {
            Left at = {a.words + m * a.row, a.row, a.pair};
            Sums to = sums_at(c, m, n);
            int64_t more = rows - m;
            if (more >= 8)
                product_8(to, at, from, pairs, apart, width, panels);
            else if (more >= 4)
                product_4(to, at, from, pairs, apart, width, panels);
            else if (more >= 2)
                product_2(to, at, from, pairs, apart, width, panels);
            else
                product_1(to, at, from, pairs, apart, width, panels);
            m += more >= 8 ? 8 : more >= 4 ? 4 : more >= 2 ? 2 : 1;
        }
        n += panels * PANEL;
    }
}

#endif
