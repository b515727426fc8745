"""The dataset of a run: training windows by (seed, step), and a fixed set of validation windows.

Step s of b sequences reads the places s*b to s*b + b - 1 of the order of training (`order`), whose
epochs lie end to end. Validation reads windows evenly spread over the held-out documents, the same
at every evaluation. Nothing here knows of recipes, and a resumed run needs no state.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sweeps.errors import InputError
from sweeps.runspec import Evaluation
from sweeps.sources import CorpusRef, TokenizerKind, TokenizerRef
from sweeps.training import Order, Training
from workers.data.order import Documents, Ids, Windows, read_windows
from workers.data.tokenized import TokenFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Training and validation tokens of one run.

    Attributes:
        train: Token ids of the training documents.
        validation: Windows [sequences, context + 1], the same at every evaluation.
        context: Tokens in a sequence.
        sequences: Sequences in a batch.
        bytes_per_token: Of the validation targets; None where nobody told the bytes of an id.
        unigram_entropy: Of the training tokens, nats per token.
        documents: Training documents, to be shuffled; None to keep the order of the corpus.
    """

    train: Ids
    validation: Windows
    context: int
    sequences: int
    bytes_per_token: float | None
    unigram_entropy: float
    documents: Documents | None = None

    @property
    def epoch_tokens(self) -> int:
        """Training tokens in one epoch: all whole sequences."""
        return (len(self.train) - 1) // self.context * self.context

    def batch(self, seed: int, step: int, part: slice = slice(None)) -> Windows:
        """Windows [sequences, context + 1] of one optimizer step.

        Args:
            seed: Of the data stream.
            step: Counted from 0.
            part: Which of the step's sequences; the others are not read.
        """
        places = np.arange(step * self.sequences, (step + 1) * self.sequences)[part]
        return read_windows(self.train, self.documents, places, seed=seed, context=self.context)


def open_dataset(
    corpus: CorpusRef,
    tokenizer: TokenizerRef,
    training: Training,
    evaluation: Evaluation,
    cache: Path,
    *,
    longest: int = 0,
) -> Dataset:
    """Read, split and tokenise a corpus, or find the result in the cache.

    Args:
        corpus: The text, pinned.
        tokenizer: What its tokens are.
        training: Context, batch, order and the epochs that are allowed.
        evaluation: The held-out split, and how much of it is read.
        cache: For tokens and learnt tokenizers, shared by runs.
        longest: Tokens of the longest horizon that will be trained.

    Raises:
        InputError: If the corpus changed, or either side is too small for what is asked of it.
        StorageError: If the cache cannot be written.
    """
    files = TokenFiles(corpus, tokenizer, evaluation.held_out, cache)
    train = files.train()
    if len(train) <= training.batch_tokens:
        raise InputError(
            f"training.batch_tokens = {training.batch_tokens}: corpus {corpus.name!r} has only "
            f"{len(train)} training tokens, fewer than one batch and its last target"
        )
    validation = _spread(files.validation(), evaluation, training.context)
    dataset = Dataset(
        train=train,
        validation=validation,
        context=training.context,
        sequences=training.batch_tokens // training.context,
        bytes_per_token=_bytes_per_token(files, tokenizer, validation),
        unigram_entropy=files.about.unigram_entropy,
        documents=files.documents() if training.order is Order.DOCUMENTS else None,
    )
    _check_epochs(dataset, corpus, training, longest)
    return dataset


def _check_epochs(dataset: Dataset, corpus: CorpusRef, training: Training, longest: int) -> None:
    epochs = longest / dataset.epoch_tokens
    if epochs > training.max_epochs:
        raise InputError(
            f"train.max_epochs = {training.max_epochs}: {longest} training tokens are "
            f"{epochs:.3g} epochs of corpus {corpus.name!r}, which has {dataset.epoch_tokens} to "
            "train on; take more text or a smaller budget, or allow as many epochs"
        )


def _bytes_per_token(files: TokenFiles, ref: TokenizerRef, validation: Windows) -> float | None:
    """Mean over the validation targets; over all held-out text where ids do not say their bytes."""
    lengths = files.tokenizer().byte_lengths()
    if lengths is not None:
        return float(lengths[validation[:, 1:]].mean())
    if ref.kind is TokenizerKind.IDS:
        return None
    return files.about.validation_bytes / files.about.validation_tokens


def _spread(tokens: Ids, evaluation: Evaluation, context: int) -> Windows:
    asked = evaluation.tokens // context
    there = (len(tokens) - 1) // context
    if asked < 2:
        raise InputError(
            f"evaluation.tokens = {evaluation.tokens}: needs at least two sequences of "
            f"{context} tokens"
        )
    if asked > there:
        raise InputError(
            f"evaluation.tokens = {evaluation.tokens}: the held-out documents "
            f"(held_out = {evaluation.held_out}) have only {there * context} tokens in whole "
            "sequences"
        )
    starts = (np.arange(asked) * there // asked * context)[:, None]
    windows: Windows = tokens[starts + np.arange(context + 1)].astype(np.int64)
    return windows
