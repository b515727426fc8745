/* What a decoder computes between its linear layers, forward and backward, over BF16 in memory.
 *
 * Each function takes parts of its job until none is left, so that several threads may call it for
 * the same job. No number depends on who takes a part.
 */

#include "attention.h"
#include "entropy.h"
#include "gates.h"
#include "norm.h"
