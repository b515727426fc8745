"""Products of BF16 matrices by the processor's own instructions: sums, layouts, threads."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from kernels import product

pytestmark = pytest.mark.skipif(
    not product.serves(torch.ones(2, 2).bfloat16(), torch.ones(2, 2).bfloat16()),
    reason="needs AVX512-BF16 and a C compiler",
)
SIZES = [(1, 1, 1), (3, 5, 7), (33, 7, 17), (64, 600, 48), (130, 514, 300), (40, 96, 256)]


def drawn(rows: int, columns: int, *, down: bool, off: int, seed: int) -> Tensor:
    """BF16 [rows, columns] as rows or columns of a larger matrix, which begins `off` before."""
    generator = torch.Generator().manual_seed(seed)
    shape = (columns, rows + off) if down else (rows, columns + off)
    whole = torch.randn(shape, generator=generator).to(torch.bfloat16)[:, off:]
    return whole.t() if down else whole


@pytest.mark.parametrize("off", [0, 1, 2])
@pytest.mark.parametrize("b_down", [False, True])
@pytest.mark.parametrize("a_down", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_products_are_exact_and_summed_in_fp32_however_the_operands_lie(
    size: tuple[int, int, int], a_down: bool, b_down: bool, off: int
) -> None:
    rows, depth, columns = size
    a = drawn(rows, depth, down=a_down, off=off, seed=1)
    b = drawn(depth, columns, down=b_down, off=off, seed=2)
    found = product.multiplied(a, b, torch.float32)
    exact, bound = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    assert (found.shape, found.dtype) == (exact.shape, torch.float32)
    assert ((found.double() - exact).abs() <= bound * 2.0**-20).all()
    narrow = product.multiplied(a, b, torch.bfloat16)
    assert torch.equal(narrow, found.to(torch.bfloat16))


def test_integers_up_to_24_bits_are_summed_without_an_error() -> None:
    generator = torch.Generator().manual_seed(3)
    a, b = torch.randint(-128, 129, (2, 300, 300), generator=generator)
    found = product.multiplied(a.bfloat16(), b.bfloat16(), torch.float32)
    assert torch.equal(found.long(), a @ b)


def test_an_element_depends_on_its_row_and_its_column_alone() -> None:
    a, b = (drawn(100, 100, down=False, off=0, seed=seed) for seed in (1, 2))
    whole = product.multiplied(a, b, torch.float32)
    assert torch.equal(product.multiplied(a[3:10], b, torch.float32), whole[3:10])
    assert torch.equal(product.multiplied(a, b[:, 17:90], torch.float32), whole[:, 17:90])


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("down", [False, True])
def test_threads_change_no_bit(three_threads: None, down: bool) -> None:
    a = drawn(500, 300, down=down, off=0, seed=1)
    b = drawn(300, 200, down=False, off=0, seed=2)
    found = product.multiplied(a, b, torch.float32)
    torch.set_num_threads(1)
    assert torch.equal(product.multiplied(a, b, torch.float32), found)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_not_finite_reaches_its_row_and_no_other(bad: float) -> None:
    a, b = (drawn(20, 20, down=False, off=0, seed=seed) for seed in (1, 2))
    a[7, 3] = bad
    found = product.multiplied(a, b, torch.float32)
    assert not found[7].isfinite().any()
    assert found[:7].isfinite().all()
    assert found[8:].isfinite().all()


def test_only_bf16_with_elements_is_served() -> None:
    a = torch.ones(4, 4, dtype=torch.bfloat16)
    assert product.serves(a, a)
    assert not product.serves(a, a.half())
    assert not product.serves(a.float(), a.float())
    assert not product.serves(a[:0], a)
    assert not product.serves(a.to("meta"), a.to("meta"))


def test_sizes_that_do_not_fit_are_refused() -> None:
    a, b = torch.ones(2, 4, dtype=torch.bfloat16), torch.ones(3, 5, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match="a product of 2 x 4 and 3 x 5"):
        product.multiplied(a, b, torch.float32)
