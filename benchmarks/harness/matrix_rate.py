"""How fast this machine multiplies matrices: plain products of given shapes, timed."""

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
from torch import Tensor

from benchmarks.harness.step_parts import Product

# A shape is multiplied so often, and at least for so long.
LEAST_REPEATS = 3
LEAST_SECONDS = 0.02
# Weights taken in turn, as layers are, so that none is in a cache from the product before.
WEIGHTS = 8


def product_seconds(
    product: Product,
    dtype: torch.dtype,
    transposed: bool = False,
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.mm,
) -> float:
    """Return the median seconds of a product of random matrices.

    transposed: the right side is a transposed view, as a layer's weight is in its forward pass.
    """
    left = torch.randn(product.rows, product.inner).to(dtype)
    shape = (product.inner, product.columns)
    weights = [torch.randn(shape[::-1] if transposed else shape).to(dtype) for _ in range(WEIGHTS)]
    sides = [weight.t() if transposed else weight for weight in weights]
    seconds: list[float] = []
    with torch.inference_mode():
        multiply(left, sides[0])
        while len(seconds) < LEAST_REPEATS or sum(seconds) < LEAST_SECONDS:
            right = sides[len(seconds) % WEIGHTS]
            start = time.perf_counter()
            multiply(left, right)
            seconds.append(time.perf_counter() - start)
    return median(seconds)


class PlainProducts:
    """Seconds of plain products of one dtype, each shape measured once."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._known: dict[tuple[Product, bool], float] = {}

    def seconds(self, product: Product, phase: str) -> float:
        """Return the seconds of one product of this shape in this phase."""
        key = (product, phase == "forward")
        if key not in self._known:
            self._known[key] = product_seconds(product, self.dtype, transposed=key[1])
        return self._known[key]


def gflops(products: Sequence[Product], seconds: float) -> float | None:
    """Return the rate of some products in GFLOP/s; None where there are none."""
    return sum(p.flops for p in products) / seconds / 1e9 if products and seconds else None
