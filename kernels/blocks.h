/* A block in each lane: its scale, and its elements rounded under it.
 *
 *     y = round(v / s) * s        with v / s as a quotient, under E4M3 as a product
 *
 * A quotient is rounded, so that no product with 1 / s can take its place; mending one takes three
 * operations and no less time than the divider, which works beside everything else.
 */

#ifndef GRIDLAW_BLOCKS_H
#define GRIDLAW_BLOCKS_H

#include "draws.h"
#include "rounding.h"
#include "scales.h"

INLINE Floats scaled(Floats v, Floats into, int multiplied)
{
    return multiplied ? magnitude(v) * into : magnitude(v) / into;
}

/* y = the rounded v / into, times back; RTNE where `bits` is 0, else SR with draws of so many bits.
 * Every rule has its own loop for each kind of draw and of scale. */
#define LOOP(times, rule, bits, multiplied) \
    case 2 * rule + multiplied: \
        times for (int i = 0; i < RUN; i++) \
        { \
            Floats q = scaled(v[i], into, multiplied), u = bits ? draw(w, i, bits, job) : q; \
            y[i] = with_sign_of(round_magnitude(q, u, job, rule, bits != 0) * back, v[i]); \
        } \
        break
#define QUOTIENTS(bits) \
    LOOP(UNROLL, TO_INTEGERS, bits, 0); \
    LOOP(UNROLL, TO_FLOATS, bits, 0)
#define ALL(bits) \
    QUOTIENTS(bits); \
    LOOP(UNROLL, TO_INTEGERS, bits, 1); \
    LOOP(UNROLL, TO_FLOATS, bits, 1); \
    LOOP(, TO_TABLE, bits, 0); \
    LOOP(, TO_TABLE, bits, 1)
#define CHOOSE(loop, LOOPS) \
    switch (bits) { \
    case 0: switch (loop) { LOOPS(0); } break; \
    case 8: switch (loop) { LOOPS(8); } break; \
    case 16: switch (loop) { LOOPS(16); } break; \
    case 24: switch (loop) { LOOPS(24); } break; \
    }

/* Where arrays may stay in registers: elements are known by constants alone. */
INLINE void quantize_in_registers(Floats *y, const Floats *v, const Words *w, Floats into,
                                  Floats back, const Job *job, int bits)
{
    CHOOSE(2 * job->rule, QUOTIENTS)
}

RARE void quantize_run(Floats *y, const Floats *v, const Words *w, Floats into, Floats back,
                       const Job *job, int bits)
{
    CHOOSE(2 * job->rule + (job->scale == E4M3), ALL)
}

/* The sum of (y - v)**2 over a block rounded with RTNE. */
RARE Floats squared_error(const Floats *v, Scaling s, const Job *job)
{
    Floats y[RUN], sum = {0};
    for (int i = 0; i < job->block; i += RUN) {
        quantize_run(y, v + i, NULL, s.into, applied(s), job, 0);
        for (int j = 0; j < RUN; j++)
            sum += (y[j] - v[i + j]) * (y[j] - v[i + j]);
    }
    return sum;
}

RARE Scaling better_scaling(const Floats *v, Scaling usual, Scaling other, const Job *job)
{
    Ints better = squared_error(v, other, job) < squared_error(v, usual, job);
    usual.into = choose(better, other.into, usual.into);
    usual.stored = choose(better, other.stored, usual.stored);
    return usual;
}

/* EDEN's s * c, with c the sum of p**2 over that of p * Q: what undoes the block's shrinkage. Where
 * the divisor is 0 c is not finite. */
RARE Floats corrected(const Floats *v, Scaling s, uint64_t run, const Job *job)
{
    Words w[RUN];
    Floats q[RUN], squares = {0}, products = {0}, u;
    for (int i = 0; i < job->block; i += RUN) {
        quantize_run(q, v + i, NULL, s.into, floats(1), job, 0);
        for (int j = 0; j < RUN; j++) {
            Floats p = scaled(v[i + j], s.into, job->scale == E4M3);
            squares += p * p;
            products += p * magnitude(q[j]);
        }
    }
    Floats c = squares / products;
    Floats stored = s.stored * choose(c < INFINITY, c, floats(1));
    if (job->scale != E4M3)
        return stored;
    random_words(w, run, job);
    switch (job->random_bits) {
    case 8: u = draw(w, 0, 8, job); break;
    case 16: u = draw(w, 0, 16, job); break;
    default: u = draw(w, 0, 24, job); break;
    }
    return to_e4m3(stored, u, 1);
}

INLINE int drawn_bits(const Job *job) { return job->rounding == SR ? job->random_bits : 0; }

INLINE void quantize_block(Floats *v, Floats amax, Floats tensor, uint64_t run, const Job *job)
{
    Scaling s = scaling_of(amax, tensor, job->target, job);
    if (job->alternate)
        s = better_scaling(v, s, scaling_of(amax, tensor, job->alternate_target, job), job);
    if (job->rounding == EDEN)
        s.stored = corrected(v, s, run, job);
    Words w[RUN];
    Floats back = outgoing(s, job);
    int bits = drawn_bits(job);
    for (int i = 0; i < job->block; i += RUN, v += RUN, run++) {
        if (bits)
            random_words(w, run, job);
        quantize_run(v, v, w, s.into, back, job, bits);
    }
}

#endif
