"""Run records made from a formula, for tests of pairing, fitting and answering."""

from collections.abc import Callable, Sequence

from kernels.presets import PRESETS
from sweeps.metrics import Endpoint
from sweeps.records import Outcome, RunRecord
from sweeps.runspec import Evaluation, RunSpec, Seeds
from sweeps.shapes import ModelShape
from sweeps.sources import CorpusKind, CorpusRef, TokenizerRef
from sweeps.training import Training

UNIGRAM = 3.25


def made_spec(recipe: str = "bf16", *, width: int = 64, seed: int = 0) -> RunSpec:
    """A spec of a small decoder."""
    return RunSpec(
        model=ModelShape(
            name=f"w{width}", num_layers=2, width=width, num_heads=2, mlp_width=2 * width
        ),
        recipe=PRESETS[recipe],
        corpus=CorpusRef(
            name="text",
            kind=CorpusKind.STDLIB,
            path="",
            fingerprint="f0",
            num_bytes=1000,
            num_documents=10,
        ),
        tokenizer=TokenizerRef(),
        training=Training(context=64, batch_tokens=1024, learning_rate=1e-3, warmup_tokens=2048),
        evaluation=Evaluation(held_out=0.1, tokens=4096),
        seeds=Seeds(init=seed, data=seed, sr=seed, rht=seed),
    )


def made_endpoint(tokens: int, loss: float) -> Endpoint:
    """An endpoint with this loss."""
    return Endpoint(
        tokens=tokens,
        loss=loss,
        loss_se=0.01,
        loss_bf16=loss,
        train_loss=loss,
        eval_tokens=4096,
        bytes_per_token=1.0,
        unigram_entropy=UNIGRAM,
    )


def made_run(
    spec: RunSpec,
    losses: dict[int, float],
    *,
    horizons: Sequence[int] | None = None,
    outcome: Outcome = Outcome.SUCCEEDED,
    detail: str = "",
) -> RunRecord:
    """A record with these losses by token count; horizons are those counts unless given."""
    N = 20 * spec.model.width**2
    return RunRecord(
        spec=spec,
        N=N,
        flops_per_token=6.0 * N,
        horizons=tuple(horizons if horizons is not None else sorted(losses)),
        outcome=outcome,
        detail=detail,
        endpoints=tuple(made_endpoint(tokens, losses[tokens]) for tokens in sorted(losses)),
    )


def made_grid(
    recipes: dict[str, float],
    *,
    widths: Sequence[int] = (32, 64, 112),
    budgets: Sequence[int] = (1_000_000, 4_000_000),
    seeds: Sequence[int] = (0,),
    noise: Callable[[], float] = lambda: 0.0,
) -> list[RunRecord]:
    """A full grid in which each recipe loses a constant number of nats, plus noise."""
    return [
        made_run(
            made_spec(recipe, width=width, seed=seed),
            {D: smooth_loss(20 * width**2, D) + offset + noise() for D in budgets},
        )
        for width in widths
        for recipe, offset in recipes.items()
        for seed in seeds
    ]


def smooth_loss(N: float, D: float) -> float:
    """A Chinchilla surface at the scale of small runs, nats per token."""
    return float(1.0 + 5 * N**-0.2 + 200 * D**-0.4)
