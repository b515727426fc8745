"""Post-training quantization against stored endpoints and against weights cast by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kernels.operands import CARRIED
from kernels.presets import PRESETS
from kernels.recipes import Gemm, Precision, Recipe, Rht
from kernels.reference import fake_quantize
from kernels.streams import Streams
from sweeps.errors import CheckpointError
from sweeps.metrics import Endpoint
from sweeps.run_questions import CastEndpoint, PtqAnswer, PtqQuestion, RunPlace
from sweeps.runspec import RunSpec
from tests.workers.tiny import BATCH, endpoints, run, tiny_spec, write_corpus
from workers.checkpoint import Checkpoints
from workers.data.dataset import open_dataset
from workers.evaluate import sequence_losses
from workers.models.registry import make
from workers.ptq import cast_endpoints, forward_alone

SHORT, LONG = 10 * BATCH, 20 * BATCH


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def home(corpus, tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def trained(home, corpus) -> dict[str, list[Endpoint]]:
    """A bf16 and a ufp4 run to two horizons."""
    return {
        recipe: endpoints(run(tiny_spec(corpus, recipe), [10, 20], home / recipe))
        for recipe in ("bf16", "ufp4")
    }


def place(home: Path, spec: RunSpec) -> RunPlace:
    folder = home / spec.recipe.name
    return RunPlace(spec=spec, folder=str(folder), cache=str(home / "cache"))


@pytest.fixture
def cast(home, trained, corpus):
    def call(
        *recipes: Recipe, weights_only: bool = False, partner: RunPlace | None = None
    ) -> PtqAnswer:
        return cast_endpoints(
            PtqQuestion(
                run=place(home, tiny_spec(corpus)),
                horizons=(SHORT, LONG),
                recipes=recipes,
                weights_only=weights_only,
                trained=() if partner is None else (partner,),
            )
        )

    return call


def rows(answer: PtqAnswer) -> dict[tuple[str, int], CastEndpoint]:
    return {(row.recipe, row.tokens): row for row in answer.endpoints}


def test_the_endpoint_itself_is_read_to_the_bit_and_casting_to_bf16_costs_nothing(cast, trained):
    answer = cast(PRESETS["bf16"])
    assert [row.tokens for row in answer.endpoints] == [SHORT, LONG]
    assert (answer.sequences, answer.eval_tokens) == (16, 512)
    for row, point in zip(answer.endpoints, trained["bf16"], strict=True):
        assert row.loss_bf16 == row.loss == point.loss
        assert row.cost is not None
        assert (row.cost.mean, row.cost.se) == (0, 0)
        assert row.trained is None


def test_the_trained_gap_is_that_of_the_stored_endpoints(cast, trained, home, corpus):
    answer = cast(PRESETS["ufp4"], PRESETS["nvfp4"], partner=place(home, tiny_spec(corpus, "ufp4")))
    found = rows(answer)
    for plain, low in zip(trained["bf16"], trained["ufp4"], strict=True):
        difference = found["ufp4", plain.tokens].trained
        assert difference is not None
        assert difference.mean == pytest.approx(low.loss - plain.loss, abs=1e-12)
        assert 0 < difference.se < low.loss_se
        assert found["nvfp4", plain.tokens].trained is None


def by_hand(home: Path, spec: RunSpec, tokens: int, recipe: Recipe) -> np.ndarray:
    """Losses of sequences in BF16 with the weights of the blocks replaced by cast ones."""
    folder = Checkpoints(home / "bf16", spec)
    weights = {
        name.removeprefix("weight."): tensor
        for name, tensor in folder.weights(tokens).tensors.items()
    }
    for name, tensor in weights.items():
        if name.startswith("blocks.") and tensor.ndim == 2:
            cast = fake_quantize(tensor.bfloat16(), recipe.fprop.right, 0).dequantized()
            assert (cast.bfloat16().float() == cast).all()  # so that BF16 holds it
            weights[name] = cast
    model = make(
        spec.model,
        vocab_size=257,
        context=32,
        recipe=PRESETS["bf16"],
        streams=Streams(sr=0, rht=0),
    )
    model.load_state_dict(weights)
    data = open_dataset(spec.corpus, spec.tokenizer, spec.training, spec.evaluation, home / "cache")
    losses: np.ndarray = sequence_losses(model, torch.from_numpy(data.validation), 8).numpy()
    return losses


@pytest.mark.parametrize("tokens", [SHORT, LONG])
def test_weights_alone_are_those_cast_by_hand_and_errors_are_paired(cast, home, corpus, tokens):
    spec, recipe = tiny_spec(corpus), replace(PRESETS["mxfp4"], pad=True)
    row = rows(cast(recipe, weights_only=True))["mxfp4", tokens]
    low, plain = (by_hand(home, spec, tokens, one) for one in (recipe, PRESETS["bf16"]))
    assert row.loss == pytest.approx(low.mean(), rel=1e-6)
    assert row.cost is not None
    assert row.cost.mean == pytest.approx((low - plain).mean(), rel=1e-3)
    assert row.cost.se == pytest.approx((low - plain).std(ddof=1) / 4, rel=1e-3)
    assert row.cost.se < low.std(ddof=1) / 4


def test_casting_activations_too_is_another_loss(cast):
    alone = rows(cast(PRESETS["e2m1-ref"], weights_only=True))
    both = rows(cast(PRESETS["e2m1-ref"]))
    assert all(alone[key].loss != row.loss for key, row in both.items())


def test_a_transform_cancels_where_weights_alone_are_cast_to_something_fine(cast):
    """INT8 under an RHT loses next to nothing, which a transform of one operand would not do."""
    weights = replace(PRESETS["ufp4"].fprop.right, grid=PRESETS["int8"].fprop.right.grid)
    fine = Recipe(name="fine", fprop=Gemm(left=weights, right=weights, rht=Rht()))
    for row in cast(fine, weights_only=True).endpoints:
        assert row.cost is not None
        assert abs(row.cost.mean) < 2e-3


def test_what_is_left_of_a_recipe_is_its_fprop():
    for recipe in PRESETS.values():
        both = forward_alone(recipe, weights_only=False)
        assert (both.fprop, both.dgrad, both.wgrad) == (recipe.fprop, Gemm(), Gemm())
        alone = forward_alone(recipe, weights_only=True)
        assert (alone.fprop.left, alone.fprop.right) == (CARRIED, recipe.fprop.right)
        assert both.exempt_last == recipe.exempt_last


def test_a_transform_goes_where_nothing_is_left_to_be_cast():
    fprop = Gemm(left=PRESETS["ufp4"].fprop.left, rht=Rht())
    alone = forward_alone(Recipe(name="x", fprop=fprop), weights_only=True)
    assert alone.fprop == Gemm()


@pytest.mark.parametrize("is_weights_only", [True, False])
def test_the_precision_of_products_stays_while_one_is_quantized(is_weights_only):
    recipe = replace(PRESETS["ufp4"], gemm=Precision.BF16)
    assert forward_alone(recipe, weights_only=is_weights_only).gemm is Precision.BF16
    backward = Recipe(name="b", wgrad=recipe.wgrad, gemm=Precision.TF32)
    assert not forward_alone(backward, weights_only=is_weights_only).is_quantized


def test_blocks_and_transforms_wider_than_the_model_are_padded(cast):
    wide = Recipe(name="wide", fprop=replace(PRESETS["ufp4"].fprop, rht=Rht(size=32)))
    for recipe in (wide, PRESETS["mxfp8"]):
        assert all(row.cost is not None for row in cast(recipe).endpoints)


def test_an_endpoint_without_weights_is_refused(cast, home, trained, corpus, tmp_path):
    spec = tiny_spec(corpus)
    question = PtqQuestion(
        run=replace(place(home, spec), folder=str(tmp_path)),
        horizons=(SHORT,),
        recipes=(PRESETS["ufp4"],),
    )
    with pytest.raises(CheckpointError, match=f"holds no weights of the endpoint at {SHORT} tok"):
        cast_endpoints(question)


def test_a_trained_run_that_lost_its_weights_has_no_paired_error(cast, home, corpus, tmp_path):
    partner = replace(place(home, tiny_spec(corpus, "ufp4")), folder=str(tmp_path))
    assert [row.trained for row in cast(PRESETS["ufp4"], partner=partner).endpoints] == [None, None]
