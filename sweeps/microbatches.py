"""How the batch of an optimizer step is cut into the equal parts whose gradients are added up.

    sequences of a part = training.microbatch_tokens / context, where the run says it
                        = else the largest divisor of the batch within MICROBATCH_TOKENS that holds
                          whole blocks of wgrad

The cut is a function of the spec alone: blocks along the tokens, scales of whole tensors and random
draws depend on it, so that neither a device nor the number of ranks may move it. Standard library
only: this also runs on a bare GPU node.
"""

from sweeps.errors import InputError
from sweeps.runspec import RunSpec

MICROBATCH_TOKENS = 32_768
"""Tokens of the largest part of a run that names none."""


def microbatch_sequences(spec: RunSpec) -> int:
    """Sequences in one part, a divisor of those in the batch.

    Without `training.microbatch_tokens` a batch that has no part of whole wgrad blocks is split
    wherever the recipe pads, and stays whole where it does not.

    Raises:
        InputError: If the named part is no multiple of the context or does not divide the batch.
    """
    training, wgrad = spec.training, spec.recipe.wgrad
    context, batch = training.context, training.batch_tokens
    if (named := training.microbatch_tokens) is not None:
        if named <= 0 or named % context or batch % named:
            raise InputError(
                f"training.microbatch_tokens = {named}: must be a multiple of training.context = "
                f"{context} that divides training.batch_tokens = {batch}"
            )
        return named // context
    sequences = batch // context
    largest = min(sequences, MICROBATCH_TOKENS // context)
    small = [part for part in range(1, largest + 1) if sequences % part == 0]
    whole = [part for part in small if part * context % wgrad.block == 0]
    return max(whole or (small if spec.recipe.pad else ()), default=sequences)


def check_ranks(spec: RunSpec, ranks: int) -> None:
    """Refuse a number of ranks that cannot share the parts of a step equally.

    Raises:
        InputError: If it does not divide the number of parts; and as `microbatch_sequences`.
    """
    parts = microbatches(spec)
    if parts % ranks:
        raise InputError(
            f"resources.gpus = {ranks}: must divide the {parts} equal parts of a step, each of "
            f"{spec.training.batch_tokens // parts} tokens (training.microbatch_tokens)"
        )


def microbatches(spec: RunSpec) -> int:
    """Parts of a step.

    Raises:
        InputError: As `microbatch_sequences`.
    """
    return spec.training.batch_tokens // spec.training.context // microbatch_sequences(spec)
