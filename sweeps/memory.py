"""Memory that a training takes on each of its GPUs, estimated from the spec before it starts.

P parameters, M of them in linear layers of the blocks; t tokens of a microbatch; R ranks
(`resources.gpus`), each with P' = P / R of them under `shard` and P' = P under `replicate`; other
letters as in `sweeps.counts`. In bytes:

    weights       4 P' + 8 T h L              FP32 masters, and RoPE's table in each block
    gradients     4 P'                        FP32
    optimizer     8 P' adamw                  two FP32 moments
                  8 P' - 4 M' muon            of the blocks' layers the momentum alone
    activations                               what forward keeps for backward, 16 bits each
        attention   t (2 (2 d + 3 (H + K) h) + 4 (2 H + K + 1))
        MLP         t (2 (2 d + k m) + 4)
        experts     the same with s for m, routing t (4 d + 8 E), and for each of A t rows, and of
                    the zero rows that fill up an expert's tokens to whole blocks of wgrad,
                    2 (2 d + k e)
        quantized w 4 M of the layers of which backward multiplies what forward did
        the last    t (4 d + 4)               norm before the head
                  checkpointed: 2 d t a block, and all of the largest block once
    logits        16 t V                      16 bits with their gradient, and passes in FP32
    workspace     4 (t (i + o) + i o)         FP32 operands of the largest layer, i in and o out
    gathered      0 for one rank              of `shard`: weights of two blocks, embedding and head
                                              whole in FP32, and as many gradients
    update        4 P'                        weights before a step that a report tells of, or the
                                              gradients of `replicate` on their way
                  4 P' + 4 M' + 14 S muon     the momentum's change, a batch of S elements iterated

    total         weights + gradients + optimizer
                  + the larger of update and (activations + logits + workspace + gathered)

The parts of a pass do not all peak at once, so the total is an upper estimate: of small models it
is 1 to 1.6 times the most that their tensors hold on a CPU at one time, which a test measures, of
logits a quarter being there, since our kernels make no pass over them in FP32. A process takes some
more that no tensor holds (a CUDA context, libraries, gaps between blocks), see `fits`. Blocks that
run on a GPU without being compiled, or on a CPU without our kernels for BF16, keep their norms in
FP32, and so up to twice the activations.
"""

from dataclasses import dataclass, replace

from kernels.kept_operands import keeps_quantized_w
from sweeps.counts import Linear, count_parameters, is_dense, linear_layers
from sweeps.microbatches import microbatch_sequences, microbatches
from sweeps.runspec import RunSpec, Sharding
from sweeps.shapes import Mlp, ModelShape
from sweeps.training import OptimizerKind

FP32 = 4
"""Bytes of a weight, a gradient, a moment, a reduction."""

CARRIER = 2
"""Bytes of an activation."""

LOGIT = 16
"""Bytes of a logit: itself and its gradient in 16 bits, three passes in FP32."""

USABLE = 0.9
"""Share of a device's memory that tensors may fill."""

BATCHED_ELEMENTS = 2**24
"""Elements of matrices that Muon takes together, but for a larger one."""

ITERATED = 14
"""Bytes of each of them: gathered and batched in FP32, three copies in BF16."""

MOST_GPUS = 4096
"""Ranks of one run that are asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on each rank, by what they are for."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    workspace: int
    gathered: int
    update: int

    @property
    def total_bytes(self) -> int:
        """The most that is held at one time: in a pass through the model, or in an update."""
        passes = self.activations + self.logits + self.workspace + self.gathered
        return self.weights + self.gradients + self.optimizer + max(passes, self.update)

    def fits(self, device_bytes: int) -> bool:
        """Whether a device of so much memory has a tenth to spare beside it."""
        return self.total_bytes <= USABLE * device_bytes


def estimate(spec: RunSpec, *, checkpoints: bool = False) -> Memory:
    """What each rank of a run takes.

    Args:
        spec: The run; its `resources` say how many ranks there are.
        checkpoints: Whether a block keeps its input alone for backward.

    Raises:
        InputError: If the spec's microbatches do not divide its batch.
    """
    shape, context = spec.model, spec.training.context
    tokens = microbatch_sequences(spec) * context
    every = count_parameters(shape, spec.tokenizer.vocab_size).total
    by_muon = sum(_by_muon(spec))
    turns = 2 * context * shape.head_width * shape.num_layers
    return Memory(
        weights=FP32 * (_held(spec, every) + turns),
        gradients=FP32 * _held(spec, every),
        optimizer=FP32 * _held(spec, 2 * every - by_muon),
        activations=_activations(spec, tokens, checkpoints=checkpoints),
        logits=LOGIT * tokens * spec.tokenizer.vocab_size,
        workspace=max(_workspace(layer, tokens) for layer in linear_layers(shape)),
        gathered=_gathered(spec),
        update=FP32 * (_held(spec, every) + _held(spec, by_muon)) + ITERATED * _iterated(spec),
    )


def least_gpus(spec: RunSpec, device_bytes: int, *, checkpoints: bool = False) -> int | None:
    """Fewest ranks, among those that can share the microbatches, on which a run fits.

    Args:
        spec: The run; its own number of ranks does not count.
        device_bytes: Memory of each GPU.
        checkpoints: Whether a block keeps its input alone for backward.

    Returns:
        None if it fits on no number of such GPUs up to MOST_GPUS.
    """
    parts = microbatches(spec)
    most = min(parts, MOST_GPUS)
    for gpus in (count for count in range(1, most + 1) if parts % count == 0):
        resources = replace(spec.resources, gpus=gpus, sharding=Sharding.SHARD)
        needed = estimate(replace(spec, resources=resources), checkpoints=checkpoints)
        if needed.fits(device_bytes):
            return gpus
    return None


def _is_whole(spec: RunSpec) -> bool:
    """Whether each rank holds all weights."""
    return spec.resources.gpus == 1 or spec.resources.sharding is Sharding.REPLICATE


def _held(spec: RunSpec, elements: int) -> int:
    """What of so many each rank holds."""
    return elements if _is_whole(spec) else -(-elements // spec.resources.gpus)


def _by_muon(spec: RunSpec) -> list[int]:
    """Elements of each matrix, or stack of them, that Muon moves."""
    if spec.training.optimizer is not OptimizerKind.MUON:
        return []
    return [layer.weights for layer in linear_layers(spec.model)]


def _iterated(spec: RunSpec) -> int:
    """Elements of the largest batch that Muon takes together."""
    by_muon = _by_muon(spec)
    return max(*by_muon, min(sum(by_muon), BATCHED_ELEMENTS)) if by_muon else 0


def _activations(spec: RunSpec, tokens: int, *, checkpoints: bool) -> int:
    shape = spec.model
    blocks = _kept_weights(spec)
    for block in range(shape.num_layers):
        blocks[block] += _attention(shape) * tokens
        if is_dense(shape, block):
            blocks[block] += _mlp(shape, shape.mlp_width) * tokens
        else:
            blocks[block] += _mixture(spec, tokens)
    last = (2 * CARRIER * shape.width + FP32) * tokens
    if checkpoints:
        return last + len(blocks) * CARRIER * shape.width * tokens + max(blocks)
    return last + sum(blocks)


def _kept_weights(spec: RunSpec) -> list[int]:
    """Of each block: the quantized weights that forward leaves to backward."""
    shape, recipe = spec.model, spec.recipe
    kept = [0] * shape.num_layers
    if keeps_quantized_w(recipe):
        for layer in linear_layers(shape):
            if recipe.quantizes(layer.name, shape.num_layers):
                kept[layer.block] += FP32 * layer.weights
    return kept


def _attention(shape: ModelShape) -> int:
    """Bytes of a token: residual, normed; q, k and v as projected and as turned, their mixture."""
    carried = 2 * shape.width + 3 * (shape.query_width + shape.kv_width)
    keys = shape.kv_width // shape.head_width
    return CARRIER * carried + FP32 * (2 * shape.num_heads + keys + 1)


def _mlp(shape: ModelShape, inner: int) -> int:
    """Bytes of a token: residual, normed, and what the activation takes and gives."""
    widths = {Mlp.SWIGLU: 3, Mlp.RELU2: 2}[shape.mlp]
    return CARRIER * (2 * shape.width + widths * inner) + FP32


def _mixture(spec: RunSpec, tokens: int) -> int:
    shape, experts = spec.model, spec.model.experts
    assert experts is not None
    rows = experts.active * tokens + experts.count * (spec.recipe.wgrad.block - 1)
    routing = FP32 * (shape.width + 2 * experts.count) * tokens
    shared = _mlp(shape, experts.shared_width) * tokens
    return shared + routing + _mlp(shape, experts.width) * rows


def _workspace(layer: Linear, tokens: int) -> int:
    ends = layer.in_features + layer.out_features
    return FP32 * (tokens * ends * layer.active + layer.weights // layer.stack)


def _gathered(spec: RunSpec) -> int:
    shape = spec.model
    parameters = count_parameters(shape, spec.tokenizer.vocab_size)
    if _is_whole(spec):
        return 0
    blocks = [0] * shape.num_layers
    for layer in linear_layers(shape):
        blocks[layer.block] += layer.weights
    return 2 * FP32 * (2 * max(blocks) + parameters.embedding + parameters.head)
