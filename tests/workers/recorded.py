"""Losses that each family reaches under each recipe, and how they are recorded anew:

    python -m tests.workers.recorded

writes `recorded_losses.json` beside this file. That is due when a change of numerics is meant,
which raises TRAINING_VERSION or NUMERICS_VERSION; the difference says how far it went.

The text is drawn from a small grammar, so that it is the same under every version of Python. A run
takes 24 steps of 512 tokens on a model of two blocks, the second of which is a mixture of experts
in `moe`: enough to learn the words, and within a second. Widths are filled up to whole blocks, and
routers balance slowly, so that few choices of experts hang on a last bit.
"""

import json
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from kernels.presets import PRESETS
from sweeps.runspec import Evaluation, RunSpec
from sweeps.shapes import Experts, ModelShape
from sweeps.training import Order
from tests.workers.tiny import endpoints, run, tiny_spec

PLACE = Path(__file__).with_name("recorded_losses.json")
STEPS = 24
BATCH = 512

DENSE = ModelShape(
    name="dense", num_layers=2, width=64, num_heads=4, num_kv_heads=2, head_size=16, mlp_width=192
)
SHAPES = {
    "dense": DENSE,
    "moe": replace(
        DENSE,
        name="moe",
        experts=Experts(
            count=8, active=2, width=64, shared_width=64, dense_layers=1, balance_rate=0.001
        ),
    ),
}
RECIPES = (
    "bf16", "fp16", "fp8-block", "mxfp8", "int8", "mxfp4", "nvfp4", "quartet2", "e2m1-ref", "ufp4",
)  # fmt: skip
CASES = tuple(f"{family} {recipe}" for family in SHAPES for recipe in RECIPES)

_WORDS = {
    "who": ("the model", "a layer", "one gradient", "the router", "every weight"),
    "does": ("rounds", "follows", "keeps", "forgets", "moves"),
    "what": ("its scale", "the loss", "some tokens", "an expert", "the carrier"),
}


def write_grammar(folder: Path) -> Path:
    """Documents of twenty sentences each."""
    drawn = random.Random(0)
    for number in range(64):
        sentences = (
            " ".join(_WORDS[part][int(drawn.random() * 5)] for part in ("who", "does", "what"))
            for _ in range(20)
        )
        (folder / f"{number:02d}.txt").write_text(". ".join(sentences) + ".\n")
    return folder


def spec_of(case: str, corpus: Path) -> RunSpec:
    """The run of a case such as `moe ufp4`."""
    family, recipe = case.split()
    spec = tiny_spec(
        corpus,
        context=64,
        batch_tokens=BATCH,
        learning_rate=0.01,
        warmup_tokens=4 * BATCH,
        order=Order.DOCUMENTS,
    )
    return replace(
        spec,
        model=SHAPES[family],
        recipe=replace(PRESETS[recipe], pad=True),
        evaluation=Evaluation(held_out=0.1, tokens=1024),
    )


def reached(case: str, corpus: Path, folder: Path) -> dict[str, float]:
    """Losses of a case at its end, nats per token."""
    torch.set_num_threads(1)
    point = endpoints(run(spec_of(case, corpus), [STEPS], folder))[0]
    return {"loss": point.loss, "loss_bf16": point.loss_bf16, "train_loss": point.train_loss}


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "corpus").mkdir()
        corpus = write_grammar(folder / "corpus")
        losses = {case: reached(case, corpus, folder / case) for case in CASES}
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    place.write_text(json.dumps(losses, indent=1) + "\n")


if __name__ == "__main__":
    main()
