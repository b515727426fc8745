/* c = a b for BF16 matrices, summed in FP32 and left so, or rounded to BF16 once.
 *
 *     product_along    a is contracted along its rows, which are read as they lie
 *     product_down     both are contracted down their columns, DEPTH pairs of rows at a time
 *
 * Sums of up to 2 DEPTH products are one chain each, and added up in order: what an element of c is
 * depends on its row of a and its column of b alone, whatever the sizes and threads.
 */

#include <stdlib.h>

#include "product.h"

enum { TOGETHER = 32, COLUMNS = 288, DEPTH = 128 };

typedef struct {
    int64_t next, units; /* of which one is `together` rows of c, a multiple of a panel */
    const uint16_t *a, *b;
    void *c; /* [rows, columns] of FP32, or of BF16 if `narrow` */
    int64_t rows, columns, depth, together, a_across, b_across, b_along, narrow;
} Product;

#define EACH_UNIT(job, unit)                                                                       \
    for (int64_t unit; (unit = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->units;)

INLINE int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t panels_of(int64_t columns) { return (columns + PANEL - 1) / PANEL; }

/* A few rows of c; `sums` has room for them where one chain does not hold a sum. */
INLINE void multiply_rows(
    const Product *job, float *sums, const Words *b, int64_t row, int64_t column, int64_t rows,
    int64_t columns)
{
    int64_t pairs = job->depth / 2, at = row * job->columns + column;
    Sums c = {sums, 0, COLUMNS, job->columns, 0};
    if (!job->narrow)
        c = (Sums){(float *)job->c + at, 0, job->columns, 0, 0};
    for (int64_t k = 0; k < pairs; k += DEPTH) {
        Left a = rows_of(job->a + row * job->a_across + 2 * k, job->a_across);
        c.narrow = job->narrow && k + DEPTH >= pairs ? (uint16_t *)job->c + at : 0;
        c.adds = k > 0;
        product(c, a, b + k, lesser(DEPTH, pairs - k), pairs, rows, columns);
    }
}

int product_along(Product *job)
{
    float sums[TOGETHER * COLUMNS];
    Words *b = aligned_alloc(64, (size_t)(job->depth / 2 * COLUMNS * 4));
    if (!b)
        return 1;
    EACH_UNIT(job, unit) {
        int64_t end = lesser(job->rows, (unit + 1) * job->together);
        for (int64_t column = 0; column < job->columns; column += COLUMNS) {
            int64_t columns = lesser(COLUMNS, job->columns - column);
            if (job->b_along)
                pack_along(b, job->b + column * job->b_across, columns, job->b_across, job->depth);
            else
                pack_down(b, job->b + column, job->depth, job->b_across, columns);
            for (int64_t row = unit * job->together; row < end; row += TOGETHER) {
                int64_t rows = lesser(TOGETHER, end - row);
                multiply_rows(job, sums, b, row, column, rows, columns);
            }
        }
    }
    free(b);
    return 0;
}

int product_down(Product *job)
{
    int64_t across = job->columns, rights = panels_of(across);
    Words *b = aligned_alloc(64, (size_t)((rights + panels_of(job->together)) * DEPTH * 64));
    if (!b)
        return 1;
    EACH_UNIT(job, unit) {
        int64_t first = unit * job->together, rows = lesser(job->together, job->rows - first);
        for (int64_t t = 0; t < job->depth; t += 2 * DEPTH) {
            int64_t tokens = lesser(2 * DEPTH, job->depth - t), pairs = (tokens + 1) / 2;
            Words *a = b + rights * pairs;
            pack_down(b, job->b + t * job->b_across, tokens, job->b_across, across);
            pack_down(a, job->a + t * job->a_across + first, tokens, job->a_across, rows);
            for (int64_t r = 0; r < rows; r += PANEL) {
                Sums c = {(float *)job->c + (first + r) * across, 0, across, 0, t > 0};
                Left of_panel = columns_of(a, pairs, r);
                product(c, of_panel, b, pairs, pairs, lesser(PANEL, rows - r), across);
            }
        }
    }
    free(b);
    return 0;
}
