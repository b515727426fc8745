"""What quantization does to a tensor, a product and a weight, in numbers; values without torch.

    SQNR          10 log10(sum x^2 / sum (xq - x)^2), dB
    gain α        <xq, x> / sum x^2: below 1 the values shrink on average
    utilisation   exp(entropy of the signed codes) / number of them, from 1/K to 1
    crest factor  largest |x| / root mean square, of a block; the mean over blocks
    underflow     share of the elements that are not zero but become it
    saturation    share of the elements that lie above the grid's maximum once scaled

Source: UFP4 (arXiv 2606.20381), sections on shrinkage bias and diagnostics.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One operand under one rule; a ratio is None where it would divide by zero.

    Attributes:
        sqnr: dB; None if nothing was lost.
        gain: α; None if all is zero.
        utilisation: Of the 2n - 1 signed codes of n magnitudes.
        crest_factor: Mean over blocks that are not zero; None if all are.
        underflow: Share of non-zero elements.
        saturation: Share of all elements.
        buckets: Share of each signed code, from the most negative up.
    """

    sqnr: float | None
    gain: float | None
    utilisation: float
    crest_factor: float | None
    underflow: float
    saturation: float
    buckets: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandQuality:
    """An operand of a GEMM before and after an RHT, and which of the two the recipe multiplies."""

    gemm: str
    operand: str
    rotates: bool
    plain: Quality
    rotated: Quality

    @property
    def used(self) -> Quality:
        """What the recipe's GEMM multiplies."""
        return self.rotated if self.rotates else self.plain


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductQuality:
    """A GEMM of quantized operands against the same of the originals.

    Attributes:
        gemm: Which.
        sqnr: Of the product, dB; None if nothing was lost.
        gain: Output gain η = <zq, z> / sum z^2; None if the product is zero.
    """

    gemm: str
    sqnr: float | None
    gain: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightMotion:
    """What fprop's quantizer makes of a weight from one optimizer step to the next two.

    Attributes:
        flips: Share of elements whose code differs after the first of the two steps.
        oscillations: Share whose code differs after the first and is back after the second.
        mismatch: Root mean square of (w in fprop - w in dgrad) / root mean square of w.
    """

    flips: float
    oscillations: float
    mismatch: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerQuality:
    """A linear layer at one step; `motion` is None where it was not followed over steps."""

    layer: str
    operands: tuple[OperandQuality, ...]
    products: tuple[ProductQuality, ...]
    motion: WeightMotion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """A tensor under a quantizer.

    Attributes:
        data: What was quantized: a distribution, or a tensor's name.
        format: Name of the grid.
        block: Which elements share a scale, as in `1x16`.
        scale: How it is stored, as in `fp32`.
        rounding: `rtne` or `sr`.
        rht: Size of the Hadamard matrix that came first, or None.
        quality: Against the tensor as it was after the RHT.
    """

    data: str
    format: str
    block: str
    scale: str
    rounding: str
    rht: int | None
    quality: Quality


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedProduct:
    """A product of `data` and Gaussian weights, quantized alike; other fields as in `Surveyed`.

    Attributes:
        sqnr: Of the product, dB; the mean over draws.
        sqnr_sd: Standard deviation of one draw.
        gain: Output gain η; the mean over draws.
        gain_sd: Standard deviation of one draw.
    """

    data: str
    format: str
    block: str
    scale: str
    rht: int | None
    sqnr: float
    sqnr_sd: float
    gain: float
    gain_sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Quantizers on known distributions.

    Attributes:
        samples: Elements of each tensor.
        draws: Of each product.
        tensors: One draw each.
        products: Means over draws.
    """

    samples: int
    draws: int
    tensors: tuple[Surveyed, ...]
    products: tuple[SurveyedProduct, ...]
