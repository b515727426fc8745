/* Causal softmax attention over BF16, forward and backward, a head of keys at a time.
 *
 *     s = q k^T / sqrt(D)     p = e^(s - l), l = ln sum e^s     y = p v
 *     dp = dy v^T             ds = p (dp - sum over D of dy y)
 *     dq = ds k / sqrt(D)     dk = ds^T q / sqrt(D)             dv = p^T dy
 *
 * Products are of BF16 numbers, summed in FP32; p and ds are rounded to BF16 for them. ROWS queries
 * are taken together, with the keys up to the last of them, so that nobody holds all of s.
 */

#ifndef GRIDLAW_ATTENTION_H
#define GRIDLAW_ATTENTION_H

#include <math.h>
#include <stdlib.h>

#include "vectors.h"

typedef struct {
    int64_t next, units; /* of which one is a sequence with a head of keys */
    const uint16_t *q, *k, *v, *dy;
    uint16_t *y, *dq, *dk, *dv; /* [B, T, heads, D] all, k and v with `shared` heads */
    float *l;                   /* [B, heads, T] */
    int64_t heads, shared, positions, width;
    float scale;
} Attention;

enum { ROWS = 32 };

INLINE Sums sums_in(float *c, int64_t across, int adds) { return (Sums){c, 0, across, 0, adds}; }

/* One head of keys, panelled as the products need it, and what ROWS queries need beside. */
typedef struct {
    Words *k_along, *v_along, *k_down, *v_down, *q_down, *dy_down, *p, *ds;
    float *s, *dp, *wide, *dk, *dv;
    uint16_t *rows;
    int64_t span, pairs, features; /* keys and features up to whole panels, pairs of positions */
} Room;

INLINE int64_t whole(int64_t count) { return (count + PANEL - 1) / PANEL * PANEL; }

typedef struct {
    char *memory; /* null where bytes are only counted */
    int64_t used;
} Cut;

static void *cut_from(Cut *cut, int64_t bytes)
{
    void *part = cut->memory ? cut->memory + cut->used : 0;
    cut->used += whole(bytes / 4 + 1) * 4;
    return part;
}

/* Returns the bytes that it takes. */
static int64_t lay_out(Room *room, char *memory, const Attention *job)
{
    Cut rest = {memory, 0};
    int64_t span = whole(job->positions), features = whole(job->width);
    int64_t along = 4 * span * (job->width / 2), down = 4 * features * (job->positions + 1) / 2;
    *room = (Room){.span = span, .pairs = (job->positions + 1) / 2, .features = features};
    Words **panels[] = {&room->k_along, &room->v_along, &room->k_down,
                        &room->v_down,  &room->q_down,  &room->dy_down};
    for (int i = 0; i < 6; i++)
        *panels[i] = cut_from(&rest, i < 2 ? along : down + 4 * features);
    room->p = cut_from(&rest, 4 * span * ROWS / 2);
    room->ds = cut_from(&rest, 4 * span * ROWS / 2);
    room->s = cut_from(&rest, 4 * span * ROWS);
    room->dp = cut_from(&rest, 4 * span * ROWS);
    room->rows = cut_from(&rest, 2 * span * ROWS);
    room->wide = cut_from(&rest, 4 * features * ROWS);
    room->dk = cut_from(&rest, 4 * features * span);
    room->dv = cut_from(&rest, 4 * features * span);
    return rest.used;
}

/* One query with the keys up to itself: p = e^(s - largest) and their sum; returns l. */
INLINE float soften(
    const float *s, uint16_t *p, int64_t keys, int64_t span, float scale, float *sum)
{
    Floats top = floats(-INFINITY), total = {0};
    for (int64_t j = 0; j < keys; j += PANEL) {
        __mmask16 there = first_of(keys - j);
        top = greatest(top, load(s + j, there), there);
    }
    float largest = _mm512_reduce_max_ps((__m512)top) * scale;
    for (int64_t j = 0; j < span; j += PANEL) {
        Floats e = {0};
        if (j < keys) {
            __mmask16 there = first_of(keys - j);
            Floats below = fused(load(s + j, there), floats(scale), floats(-largest));
            e = only(there, exponential(below));
            total += e;
        }
        store_narrow(p + j, 0xFFFF, e);
    }
    *sum = sum_of(total);
    return largest + logf(*sum);
}

INLINE void store_scaled(uint16_t *to, const float *from, int64_t width, float scale)
{
    for (int64_t d = 0; d < width; d += PANEL) {
        __mmask16 there = first_of(width - d);
        store_narrow(to + d, there, load(from + d, there) * floats(scale));
    }
}

static void forward_unit(const Attention *job, Room *room, int64_t unit)
{
    int64_t T = job->positions, D = job->width, group = job->heads / job->shared;
    int64_t b = unit / job->shared, g = unit % job->shared;
    int64_t across = job->heads * D, shared = job->shared * D;
    pack_along(room->k_along, job->k + b * T * shared + g * D, T, shared, D);
    pack_down(room->v_down, job->v + b * T * shared + g * D, T, shared, D);
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t first = 0; first < T; first += ROWS) {
            int64_t count = T - first < ROWS ? T - first : ROWS, keys = first + count;
            int64_t at = (b * T + first) * across + h * D;
            Left q = rows_of(job->q + at, across);
            product(sums_in(room->s, room->span, 0), q, room->k_along, D / 2, D / 2, count, keys);
            float sums[ROWS], *l = job->l + (b * job->heads + h) * T + first;
            for (int64_t i = 0; i < count; i++) {
                float *s = room->s + i * room->span;
                uint16_t *row = room->rows + i * room->span;
                l[i] = soften(s, row, first + i + 1, whole(keys), job->scale, &sums[i]);
            }
            Left p = rows_of(room->rows, room->span);
            Sums y = sums_in(room->wide, room->features, 0);
            product(y, p, room->v_down, (keys + 1) / 2, room->pairs, count, D);
            for (int64_t i = 0; i < count; i++) {
                const float *sum = room->wide + i * room->features;
                store_scaled(job->y + at + i * across, sum, D, 1 / sums[i]);
            }
        }
}

/* p and ds of two queries, which end with the keys `keys` and `keys` + 1. */
INLINE void weigh(
    const Attention *job, const Room *room, int64_t pair, int64_t keys, int64_t span,
    int there_is_next, const float *l, const float *delta)
{
    for (int64_t j = 0; j < span; j += PANEL) {
        Words p[2], ds[2];
        UNROLL for (int64_t i = 0; i < 2; i++)
        {
            int64_t row = (2 * pair + i) * room->span + j;
            Floats a = {0}, d = {0};
            if (j < keys + i && (!i || there_is_next)) {
                __mmask16 there = first_of(keys + i - j);
                Floats s = fused(load(room->s + row, there), floats(job->scale), floats(-l[i]));
                a = only(there, exponential(s));
                d = a * (load(room->dp + row, there) - floats(delta[i]));
            }
            p[i] = low_halves(narrowed(a));
            ds[i] = low_halves(narrowed(d));
            store_narrow(room->rows + row, 0xFFFF, d);
        }
        room->p[j / PANEL * (ROWS / 2) + pair] = joined(p[0], p[1]);
        room->ds[j / PANEL * (ROWS / 2) + pair] = joined(ds[0], ds[1]);
    }
}

/* `count` queries from `first` on, which lie at `at`. */
static void backward_block(
    const Attention *job, Room *room, int64_t at, const float *l, int64_t first, int64_t count)
{
    int64_t D = job->width, across = job->heads * D, keys = first + count, F = room->features;
    Left q = rows_of(job->q + at, across), dy = rows_of(job->dy + at, across);
    product(sums_in(room->s, room->span, 0), q, room->k_along, D / 2, D / 2, count, keys);
    product(sums_in(room->dp, room->span, 0), dy, room->v_along, D / 2, D / 2, count, keys);
    float delta[ROWS + 1] = {0};
    for (int64_t i = 0; i < count; i++) {
        const uint16_t *y = job->y + at + i * across, *of_y = job->dy + at + i * across;
        Floats sum = {0};
        for (int64_t d = 0; d < D; d += PANEL) {
            __mmask16 there = first_of(D - d);
            sum = fused(load_narrow(y + d, there), load_narrow(of_y + d, there), sum);
        }
        delta[i] = sum_of(sum);
    }
    for (int64_t i = 0; i < count; i += 2)
        weigh(job, room, i / 2, first + i + 1, whole(keys), i + 1 < count, l + i, delta + i);
    Left ds = rows_of(room->rows, room->span);
    int64_t pairs = (keys + 1) / 2;
    product(sums_in(room->wide, F, 0), ds, room->k_down, pairs, room->pairs, count, D);
    for (int64_t i = 0; i < count; i++)
        store_scaled(job->dq + at + i * across, room->wide + i * F, D, job->scale);
    for (int64_t j = 0; j < keys; j += PANEL) {
        int64_t rows = keys - j < PANEL ? keys - j : PANEL, queries = (count + 1) / 2;
        Left of_ds = columns_of(room->ds, ROWS / 2, j), of_p = columns_of(room->p, ROWS / 2, j);
        const Words *qs = room->q_down + first / 2, *dys = room->dy_down + first / 2;
        product(sums_in(room->dk + j * F, F, 1), of_ds, qs, queries, room->pairs, rows, D);
        product(sums_in(room->dv + j * F, F, 1), of_p, dys, queries, room->pairs, rows, D);
    }
}

static void backward_unit(const Attention *job, Room *room, int64_t unit)
{
    int64_t T = job->positions, D = job->width, group = job->heads / job->shared;
    int64_t b = unit / job->shared, g = unit % job->shared;
    int64_t across = job->heads * D, shared = job->shared * D, of_keys = b * T * shared + g * D;
    pack_along(room->k_along, job->k + of_keys, T, shared, D);
    pack_along(room->v_along, job->v + of_keys, T, shared, D);
    pack_down(room->k_down, job->k + of_keys, T, shared, D);
    memset(room->dk, 0, (size_t)(4 * room->features * T));
    memset(room->dv, 0, (size_t)(4 * room->features * T));
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        int64_t of_head = b * T * across + h * D;
        pack_down(room->q_down, job->q + of_head, T, across, D);
        pack_down(room->dy_down, job->dy + of_head, T, across, D);
        for (int64_t first = 0; first < T; first += ROWS)
            backward_block(
                job, room, of_head + first * across, job->l + (b * job->heads + h) * T + first,
                first, T - first < ROWS ? T - first : ROWS);
    }
    for (int64_t t = 0; t < T; t++) {
        int64_t to = of_keys + t * shared, from = t * room->features;
        store_scaled(job->dk + to, room->dk + from, D, job->scale);
        store_scaled(job->dv + to, room->dv + from, D, 1);
    }
}

static int each(Attention *job, void (*work)(const Attention *, Room *, int64_t))
{
    Room room;
    char *memory = aligned_alloc(64, (size_t)lay_out(&room, 0, job));
    if (!memory)
        return 1;
    lay_out(&room, memory, job);
    EACH_UNIT(job, unit) work(job, &room, unit);
    free(memory);
    return 0;
}

int attention_forward(Attention *job) { return each(job, forward_unit); }
int attention_backward(Attention *job) { return each(job, backward_unit); }

#endif
