"""What is trained for `benchmarks.step`: runs of the example sweep under several recipes.

What a step costs does not depend on its text, so that the tokens are drawn at random and no corpus
is read.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from benchmarks.machine import ROOT
from kernels.presets import PRESETS
from kernels.recipes import BF16_RECIPE, Precision, Recipe
from sweeps.model_sections import ModelSection
from sweeps.plan import expand
from sweeps.runspec import RunSpec
from sweeps.sources import CorpusKind, CorpusRef
from sweeps.spec import SweepSpec, load_spec
from workers.data.dataset import Dataset
from workers.trainee import Trainee

EXAMPLE = ROOT / "examples" / "quickstart.yaml"
WIDE = ModelSection(layers=2, width=512, heads=8)
NAMES = ("ufp4", "e2m1-ref", "nvfp4", "mxfp8")
BATCHES = 64
"""Batches of tokens that are drawn, after which they come again."""

_NO_CORPUS = CorpusRef(
    name="random", kind=CorpusKind.STDLIB, path="", fingerprint="", num_bytes=0, num_documents=0
)


def quickstart() -> SweepSpec:
    """The example."""
    return load_spec(EXAMPLE)


def wide() -> SweepSpec:
    """The example with a model 512 wide."""
    return quickstart().model_copy(update={"models": (WIDE,)})


def largest(spec: SweepSpec) -> RunSpec:
    """The BF16 run of a sweep's largest model, as the plan has it but for the corpus."""
    baselines = [run for run in expand(spec, _NO_CORPUS).runs if run.spec.recipe.is_bf16]
    return max(baselines, key=lambda run: run.N).spec


def recipes_on(device: torch.device) -> dict[str, Recipe]:
    """BF16 first, then the others, padded where a width is no multiple of their blocks.

    On a GPU also `ufp4` with products of BF16 operands, which its FP32 scales make inexact.
    """
    recipes = {name: replace(PRESETS[name], pad=True) for name in NAMES}
    if device.type == "cuda":
        recipes["ufp4 bf16"] = replace(recipes["ufp4"], gemm=Precision.BF16)
    return {"bf16": BF16_RECIPE, **recipes}


def trainees(run: RunSpec, recipes: Mapping[str, Recipe]) -> dict[str, Trainee]:
    """A model for each recipe, all on the same tokens."""
    batch, context = run.training.batch_tokens, run.training.context
    generator = np.random.default_rng(0)
    ids = generator.integers(run.tokenizer.vocab_size, size=BATCHES * batch + 1, dtype=np.uint16)
    dataset = Dataset(
        train=ids,
        validation=ids[None, : context + 1].astype(np.int64),
        context=context,
        sequences=batch // context,
        bytes_per_token=1.0,
        unigram_entropy=0.0,
    )
    return {
        name: Trainee(replace(run, recipe=recipe), dataset, seconds=0.0)
        for name, recipe in recipes.items()
    }
