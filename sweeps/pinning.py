"""A sweep's corpus, read once: pinned by its hash and held against what the sweep asks of it.

    epochs = training tokens of a run / tokens in all whole sequences of the training documents

Of bytes and of token shards the tokens are counted exactly. A learnt or a given tokenizer makes at
most one token of a byte, so that a plan says how many epochs a run takes at least; a worker counts
again before it trains.
"""

from collections.abc import Iterator

from sweeps.budget import format_tokens
from sweeps.corpora.pin import Pinned, pin
from sweeps.corpora.split import check_sides
from sweeps.corpus_sections import corpus_of
from sweeps.errors import Problem, SpecError
from sweeps.plan import Plan
from sweeps.runspec import Evaluation
from sweeps.sources import TokenizerKind, TokenizerRef
from sweeps.spec import SweepSpec

EXACT = frozenset({TokenizerKind.BYTE, TokenizerKind.IDS})
"""Tokenizers of which a corpus has as many tokens as it was measured to have at most."""


def pin_corpus(spec: SweepSpec) -> Pinned:
    """Read the spec's corpus.

    Raises:
        InputError: If there are no documents, or some that cannot be read.
        SpecError: If there are too few for what is asked, or ids outside the vocabulary.
    """
    tokenizer = spec.tokenizer_ref()  # before a long read
    pinned = pin(corpus_of(spec.corpus), spec.eval.held_out)
    check_sides(pinned.train.documents, pinned.held_out.documents, spec.eval.held_out)
    problems = (
        *_vocabulary(pinned, tokenizer),
        *_batch(pinned, spec),
        *_evaluation(pinned, spec.eval.evaluation(), spec.train.context),
    )
    if problems:
        raise SpecError(*problems)
    return pinned


def check_epochs(plan: Plan, pinned: Pinned) -> None:
    """No run may read its corpus more often than `train.max_epochs`.

    Raises:
        SpecError: With the epochs that the most demanding cell would take.
    """
    context = plan.spec.train.context
    epoch = (pinned.train.tokens - 1) // context * context
    cell = max(plan.cells, key=lambda cell: cell.horizon)
    epochs = cell.horizon / epoch
    if epochs > plan.spec.train.max_epochs:
        most, least = (
            ("", "") if plan.spec.tokenizer_ref().kind in EXACT else (" at most", " at least")
        )
        message = (
            f"budget {cell.budget} of model {cell.model} is {format_tokens(cell.horizon)}, "
            f"{epochs:.3g} epochs{least} of a corpus with {format_tokens(epoch)}{most} to train "
            "on; take more text or a smaller budget, or allow as many epochs"
        )
        value = str(plan.spec.train.max_epochs)
        raise SpecError(Problem(key="train.max_epochs", value=value, message=message))


def _vocabulary(pinned: Pinned, tokenizer: TokenizerRef) -> Iterator[Problem]:
    largest = pinned.largest_id
    if largest is not None and largest >= tokenizer.vocab_size:
        yield Problem(
            key="tokenizer.ids",
            value=str(tokenizer.vocab_size),
            message=f"the corpus holds the id {largest}; ids must be below this number",
        )


def _batch(pinned: Pinned, spec: SweepSpec) -> Iterator[Problem]:
    """The largest batch and its last target must be there."""
    batch = max(
        horizon.training.batch_tokens for shape in spec.shapes() for horizon in spec.horizons(shape)
    )
    if pinned.train.tokens <= batch:
        yield Problem(
            key="train.batch",
            value=f"{batch}tok",
            message=f"the corpus has at most {pinned.train.tokens} training tokens, fewer than one "
            "batch and its last target",
        )


def _evaluation(pinned: Pinned, evaluation: Evaluation, context: int) -> Iterator[Problem]:
    asked, there = evaluation.tokens // context, (pinned.held_out.tokens - 1) // context
    if asked > there:
        yield Problem(
            key="eval.tokens",
            value=f"{evaluation.tokens}tok",
            message=f"the documents that held_out = {evaluation.held_out} leaves for validation "
            f"have at most {there * context} tokens in whole sequences",
        )
