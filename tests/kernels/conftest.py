"""What tests of the quantizers share."""

from collections.abc import Callable

import pytest

from kernels.native import kernel
from kernels.reference import FakeQuantized, fake_quantize


@pytest.fixture(scope="module", params=["reference", "native"])
def quantize(request: pytest.FixtureRequest) -> Callable[..., FakeQuantized]:
    """Each implementation of fake quantization on the CPU in turn."""
    if request.param == "reference":
        return fake_quantize
    native = kernel()
    if native is None:
        pytest.skip("no C compiler")
    return native.fake_quantize
