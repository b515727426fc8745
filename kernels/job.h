/* What the kernel is asked to do; kernels/job.py fills it in and has the same fields.
 *
 * An operand is a matrix, and a lane a piece of a row of it that is worked on by itself: `span`
 * elements along the contraction axis, whole blocks and whole transforms. LANES lanes are a tile.
 *
 *     element i of lane l of group g     number g * group + i * along + l * across of x and y
 *     its run of 16                      number l * lane_runs + g * span / 16 + i / 16
 *     its block's maximum                [(g * span + i) / block, l] of amax, which has all lanes
 *
 * Any number of threads may work on a job at once: each takes tiles from `next` on.
 */

#ifndef GRIDLAW_JOB_H
#define GRIDLAW_JOB_H

#include <stdint.h>

enum { RUN = 16 }; /* elements that draw their random bits together */
enum { KEEP, TO_INTEGERS, TO_FLOATS, TO_TABLE };
enum { RTNE, SR, EDEN };
enum { FP32, FP32_5BIT, E8M0, E4M3 };

typedef struct {
    const void *x; /* FP32, or BF16 */
    float *y;
    float *amax; /* measure() writes it; quantize() reads it, or takes each block's own if null */
    int64_t groups, lanes, group, along, across, lane_runs;
    int64_t next; /* tile that nobody has taken yet; 0 at first */
    uint64_t key;
    const float *signs;
    const float *thresholds, *neighbours; /* TO_TABLE: 2 * half - 1 keys of RTNE and of SR */
    const float *values;                  /* TO_TABLE: 2 * half + 1, of the codes */
    int32_t bf16, span, block, outer, rht, to_bf16; /* outer and rht: 0 where there is none */
    int32_t rule, rounding, scale, random_bits, alternate;
    int32_t least_exponent, mantissa_bits; /* TO_FLOATS: the exponent with FP32's bias */
    int32_t half;
    int32_t exponent, carry; /* E8M0: what k is less by; the least fraction that goes up */
    int32_t dropped_bits;    /* of the results */
    float norm, maximum, offset, headroom, unit;
    float target, alternate_target; /* of a block's maximum; under E4M3 1 / target */
    float numerator, tensor_scale;  /* E4M3: S = numerator / amax, or S itself without `outer` */
} Job;

#endif
