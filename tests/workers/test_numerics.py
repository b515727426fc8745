"""The numerics process: a question in, an answer or a sentence out; tensors from files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from safetensors.torch import save_file

from kernels.bias import GridBias
from kernels.blocks import Block
from kernels.formats import E2M1, INT4
from kernels.measures import quality
from kernels.operands import Operand, Scale
from kernels.surveys import grid_bias
from sweeps.errors import InputError
from sweeps.questions import BiasQuestion, TableQuestion, TensorQuestion, place_of
from workers.tensor_file import tensor_quality

ROOT = Path(__file__).resolve().parents[2]


def process(question: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "workers.numerics"],
        input=json.dumps(question).encode(),
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        cwd="/",
        capture_output=True,
        timeout=240,
    )


@pytest.mark.slow
def test_a_question_on_standard_input_is_answered_on_standard_output() -> None:
    done = process({"verb": "bias", "format": "e2m1", "samples": 65536})
    assert (done.returncode, done.stderr) == (0, b"")
    answer = TypeAdapter(GridBias).validate_json(done.stdout)
    assert answer == grid_bias(E2M1, 65536)


@pytest.mark.slow
def test_what_cannot_be_answered_is_one_sentence_and_exit_code_2() -> None:
    done = process({"verb": "tensor", "file": "/nowhere/x.npy"})
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"/nowhere/x.npy cannot be read: No such file or directory\n"


@pytest.fixture
def tensor() -> torch.Tensor:
    return torch.randn(3, 48, 64, generator=torch.Generator().manual_seed(0))


def test_a_numpy_file_is_measured_along_its_last_axis(tmp_path, tensor) -> None:
    np.save(tmp_path / "x.npy", tensor.numpy())
    answer = tensor_quality(TensorQuestion(file=str(tmp_path / "x.npy"), rht=32))
    assert (answer.tensor, answer.shape) == (None, (3, 48, 64))
    assert [(row.format, row.rht) for row in answer.rows] == [
        ("e2m1", None), ("e2m1", 32), ("int4", None), ("int4", 32),
    ]  # fmt: skip
    flat = tensor.view(-1, 64)
    assert answer.rows[0].quality == quality(flat, Operand(grid=E2M1))
    assert answer.rows[2].quality == quality(flat, Operand(grid=INT4))


def test_another_axis_becomes_the_one_along_which_blocks_lie(tmp_path, tensor) -> None:
    np.save(tmp_path / "x.npy", tensor.numpy())
    question = TensorQuestion(
        file=str(tmp_path / "x.npy"), axis=1, rht=None, block="1x32", scale=Scale.E8M0_FLOOR
    )
    operand = Operand(grid=E2M1, block=Block(along=32), scale=Scale.E8M0_FLOOR)
    rows = tensor.transpose(1, 2).reshape(-1, 48)
    assert tensor_quality(question).rows[0].quality == quality(rows, operand)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_safetensors_of_any_floating_type_are_read_by_name(tmp_path, tensor, dtype) -> None:
    file = str(tmp_path / "x.safetensors")
    save_file({"a": tensor[0].to(dtype), "b": tensor[1].to(dtype)}, file)
    answer = tensor_quality(TensorQuestion(file=file, tensor="b", rht=None))
    assert answer.tensor == answer.rows[0].data == "b"
    assert answer.rows[0].quality == quality(tensor[1].to(dtype).float(), Operand(grid=E2M1))


def test_a_name_may_hold_a_colon(tmp_path, tensor) -> None:
    save_file({"x:y": tensor, "x": torch.ones(16)}, str(tmp_path / "t.safetensors"))
    file, name = place_of("t.safetensors:x:y", tmp_path)
    assert tensor_quality(TensorQuestion(file=file, tensor=name)).tensor == "x:y"


def test_the_only_tensor_of_a_file_needs_no_name(tmp_path, tensor) -> None:
    save_file({"only": tensor}, str(tmp_path / "x.safetensors"))
    assert tensor_quality(TensorQuestion(file=str(tmp_path / "x.safetensors"))).tensor == "only"


def refused(question: TensorQuestion) -> str:
    with pytest.raises(InputError) as error:
        tensor_quality(question)
    return str(error.value)


def test_a_tensor_that_is_not_there_is_refused_with_what_is(tmp_path) -> None:
    file = str(tmp_path / "x.safetensors")
    save_file({name: torch.ones(16) for name in "abcdefghij"}, file)
    assert refused(TensorQuestion(file=file)).endswith(
        "a name is needed; it holds 10: a, b, c, d, e, f, g, h, ..."
    )
    assert "there is no tensor 'z'" in refused(TensorQuestion(file=file, tensor="z"))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.arange(32), "int64, which is no floating type"),
        (np.array([{}]), "not a .npy file of numbers"),
        (np.zeros((0, 16)), "empty"),
        (np.array([1.0, np.nan, 1e300, np.inf]), "3 of 4 elements are not finite in FP32"),
    ],
    ids=["integers", "objects", "empty", "not finite"],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_what_cannot_be_quantized_is_refused(tmp_path, array, words) -> None:
    np.save(tmp_path / "x.npy", array)
    assert words in refused(TensorQuestion(file=str(tmp_path / "x.npy")))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.npy", b"nothing", "not a .npy file"),
        ("x.npy", b"", "not a .npy file"),
        ("x.safetensors", b"nothing", "not a .safetensors file"),
        ("x.pt", b"", "neither a .npy nor a .safetensors file"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, name, content, words) -> None:
    (tmp_path / name).write_bytes(content)
    assert words in refused(TensorQuestion(file=str(tmp_path / name)))


def test_an_axis_that_is_not_there_is_refused(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 16)))
    assert refused(TensorQuestion(file=str(tmp_path / "x.npy"), axis=2)) == (
        "axis = 2: the tensor has 2 axes"
    )


@pytest.mark.parametrize("axis", [-2, 1])
def test_a_vector_has_one_axis(tmp_path, axis) -> None:
    np.save(tmp_path / "x.npy", np.ones(16))
    file = str(tmp_path / "x.npy")
    assert refused(TensorQuestion(file=file, axis=axis)).endswith("the tensor has 1 axes")
    assert tensor_quality(TensorQuestion(file=file, axis=0)).rows[0].quality.gain == 1.0


@pytest.mark.parametrize(
    ("question", "given", "words"),
    [
        (BiasQuestion, {"format": "e9m9"}, "format = e9m9 is no number format"),
        (BiasQuestion, {"format": "0,2,1"}, "ascend strictly from 0"),
        (BiasQuestion, {"format": "0,x"}, "format = 0,x: magnitudes are numbers"),
        (BiasQuestion, {"format": "e2m1", "samples": 7}, "samples = 7"),
        (TableQuestion, {"samples": 1 << 30}, "samples = 1073741824"),
        (TensorQuestion, {"file": "x", "block": "1x20"}, "multiple of 16"),
        (TensorQuestion, {"file": "x", "rht": 12}, "a power of two from 4 to 128"),
        (TensorQuestion, {"file": "x", "rht": 32, "block": "1x48"}, "must divide one another"),
    ],
)
def test_a_question_is_checked_when_it_is_made(question, given, words) -> None:
    with pytest.raises(InputError, match=words):
        question(**given)


def test_a_grid_is_called_as_it_was_asked_for(tmp_path, tensor) -> None:
    np.save(tmp_path / "x.npy", tensor.numpy())
    names = ("e1m2", "int4", "0,1,2,3,4,5,6,7")
    question = TensorQuestion(file=str(tmp_path / "x.npy"), formats=names, rht=None)
    rows = tensor_quality(question).rows
    assert tuple(row.format for row in rows) == names
    assert rows[0].quality == rows[1].quality == rows[2].quality
